"""More points on the paths of integrated gradients whose sum is far from the difference of the outputs.

The completeness error of most observations is small with few points. Points are added only where it is large, so that
not all paths need as many points as the worst one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from rl_clarity.base.errors import OptionError

LIMIT = 0.05
"""Completeness error above which points are added, as a share of the output's range."""
DEFAULT_REFINEMENT = 9
"""How many times as many points a path may have."""
TIMES = 3
"""Factor by which each refinement multiplies the number of points. The centers of the thirds of an interval include its
center, so that a midpoint rule keeps its points."""


class _Attribution(Protocol):
    @property
    def values(self) -> np.ndarray: ...  # (S, B, *shape)

    @property
    def scores_at_baseline(self) -> np.ndarray: ...  # (S, B)

    @property
    def completeness_error(self) -> np.ndarray: ...  # (S, B)


AttributionT = TypeVar("AttributionT", bound=_Attribution)


def check_refinement(name: str, value: object) -> None:
    """Raise OptionError for anything but a power of three."""
    whole = int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else 0
    while whole > 1 and whole % TIMES == 0:
        whole //= TIMES
    if whole != 1:
        raise OptionError(f"{name}={value!r} must be a power of three: 1 for no further points, 3, 9, ...")


def is_midpoint_rule(points: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the points (n,) are the centers of intervals whose lengths are the weights (n,)."""
    return np.allclose(points, np.cumsum(weights) - weights / 2)


def added_points(points: np.ndarray, weights: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that are added when the number of points of a midpoint rule is tripled to `factor` times n.

    Args:
        points, weights: (n,) of the rule whose intervals are divided into `factor` equal parts
        factor: a power of three above 1

    Returns points and weights (2 n factor / 3,). The sum over them and a third of the sum of the coarser rule are the
    sum of the finer rule.
    """
    centers = (np.arange(factor) + 0.5) / factor - 0.5
    added = centers[np.arange(factor) % TIMES != 1]  # the middle of three is a point of the coarser rule
    return (points[:, None] + weights[:, None] * added).ravel(), np.repeat(weights / factor, len(added))


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

    The number of points is tripled until the error is within the limit, or the path has `most` times as many points.
    The number for a score of an observation depends on no other observation or score.

    Args:
        result: the attribution of S scores of B observations, whose arrays are changed
        limits: largest completeness error of each score, or None to leave it as it is
        most: a power of three, how many times as many points a path may have
        compute: `compute(scores, observations, factor)` returns the attribution of these indices with `factor` times
            the initial number of points; `result` has their attribution with a third of these

    Returns how many times as many points each path has (S, B).
    """
    bounds = np.array([np.inf if limit is None else limit for limit in limits])[:, None]
    excess = np.abs(result.completeness_error) / bounds  # (S, B)
    factors = np.ones(excess.shape, int)
    half = max(1, -(-excess.shape[1] // 2))  # both attributions together need no more memory than the first alone took
    factor = TIMES
    while factor <= most and (excess > 1).any():
        chosen = excess > 1
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
        factor *= TIMES
    return factors
