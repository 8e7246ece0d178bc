"""`BatchedTail` evaluates the network from a site to the scores with compiled functions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rl_clarity.agents.actions import Factor
from rl_clarity.agents.differentiation import Backend, Function, GradientStep
from rl_clarity.agents.linear_prefix import LinearPrefix
from rl_clarity.agents.protocol import Score, Site, Tensor
from rl_clarity.agents.scores import (
    SMALLEST_BATCH,
    SMALLEST_GRADIENT_BATCH,
    pad,
    padded_size,
    rows_of_score,
    select_scores,
)
from rl_clarity.base.errors import SamplesError

GRADIENT_BYTES = 2**27
"""Largest total size in bytes of the values of all sites, for a batch that combines several points on integration
paths."""


def gradient_rows(sites: Sequence[Site], most: int) -> int:
    """Return the largest number of rows, at most `most`, of a batch that combines several points on integration
    paths.
    """
    row = 4 * sum(math.prod(site.shape) for site in sites)
    return min(most, max(GRADIENT_BYTES // row, SMALLEST_GRADIENT_BATCH))


class BatchedTail:
    """The protocol `Tail`, implemented with compiled functions. Results have no padding, and sums of gradients stay on
    the device.

    `linear_prefix(True)` returns the `LinearPrefix` for paths that begin at 0, and `linear_prefix(False)` the one for
    other paths. Both return None if there is no prefix.
    """

    def __init__(
        self,
        functions: tuple[Function, GradientStep],
        linear_prefix: Callable[[bool], LinearPrefix | None],
        backend: Backend,
        rows: slice,
        values: Tensor,
        bypass: Sequence[Tensor],
        divisor: np.float32 | None,
        scores: Sequence[Score],
        heads: Mapping[str, int],
        at_zero: dict[str, np.ndarray],
        actions: Sequence[Factor],
        repeats: bool,
        gradient_rows: int,
    ) -> None:
        self._compute, self._step = functions
        self._linear_prefix = linear_prefix
        self._backend = backend
        self.rows = rows
        self._count = rows.stop - rows.start
        self._values, self._bypass = values, bypass
        self._divisor = divisor  # the network's divisor if the site is the input, else None
        self._at_zero = at_zero  # shared by all batches
        self._repeats = repeats
        self._gradient_rows = gradient_rows  # largest batch if the backend takes any number of rows
        self._prefix_results: dict[bool, Tensor] = {}  # at the observations, by whether paths begin at 0
        self._at_observations: np.ndarray | None = None
        size = len(values)
        scores = [rows_of_score(score, rows, size) for score in scores]
        self._selection = select_scores(scores, heads, size, lambda: self._results_at(self._values, 1.0), actions)

    @property
    def values(self) -> np.ndarray:
        values = self._backend.array(self._values)[: self._count]
        return values if self._divisor in (None, 255) else values * self._divisor / np.float32(255)

    def select(self, scores: np.ndarray, rows: np.ndarray) -> BatchedTail | None:
        """Return a tail for the scores and observations with these indices, which reuses results that were already
        computed. Return None if rows of a batch cannot be repeated.
        """
        if not self._repeats:
            return None
        part = copy.copy(self)
        part.rows, part._count = slice(0, len(rows)), len(rows)
        index = pad(rows, padded_size(len(rows), len(self._values), self._smallest))
        part._values, *part._bypass = (self._backend.take(one, index) for one in (self._values, *self._bypass))
        part._prefix_results = {key: self._backend.take(one, index) for key, one in self._prefix_results.items()}
        part._selection = self._selection[index][:, scores]
        part._at_observations = None if self._at_observations is None else self._at_observations[index]
        return part

    def scores(self, values: np.ndarray | None = None, *, scale: float = 1.0) -> np.ndarray:
        if values is not None and self._is_one_row(values):
            few = self._backend.array(self._compute(self._few_rows(values[:1] * np.float32(scale))))[:1]
            results = np.broadcast_to(few, (len(self._values), few.shape[1]))
        else:
            results = self._results_at(self._to_network(values), scale)
        return np.einsum("bsn,bn->sb", self._selection, results)[:, : self._count]

    def gradients(self, values: np.ndarray | None = None) -> np.ndarray:
        point = self._to_network(values)
        return self._array(self._sum_gradients(self._step, np.float32(0), point, [1], [1], self._bypass))

    def path_gradients(
        self, points: Sequence[float], weights: Sequence[float], baseline: np.ndarray | None = None
    ) -> np.ndarray:
        start = np.float32(0) if baseline is None else self._baseline(baseline)
        values = self._values if baseline is None else self._values - start
        return self._array(self._sum_gradients(self._step, start, values, points, weights, self._bypass))

    def linear_path_gradients(
        self, points: Sequence[float], weights: Sequence[float], baseline: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the same gradients as `path_gradients` up to rounding, but compute the linear prefix once instead of
        at each point.

        L2 pooling counts as linear along a path from 0; the small constant under its square root is neglected.
        """
        prefix = self._linear_prefix(baseline is None)
        if prefix is None:
            return self.path_gradients(points, weights, baseline)
        compute, step = prefix.functions
        if baseline is None:
            first = self._prefix_at_zero(prefix)
        elif len(baseline) == 1 and not self._bypass:
            first = prefix.results(self._few_rows(baseline))[:1]
        else:
            first = prefix.results(self._baseline(baseline), *self._bypass)
        if (baseline is None) not in self._prefix_results:
            self._prefix_results[baseline is None] = prefix.results(self._values, *self._bypass)
        last = self._prefix_results[baseline is None]
        bypass = (self._values, *self._bypass) if prefix.takes_values else self._bypass
        if self._at_observations is None:
            self._at_observations = self._backend.array(compute(last, *bypass))
        total = self._sum_gradients(step, first, last - first, points, weights, bypass)
        given = (self._values, *self._bypass)
        if self._takes_any_rows and (size := self._smallest) > len(self._values):
            given = tuple(self._backend.take(tensors, np.arange(size) % max(self._count, 1)) for tensors in given)
        return self._array(prefix.pull_back(given[0], total, *given[1:]))

    def _is_one_row(self, values: np.ndarray) -> bool:
        """Return whether values (n, ...) are a broadcast view of one row, so that all rows have the same results."""
        repeats = np.shape(values) == (self._count, *self._values.shape[1:]) and values.strides[0] == 0
        return repeats and not self._bypass

    def _few_rows(self, values: np.ndarray) -> Tensor:
        """Return one row (1, ...), repeated to the smallest batch size."""
        return self._backend.tensor(self._in_network_unit(pad(np.asarray(values, np.float32), SMALLEST_BATCH)))

    def _baseline(self, baseline: np.ndarray) -> Tensor:
        padded = pad(np.asarray(baseline, np.float32), len(self._values))
        return self._backend.tensor(self._in_network_unit(padded))

    def _prefix_at_zero(self, prefix: LinearPrefix) -> Tensor:
        """Return the results (1, ...) of the prefix at 0, where paths without a baseline begin. They are the same for
        all observations.
        """
        if "prefix" not in self._at_zero:
            zeros = (self._values if self._bypass else self._values[:SMALLEST_BATCH]) * 0
            results = prefix.results(zeros, *self._bypass)
            self._at_zero["prefix"] = self._backend.array(results)[:1]
            if not self._bypass:
                tensors = (results, zeros) if prefix.takes_values else (results,)
                self._at_zero["heads"] = self._backend.array(prefix.functions[0](*tensors))[:1]
        return self._backend.tensor(self._at_zero["prefix"])

    def _sum_gradients(
        self,
        step: GradientStep,
        start: Tensor,
        values: Tensor,
        points: Sequence[float],
        weights: Sequence[float],
        bypass: Sequence[Tensor],
    ) -> Tensor:
        """Return the sum (S, n, ...) over points of weight x gradient at start + point x values. Padding rows may be
        left out.
        """
        size, count, scores = len(values), max(self._count, 1), self._selection.shape[1]
        scales, shares = (np.asarray(part, np.float32) for part in (points, weights))
        if not self._takes_any_rows and (count == size or not self._backend.shares_batches):
            total = self._backend.zeros(scores, values)
            for scale, share in zip(scales, shares, strict=True):
                total = step(total, start, values, scale, share, self._selection, *bypass)[0]
            return total
        total = self._backend.zeros(scores, values[:count])
        most = self._gradient_rows if self._takes_any_rows else size
        if self._takes_any_rows or not self._repeats:
            most = max(most // count, 1) * count  # whole points
        pairs = np.arange(len(scales) * count)  # all observations at the first point, then at the next ones
        for part in (pairs[i : i + most] for i in range(0, len(pairs), most)):
            rows = max(len(part), self._smallest) if self._takes_any_rows else size
            scale = np.resize(scales[part // count], (rows, *[1] * (values.ndim - 1)))
            owners, share = part % count, shares[part // count]
            total = step(total, start, values, scale, share, self._selection, *bypass, owners=owners)[0]
        return total

    @property
    def _takes_any_rows(self) -> bool:
        return self._repeats and self._backend.takes_any_rows

    @property
    def _smallest(self) -> int:
        """The smallest number of rows of a batch for gradients; smaller batches are padded."""
        return min(self._gradient_rows, SMALLEST_GRADIENT_BATCH)

    def _array(self, total: Tensor) -> np.ndarray:
        gradients = self._backend.array(total)[:, : self._count]
        return gradients if self._divisor is None else gradients * np.float32(255) / self._divisor

    def _results_at(self, values: Tensor, scale: float) -> np.ndarray:
        """Return the results (B, n) of the heads at scale x values. At a scale of 0 they are the same for all
        observations, unless tensors bypass the site.
        """
        if scale == 0 and not self._bypass:
            if "heads" not in self._at_zero:
                few = (
                    values[:SMALLEST_BATCH] * 0
                )  # for a batch of one row, the last bits would depend on the number of threads
                self._at_zero["heads"] = self._backend.array(self._compute(few))[:1]
            return np.broadcast_to(self._at_zero["heads"], (len(values), self._at_zero["heads"].shape[1]))
        if values is self._values and scale == 1:
            if self._at_observations is None:
                self._at_observations = self._backend.array(self._compute(values, *self._bypass))
            return self._at_observations
        return self._backend.array(self._compute(values if scale == 1 else values * float(scale), *self._bypass))

    def _to_network(self, values: np.ndarray | None) -> Tensor:
        if values is None:
            return self._values
        if np.shape(values) != (self._count, *self._values.shape[1:]):
            shape = (self._count, *map(int, self._values.shape[1:]))
            raise SamplesError(f"values have the shape {np.shape(values)}; those of the site have {shape}")
        return self._in_network_unit(pad(np.asarray(values, np.float32), len(self._values)))

    def _in_network_unit(self, array: np.ndarray) -> np.ndarray:
        return array if self._divisor in (None, 255) else array * np.float32(255) / self._divisor
