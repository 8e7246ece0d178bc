"""Means with bootstrap intervals, and comparisons of paired episodes with tests that are corrected for their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

RESAMPLES, RESAMPLES_OF_PAIRS = 2_000, 20_000
LEVEL = 0.05
"""Intervals contain the true difference with a probability of 1 - LEVEL."""
POWER = 0.8
"""Probability with which a test finds a true difference of the size that `detectable` returns."""
BLOCK = 1000
"""Number of resamples that are drawn at once."""


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap interval of level 1 - LEVEL."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class MeasuredDifference:
    """A difference of paired episodes with and without an edit. Intervals are 95 % bootstrap intervals."""

    unedited: float
    ablated: float
    difference: float
    interval: tuple[float, float]
    corrected_interval: tuple[float, float]
    """Interval that is corrected for the number of tests (Bonferroni)."""
    p: float
    adjusted_p: float
    """p-value that is corrected for the number of tests (Holm)."""


@dataclass(frozen=True)
class Comparison:
    """M measures of n episodes with an edit, compared with those of the same n episodes without it."""

    before: np.ndarray  # (M,): means without the edit
    after: np.ndarray  # (M,): means with the edit
    intervals: np.ndarray  # (M, 2): intervals of the differences of the means
    # (M, 2): intervals that all contain the true differences with a probability of 1 - LEVEL
    corrected_intervals: np.ndarray
    p: np.ndarray  # (M,)
    adjusted_p: np.ndarray  # (M,): p-values, corrected for M tests

    def __getitem__(self, index: int) -> MeasuredDifference:
        """Return a measure as plain numbers."""
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
    """Return the smallest true difference that a test finds in four of five cases.

    `interval` is the difference's interval of level 1 - LEVEL. `corrected` is the interval that decides the test, by
    default the same. The result is None if no two episodes differed, because nothing is known of their spread then.
    """
    half, whole = ((high - low) / 2 for low, high in (interval, corrected or interval))
    normal = NormalDist()
    return whole + half * normal.inv_cdf(POWER) / normal.inv_cdf(1 - LEVEL / 2) if whole > 0 else None


def _pair(interval: np.ndarray) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities (..., A) of logits."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Return the entropy (...) in nats of distributions (..., A)."""
    logarithms = np.log(np.where(probabilities > 0, probabilities, 1))
    result: np.ndarray = -(probabilities * logarithms).sum(axis=-1)
    return result


def bootstrap_interval(values: np.ndarray, rng: np.random.Generator) -> Interval:
    """Return the percentile bootstrap interval of the mean of values (n,)."""
    values = np.asarray(values, np.float64)
    means = np.concatenate(list(_resampled_means(values[:, None], RESAMPLES, rng)))
    low, high = _quantiles(means, LEVEL)[0].tolist()
    return Interval(float(values.mean()), low, high)


def resampled_interval(
    count: int, statistic: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a statistic of values in clusters. Whole clusters are resampled.

    `statistic` takes how often each of the `count` clusters occurs in each of R resamples (R, count), and returns the
    statistic (R,); NaN is ignored. The interval contains the true number with a probability of 1 - level. A single
    cluster says nothing about the spread, so its interval is (NaN, NaN).
    """
    if count == 1:
        return np.nan, np.nan
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    low, high = np.nanquantile(statistic(weights), [level / 2, 1 - level / 2])
    return float(low), float(high)


def share_interval(count: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a share, `count` of `total` independent trials (Wilson, 1927).

    Without trials it is (0, 1).
    """
    if not total:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1 - level / 2)
    share, weight = count / total, z**2 / total
    center = (share + weight / 2) / (1 + weight)
    width = z * float(np.sqrt(share * (1 - share) / total + weight / (4 * total))) / (1 + weight)
    return 0.0 if count == 0 else center - width, 1.0 if count == total else center + width


def compare(before: np.ndarray, after: np.ndarray, seed: int = 0, *, tests: int | None = None) -> Comparison:
    """Compare M measures of n pairs of episodes, each (n, M).

    Intervals are percentile bootstrap intervals over pairs, widened to 0 where p is not below LEVEL: if only few pairs
    differ, p has few values, and the test may find nothing although the interval excludes 0. `corrected_intervals` have
    the level LEVEL / `tests` each (Bonferroni), with M tests by default. p is that of a sign-flip permutation test of
    the mean difference (two-sided, as many random flips as resamples); the adjusted p is Holm's, for the M tests. All
    measures share their resamples, so that each is a product of matrices.
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
    """Yield the means (BLOCK, M) of resamples of values (n, M)."""
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
