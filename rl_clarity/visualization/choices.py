"""Choosing the best option of each cell without using one option too often.

The rule is Lucid's (`rl_util`, dataset visualisation): in round i = 1, 2, ... the cells whose option is used more than
`limit` times take, weakest first, their (i + 1)-th best option, until a round changes nothing. Equally good options
rank by their index, so that the result does not depend on how a machine sorts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Values = Callable[[np.ndarray], np.ndarray]
"""Values (n, options) float32 of every option at the given cells (n,)."""

_FIRST_DEPTH, _DEEPER = 8, 4
_KEYS_AT_ONCE = 1 << 20


def limit_repeats(
    choices: np.ndarray, strengths: np.ndarray, values: Values, options: int, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choices (cells,) and their strengths, from the best ones, after repeats beyond `limit` are spread."""
    choices, strengths = choices.copy(), strengths.copy()
    ranking = _Ranking(len(choices), options, values)
    for rank in range(1, options):
        moved = _cells_to_move(choices, strengths, limit, options)
        if len(moved) == 0:
            break
        choices[moved], strengths[moved] = ranking.at(moved, rank)
    return choices, strengths


def _cells_to_move(choices: np.ndarray, strengths: np.ndarray, limit: int, options: int) -> np.ndarray:
    """Cells beyond the limit: of each option's cells the weakest, as many as it has too many."""
    excess = np.maximum(np.bincount(choices, minlength=options) - limit, 0)
    crowded = np.flatnonzero(excess[choices])
    order = crowded[np.lexsort((strengths[crowded], choices[crowded]))]
    group = choices[order]
    place = np.arange(len(order)) - np.searchsorted(group, group)
    return order[place < excess[group]]


class _Ranking:
    """The r-th best option of cells, found only as deep and for as many cells as asked for."""

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
        at_once = max(1, _KEYS_AT_ONCE // self._options)
        for start in range(0, len(cells), at_once):
            part = cells[start : start + at_once]
            values = self._values(part)
            order = _best(values, depth)
            self._order[part, :depth] = order
            self._strength[part, :depth] = np.take_along_axis(values, order, axis=1)
        self._depth[cells] = depth


def _depth_beyond(rank: int) -> int:
    depth = _FIRST_DEPTH
    while depth <= rank:
        depth *= _DEEPER
    return depth


def _best(values: np.ndarray, count: int) -> np.ndarray:
    """Indices (n, count) of the largest of values (n, options), largest first, ties by index."""
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
