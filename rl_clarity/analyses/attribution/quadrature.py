"""Points and weights with which a path is integrated from 0 to 1. Adding a rule is one function and one line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rl_clarity.analyses.attribution.checks import check_count
from rl_clarity.errors import OptionError

Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]

GRADING = 1.75
"""How much closer to 0 the points of `graded_midpoint` lie; from 1.5 to 2 its error is about the same."""


def riemann(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The right Riemann sum: i / n, each with weight 1 / n. The original's; its error falls like 1 / n."""
    return np.arange(1, steps + 1) / steps, np.full(steps, 1 / steps)


def midpoint(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The midpoint rule."""
    return (np.arange(steps) + 0.5) / steps, np.full(steps, 1 / steps)


def gauss_legendre(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre: exact for polynomials of degree 2 n - 1, so few points do where the gradient has few kinks."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


def graded_midpoint(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Midpoints of intervals that grow from 0 on.

    A network of rectifiers has a gradient with jumps, and most of them near 0, where its biases decide: so a rule that
    looks there most often does better than one for smooth functions. `python -m benchmarks.accuracy` compares them.
    """
    ends = (np.arange(steps + 1) / steps) ** GRADING
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)


RULES: dict[str, Rule] = {
    "graded-midpoint": graded_midpoint,
    "gauss-legendre": gauss_legendre,
    "midpoint": midpoint,
    "riemann": riemann,
}


def quadrature(rule: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n,) in [0, 1] and weights (n,) that sum to 1."""
    if rule not in RULES:
        raise OptionError(f"quadrature {rule!r} is not known; there are {', '.join(RULES)}")
    check_count("steps", steps)
    return RULES[rule](int(steps))
