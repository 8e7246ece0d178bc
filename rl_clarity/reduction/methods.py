"""The registry of reductions: of recurrent states to directions, and of a layer's channels to features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl_clarity.base.registry import Registry

if TYPE_CHECKING:
    from rl_clarity.reduction.directions import Directions


@dataclass(frozen=True)
class Reduction:
    """A method that describes rows of numbers by a few directions."""

    label: str
    """Label of its directions on pages, such as `PCA`."""
    fit: Callable[[Any, Any, int], Directions]
    """A function of rows (N, H) float64, the number of directions, and a seed.

    The number may be a share of the variance, below 1, if the reduction has `shares`.
    """
    non_negative: bool = False
    """Whether rows without negative numbers give directions without negative numbers. Features of layers require
    this."""
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
