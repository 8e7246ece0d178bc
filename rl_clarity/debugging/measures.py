"""Measures whose values are clustered by episode, with confidence intervals, p-values and detectable effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.statistics import LEVEL, resampled_interval

LEAST_EPISODES = 5
"""Smallest number of episodes for a test. With fewer, bootstrap intervals are too narrow."""
FLIPS = 20_000
_POWER_SUM = 1.959964 + 0.841621
"""Sum of the normal quantiles of a two-sided test of 5 % and of a power of 80 %."""


@dataclass(frozen=True)
class Clustered:
    """Values of a measure, stored as their sum and their number in each of K episodes."""

    sums: Sequence[float]
    counts: Sequence[int]

    @classmethod
    def of(cls, values: np.ndarray, clusters: np.ndarray, count: int) -> Clustered:
        """Group values (n,) by episode. `clusters` (n,) are the indices of their episodes, out of `count` episodes."""
        index = np.asarray(clusters, np.int64)
        sums = np.bincount(index, np.asarray(values, np.float64), count)
        return cls(sums.tolist(), np.bincount(index, minlength=count).tolist())

    def __add__(self, other: Clustered) -> Clustered:
        """Combine values of the same episodes."""
        return Clustered(
            [a + b for a, b in zip(self.sums, other.sums, strict=True)],
            [a + b for a, b in zip(self.counts, other.counts, strict=True)],
        )

    @property
    def n(self) -> int:
        """Number of values."""
        return int(sum(self.counts))

    @property
    def episodes(self) -> int:
        """Number of episodes with values."""
        return int(np.count_nonzero(self.counts))

    @property
    def mean(self) -> float:
        return float(sum(self.sums) / self.n) if self.n else float("nan")

    def interval(self, seed: int, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval of the mean by a cluster bootstrap, which resamples episodes."""
        sums, counts = self._known()
        rng = np.random.default_rng(seed)
        return resampled_interval(len(counts), lambda drawn: drawn @ sums / (drawn @ counts), rng, level)

    def p(self, seed: int, null: float = 0.0) -> float:
        """Return the two-sided p-value for the null hypothesis that the mean is `null`. The test flips the signs of
        whole episodes.
        """
        sums, counts = self._known()
        deviations = sums - null * counts
        flips = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, len(sums)))
        exceeding = np.abs(flips @ deviations) >= abs(deviations.sum()) * (1 - 1e-9)
        return float((1 + exceeding.sum()) / (1 + FLIPS))

    def detectable(self) -> float:
        """Return the effect that would have been found with a probability of 80 %, from the spread over episodes."""
        sums, counts = self._known()
        spread = (sums - self.mean * counts) / counts.mean()
        return float(_POWER_SUM * np.sqrt((spread**2).sum() / max(1, len(sums) - 1) / len(sums)))

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        counts = np.asarray(self.counts, np.float64)
        return np.asarray(self.sums, np.float64)[counts > 0], counts[counts > 0]
