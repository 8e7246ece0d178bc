"""Means with bootstrap confidence intervals, and tests of differences between paired episodes, corrected for the number
of tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

RESAMPLES, RESAMPLES_OF_PAIRS = 2_000, 20_000
LEVEL = 0.05
"""Confidence intervals contain the true value with a probability of 1 - LEVEL."""
POWER = 0.8
"""Probability with which a test detects a true difference of the size that `detectable` returns."""
BLOCK = 1000
"""Number of resamples that are drawn at once."""


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap confidence interval at the confidence level 1 - LEVEL."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class MeasuredDifference:
    """The mean difference of a measure between paired episodes with and without an edit. Intervals are 95 % bootstrap
    confidence intervals.
    """

    unedited: float
    ablated: float
    difference: float
    interval: tuple[float, float]
    corrected_interval: tuple[float, float]
    """The interval, corrected for the number of tests (Bonferroni)."""
    p: float
    adjusted_p: float
    """The p-value, corrected for the number of tests (Holm)."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of M measures between n episodes with an edit and the same n episodes without it."""

    before: np.ndarray  # (M,): means without the edit
    after: np.ndarray  # (M,): means with the edit
    intervals: np.ndarray  # (M, 2): intervals of the differences of the means
    # (M, 2): intervals that all contain the true differences with a probability of 1 - LEVEL
    corrected_intervals: np.ndarray
    p: np.ndarray  # (M,)
    adjusted_p: np.ndarray  # (M,): p-values, corrected for M tests

    def __getitem__(self, index: int) -> MeasuredDifference:
        """Return the comparison for a single measure, as Python numbers."""
        before, after = float(self.before[index]), float(self.after[index])
        return MeasuredDifference(
            unedited=before,
            ablated=after,
            difference=after - before,
            interval=_pair(self.intervals[index]),
            corrected_interval=_pair(self.corrected_intervals[index]),
            p=float(self.p[index]),
            adjusted_p=float(self.adjusted_p[index]),
        )


def detectable(interval: tuple[float, float], corrected: tuple[float, float] | None = None) -> float | None:
    """Return the smallest true difference that a test detects with probability POWER.

    `interval` is the confidence interval of the difference at the confidence level 1 - LEVEL. `corrected` is the
    interval on which the test is based, by default `interval`. The result is None if the interval has zero width: then
    no two episodes differed, and their spread is unknown.
    """
    half, whole = ((high - low) / 2 for low, high in (interval, corrected or interval))
    normal = NormalDist()
    return whole + half * normal.inv_cdf(POWER) / normal.inv_cdf(1 - LEVEL / 2) if whole > 0 else None


def _pair(interval: np.ndarray) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities (..., A) for logits (..., A)."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Return the entropy (...) in nats of distributions (..., A)."""
    logarithms = np.log(np.where(probabilities > 0, probabilities, 1))
    result: np.ndarray = -(probabilities * logarithms).sum(axis=-1)
    return result


def bootstrap_interval(values: np.ndarray, rng: np.random.Generator) -> Interval:
    """Return the mean of values (n,) with its percentile bootstrap confidence interval."""
    values = np.asarray(values, np.float64)
    means = np.concatenate(list(_resampled_means(values[:, None], RESAMPLES, rng)))
    low, high = _quantiles(means, LEVEL)[0].tolist()
    return Interval(float(values.mean()), low, high)


def resampled_interval(
    count: int, statistic: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile confidence interval of a statistic from a cluster bootstrap, which resamples whole
    clusters.

    `statistic` is a function that returns the statistic (R,) of R resamples. Its argument (R, count) says how often
    each of the `count` clusters occurs in each resample. Statistics that are NaN are ignored. The interval contains the
    true value with a probability of 1 - level. It is (NaN, NaN) for a single cluster, which says nothing about the
    spread.
    """
    if count == 1:
        return np.nan, np.nan
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    low, high = np.nanquantile(statistic(weights), [level / 2, 1 - level / 2])
    return float(low), float(high)


def share_interval(count: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the confidence interval of a proportion, for `count` successes in `total` independent trials
    (Wilson, 1927).

    Without trials, the interval is (0, 1).
    """
    if not total:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1 - level / 2)
    share, weight = count / total, z**2 / total
    center = (share + weight / 2) / (1 + weight)
    width = z * float(np.sqrt(share * (1 - share) / total + weight / (4 * total))) / (1 + weight)
    return 0.0 if count == 0 else center - width, 1.0 if count == total else center + width


def compare(before: np.ndarray, after: np.ndarray, seed: int = 0, *, tests: int | None = None) -> Comparison:
    """Compare M measures of n pairs of episodes. Both `before` and `after` have the shape (n, M).

    Intervals are percentile bootstrap confidence intervals, for which pairs are resampled. They are extended to 0 if p
    is not below LEVEL: if only few pairs differ, p can have only few values, and the test may find nothing although the
    interval excludes 0. Each of the `corrected_intervals` has the level 1 - LEVEL / `tests` (Bonferroni), by default
    with M tests. The p-values are those of a two-sided sign-flip permutation test of the mean difference, with as many
    random flips as resamples, and the adjusted p-values are corrected for the M tests by Holm's method. All measures
    share the same resamples, so that resampling is a matrix product.
    """
    differences = after.astype(np.float64) - before
    pairs, measures = differences.shape
    rng = np.random.default_rng([seed, pairs])
    parts = []
    exceeding = np.zeros(measures)
    observed = np.abs(differences.mean(axis=0))
    for part in _resampled_means(differences, RESAMPLES_OF_PAIRS, rng):
        parts.append(part)
        flipped = rng.choice([-1.0, 1.0], size=(BLOCK, pairs)) @ differences / pairs
        exceeding += (np.abs(flipped) >= observed * (1 - 1e-9)).sum(axis=0)
    p = (1 + exceeding) / (1 + RESAMPLES_OF_PAIRS)
    means = np.concatenate(parts)
    intervals = _quantiles(means, LEVEL)
    return Comparison(
        before.mean(axis=0),
        after.mean(axis=0),
        np.where((p < LEVEL)[:, None], intervals, np.clip(intervals, [-np.inf, 0], [0, np.inf])),
        _quantiles(means, LEVEL / (tests or measures)),
        p,
        holm(p),
    )


def _resampled_means(values: np.ndarray, resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the means (BLOCK, M) of blocks of bootstrap resamples of values (n, M)."""
    count = len(values)
    for _ in range(0, resamples, BLOCK):
        yield rng.multinomial(count, np.full(count, 1 / count), size=BLOCK) @ values / count


def _quantiles(means: np.ndarray, level: float) -> np.ndarray:
    return np.quantile(means, [level / 2, 1 - level / 2], axis=0).T


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust the p-values (M,) of M tests (Holm, A simple sequentially rejective multiple test procedure, 1979)."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1)
    return adjusted
