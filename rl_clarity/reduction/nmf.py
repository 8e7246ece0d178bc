"""Reduce channels by non-negative matrix factorization (Olah et al., The Building Blocks of Interpretability, 2018).

Attribution is split into its positive and its negative part, both non-negative. Each part is factorized, X ~ W H, where
the rows of X are positions, and the K components H are fitted once per layer. H are the features, and W their
strengths.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_arguments
from rl_clarity.base.threads import in_threads, single_threaded
from rl_clarity.reduction.methods import REDUCTIONS

FIT_ROWS = 20_000
"""Number of rows used for fitting. The reconstruction error is the same as with 200,000 rows, which take 20 times as
long."""
BLOCK = 2**14
"""Number of rows that are solved together. A block occupies all threads, and its arrays fit into the cache of a
core."""
MAX_SWEEPS = 200
CHECK_EVERY = 4
TOLERANCE = 1e-5

_warnings_lock = threading.Lock()
"""A lock, because all threads share the filters of warnings."""


class ChannelReduction:
    """K non-negative components of a layer's c channels.

    Args:
        components: H (K, c)
    """

    @check_arguments
    def __init__(self, components: np.ndarray) -> None:
        components = np.asarray(components, np.float32)
        if components.ndim != 2 or not np.all(components >= 0):
            raise OptionError(f"components of shape {components.shape} must be (K, c), finite and not negative")
        self.components = components
        gram = components.astype(np.float64) @ components.T.astype(np.float64)
        squares = np.diag(gram)
        self._used = np.flatnonzero(squares > 0)  # zero components get zero weights
        # Start from unconstrained least squares, slightly damped because components may be similar.
        damped = gram + 1e-6 * max(np.trace(gram), 1e-30) * np.eye(len(gram))
        # Products with components, and their changes by a weight, are relative to the component's square.
        units = np.where(squares > 0, squares, 1)
        self._start = (np.linalg.inv(damped) * units).astype(np.float32)
        self._scaled_components = (components / units[:, None]).astype(np.float32)
        self._coupling = (gram / units[:, None] * (1 - np.eye(len(gram)))).astype(np.float32)

    @classmethod
    def fit(
        cls,
        attribution: np.ndarray,
        features: int = 8,
        seed: int = 0,
        *,
        max_rows: int | None = FIT_ROWS,
        random_start: bool = False,
        method: str = "nmf",
    ) -> ChannelReduction:
        """Fit a reduction to attribution (..., c) of many observations; `max_rows=None` uses all positions.

        Rows are sampled with probability proportional to their squared norm and scaled to equal weight, which keeps the
        expected squared error (Frieze, Kannan and Vempala, 2004). Components are ordered by their total attribution.
        There are at most c components. If all attribution is 0, so are the components. The factorization starts from
        singular vectors, or with `random_start` from random numbers. `method` is "nmf", or any other reduction in
        `REDUCTIONS` that gives non-negative components for non-negative rows.

        Raises OptionError for invalid numbers of features or rows, for attribution that is not finite, and for a method
        that is unknown or has negative components.
        """
        for name, count in (("nmf_features", features), ("max_rows", 1 if max_rows is None else max_rows)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise OptionError(f"{name}={count!r} must be a positive integer")
        check_reduction("method", method)
        rows = _rows(attribution)
        features = min(features, rows.shape[1])
        sample = _sample_rows(rows, max_rows, np.random.default_rng(seed))
        if len(sample) == 0:
            return cls(np.zeros((features, rows.shape[1])))
        if method != "nmf":
            return cls(REDUCTIONS.get(method).fit(sample.astype(np.float64), features, seed).vectors)
        return cls(_factorize(sample, features, seed, random_start))

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Return the non-negative W (..., K) that minimizes the squared error of W H to the non-negative x (..., c).

        Raises OptionError for a wrong number of channels.
        """
        rows, positions = self._to_rows(x), np.shape(x)[:-1]
        weights = np.empty((len(rows), len(self.components)), np.float32)

        def fill(part: slice) -> None:
            weights[part] = self._solve(rows[part])

        in_threads(fill, _blocks(len(rows)))
        return weights.reshape(*positions, len(self.components))

    def inverse_transform(self, w: np.ndarray) -> np.ndarray:
        """Return W H (..., c) for W (..., K). Raises OptionError for a wrong number of features."""
        w = np.asarray(w, np.float32)
        if w.shape[-1:] != (len(self.components),):
            raise OptionError(
                f"weights have shape {w.shape}; expected (..., K) with K = {len(self.components)} features"
            )
        return w @ self.components

    def signed_transform(self, attribution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return reduced channels (..., K) in units of attribution, and the residual (..., 1).

        A feature's weight is its weight for the positive part of the attribution minus its weight for the negative
        part. Its reduced channel is this weight times the sum of its component. The residual is the attribution minus
        its reconstruction, summed over channels. Raises OptionError for a wrong number of layer channels.
        """
        rows, positions = self._to_rows(attribution), np.shape(attribution)[:-1]
        channels = np.empty((len(rows), len(self.components)), np.float32)
        residual = np.empty((len(rows), 1), np.float32)
        units = self.components.sum(axis=1)

        def fill(part: slice) -> None:
            x = rows[part]
            weights = self._solve(np.maximum(x, 0)) - self._solve(np.maximum(-x, 0))
            np.multiply(weights, units, out=channels[part])
            # np.einsum sums over a short last axis in a fifth of the time of np.sum.
            residual[part, 0] = np.einsum("nc->n", x) - np.einsum("nk->n", channels[part])

        in_threads(fill, _blocks(len(rows)))
        return channels.reshape(*positions, -1), residual.reshape(*positions, 1)

    def reconstruction_error(self, attribution: np.ndarray) -> float:
        """Return the norm of X - W H relative to that of X (..., c), over the positive and the negative part.

        Raises OptionError for a wrong number of channels.
        """
        return self.reconstruction_errors(attribution)[0]

    def reconstruction_errors(self, attribution: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the reconstruction error, and the error (K,) at the positions where each feature is the strongest.

        The latter is NaN for a feature that is never the strongest. Raises OptionError for a wrong number of channels.
        """
        rows, count = self._to_rows(attribution), len(self.components)
        norms = np.linalg.norm(self.components, axis=1)

        def sums(part: slice) -> np.ndarray:
            total = np.zeros((count + 1, 2))
            for x in (np.maximum(rows[part], 0), np.maximum(-rows[part], 0)):
                weights = self._solve(x)
                parts = weights * norms
                largest = np.where(parts.any(axis=1), parts.argmax(axis=1), count)
                for column, values in enumerate((x - weights @ self.components, x)):
                    squares = np.einsum("nc,nc->n", values, values, dtype=np.float64)
                    total[:, column] += np.bincount(largest, squares, count + 1)
            return total

        squared = np.sum(in_threads(sums, _blocks(len(rows))), axis=0) if len(rows) else np.zeros((count + 1, 2))
        error, total = squared.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_feature = np.sqrt(squared[:count, 0] / squared[:count, 1])
        return float(np.sqrt(error / total)) if total else 0.0, by_feature

    def coverage(self, attribution: np.ndarray) -> float:
        """Return the share of the attribution (..., c) that the features cover, from 0 to 1.

        It is the sum of the features' magnitudes at all positions, relative to that of features and residual together;
        0 if all attribution is 0.
        """
        channels, residual = self.signed_transform(attribution)
        covered, left = (float(np.abs(values).sum(dtype=np.float64)) for values in (channels, residual))
        return covered / (covered + left) if covered else 0.0

    def with_next_component(self, attribution: np.ndarray) -> ChannelReduction:
        """Return a reduction with one more component, which reconstructs as much as possible of the remaining
        attribution (..., c).

        The other components do not change, so fitting all components anew would be at least as good.
        """
        rows = self._to_rows(attribution)
        parts = (np.maximum(rows, 0), np.maximum(-rows, 0))
        left = np.concatenate([np.maximum(x - self._solve(x) @ self.components, 0) for x in parts]).astype(np.float64)
        gram = np.einsum("nc,nd->cd", left, left)  # its leading eigenvector has no negative entries
        component = np.abs(np.linalg.eigh(gram)[1][:, -1])
        return ChannelReduction(np.concatenate([self.components, component[None].astype(np.float32)]))

    def _to_rows(self, x: np.ndarray) -> np.ndarray:
        """Return an array (..., c) as rows (n, c)."""
        channels = self.components.shape[1]
        if np.shape(x)[-1:] != (channels,):
            raise OptionError(
                f"the array has shape {np.shape(x)}; expected (..., c) with the c = {channels} channels of the layer "
                "that the reduction was fitted to"
            )
        return _rows(x)

    def _solve(self, rows: np.ndarray) -> np.ndarray:
        """Return w >= 0 (n, K) that minimizes ||x - w H||^2, by coordinate descent on rows that have not converged."""
        target = self._scaled_components @ rows.T  # (K, n)
        weights = np.maximum(self._start @ target, 0)
        solution, active = weights, np.arange(len(rows))
        tolerance = TOLERANCE * weights.max(axis=0, initial=0)
        for _ in range(0, MAX_SWEEPS, CHECK_EVERY):
            self._sweep(weights, target, CHECK_EVERY - 1)
            before = weights.copy()
            self._sweep(weights, target, 1)
            moving = np.abs(np.subtract(weights, before, out=before), out=before).max(axis=0, initial=0) > tolerance
            if weights is not solution:
                solution[:, active] = weights
            if not moving.any():
                break
            active, tolerance = active[moving], tolerance[moving]
            target, weights = target[:, moving], weights[:, moving]
        return solution.T

    def _sweep(self, weights: np.ndarray, target: np.ndarray, times: int) -> None:
        """Minimize over one weight after another, in place in `weights` (K, n): new arrays would take 50 % more
        time.
        """
        best = np.empty(weights.shape[1], np.float32)
        for _ in range(times):
            for k in self._used:
                np.matmul(self._coupling[k], weights, out=best)
                np.subtract(target[k], best, out=best)
                np.maximum(best, 0, out=weights[k])


def check_reduction(option: str, method: str) -> None:
    """Raise OptionError unless `method` is the name of a reduction with non-negative components."""
    if not REDUCTIONS.get(method).non_negative:
        raise OptionError(
            f"{option}={method!r} can have negative components, but features need non-negative ones, as with nmf"
        )


def _rows(array: np.ndarray) -> np.ndarray:
    """Return an array (..., c) as rows (n, c) float32."""
    array = np.asarray(array, np.float32)
    if array.ndim == 0:
        raise OptionError(f"{array!r} must be an array (..., c) whose last axis is the channels of a layer")
    return array.reshape(-1, array.shape[-1])


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, rows, BLOCK))


