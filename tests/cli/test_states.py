"""`rl-clarity states`, and playing with directions of the recurrent state exchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.cli.arguments import Record, parse_arguments
from tests.light_switch import checkpoint

SWAP = ["--swap-directions-from", "1", "0", "--swap-directions-to", "2", "None"]


def test_swaps_are_pairs_of_numbers_or_none() -> None:
    command = parse_arguments(["record", "agent.jd", "out", "--directions", "states", *SWAP])
    assert isinstance(command, Record)
    assert command.swaps() == {1: 2, 0: None}


@pytest.mark.parametrize("options", [["--directions", "states"], SWAP, ["--directions", "states", *SWAP, "3"]])
def test_options_of_swaps_belong_together(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(checkpoint("memory")), *options]) != 0
    assert "belong together, with as many numbers in both" in capsys.readouterr().err


def test_an_agent_plays_with_its_memory_collapsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, recording, states = str(checkpoint("memory")), str(tmp_path / "recording"), str(tmp_path / "states")
    assert main(["record", agent, recording, "--episodes", "32"]) == 0
    size = ["--method", "pca", "--count", "4", "--clusters", "3", "--lags", "1", "2", "--maps", "pca"]
    assert main(["states", agent, recording, states, *size, "--replay-steps", "2", "--influence-samples", "8"]) == 0
    assert "320 states of 32 episodes" in capsys.readouterr().out
    numbers = [str(i) for i in range(4)]
    swap = ["--directions", states, "--swap-directions-from", *numbers, "--swap-directions-to", *["None"] * 4]
    assert main(["record", agent, str(tmp_path / "edited"), "--episodes", "32", *swap]) == 0
    returns = [
        np.mean([row["return"] for row in rl_clarity.open_recording(folder).table()])
        for folder in (recording, tmp_path / "edited")
    ]
    assert returns[0] > 0.9
    assert returns[1] < 0.8  # the cue is forgotten
