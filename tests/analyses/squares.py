"""Effects of squares on black, which an agent sees in the cells of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.recordings.object_effects import ObjectEffects

CELL = 8
SQUARE = CELL - 2
"""Size of an object, which fills a cell with its margin, for observations of 32 pixels."""


def square_effects(agent: Any, size: int, episodes: int, steps: int, objects: int = 4) -> ObjectEffects:
    """Return the effects of some squares in each step, a third of them saws, on observations (size, size, 3)."""
    rng = np.random.default_rng(1)
    frames = np.zeros((episodes * steps, size, size, 3), np.uint8)
    rows = []
    for step, frame in enumerate(frames):
        for cell in rng.choice((size // CELL) ** 2, objects, replace=False):
            top, left = cell // (size // CELL) * CELL + 1, cell % (size // CELL) * CELL + 1
            frame[top : top + SQUARE, left : left + SQUARE] = rng.integers(1, 256, 3)
            rows.append((step, left, top))
    step, left, top = np.array(rows).T
    seen, without = frames[step], frames[step].copy()
    for image, x, y in zip(without, left, top, strict=True):
        image[y : y + SQUARE, x : x + SQUARE] = 0
    before, after = agent.forward(seen), agent.forward(without)
    return ObjectEffects(
        type=np.where(np.arange(len(step)) % 3 > 0, "crate", "saw"),
        episode=step // steps,
        step=step % steps,
        position=np.zeros((len(step), 2), np.float32),
        box=np.stack([left, top, left + SQUARE, top + SQUARE], axis=1),
        value_change=before.values - after.values,
        logits_change=before.policy_logits - after.policy_logits,
        policy_change=np.zeros(len(step), np.float32),
        with_object=seen,
        without_object=without,
        exact=np.full(len(step), True),
    )
