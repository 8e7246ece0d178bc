"""Short episodes for tests of recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.recordings.recorder import Recorder

SHAPE = (16, 12, 3)


def step_values(episode: int, step: int) -> dict[str, Any]:
    """Values of one step, which tell episode and step."""
    rng = np.random.default_rng([episode, step])
    return {
        "observation": rng.integers(0, 256, SHAPE, np.uint8),
        "action": (episode + step) % 5,
        "reward": float(step),
        "logits": rng.normal(size=5).astype(np.float32),
        "value": np.float32(episode + step / 1000),
        "state": (rng.normal(size=4).astype(np.float16), rng.normal(size=(2, 3)).astype(np.float32)),
        "info": {"lives": 3},
    }


def add_episode(recorder: Recorder, episode: int, length: int, **last: Any) -> None:
    """Add an episode that ends with `terminated`, or with what `last` says."""
    for step in range(length):
        ends: dict[str, Any] = {"terminated": False} if step < length - 1 else {"terminated": True, **last}
        recorder.add(**{**step_values(episode, step), **ends})


def make_recording(directory: Path | str, lengths: tuple[int, ...] = (3, 70, 32), **options: Any) -> None:
    """Record episodes of these lengths."""
    with Recorder(directory, **{"name": None, "on_error": "raise", **options}) as recorder:
        for episode, length in enumerate(lengths):
            add_episode(recorder, episode, length)
