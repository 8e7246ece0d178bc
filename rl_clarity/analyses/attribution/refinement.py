"""Add points to the paths of integrated gradients where the attribution does not add up to the output's difference.

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
"""Largest factor by which the number of points on a path may grow."""
TIMES = 3
"""Factor by which each refinement multiplies the number of points. The midpoint of an interval is also the midpoint of
its middle third, so a midpoint rule keeps its points."""


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
        raise OptionError(f"{name}={value!r} must be a power of three: 1 (adds no points), 3, 9, ...")


def is_midpoint_rule(points: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the points (n,) are the centers of intervals whose lengths are the weights (n,)."""
    return np.allclose(points, np.cumsum(weights) - weights / 2)


def added_points(points: np.ndarray, weights: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that are added when the number of points of a midpoint rule is tripled to `factor` times n.

    Args:
        points, weights: (n,) of the rule whose intervals are divided into `factor` equal parts
        factor: a power of three above 1

    Returns points and weights (2 n factor / 3,). The weighted sum over them, plus a third of the weighted sum of the
    coarser rule (n factor / 3 points), is the weighted sum of the finer rule.
    """
    centers = (np.arange(factor) + 0.5) / factor - 0.5
    added = centers[np.arange(factor) % TIMES != 1]  # the middle of three is a point of the coarser rule
    return (points[:, None] + weights[:, None] * added).ravel(), np.repeat(weights / factor, len(added))


def error_bound(outputs: np.ndarray) -> float:
    """Return the largest accepted completeness error for an output with these values; infinity if they do not vary."""
    values = np.asarray(outputs, np.float64)
    span = float(np.ptp(values)) if values.size else 0.0
    return LIMIT * span if span > 0 else float("inf")


def refine(
    result: AttributionT,
    limits: Sequence[float | None],
    most: int,
    compute: Callable[[np.ndarray, np.ndarray, int], AttributionT],
) -> np.ndarray:
    """Compute attribution again, with more points, where the completeness error is above the limit of the score.

    The number of points is tripled until the error is within the limit, or the path has `most` times the initial number
    of points. The number for one score and observation does not depend on the other scores and observations.

    Args:
        result: the attribution of S scores of B observations, whose arrays are changed in place
        limits: largest accepted completeness error of each score, or None to leave its attribution as it is
        most: largest factor by which the number of points on a path may grow, a power of three
        compute: `compute(scores, observations, factor)` returns the attribution of the scores and observations with
            these indices, for `factor` times the initial number of points. When it is called, `result` has their
            attribution for a third of that number

    Returns the factor (S, B) by which the number of points of each path has grown.
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
