"""Quadrature rules: points and weights for integrals along a path from 0 to 1. A rule has n = `steps` points."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.registry import Registry

Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]

DEFAULT_RULE = "graded-midpoint"
DEFAULT_STEPS = 5
GRADING = 1.75
"""Exponent that moves the points of `graded_midpoint` toward 0. Values from 1.5 to 2 have about the same error."""


def riemann(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points i / n of the right Riemann sum of understanding-rl-vision, each with weight 1 / n.

    Its error decreases as 1 / n.
    """
    return np.arange(1, steps + 1) / steps, np.full(steps, 1 / steps)


def midpoint(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and weights of the midpoint rule."""
    return (np.arange(steps) + 0.5) / steps, np.full(steps, 1 / steps)


def gauss_legendre(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights of Gauss-Legendre quadrature, which is exact for polynomials of degree 2 n - 1."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


def graded_midpoint(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the midpoints and the lengths of intervals that grow with the distance from 0.

    The gradient of a ReLU network jumps, mostly near 0, where its biases dominate. A rule with more points there is
    more accurate than rules for smooth functions. `python -m benchmarks.accuracy` compares them.
    """
    ends = (np.arange(steps + 1) / steps) ** GRADING
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)


RULES: Registry[Rule] = Registry(
    "rl_clarity.quadrature_rules",
    {
        "graded-midpoint": graded_midpoint,
        "gauss-legendre": gauss_legendre,
        "midpoint": midpoint,
        "riemann": riemann,
    },
    noun="quadrature",
)
"""Rules by name. A rule is a function from the number of steps to points and weights. `RULES.register` and entry points
add rules."""


def quadrature(rule: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points (n,) of a rule in [0, 1], and its weights (n,), which sum to 1.

    Raises OptionError for an unknown rule, and for `steps` that are not a positive integer.
    """
    function = RULES.get(rule)
    check_count("steps", steps)
    return function(int(steps))


def check_count(name: str, value: object) -> None:
    """Raise OptionError for anything but a positive integer."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 1 or float(value) % 1:
        raise OptionError(f"{name}={value!r} must be a positive integer")
