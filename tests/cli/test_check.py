"""`rl-clarity check`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.checks import methods
from rl_clarity.analyses.checks.methods import PATH_STEPS
from rl_clarity.analyses.given_components import PageFeatures
from rl_clarity.base.errors import OptionError
from rl_clarity.cli import main
from rl_clarity.commands.check import CheckReport
from rl_clarity.pages.options import CHECKED_TRAJECTORIES
from rl_clarity.pages.results import Page
from rl_clarity.reduction import ChannelReduction
from tests import small_commands
from tests.cli.calls import parse_summary
from tests.pipeline.small import record_tasks

FEW = ["--trajectories.num-envs", "2", "--trajectories.num-steps", "4", "--frames", "2", "--methods", "jacobian"]


def test_options_of_the_check_command_reach_the_function(
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
    words = ["--output", "value", "--recording", "episodes", "--page", "page", "--seed", "3", "--force", "--json", *FEW]
    assert main(["check", "a.jd", "out", *words, "--metadata", "gamma=0.9"]) == 0
    assert parse_summary(capsys.readouterr())["page"] == str(tmp_path / "interface.html")
    default, other = calls
    assert (default.output_dir, default.methods, default.frames) == ("out/check", None, 64)
    assert asdict(default.trajectories) == asdict(CHECKED_TRAJECTORIES)
    assert (other.output_dir, other.output, other.frames, other.methods) == ("out", "value", 2, ("jacobian",))
    assert (other.recording, other.page, other.seed, other.overwrite) == ("episodes", "page", 3, True)
    assert other.load.metadata == {"gamma": 0.9}


def test_features_of_a_page_are_checked_from_its_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_commands.prepare(tmp_path)
    agent, page = str(folder / "agent.pt"), folder / "output"
    small_commands.run(folder, attribution={"baseline": "zero-input"})
    command = ["check", agent, str(folder / "check"), "--output", "value", "--frames", "8", "--page", str(page)]
    command += ["--methods", "features 2a", "--trajectories.num-envs", "1", "--trajectories.num-steps", "8"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "\nfeatures 2a:\n" in printed
    assert f"features are those of the page {page}\n" in printed
    results = rl_clarity.open_results(folder / "check")
    assert f"features of the page {page.name} at a layer" in results.section("checks")["caption"]
    path: Any = {"steps": PATH_STEPS, "quadrature": "midpoint", "baseline": "zero-input"}
    loaded, frames = rl_clarity.load_agent(agent), results.frames(0)
    channels = rl_clarity.integrated_gradients(loaded, frames, "2a", "value", **path)
    features, _ = rl_clarity.open_results(page).reduction("2a").signed_transform(channels)
    values = loaded.forward(np.concatenate([frames, np.zeros_like(frames)])).values
    assert values is not None
    gained = values[:8] - values[8:]
    missing = np.abs(features.sum(axis=(1, 2, 3)) - gained).mean() / np.abs(gained).mean()
    (method,) = json.loads((folder / "check" / "checks" / "report.json").read_text())["methods"]
    assert method["method"] == "features 2a"
    assert method["completeness"] == pytest.approx(missing, rel=1e-3)
    assert missing > 1e-3


def test_a_page_of_another_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_commands.prepare(tmp_path)
    small_commands.run(folder)
    other = {"2a": PageFeatures(ChannelReduction(np.ones((2, 9))), {})}
    monkeypatch.setattr(methods, "page_features", lambda page: other)
    with pytest.raises(
        OptionError, match="is a page of a different network: its layer 2a has 9 channels, but the agent's layer has 10"
    ):
        small_commands.check(folder, page=folder / "output")


def test_checking_another_output_reuses_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_commands.prepare(tmp_path)
    small_commands.check(folder)
    with record_tasks(monkeypatch) as names:
        small_commands.check(folder, output="value", overwrite=True)
    assert names == ["checks/method/perturbation", "checks/report"]


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
