"""A reduction: entry point `rl_clarity.reductions: strides = strides:REDUCTION`."""

from __future__ import annotations

import numpy as np

from rl_clarity.reduction import Reduction
from rl_clarity.reduction.directions import Directions


def fit(rows: np.ndarray, count: int, seed: int) -> Directions:
    """Put every count-th dimension into the same direction."""
    dimensions = rows.shape[1]
    basis = np.equal.outer(np.arange(count), np.arange(dimensions) % count).astype(float)
    return Directions(np.zeros(dimensions), np.ones(dimensions), basis)


REDUCTION = Reduction("stride", fit, non_negative=True)
