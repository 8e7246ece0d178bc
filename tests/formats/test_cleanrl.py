"""State dicts of CleanRL's names with another meaning are refused, with a script that reads them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError
from tests import state_dicts
from tests.formats import torch_writer


def distribution(actions: int, count: int) -> dict[str, np.ndarray]:
    """A Q-network with several outputs for each action."""
    arrays = state_dicts.dqn_atari(side=36)
    units = arrays["network.9.weight"].shape[1]
    arrays |= {"network.9.weight": np.ones((actions * count, units), "f4")}
    return arrays | {"network.9.bias": np.zeros(actions * count, "f4")}


@pytest.mark.parametrize(
    ("arrays", "message", "metadata", "line"),
    [
        (
            state_dicts.ppo_atari(side=36, channels=6),
            "6 channels, like that of ppo_pettingzoo_ma_atari",
            {"frame_stack": 6},
            "x[:, :4] / 255",
        ),
        (distribution(4, 200), "quantiles of QR-DQN, 200 for each of 4", {"num_actions": 800}, "(len(x), 4, 200)"),
        (distribution(6, 51), "atoms of C51, 51 for each of 6", {"num_actions": 306}, "(len(x), 6, 51)"),
    ],
)
def test_ambiguous_cleanrl_tensors_are_refused_unless_overridden(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str, metadata: dict[str, Any], line: str
) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(arrays))
    options: dict[str, Any] = {"observation_shape": (36, 36, arrays["network.0.weight"].shape[1])}
    with pytest.raises(CheckpointError, match=message) as refused:
        formats.load_agent(path, **options)
    assert line in refused.value.script
    compile(textwrap.dedent(refused.value.script), "script", "exec")
    agent: Any = formats.load_agent(path, **options, **metadata)
    assert agent.num_actions == len(arrays["actor.weight" if "actor.weight" in arrays else "network.9.weight"])


def test_load_agent_warns_about_assumptions_unless_outputs_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "agent.pt"
    path.write_bytes(torch_writer.save(state_dicts.ppo_atari(side=36)))
    with pytest.warns(UserWarning, match=r"agent\.pt: a state dict does not record the activation functions") as caught:
        agent: Any = rl_clarity.load_agent(path, observation_shape=(36, 36, 4))
    assert caught[0].filename == __file__
    observations = np.random.default_rng(0).integers(0, 256, (4, 36, 36, 4), np.uint8)
    check = {"observations": observations, "values": agent.forward(observations).values}
    rl_clarity.load_agent(path, observation_shape=(36, 36, 4), check=check)
    assert len(caught) == 1
