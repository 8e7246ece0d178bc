"""`rl-clarity check`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.commands.check import CheckReport
from rl_clarity.pages.options import CHECKED_TRAJECTORIES
from rl_clarity.pages.results import Page
from tests.cli.calls import parse_summary

FEW = ["--trajectories.num-envs", "2", "--trajectories.num-steps", "4", "--frames", "2", "--methods", "jacobian"]


def test_options_reach_the_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    calls: list[Any] = []

    def check(checkpoint: str, output_dir: str, **options: Any) -> CheckReport:
        calls.append(SimpleNamespace(checkpoint=checkpoint, output_dir=output_dir, **options))
        return CheckReport("value", 2, [], Page(tmp_path / "interface.html"))

    monkeypatch.setattr(rl_clarity, "check", check)
    assert main(["check", "a.jd"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == f"The page is {tmp_path / 'interface.html'}"
    words = ["--output", "value", "--recording", "episodes", "--seed", "3", "--force", "--json", *FEW]
    assert main(["check", "a.jd", "out", *words, "--metadata", "gamma=0.9"]) == 0
    assert parse_summary(capsys.readouterr())["page"] == str(tmp_path / "interface.html")
    default, other = calls
    assert (default.output_dir, default.methods, default.frames) == ("out/check", None, 64)
    assert asdict(default.trajectories) == asdict(CHECKED_TRAJECTORIES)
    assert (other.output_dir, other.output, other.frames, other.methods) == ("out", "value", 2, ("jacobian",))
    assert (other.recording, other.seed, other.overwrite) == ("episodes", 3, True)
    assert other.load.metadata == {"gamma": 0.9}


@pytest.mark.slow
def test_check_prints_answers_and_writes_page_and_report(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = ["check", str(checkpoint), str(tmp_path), *FEW]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "Jacobian:\n" in printed
    assert "when all weights are random (rank correlation" in printed
    report = json.loads((tmp_path / "checks" / "report.json").read_text())
    assert [one["method"] for one in report["methods"]] == ["jacobian"]
    assert main([*command, "--json"]) == 0  # finished
    summary = parse_summary(capsys.readouterr())
    assert summary["page"] == str(tmp_path / "interface.html")
    assert summary["methods"][0]["deletion"]["area"]["mean"] == pytest.approx(
        report["methods"][0]["deletion"]["area"]["mean"], rel=1e-5
    )
