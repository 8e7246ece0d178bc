"""Arguments of the functions of attribution."""

from __future__ import annotations

from numbers import Real
from typing import Any

from rl_clarity.errors import OptionError


def check_count(name: str, value: Any) -> None:
    """Raises OptionError for anything but a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 1 or float(value) % 1:
        raise OptionError(f"{name}={value!r}: a whole number from 1 on is needed")
