"""Measures that are clustered by episode, and their tests: of an effect, and of its absence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.statistics import LEVEL, resampled_interval

LEAST_EPISODES = 5
"""Fewest episodes that are tested: an interval of fewer is too narrow."""
FLIPS = 20_000
_POWER_SUM = 1.959964 + 0.841621
"""Sum of the normal quantiles of a two-sided test of 5 % and of a power of 80 %."""


@dataclass(frozen=True)
class Clustered:
    """Values of a measure, as their sum and number in each of K episodes."""

    sums: Sequence[float]
    counts: Sequence[int]

    @classmethod
    def of(cls, values: np.ndarray, clusters: np.ndarray, count: int) -> Clustered:
        """Return the measure of values (n,), whose episodes have the indices `clusters` (n,), out of `count`."""
        index = np.asarray(clusters, np.int64)
        sums = np.bincount(index, np.asarray(values, np.float64), count)
        return cls(sums.tolist(), np.bincount(index, minlength=count).tolist())

    def __add__(self, other: Clustered) -> Clustered:
        """Return the values of both, of the same episodes."""
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
        """Return the bootstrap interval of the mean, which resamples episodes."""
        sums, counts = self._known()
        rng = np.random.default_rng(seed)
        return resampled_interval(len(counts), lambda drawn: drawn @ sums / (drawn @ counts), rng, level)

    def p(self, seed: int, null: float = 0.0) -> float:
        """Return the two-sided p-value of a test that the mean is `null`, which flips the signs of whole episodes."""
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
