"""The registry of reductions, which reduce recurrent states to directions, and a layer's channels to features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl_clarity.base.registry import Registry

if TYPE_CHECKING:
    from rl_clarity.reduction.directions import Directions


@dataclass(frozen=True)
class Reduction:
    """A method that describes the rows of a matrix by a few directions."""

    label: str
    """Label of the method's directions on pages, such as `PCA`."""
    fit: Callable[[Any, Any, int], Directions]
    """A function that fits directions. Its arguments are rows (N, H) float64, the number of directions, and a seed.

    The number may be a share of the variance, below 1, if the reduction has `shares`.
    """
    non_negative: bool = False
    """Whether directions have no negative values if the rows have none. Features of layers require this."""
    shares: bool = False


REDUCTIONS: Registry[Reduction] = Registry(
    "rl_clarity.reductions",
    {
        name: f"rl_clarity.reduction.directions:{name.upper()}"
        for name in ("pca", "ica", "nmf", "nmf_positive", "units")
    },
    noun="reduction",
)
"""Reductions by name. `REDUCTIONS.register` and entry points add reductions."""
