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
    gradients = tail.path_gradients(points, weights)
    return SimpleNamespace(
        activations=tail.values, gradients=gradients, scores=tail.scores(), scores_at_zero=tail.scores(scale=0)
    )
