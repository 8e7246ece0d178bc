"""State dicts of CleanRL's scripts: `ppo_atari`, `ppo_atari_lstm`, `ppo_procgen`, `dqn_atari`.

The scripts are told apart by their tensors. Nothing else is in the file: the rest is what the scripts do by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.checkpoints import state_dicts
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256
from rl_clarity.errors import CheckpointError

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent

DESCRIPTION = "CleanRL state dicts (ppo_atari, ppo_atari_lstm, ppo_procgen, dqn_atari)"
ATARI = {
    "library": "cleanrl",
    "env_kind": "atari",
    "frame_stack": 4,
    "frame_stack_padding": "first",
    "episodic_life": True,
    "gamma": 0.99,
    "lambda": 0.95,
}
PROCGEN = {"library": "cleanrl", "env_kind": "procgen", "distribution_mode": "easy", "gamma": 0.999, "lambda": 0.95}
METADATA: Mapping[str, Mapping[str, Any]] = {
    "ppo_atari": ATARI,
    "ppo_atari_lstm": {**ATARI, "frame_stack": 1},
    "ppo_procgen": PROCGEN,
    "dqn_atari": {key: value for key, value in ATARI.items() if key != "lambda"},
}
SIDES = {"atari": 84, "procgen": 64}
NOTE = "a state dict does not say which game it is for: give env_name; gamma and lambda are the script's defaults"


def sniff(path: Path, head: bytes) -> bool:
    return script(state_dicts.shapes(path, head)) is not None


def read(path: Path) -> Checkpoint:
    """Read a state dict; raises CheckpointError if it is damaged."""
    parameters = state_dicts.arrays(path)
    name = script(parameters) or ""
    metadata = dict(METADATA[name])
    if metadata["env_kind"] == "atari":
        metadata["frame_stack"] = _depth(parameters["network.0.weight"].shape)
    return Checkpoint(path, "cleanrl", name, parameters, metadata, sha256(path), (NOTE,))


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint; its observations may have their channels first, as those of the Atari scripts have."""
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks import cleanrl

    builders = {
        "ppo_atari": cleanrl.ppo_atari,
        "ppo_atari_lstm": cleanrl.ppo_atari,
        "ppo_procgen": cleanrl.ppo_procgen,
        "dqn_atari": cleanrl.dqn_atari,
    }
    if checkpoint.network not in builders:
        raise CheckpointError(f"network {checkpoint.network!r} is none of CleanRL's: {', '.join(builders)}")
    first = "network.0.conv.weight" if checkpoint.network == "ppo_procgen" else "network.0.weight"
    side = SIDES[METADATA[checkpoint.network]["env_kind"]]
    shape = state_dicts.observation_shape(checkpoint, first, side)
    return KerasAgent(builders[checkpoint.network](checkpoint.parameters, shape), checkpoint.metadata)


def script(tensors: Mapping[str, Any]) -> str | None:
    """Name of the script whose agent has these tensors."""
    if "network.0.conv.weight" in tensors and "actor.weight" in tensors:
        return "ppo_procgen"
    if "network.0.weight" not in tensors or "network.7.weight" not in tensors:
        return None
    if "actor.weight" in tensors:
        return "ppo_atari_lstm" if "lstm.weight_ih_l0" in tensors else "ppo_atari"
    return "dqn_atari" if "network.9.weight" in tensors else None


def _depth(shape: tuple[int, ...]) -> int:
    """Channels that a convolution (out, in, h, w) reads: grey frames."""
    return int(shape[1]) if len(shape) == 4 else 0
