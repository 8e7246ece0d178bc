"""Scale observations from 0 (black) to 255 (white) to the range that a network takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.base.errors import OptionError


@dataclass(frozen=True)
class InputScale:
    """The scale of a network's input, which is observations / `divisor` + `black`."""

    divisor: float = 255
    black: float = 0
    assumed: bool = False
    """Whether the scale is a default that neither the caller nor the network confirmed."""
    unit: float = 255
    """Divisor of the observations at the site "input". It is 1 for vectors, which are not scaled."""

    @property
    def value_range(self) -> tuple[float, float]:
        """The network's input for observations of 0 and 255."""
        return self.black, self.black + 255 / self.divisor


VECTOR = InputScale(divisor=1, unit=1)
"""The scale of vectors, which the network gets unchanged."""


def vector_scale(input_divisor: float | None, value_range: Sequence[float] | None) -> InputScale:
    """Return the scale of vectors. Raises OptionError for options that are only for images."""
    if input_divisor not in (None, 1) or value_range is not None:
        raise OptionError(
            f"input_divisor={input_divisor!r} and value_range={value_range!r} are only for images. The module gets "
            "vectors unchanged; scale them in the module or in forward=..."
        )
    return VECTOR


def input_scale(input_divisor: float | None, value_range: Sequence[float] | None) -> InputScale:
    """Return the scale that the options of an agent define, by default from 0 to 1.

    Raises OptionError if both options are given, for a divisor that is not positive, and for a range that is not (low,
    high) with low < high.
    """
    if value_range is None:
        divisor = 255 if input_divisor is None else input_divisor
        if not 0 < divisor < math.inf:
            raise OptionError(f"input_divisor={divisor!r} must be above 0")
        return InputScale(divisor, assumed=input_divisor is None)
    if input_divisor is not None:
        raise OptionError(f"input_divisor={input_divisor!r} and value_range={value_range!r}: pass only one of them")
    try:
        low, high = map(float, value_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise OptionError(f"value_range={value_range!r} must be (low, high), the network's inputs for 0 and 255")
    return InputScale(255 / (high - low), low)
