"""`rl-clarity ablate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rl_clarity
from rl_clarity.cli import main
from tests import small_commands
from tests.cli.calls import parse_summary


def test_ablate_accepts_options_of_pages_besides_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "behavior.episodes=3 cannot be set here" in capsys.readouterr().err


def test_ablate_uses_the_features_of_a_given_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_commands.prepare(tmp_path)
    small_commands.run(folder, seed=3, feature_names={"2a": {2: "edge"}})
    sizes = ["--trajectories.num-envs", "1", "--trajectories.num-steps", "8", "--observations.num-envs", "1"]
    sizes += ["--observations.num-obs", "4", "--behavior.max-steps", "6", "--layer", "2a", "--episodes", "2"]
    command = ["ablate", str(folder / "agent.pt"), str(folder / "ablated"), *sizes]
    assert main([*command, "--page", str(folder / "output")]) == 0
    printed = capsys.readouterr().out
    assert f"features, numbers and names are those of the page {folder / 'output'}\n" in printed
    ablated, page = (rl_clarity.open_results(folder / name) for name in ("ablated", "output"))
    assert np.array_equal(ablated.reduction("2a").components, page.reduction("2a").components)
    assert ablated.feature_names("2a") == {2: "edge"}
    assert len(ablated.reduction("2a").components) == 2  # the page's number, not the default
    assert main([*command, "--force"]) == 0
    assert "features were fitted for this page: give page= (--page)" in capsys.readouterr().out
    assert len(rl_clarity.open_results(folder / "ablated").reduction("2a").components) == 8
