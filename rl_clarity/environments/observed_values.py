"""Compare the values of an environment's observations with the range that is declared for them."""

from __future__ import annotations

import numpy as np

from rl_clarity.base.errors import SamplesError

FEWEST_LEVELS = 5
"""Smallest number of the 256 levels that observations can use without being suspicious."""
SEPARATE = 0.25
"""Values within a level count as equal if they differ by at most this share of a level."""


class ObservedValues:
    """The minimum and maximum of an environment's observations, and which of 256 levels they use."""

    def __init__(self) -> None:
        self._low: np.ndarray | None = None
        self._high: np.ndarray | None = None
        self._levels: dict[int, tuple[float, float]] = {}
        """Smallest and largest value that was rounded to each level, in units of levels. Not updated after
        FEWEST_LEVELS levels."""

    def add(self, raw: np.ndarray, levels: np.ndarray, scaled: np.ndarray) -> None:
        """Add observations.

        Args:
            raw: (N, H, W, C) the observations that the environment returned
            levels: (N, H, W, C) uint8, the converted observations
            scaled: (N, H, W, C) the observations from 0 to 255 before they were rounded
        """
        # Reducing over whole images is much faster than over the first axes alone.
        low, high = raw.min(axis=0), raw.max(axis=0)
        self._low = low if self._low is None else np.minimum(self._low, low)
        self._high = high if self._high is None else np.maximum(self._high, high)
        if len(self._levels) >= FEWEST_LEVELS:
            return
        for level in np.flatnonzero(np.bincount(levels.ravel(), minlength=256)).tolist()[:FEWEST_LEVELS]:
            values = np.array([level]) if scaled is levels else scaled[levels == level]
            smallest, largest = self._levels.get(level, (np.inf, -np.inf))
            self._levels[level] = min(smallest, float(values.min())), max(largest, float(values.max()))

    @property
    def low(self) -> np.ndarray:
        """Smallest raw value of each channel, (C,)."""
        return np.zeros(0) if self._low is None else self._low.min(axis=(0, 1))

    @property
    def high(self) -> np.ndarray:
        """Largest raw value of each channel, (C,)."""
        return np.zeros(0) if self._high is None else self._high.max(axis=(0, 1))

    def check(self, low: float, high: float, *, assumed: bool) -> None:
        """Raise SamplesError if the observations do not fit the range from `low` to `high`.

        They do not fit if they exceed the range or are not finite, or if rounding merges different values so that fewer
        than 5 of 256 levels are used. If the range comes from the observation space (`assumed`) and `high` is 255, they
        also must not use only the levels 0 and 1. Images of few colors, such as black and white, are accepted.
        """
        if self._low is None or not self.low.size:
            return
        smallest, largest = float(self.low.min()), float(self.high.max())
        if not np.isfinite([smallest, largest]).all():
            raise SamplesError(
                f"observations range from {smallest:g} to {largest:g}, but images must be finite: correct the "
                "environment or its wrappers"
            )
        level = (high - low) / 255
        few = len(self._levels) < FEWEST_LEVELS
        if smallest < low - level / 2 or largest > high + level / 2:
            problem = "values outside this range are clipped"
        elif few and any(last - first > SEPARATE for first, last in self._levels.values()):
            problem = f"rounding leaves only {len(self._levels)} of 256 levels"
        elif assumed and high == 255 and set(self._levels) == {0, 1}:
            problem = "0 and 1 both look black"
        else:
            return
        own = _usual_range(smallest, largest)
        each = dict.fromkeys(f"{a:.3g} to {b:.3g}" for a, b in zip(self.low, self.high, strict=True))
        channels = f" (channels {', '.join(each)})" if len(each) > 1 else ""
        right = (
            f"; if the declared bounds are right, pass value_range=({low:g}, {high:g})"
            if assumed and not own[1] > high
            else ""
        )
        raise SamplesError(
            f"observations range from {smallest:.3g} to {largest:.3g}{channels}, but {low:g} to {high:g} are declared: "
            f"{problem}. Pass value_range=({own[0]:g}, {own[1]:g}), the values of black and white, or declare these "
            f"bounds in observation_space{right}"
        )


def _usual_range(low: float, high: float) -> tuple[float, float]:
    """Return the first of the ranges (0, 1), (-1, 1) and (0, 255) that contains both values, or (low, high) if none
    does.
    """
    return next(((a, b) for a, b in ((0, 1), (-1, 1), (0, 255)) if a <= low and high <= b), (low, high))
