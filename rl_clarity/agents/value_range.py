"""What a network is given for black and white, observations of 0 and 255."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.base.errors import OptionError


@dataclass(frozen=True)
class InputScale:
    """A network's input is observations / `divisor` + `black`."""

    divisor: float = 255
    black: float = 0
    assumed: bool = False
    """Whether neither the caller nor the network says so."""

    @property
    def value_range(self) -> tuple[float, float]:
        """The input for observations of 0 and 255."""
        return self.black, self.black + 255 / self.divisor


def input_scale(input_divisor: float | None, value_range: Sequence[float] | None) -> InputScale:
    """Return the scale that the options of an agent give; without them, 0 to 1 is assumed.

    Raises OptionError for both of them, a divisor that is not positive, and a range that is not (low, high).
    """
    if value_range is None:
        divisor = 255 if input_divisor is None else input_divisor
        if not 0 < divisor < math.inf:
            raise OptionError(f"input_divisor={divisor!r} must be above 0")
        return InputScale(divisor, assumed=input_divisor is None)
    if input_divisor is not None:
        raise OptionError(f"input_divisor={input_divisor!r} and value_range={value_range!r}: give one of them")
    try:
        low, high = map(float, value_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise OptionError(f"value_range={value_range!r} must be (low, high), what the network is given for 0 and 255")
    return InputScale(255 / (high - low), low)
