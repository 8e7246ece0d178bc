"""Dataset examples: the observations that a feature responds to most.

This follows Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020). A feature is a reduced channel or a
channel of the layer, and is represented by its activations (M, h, w) on M observations. `Examples` contains the
selection as numbers, from which the page draws it; `patches` draws it as images.

Lucid's rule keeps an observation from being used too often. In round i = 1, 2, ..., if an observation is used in more
than `limit` cells, the weakest of its cells beyond the limit switch to their (i + 1)-th best observation, until nothing
changes. Ties are broken by index, so that the result does not depend on the machine's sorting algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import OptionError

NONE = -1
"""Observation index of an empty cell."""
Values = Callable[[np.ndarray], np.ndarray]
"""A function that returns the values (n, options) float32 of every option, such as an observation, at cells (n,)."""

_FIRST_DEPTH, _DEPTH_FACTOR = 8, 4
_MAX_VALUES = 1 << 20


@dataclass(frozen=True)
class Examples:
    """A grid of patches of observations, each centered where the feature is strong."""

    indices: np.ndarray  # (rows, columns) int32: index of the observation, or NONE
    strengths: np.ndarray  # (rows, columns) float32: activation at the patch's center
    centers: np.ndarray  # (rows, columns, 2) float32: row and column; layer position i extends from i to i + 1


def dataset_grid(activations: np.ndarray, subdiv_mult: float = 1.0, top_fraction: float = 0.1) -> Examples:
    """Return, for each cell of a grid over the layer, the observation with the highest activation (M, h, w) there.

    The grid is `subdiv_mult` times as fine as the layer; activations are interpolated linearly. An observation is used
    in at most `ceil(cells / (M * top_fraction))` cells.
    """
    return dataset_grids(activations, [subdiv_mult], top_fraction)[0]


def dataset_grids(activations: np.ndarray, subdiv_mults: Sequence[float], top_fraction: float = 0.1) -> list[Examples]:
    """Return the grids of `dataset_grid` for several values of `subdiv_mult`. This is faster than separate calls."""
    padded = _pad(_check(activations))
    return [_grid(_Surface(padded, subdiv_mult), top_fraction) for subdiv_mult in subdiv_mults]


def _grid(surface: _Surface, top_fraction: float) -> Examples:
    choices, strengths = surface.strongest()
    limit = math.ceil(surface.cells / (surface.observations * top_fraction))
    choices, strengths = limit_repeats(choices, strengths, surface.values, surface.observations, limit)
    return Examples(
        choices.reshape(surface.shape).astype(np.int32), strengths.reshape(surface.shape), surface.centers()
    )


def grid_shape(layer: tuple[int, int], subdiv_mult: float) -> tuple[int, int]:
    """Return the numbers of rows and columns of `dataset_grid` for a layer of (h, w) positions."""
    height, width = (len(_zoomed_positions(size, subdiv_mult)) for size in layer)
    return height, width


def thumbnail(activations: np.ndarray, num_mult: int = 4) -> Examples:
    """Return the `num_mult`^2 observations with the strongest activations (M, h, w), each at its strongest position.

    At most `num_mult` observations share a position; they are arranged roughly by position.
    """
    observations, height, width = _check(activations).shape
    flat = np.ascontiguousarray(activations, np.float32).reshape(observations, height * width)
    strongest = flat.max(axis=1)
    order = np.argsort(-strongest, kind="stable")
    count = 4 * num_mult**2
    while True:
        # Weak observations never displace stronger ones: the strongest have the same positions without the weakest.
        part, others = np.sort(order[:count]), order[count:]
        choices, strengths = limit_repeats(
            flat[part].argmax(axis=1), strongest[part], _values_of(flat, part), height * width, num_mult
        )
        best = np.argsort(-strengths, kind="stable")[: num_mult**2]
        if not len(others) or strengths[best[-1]] > strongest[others[0]]:
            break
        count *= 4
    best = best[np.argsort(choices[best], kind="stable")]  # by row, then column
    for start in range(0, len(best), num_mult):
        row = best[start : start + num_mult]
        best[start : start + num_mult] = row[np.argsort(choices[row] % width, kind="stable")]
    return _arrange(part[best], strengths[best], choices[best], width, num_mult)


def _values_of(activations: np.ndarray, part: np.ndarray) -> Values:
    """Return a function that maps cells (n,), which are indices into `part`, to the activations (n, positions) of these
    observations.
    """
    return lambda cells: np.asarray(activations[part[cells]])


def _arrange(
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


def _check(activations: np.ndarray) -> np.ndarray:
    if np.ndim(activations) != 3 or 0 in np.shape(activations):
        raise OptionError(f"activations of a feature have shape {np.shape(activations)}; expected (M, h, w)")
    return np.asarray(activations)


def _pad(activations: np.ndarray) -> np.ndarray:
    """Return edge-padded activations (h + 2, w + 2, M) float32. Those at a position are contiguous in memory."""
    observations, height, width = activations.shape
    padded = np.empty((height + 2, width + 2, observations), np.float32)
    padded[1:-1, 1:-1] = activations.transpose(1, 2, 0)
    padded[0], padded[-1] = padded[1], padded[-2]
    padded[:, 0], padded[:, -1] = padded[:, 1], padded[:, -2]
    return padded


class _Surface:
    """Activations of all observations at the cells of a finer or coarser grid, computed for some cells at a time."""

    def __init__(self, padded: np.ndarray, subdiv_mult: float) -> None:
        height, width, self.observations = padded.shape
        self._padded = padded
        self._rows = _zoomed_positions(height - 2, subdiv_mult)
        self._columns = _zoomed_positions(width - 2, subdiv_mult)
        self.shape = (len(self._rows), len(self._columns))
        self.cells = self.shape[0] * self.shape[1]

    def centers(self) -> np.ndarray:
        """Return the centers (rows, columns, 2) float32 of the cells in layer positions."""
        # Padded position p is layer position p - 1, whose center is at p - 1/2.
        grid = np.meshgrid(self._rows - 0.5, self._columns - 0.5, indexing="ij")
        return np.stack(grid, axis=-1).astype(np.float32)

    def strongest(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the observation (cells,) with the highest activation at each cell, and that activation."""
        left, right = _weights(self._columns)
        columns = self._columns.astype(int)
        choices, strengths = np.empty(self.shape, np.int64), np.empty(self.shape, np.float32)
        for index, position in enumerate(self._rows):
            row = self._row(position)
            values = row[columns] * left + row[columns + 1] * right  # (columns, M)
            choices[index] = values.argmax(axis=1)
            strengths[index] = values[np.arange(len(columns)), choices[index]]
        return choices.ravel(), strengths.ravel()

    def values(self, cells: np.ndarray) -> np.ndarray:
        """Return activations (n, M) of every observation at cells (n,), bit-identical to those in `strongest`."""
        rows, columns = np.divmod(cells, self.shape[1])
        above, below = _weights(self._rows[rows])
        left, right = _weights(self._columns[columns])
        row, column = self._rows[rows].astype(int), self._columns[columns].astype(int)
        padded = self._padded
        first = padded[row, column] * above + padded[row + 1, column] * below
        second = padded[row, column + 1] * above + padded[row + 1, column + 1] * below
        return np.asarray(first * left + second * right)

    def _row(self, position: float) -> np.ndarray:
        above, below = _weights(np.array([position]))
        start = int(position)
        return np.asarray(self._padded[start] * above + self._padded[start + 1] * below)  # (w + 2, M)


