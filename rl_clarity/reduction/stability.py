"""Measure how much components depend on the seed of their factorization, and on the data."""

from __future__ import annotations

import numpy as np

from rl_clarity.reduction.matching import unit_rows
from rl_clarity.reduction.nmf import ChannelReduction

FITS = 2
"""Number of other fits with which a reduction is compared."""
ROWS = 2_000
"""Number of rows in each fit. It is a tenth of the rows that the reduction is fitted to, to bound the cost."""


def stability(reduction: ChannelReduction, attribution: np.ndarray, seed: int = 0, method: str = "nmf") -> np.ndarray:
    """Return the similarity (K,), from 0 to 1, of each component to its counterpart in fits with other seeds.

    These fits start from random numbers, with rows of the same attribution (..., c). Components are matched one to one
    so that the sum of their cosine similarities is largest; the result is the mean over the fits.
    """
    count = len(reduction.components)
    total = np.zeros(count)
    for fit in range(1, FITS + 1):
        other = ChannelReduction.fit(attribution, count, seed + fit, max_rows=ROWS, random_start=True, method=method)
        total += matched_similarity(reduction.components, other.components)
    return np.asarray(np.clip(total / FITS, 0, 1))


def matched_similarity(components: np.ndarray, others: np.ndarray, *, absolute: bool = False) -> np.ndarray:
    """Return the cosine similarity (K,) of components (K, c) with their counterparts among others (L, c).

    Components are matched one to one so that the sum of the similarities, or of their absolute values with `absolute`,
    is largest. The similarity is 0 for components without a counterpart.
    """
    from scipy.optimize import linear_sum_assignment

    similarity = unit_rows(components) @ unit_rows(others).T
    similarity = np.abs(similarity) if absolute else similarity
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    result = np.zeros(len(components))
    result[rows] = similarity[rows, columns]
    return np.clip(result, 0, 1) if absolute else result
