"""Decoded arrays of a page, which `Results` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import ClarityError
from rl_clarity.base.renamed import RenamedAttribute


@dataclass(frozen=True)
class ReducedAttribution:
    """Attribution of n frames to the K reduced channels of a layer, not normalized, with the precision of the page."""

    channels: np.ndarray  # (n, h, w, K) float32
    residual: np.ndarray | None  # (n, h, w, 1) float32; None for the input layer
    scale: float
    """The value that the page shows at full brightness."""
    hues: np.ndarray  # (K, 3) float32


@dataclass(frozen=True)
class Totals:
    """Attribution summed over positions, and terms of the decomposition of the output s, along T steps.

    s(a) is the output at the activations a of the layer, and s(0) is the output at the baseline.
    """

    # (T, K + 1, 2) float32: sums of positive and of negative values of K channels; the residual last, if there is one
    totals: np.ndarray
    completeness: np.ndarray | None  # (T, 3) float32: sum of the unreduced attribution, s(a) - s(0), s(a)
    memory: np.ndarray | None = None  # (T,) float32: s(0) minus s(0) in the initial state; None without a state

    gap = RenamedAttribute("completeness")


@dataclass(frozen=True)
class StateMap:
    """A map of n steps of all trajectories by their states or activations."""

    positions: np.ndarray  # (n, 2) or (n, 3) float32
    trajectories: np.ndarray  # (n,) int32, counted from 0
    frames: np.ndarray  # (n,) int32, counted from 0
    colors: dict[str, np.ndarray]
    """Values (n,) that can color the points: `value`, `action`, `time`, ..."""
    source: str
    """`state` if recurrent states are mapped, or the name of the layer."""
    perplexity: float | None
    """Perplexity of t-SNE, or None for other methods."""


@dataclass(frozen=True)
class SaliencyMaps:
    """Saliency maps of m frames of a trajectory, with the precision of the page."""

    steps: np.ndarray  # (m,) int32: steps, counted from 0
    values: np.ndarray  # (m, gh, gw) float32: values of cells; zeros for a map that is constant
    totals: np.ndarray  # (m,) float32: sums of the maps before they were stored
    rows: np.ndarray  # (gh,): positions of the cells' centers, as shares of the height of the frames
    columns: np.ndarray  # (gw,): positions as shares of the width


@dataclass(frozen=True)
class Window:
    """The explanation of the last step of a window of n steps of a trajectory, with the precision of the page."""

    trajectory: int
    frames: range
    """Steps of the trajectory, counted from 0."""
    targets: tuple[str, ...]
    """Ids of the G targets: `value`, `action`, `direction-3`."""
    maps: dict[str, np.ndarray]
    """Contributions (G, n, h, w) float32 of each cell of each frame to the targets, by path: `memory` and `whole`."""
    components: dict[str, np.ndarray]
    """Contributions (G, n, D) float32 through each of D directions of the state before each step, by path."""
    partner: int | None = None
    """The trajectory whose frames at the same steps are the baseline of the maps; None if it is the mean frame."""


@dataclass(frozen=True)
class Segment:
    """The chunk of a trajectory's segment. Its arrays have an entry for each step."""

    name: str
    arrays: Mapping[str, np.ndarray]

    def entry(self, array: str, index: int) -> np.ndarray:
        try:
            value: np.ndarray = self.arrays[array][index]
        except (KeyError, IndexError):
            raise ClarityError(f"chunk {self.name} is damaged: {array} has no entry {index}") from None
        return value
