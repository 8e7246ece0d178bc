"""Baselines: the activations to which a layer's activations are compared in attribution.

Attribution adds up to the difference between the output at the layer's activations and that at the baseline.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.base.errors import OptionError

Baseline: TypeAlias = str | np.ndarray
BASELINES = ("zero-layer", "zero-input", "mean")


def check_baseline(name: str, baseline: Baseline) -> None:
    """Raise OptionError for an unknown name."""
    if isinstance(baseline, str) and baseline not in BASELINES:
        raise OptionError(f"{name}={baseline!r} must be one of {', '.join(BASELINES)}")


def layer_baseline(
    agent: Agent, baseline: Baseline, observations: np.ndarray, layer: str, state: State = None
) -> np.ndarray | None:
    """Return the baseline of a layer (B or 1, *shape), or None for zeros.

    Args:
        baseline: "zero-layer"; "zero-input", the activations at an image of zeros; "mean", those of `observations`,
            averaged; or activations (shape) or (B, *shape)

    Raises OptionError for another name, and for activations of another shape.
    """
    check_baseline("baseline", baseline)
    if isinstance(baseline, str):
        if baseline == "zero-layer":
            return None
        if baseline == "mean":
            activations = agent.activations(observations, layer, state)
            return np.asarray(activations.mean(axis=0, keepdims=True, dtype=np.float64), np.float32)
        images = np.zeros_like(observations if state is not None else observations[:1])
        return agent.activations(images, layer, state)
    values = np.asarray(baseline, np.float32)
    shape = agent.activations(observations[:1], layer, None if state is None else tuple(p[:1] for p in state)).shape[1:]
    if values.shape not in (shape, (1, *shape), (len(observations), *shape)):
        raise OptionError(f"baseline has the shape {values.shape}; layer {layer!r} has {shape}")
    return values[None] if values.shape == shape else values
