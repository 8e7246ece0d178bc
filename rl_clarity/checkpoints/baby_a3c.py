"""Checkpoints of baby-a3c: `model.<M>.tar`, a state dict in torch's older stream (or its archive)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_clarity.checkpoints import state_dicts
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent

DESCRIPTION = "baby-a3c (.tar)"
NEEDED = (
    "conv1.weight",
    "conv4.weight",
    "gru.weight_ih",
    "gru.weight_hh",
    "critic_linear.weight",
    "actor_linear.weight",
)
METADATA: dict[str, Any] = {
    "library": "baby-a3c",
    "env_kind": "atari",
    "preprocessing": "none",
    "frame_skip": [2, 5],
    "frame_pooling": False,
    "noop_max": 0,
    "fire_reset": False,
    "use_sticky_actions": False,
    "gamma": 0.99,
    "lambda": 1.0,
}
"""As Gym's `Breakout-v4` is played: an action is held for 2, 3 or 4 frames, of which the last is seen as it is."""
NOTE = "a state dict does not say which game it is for: give env_name; gamma and lambda are the script's defaults"


def sniff(path: Path, head: bytes) -> bool:
    tensors = state_dicts.shapes(path, head)
    return all(name in tensors for name in NEEDED)


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; raises CheckpointError if it is damaged."""
    return Checkpoint(path, "baby_a3c", "gru", state_dicts.arrays(path), METADATA, sha256(path), (NOTE,))


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint: its `preprocess` takes the screen (B, 210, 160, 3), its `forward` what that gives."""
    from rl_clarity.agents.baby_a3c_agent import BabyA3CAgent
    from rl_clarity.networks import baby_a3c

    return BabyA3CAgent(baby_a3c.build(checkpoint.parameters, (80, 80, 1)), checkpoint.metadata)
