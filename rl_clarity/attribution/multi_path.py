"""Attribution averaged over many paths, as in Understanding RL Vision (2020).

A straight path moves all features together, so features that can stand for each other share what either would get
alone. Here a path moves one half of the reduced channels early and the other half late; the mean over the choices of
halves treats channels alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Protocol

import numpy as np

from rl_clarity.agents.protocol import Agent, Output, State


class Reduction(Protocol):
    """What a path needs of a channel reduction."""

    @property
    def components(self) -> np.ndarray: ...

    def transform(self, x: np.ndarray) -> np.ndarray: ...


def multi_path_attribution(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    reduction: Reduction,
    output: Output = "value",
    steps: int = 10,
    max_paths: int | None = None,
    rng: np.random.Generator | None = None,
    state: State = None,
) -> np.ndarray:
    """Attribution (B, h, w, c) of a score to a layer, averaged over paths in the reduced channels.

    Parameters
    ----------
    reduction: a `ChannelReduction` of the layer
    steps: points on each path
    max_paths: paths, drawn at random; None is all of them (70 for 8 channels)
    rng: draws the paths; numpy's default with seed 0 if None

    The attribution along a path is the sum over its steps of the step's change of the activations times the gradient at
    the step's end.
    """
    activations = agent.activations(observations, layer, state).astype(np.float64)
    # In float64: rounding of a path's points can cross a kink and move the result by 1e-4.
    weights = np.asarray(reduction.transform(activations), np.float64)  # (B, h, w, K)
    components = np.asarray(reduction.components, np.float64)
    residual = activations - weights @ components
    early_halves = list(_early_halves(len(components)))
    if max_paths is not None and max_paths < len(early_halves):
        rng = rng or np.random.default_rng(0)
        early_halves = [early_halves[i] for i in rng.choice(len(early_halves), max_paths, replace=False)]
    total = np.zeros(activations.shape)
    for early in early_halves:
        before = np.zeros(activations.shape)
        for i in range(1, steps + 1):
            alpha = i / steps
            pace = np.full(len(components), alpha**2)
            pace[list(early)] = 1 - (1 - alpha) ** 2
            point = (weights * pace) @ components + alpha * residual
            gradient = agent.gradients(observations, layer, point.astype(np.float32), [output], state)[0]
            total += (point - before) * gradient
            before = point
    return (total / len(early_halves)).astype(np.float32)


def _early_halves(channels: int) -> Iterator[tuple[int, ...]]:
    """The channels that move early, one tuple a path; each split gives two paths, the halves exchanged."""
    half = channels // 2
    for chosen in combinations(range(channels), half):
        if channels % 2 == 0 and 0 not in chosen:
            continue  # the same split as its complement
        yield chosen
        yield tuple(sorted(set(range(channels)) - set(chosen)))
