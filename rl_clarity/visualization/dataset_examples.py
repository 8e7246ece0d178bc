"""Dataset examples: what the observations look like that a feature responds to most.

After Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020). A feature is one reduced channel, or one channel
of the layer itself: its activations (M, h, w) over M observations are all that is needed here. What is shown is decided
as numbers first (`Examples`), which the page draws by itself; `patches.draw_examples` makes pictures of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.visualization.choices import limit_repeats

NONE = -1
"""Observation index of a cell that shows nothing."""


@dataclass(frozen=True)
class Examples:
    """A grid of patches of observations, each around the place where the feature is strong."""

    indices: np.ndarray  # (rows, columns) int32: the observation shown, or NONE
    strengths: np.ndarray  # (rows, columns) float32: activation there
    centers: np.ndarray  # (rows, columns, 2) float32: row and column; layer position i reaches from i to i + 1


def dataset_grid(activations: np.ndarray, subdiv_mult: float = 1.0, top_fraction: float = 0.1) -> Examples:
    """At each cell of a grid over the layer, the observation whose activation (M, h, w) is highest there.

    The grid is `subdiv_mult` times as fine as the layer; between positions activations are interpolated linearly. An
    observation is used in at most `ceil(cells / (M * top_fraction))` cells.
    """
    return dataset_grids(activations, [subdiv_mult], top_fraction)[0]


def dataset_grids(activations: np.ndarray, subdiv_mults: Sequence[float], top_fraction: float = 0.1) -> list[Examples]:
    """`dataset_grid` at each of several densities, which costs less than one after the other."""
    padded = _padded(_checked(activations))
    return [_grid(_Surface(padded, subdiv_mult), top_fraction) for subdiv_mult in subdiv_mults]


def _grid(surface: _Surface, top_fraction: float) -> Examples:
    choices, strengths = surface.strongest()
    limit = math.ceil(surface.cells / (surface.observations * top_fraction))
    choices, strengths = limit_repeats(choices, strengths, surface.values, surface.observations, limit)
    return Examples(
        choices.reshape(surface.shape).astype(np.int32), strengths.reshape(surface.shape), surface.centers()
    )


def thumbnail(activations: np.ndarray, num_mult: int = 4) -> Examples:
    """The `num_mult` squared observations with the strongest activations (M, h, w), each once, at that position.

    A position is used by at most `num_mult` of the observations; they are laid out roughly as their positions are.
    """
    observations, height, width = _checked(activations).shape
    flat = np.ascontiguousarray(activations, np.float32).reshape(observations, height * width)
    choices = flat.argmax(axis=1)
    strengths = flat[np.arange(observations), choices]
    choices, strengths = limit_repeats(choices, strengths, flat.__getitem__, height * width, num_mult)
    best = np.argsort(-strengths, kind="stable")[: num_mult**2]
    best = best[np.argsort(choices[best], kind="stable")]  # by row, then column
    for start in range(0, len(best), num_mult):
        row = best[start : start + num_mult]
        best[start : start + num_mult] = row[np.argsort(choices[row] % width, kind="stable")]
    return _laid_out(best, strengths[best], choices[best], width, num_mult)


def _laid_out(
    observations: np.ndarray, strengths: np.ndarray, positions: np.ndarray, width: int, num_mult: int
) -> Examples:
    cells = np.arange(len(observations))
    shape = (num_mult, num_mult)
    indices = np.full(num_mult**2, NONE, np.int32)
    shown = np.zeros(num_mult**2, np.float32)
    centers = np.zeros((num_mult**2, 2), np.float32)
    indices[cells], shown[cells] = observations, strengths
    centers[cells] = np.stack(np.divmod(positions, width), axis=1) + 0.5
    return Examples(indices.reshape(shape), shown.reshape(shape), centers.reshape(*shape, 2))


def _checked(activations: np.ndarray) -> np.ndarray:
    if np.ndim(activations) != 3 or 0 in np.shape(activations):
        raise OptionError(f"activations of one feature must have the shape (M, h, w), not {np.shape(activations)}.")
    return np.asarray(activations)


def _padded(activations: np.ndarray) -> np.ndarray:
    """Activations (h + 2, w + 2, M) float32, edge-padded; observations last, a cell's candidates side by side."""
    observations, height, width = activations.shape
    padded = np.empty((height + 2, width + 2, observations), np.float32)
    padded[1:-1, 1:-1] = activations.transpose(1, 2, 0)
    padded[0], padded[-1] = padded[1], padded[-2]
    padded[:, 0], padded[:, -1] = padded[:, 1], padded[:, -2]
    return padded


class _Surface:
    """Activations of every observation, edge-padded, at the cells of a finer or coarser grid.

    The zoomed array is never made as a whole: a row of cells at a time, or a few cells.
    """

    def __init__(self, padded: np.ndarray, subdiv_mult: float) -> None:
        height, width, self.observations = padded.shape
        self._padded = padded
        self._rows = _zoomed_positions(height - 2, subdiv_mult)
        self._columns = _zoomed_positions(width - 2, subdiv_mult)
        self.shape = (len(self._rows), len(self._columns))
        self.cells = self.shape[0] * self.shape[1]

    def centers(self) -> np.ndarray:
        """Centres (rows, columns, 2) float32 of the cells in layer positions."""
        # Padded position p is layer position p - 1, whose centre lies at p - 1/2.
        grid = np.meshgrid(self._rows - 0.5, self._columns - 0.5, indexing="ij")
        return np.stack(grid, axis=-1).astype(np.float32)

    def strongest(self) -> tuple[np.ndarray, np.ndarray]:
        """Observation (cells,) with the highest activation at each cell, and that activation."""
        left, right = _shares(self._columns)
        columns = self._columns.astype(int)
        choices, strengths = np.empty(self.shape, np.int64), np.empty(self.shape, np.float32)
        for index, position in enumerate(self._rows):
            row = self._row(position)
            values = row[columns] * left + row[columns + 1] * right  # (columns, M)
            choices[index] = values.argmax(axis=1)
            strengths[index] = values[np.arange(len(columns)), choices[index]]
        return choices.ravel(), strengths.ravel()

    def values(self, cells: np.ndarray) -> np.ndarray:
        """Activations (n, M) of every observation at the cells (n,), bit for bit as `strongest` sees them."""
        rows, columns = np.divmod(cells, self.shape[1])
        above, below = _shares(self._rows[rows])
        left, right = _shares(self._columns[columns])
        row, column = self._rows[rows].astype(int), self._columns[columns].astype(int)
        padded = self._padded
        first = padded[row, column] * above + padded[row + 1, column] * below
        second = padded[row, column + 1] * above + padded[row + 1, column + 1] * below
        return np.asarray(first * left + second * right)

    def _row(self, position: float) -> np.ndarray:
        above, below = _shares(np.array([position]))
        start = int(position)
        return np.asarray(self._padded[start] * above + self._padded[start + 1] * below)  # (w + 2, M)


def _zoomed_positions(size: int, subdiv_mult: float) -> np.ndarray:
    """Positions (cells,) in the padded layer, of the zoomed padded layer (corners aligned) less its border."""
    cells = max(1, round(subdiv_mult * (size + 1) + 1) - 2)
    return np.arange(1, cells + 1) * (size + 1) / (cells + 1)


def _shares(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, 1) float32 of the positions below and above each of `positions` in linear interpolation."""
    upper = (positions - np.floor(positions)).astype(np.float32)[:, None]
    return 1 - upper, upper
