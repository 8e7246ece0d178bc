"""How much a layer's features depend on the seed of their factorization."""

from __future__ import annotations

import numpy as np

from rl_clarity.reduction.nmf import ChannelReduction

FITS = 2
"""Other fits that a reduction is compared with."""
ROWS = 2_000
"""Rows of each: a tenth of those of the reduction itself, which bounds the cost."""


def stability(reduction: ChannelReduction, attribution: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the similarity (K,), from 0 to 1, of each component to its counterpart in fits with other seeds.

    Those start from random numbers, with rows of the same attribution (..., c). Components are paired one to one, so
    that the sum of their cosine similarities is largest; the result is the mean over the fits.
    """
    from scipy.optimize import linear_sum_assignment

    count = len(reduction.components)
    total = np.zeros(count)
    for fit in range(1, FITS + 1):
        other = ChannelReduction.fit(attribution, count, seed + fit, max_rows=ROWS, random_start=True)
        similarity = _unit(reduction.components) @ _unit(other.components).T
        rows, columns = linear_sum_assignment(similarity, maximize=True)
        total[rows] += similarity[rows, columns]
    return np.asarray(np.clip(total / FITS, 0, 1))


def _unit(components: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(components.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(components / np.where(norms > 0, norms, 1))