def _sample_rows(rows: np.ndarray, count: int | None, rng: np.random.Generator) -> np.ndarray:
    """Sample rows of the positive and negative part of `rows` (n, c) for `fit`, without storing both parts."""
    squares: np.ndarray = np.empty((2, len(rows)))
    for part in _blocks(len(rows)):
        for sign, x in enumerate((np.maximum(rows[part], 0), np.maximum(-rows[part], 0))):
            squares[sign, part] = np.einsum("nc,nc->n", x, x, dtype=np.float64)
    squares = squares.ravel()
    if not np.isfinite(squares).all():
        raise OptionError("the attribution has NaN or infinite values, so features cannot be fitted to it")
    sampled = count is not None and np.count_nonzero(squares) > count
    if sampled:  # equivalent to Generator.choice, in a fifth of the memory
        cumulative = np.cumsum(squares)
        chosen = cumulative.searchsorted(rng.random(count) * cumulative[-1], side="right")
    else:
        chosen = np.flatnonzero(squares)
    signs = np.where(chosen < len(rows), 1, -1).astype(np.float32)
    sample = np.maximum(rows[chosen % len(rows)] * signs[:, None], 0)
    return (sample / np.sqrt(squares[chosen])[:, None]).astype(np.float32) if sampled else sample


def _factorize(rows: np.ndarray, features: int, seed: int, random_start: bool) -> np.ndarray:
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    init = "nndsvda" if features < min(rows.shape) and not random_start else "random"
    model = NMF(features, init=init, solver="cd", random_state=seed, max_iter=400, tol=1e-5)
    scale = float(rows.max())  # the solver's tolerance assumes values around 1
    # One thread, because the order of sums changes the components.
    with single_threaded, _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = model.fit_transform(rows / scale)
    totals = weights.sum(axis=0) * model.components_.sum(axis=1)
    return np.asarray(model.components_[np.argsort(-totals, kind="stable")], np.float32)
