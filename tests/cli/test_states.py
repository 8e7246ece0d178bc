"""`rl-clarity states`, and playing with directions of the recurrent state exchanged."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.cli.arguments import parse_arguments
from rl_clarity.cli.recordings import Record
from tests.light_switch import checkpoint

SWAP = ["--swap-directions-from", "2", "1", "--swap-directions-to", "3", "None"]


def test_swap_options_count_components_from_one_or_are_none() -> None:
    command = parse_arguments(["record", "agent.jd", "out", "--directions", "states", *SWAP])
    assert isinstance(command, Record)
    assert command.swaps() == {1: 2, 0: None}


@pytest.mark.parametrize("options", [["--directions", "states"], SWAP, ["--directions", "states", *SWAP, "3"]])
def test_swap_options_must_be_complete_and_of_equal_length(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(checkpoint("memory")), *options]) != 0
    assert "belong together, with one target per direction" in capsys.readouterr().err


@pytest.fixture(scope="module")
def collapsed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that collapse the memory of the light switch's agent: four principal components of its states."""
    folder = tmp_path_factory.mktemp("states")
    agent, recording, states = str(checkpoint("memory")), str(folder / "recording"), str(folder / "states")
    assert main(["record", agent, recording, "--episodes", "32"]) == 0
    assert np.mean([row["return"] for row in rl_clarity.open_recording(recording).table()]) > 0.9
    size = ["--method", "pca", "--count", "4", "--clusters", "3", "--lags", "1", "2", "--maps", "pca"]
    small = ["--replay-steps", "2", "--influence-samples", "8"]
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["states", agent, recording, states, *size, *small]) == 0
    listed = re.findall(r"^  direction (\S+)", printed.getvalue(), re.MULTILINE)
    assert sorted(listed) == ["1", "2", "3", "4"]
    analysis = rl_clarity.load_states(states)
    assert analysis.facts["steps"] == 320
    assert analysis.arrays["map.pca"].shape == (320 - 32, 2)  # without the first states of 32 episodes
    numbers = ["1", "2", "3", "4"]
    return ["--directions", states, "--swap-directions-from", *numbers, "--swap-directions-to", *["None"] * 4]


def test_record_plays_with_collapsed_memory_components(collapsed: list[str], tmp_path: Path) -> None:
    assert main(["record", str(checkpoint("memory")), str(tmp_path / "edited"), "--episodes", "32", *collapsed]) == 0
    returns = [row["return"] for row in rl_clarity.open_recording(tmp_path / "edited").table()]
    assert np.mean(returns) < 0.8  # the cue is forgotten


def test_evaluate_plays_with_collapsed_memory_components(
    collapsed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", str(checkpoint("memory")), "--episodes", "32", "--json"]
    means = []
    for options in ([], collapsed):
        capsys.readouterr()
        assert main([*command, *options]) == 0
        means.append(json.loads(capsys.readouterr().out)["agent"]["mean_return"])
    assert means[0] > 0.8
    assert means[1] < means[0] - 0.2


@pytest.mark.slow
def test_run_explains_an_agent_with_collapsed_memory_components(collapsed: list[str], tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "trajectories": {"num_envs": 1, "num_steps": 16},
        "observations": {"num_envs": 1, "num_obs": 8, "obs_every": 2},
    }
    directions = rl_clarity.load_states(collapsed[1]).directions
    edit = rl_clarity.SwapDirections(dict.fromkeys(range(4)), directions=directions, layer="state")
    agent = rl_clarity.edit(rl_clarity.load_agent(checkpoint("memory")), edit)
    rl_clarity.run(agent, tmp_path / "page", **sizes)
    results = rl_clarity.open_results(tmp_path / "page")
    assert results.manifest["complete"]
    assert "SwapDirections({0: None, 1: None, 2: None, 3: None}, pca" in json.dumps(results.manifest)
