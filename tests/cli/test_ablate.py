"""`rl-clarity ablate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_clarity.cli import main
from tests import small_commands
from tests.cli.calls import parse_summary


def test_options_of_the_page_are_added_to_those_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = str(small_commands.prepare(tmp_path) / "agent.pt")
    sizes = ["--trajectories.num-envs", "2", "--trajectories.num-steps", "8", "--observations.num-envs", "1"]
    sizes += ["--observations.num-obs", "4", "--features.count", "2", "--behavior.max-steps", "6"]
    command = ["ablate", agent, str(tmp_path / "output"), "--layer", "2a", "--episodes", "2", *sizes]
    assert main([*command, "--json"]) == 0
    summary = parse_summary(capsys.readouterr())
    assert summary["episodes"] == 2
    assert [row["feature"] for row in summary["rows"] if not row["twins"]] == [1, 2]
    assert {row["length"]["unedited"] for row in summary["rows"]} <= {*range(7)}
    assert main([*command, "--behavior.episodes", "3"]) == 1
    assert "behavior.episodes=3 is the argument episodes here" in capsys.readouterr().err
