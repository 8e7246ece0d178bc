"""What a checkpoint does not record is said when it is run, on its page, and can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from tests import state_dicts
from tests.formats import torch_writer
from tests.pipeline.small import SmallRun


def samples() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    trajectories = {
        "observations": rng.integers(0, 256, (2, 4, 36, 36, 4), np.uint8),
        "actions": rng.integers(0, 4, (2, 4)),
        "rewards": np.zeros((2, 4), np.float32),
        "dones": np.zeros((2, 4), bool),
    }
    return {"trajectories": trajectories, "observations": rng.integers(0, 256, (8, 36, 36, 4), np.uint8)}


def test_assumptions_about_a_state_dict_are_printed_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(side=36)))
    load = {"metadata": {"observation_shape": [36, 36, 4], "activation": "elu"}}
    layers = {"name_contains_one_of": ["0/elu"]}
    page = rl_clarity.run(path, tmp_path / "page", **samples(), load_kwargs=load, layer_kwargs=layers, nmf_features=2)
    assert "Note: a state dict does not record the activation functions" in capsys.readouterr().err
    groups = {group["group"]: dict(group["items"]) for group in page.results().manifest["provenance"]}
    assert groups["Checkpoint"]["activation"] == "elu"
    assert groups["Checkpoint"]["input_divisor"] == "255"
    assert "those of the program are assumed" in groups["Checkpoint"]["notes"]


def test_run_checks_outputs_even_if_the_page_is_finished(small_run: SmallRun) -> None:
    observations = np.asarray(small_run.observations.observations[:4])
    check = {"observations": observations, "values": np.arange(len(observations))}
    with pytest.raises(CheckpointError, match="values deviate"):
        rl_clarity.run(small_run.checkpoint, small_run.directory, load_kwargs={"check": check}, **small_run.options)
