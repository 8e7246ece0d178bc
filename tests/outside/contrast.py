"""A saliency method: entry point `rl_clarity.saliency_methods: contrast = contrast:METHOD`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution.saliency import SaliencyMethod


def contrast(
    agent: Agent, observations: np.ndarray, outputs: list[Any], *, state: State = None, power: float
) -> np.ndarray:
    """How far each value is from the mean of its observation, (S, B, H, W, C), whatever the output."""
    images = np.asarray(observations, np.float32) / 255
    distances = np.abs(images - images.mean(axis=(1, 2, 3), keepdims=True)) ** power
    return np.stack([distances] * len(outputs))


METHOD = SaliencyMethod("contrast", "How far a pixel is from the mean of its observation.", contrast, {"power": 1})
