"""Gradients summed along a straight line, for tests of agents."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Score, State


def path_gradients(
    agent: Any,
    observations: np.ndarray,
    site: str,
    points: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
    scores: Sequence[Score],
    state: State = None,
) -> SimpleNamespace:
    """Weighted sums of gradients at multiples of a site's values; those values; scores there and at zero."""
    (tail,) = agent.tails(observations, site, scores, state)
    total = None
    for point, weight in zip(points, weights, strict=True):
        total = tail.add_gradients(total, scale=point, weight=weight)
    return SimpleNamespace(
        activations=tail.values, gradients=tail.array(total), scores=tail.scores(), scores_at_zero=tail.scores(scale=0)
    )
