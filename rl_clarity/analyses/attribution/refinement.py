"""More points on the paths of integrated gradients whose sum is far from the difference of the outputs.

The completeness error of most observations is small with few points. Points are added only for the others, so that not
all paths need as many points as the worst one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from rl_clarity.base.errors import OptionError

LIMIT = 0.05
"""Completeness error above which points are added, as a share of the output's range."""
DEFAULT_REFINEMENT = 8
"""How many times as many points a path may have."""


class _Attribution(Protocol):
    @property
    def values(self) -> np.ndarray: ...  # (S, B, *shape)

    @property
    def scores_at_baseline(self) -> np.ndarray: ...  # (S, B)

    @property
    def completeness_error(self) -> np.ndarray: ...  # (S, B)


AttributionT = TypeVar("AttributionT", bound=_Attribution)


def check_refinement(name: str, value: object) -> None:
    """Raise OptionError for anything but a power of two."""
    whole = int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else 0
    if whole < 1 or whole & whole - 1:
        raise OptionError(f"{name}={value!r} must be a power of two: 1, 2, 4, 8, ...")


def error_bound(outputs: np.ndarray) -> float:
    """Return the largest accepted completeness error of an output with such values; infinity if it does not vary."""
    values = np.asarray(outputs, np.float64)
    span = float(np.ptp(values)) if values.size else 0.0
    return LIMIT * span if span > 0 else float("inf")


def refine(
    result: AttributionT,
    limits: Sequence[float | None],
    most: int,
    compute: Callable[[np.ndarray, np.ndarray, int], AttributionT],
) -> np.ndarray:
    """Replace the attribution of scores whose completeness error is above their limit by one with more points.

    The number of points is chosen as if errors fell in proportion to it, and doubled where they do not. What is chosen
    for a score of an observation depends on no other observation or score.

    Args:
        result: the attribution of S scores of B observations, whose arrays are changed
        limits: largest completeness error of each score, or None to leave it as it is
        most: a power of two, how many times as many points a path may have
        compute: returns the attribution of some scores (indices) of some observations (indices), with so many times as
            many points

    Returns how many times as many points each path has (S, B).
    """
    bounds = np.array([np.inf if limit is None else limit for limit in limits])[:, None]
    excess = np.abs(result.completeness_error) / bounds  # (S, B)
    factors = np.ones(excess.shape, int)
    half = max(1, -(-excess.shape[1] // 2))  # both attributions together need no more memory than the first alone took
    factor = 2
    while factor <= most and (excess > 1).any():
        wanted = np.maximum(2 * factors, 2 ** np.ceil(np.log2(np.maximum(excess, 1))))
        chosen = (excess > 1) & (np.minimum(wanted, most) == factor)
        observations = np.flatnonzero(chosen.any(axis=0))
        for part in (observations[start : start + half] for start in range(0, len(observations), half)):
            scores = np.flatnonzero(chosen[:, part].any(axis=1))
            finer = compute(scores, part, factor)
            errors = np.abs(finer.completeness_error) / bounds[scores]
            for i, score in enumerate(scores):
                own = chosen[score, part]
                result.values[score, part[own]] = finer.values[i, own]
                result.scores_at_baseline[score, part[own]] = finer.scores_at_baseline[i, own]
                excess[score, part[own]], factors[score, part[own]] = errors[i, own], factor
        factor *= 2
    return factors
