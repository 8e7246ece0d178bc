"""The network from a site to scores on compiled functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rl_clarity.agents.differentiation import Backend, Function, GradientStep
from rl_clarity.agents.protocol import Score, Tensor
from rl_clarity.agents.scores import SMALLEST_GRADIENT_BATCH, pad, rows_of_score, select_scores
from rl_clarity.errors import SamplesError


class BatchedTail:
    """The protocol `Tail` on compiled functions: padding is internal, sums of gradients stay on the device."""

    def __init__(
        self,
        functions: tuple[Function, GradientStep],
        backend: Backend,
        rows: slice,
        values: Tensor,
        bypass: Sequence[Tensor],
        divisor: np.float32 | None,
        scores: Sequence[Score],
        heads: Mapping[str, int],
        at_zero: list[np.ndarray],
    ) -> None:
        self._compute, self._step = functions
        self._backend = backend
        self.rows = rows
        self._count = rows.stop - rows.start
        self._values, self._bypass = values, bypass
        self._divisor = divisor  # of the input, None for other sites
        self._at_zero = at_zero  # shared by all batches
        self._at_observations: np.ndarray | None = None
        size = len(values)
        scores = [rows_of_score(score, rows, size) for score in scores]
        self._selection = select_scores(scores, heads, size, lambda: self._results_at(self._values, 1.0))

    @property
    def values(self) -> np.ndarray:
        values = self._backend.array(self._values)[: self._count]
        return values if self._divisor in (None, 255) else values * self._divisor / np.float32(255)

    def scores(self, values: np.ndarray | None = None, *, scale: float = 1.0) -> np.ndarray:
        results = self._results_at(self._to_network(values), scale)
        return np.einsum("bsn,bn->sb", self._selection, results)[:, : self._count]

    def gradients(self, values: np.ndarray | None = None) -> np.ndarray:
        point = self._to_network(values)
        total = self._backend.zeros(self._selection.shape[1], point)
        return self._array(self._add_gradients(total, point, 1, [1]))

    def path_gradients(
        self, points: Sequence[float], weights: Sequence[float], baseline: np.ndarray | None = None
    ) -> np.ndarray:
        values, size, scores = self._values, len(self._values), self._selection.shape[1]
        together = min(size // max(self._count, 1), len(points)) if self._backend.shares_batches else 1
        total = self._backend.zeros(scores, values if together == 1 else values[: self._count])
        start = None
        if baseline is not None:
            start = self._backend.tensor(self._in_network_unit(pad(np.asarray(baseline, np.float32), size)))
        for i in range(0, len(points), together):
            scale, weight = points[i : i + together], weights[i : i + together]
            if together > 1:  # rows of the batch that were only padded
                factors = np.resize(np.repeat(np.asarray(scale, np.float32), self._count), size)
                factor = self._backend.tensor(factors.reshape(-1, *[1] * (values.ndim - 1)))
            else:
                factor = float(scale[0])
            if start is not None:
                total = self._add_gradients(total, start + (values - start) * factor, 1, weight)
            elif together > 1:
                total = self._add_gradients(total, values * factor, 1, weight)
            else:
                total = self._add_gradients(total, values, scale[0], weight)
        return self._array(total)

    def _add_gradients(self, total: Tensor, point: Tensor, scale: float, weights: Sequence[float]) -> Tensor:
        weight = np.float32(weights[0]) if len(weights) == 1 else np.asarray(weights, np.float32)
        return self._step(total, point, np.float32(scale), weight, self._selection, *self._bypass)[0]

    def _array(self, total: Tensor) -> np.ndarray:
        gradients = self._backend.array(total)[:, : self._count]
        return gradients if self._divisor is None else gradients * np.float32(255) / self._divisor

    def _results_at(self, values: Tensor, scale: float) -> np.ndarray:
        """Results (B, n) of the heads; those at zero depend on nothing, unless tensors bypass the site."""
        if scale == 0 and not self._bypass:
            if not self._at_zero:
                few = values[:SMALLEST_GRADIENT_BATCH] * 0
                self._at_zero.append(self._backend.array(self._compute(few))[:1])
            return np.broadcast_to(self._at_zero[0], (len(values), self._at_zero[0].shape[1]))
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