def _zoomed_positions(size: int, subdiv_mult: float) -> np.ndarray:
    """Return the positions (cells,), in the padded layer, of the cells of a grid along one axis.

    The grid is the padded layer, zoomed with aligned corners, without its border.
    """
    cells = max(1, round(subdiv_mult * (size + 1) + 1) - 2)
    return np.arange(1, cells + 1) * (size + 1) / (cells + 1)


def _weights(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (n, 1) float32 of the next lower and the next higher position for linear interpolation."""
    upper = (positions - np.floor(positions)).astype(np.float32)[:, None]
    return 1 - upper, upper


def limit_repeats(
    choices: np.ndarray, strengths: np.ndarray, values: Values, options: int, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return choices (cells,) and their strengths, so that each option is chosen at most `limit` times, if possible.

    `choices` and `strengths` (cells,) are the best option of each cell and its value.
    """
    choices, strengths = choices.copy(), strengths.copy()
    ranking = _Ranking(len(choices), options, values)
    for rank in range(1, options):
        moved = _cells_to_move(choices, strengths, limit, options)
        if len(moved) == 0:
            break
        choices[moved], strengths[moved] = ranking.at(moved, rank)
    return choices, strengths


def _cells_to_move(choices: np.ndarray, strengths: np.ndarray, limit: int, options: int) -> np.ndarray:
    """Return the cells that must choose another option: the weakest cells of each option beyond the limit."""
    excess = np.maximum(np.bincount(choices, minlength=options) - limit, 0)
    crowded = np.flatnonzero(excess[choices])
    order = crowded[np.lexsort((strengths[crowded], choices[crowded]))]
    group = choices[order]
    rank = np.arange(len(order)) - np.searchsorted(group, group)
    return order[rank < excess[group]]


class _Ranking:
    """The r-th best options of cells, computed on demand."""

    def __init__(self, cells: int, options: int, values: Values) -> None:
        self._values = values
        self._options = options
        self._depth = np.zeros(cells, int)
        self._order = np.zeros((cells, 0), np.int32)
        self._strength = np.zeros((cells, 0), np.float32)

    def at(self, cells: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
        unknown = cells[self._depth[cells] <= rank]
        if len(unknown):
            self._deepen(unknown, min(self._options, _depth_beyond(rank)))
        return self._order[cells, rank], self._strength[cells, rank]

    def _deepen(self, cells: np.ndarray, depth: int) -> None:
        missing = depth - self._order.shape[1]
        if missing > 0:
            self._order = np.pad(self._order, ((0, 0), (0, missing)))
            self._strength = np.pad(self._strength, ((0, 0), (0, missing)))
        chunk = max(1, _MAX_VALUES // self._options)
        for start in range(0, len(cells), chunk):
            part = cells[start : start + chunk]
            values = self._values(part)
            order = _best(values, depth)
            self._order[part, :depth] = order
            self._strength[part, :depth] = np.take_along_axis(values, order, axis=1)
        self._depth[cells] = depth


def _depth_beyond(rank: int) -> int:
    depth = _FIRST_DEPTH
    while depth <= rank:
        depth *= _DEPTH_FACTOR
    return depth


def _best(values: np.ndarray, count: int) -> np.ndarray:
    """Return indices (n, count) of the largest values (n, options), largest first, ties by index."""
    n, options = values.shape
    if count >= options:
        return np.argsort(-values, axis=1, kind="stable")
    last = np.partition(values, options - count, axis=1)[:, options - count, None]
    chosen, tied = values > last, values == last
    short = count - chosen.sum(axis=1, keepdims=True)
    chosen |= tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= short)
    indices = np.nonzero(chosen)[1].reshape(n, count)
    order = np.argsort(-np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1)
