"""Channels reduced by non-negative matrix factorisation (The Building Blocks of Interpretability, Olah et al., 2018).

An attribution is split into its positive and its negative part, both non-negative; positions are rows, X ~ W H with K
components H, fitted once for a layer. H is what a feature is made of, W how strongly it is there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.threads import in_threads

FIT_ROWS = 20_000
"""Rows that a fit looks at: the reconstruction error of 200,000 is reached in a twentieth of the time."""
BLOCK = 2**14
"""Rows that are solved together: enough for threads to work beside each other, few enough for a core's cache."""
MAX_SWEEPS = 200
CHECK_EVERY = 4
TOLERANCE = 1e-5


class ChannelReduction:
    """K non-negative components of a layer's c channels.

    Parameters
    ----------
    components: (K, c), H
    """

    def __init__(self, components: np.ndarray) -> None:
        components = np.asarray(components, np.float32)
        if components.ndim != 2 or not np.all(components >= 0):
            raise OptionError(f"components of shape {components.shape} must be (K, c), finite and not negative")
        self.components = components
        gram = components.astype(np.float64) @ components.T.astype(np.float64)
        self._gram = gram.astype(np.float32)
        self._used = np.flatnonzero(np.diag(gram) > 0)  # components of 0 get weights of 0
        # Where to start from: least squares without the bound, slightly damped, since components may be alike.
        damped = gram + 1e-6 * max(np.trace(gram), 1e-30) * np.eye(len(gram))
        self._start = np.linalg.inv(damped).astype(np.float32)

    @classmethod
    def fit(
        cls, attribution: np.ndarray, features: int = 8, seed: int = 0, *, max_rows: int | None = FIT_ROWS
    ) -> ChannelReduction:
        """Fit to the attribution (..., c) of many observations; `max_rows=None` looks at every position.

        Rows are drawn with a probability proportional to their squared length and scaled to equal weight, which leaves
        the expected squared error as it is (Frieze, Kannan and Vempala, 2004). The components are ordered by how much
        attribution they carry. At most c components are fitted; a layer without attribution gets components of 0.

        Raises OptionError for numbers of features or rows that are none, and for attribution that is not finite.
        """
        for name, count in (("nmf_features", features), ("max_rows", 1 if max_rows is None else max_rows)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise OptionError(f"{name}={count!r}: a whole number from 1 on")
        rows = _rows(attribution)
        features = min(features, rows.shape[1])
        sample = _draw_rows(rows, max_rows, np.random.default_rng(seed))
        if len(sample) == 0:
            return cls(np.zeros((features, rows.shape[1])))
        return cls(_factorize(sample, features, seed))

    def transform(self, x: np.ndarray) -> np.ndarray:
        """W (..., K), not negative, with the least squared error of W H to the non-negative x (..., c).

        Raises OptionError for another number of channels.
        """
        rows, positions = self._checked(x), np.shape(x)[:-1]
        weights = np.empty((len(rows), len(self.components)), np.float32)

        def fill(part: slice) -> None:
            weights[part] = self._solve(rows[part])

        in_threads(fill, _blocks(len(rows)))
        return weights.reshape(*positions, len(self.components))

    def inverse_transform(self, w: np.ndarray) -> np.ndarray:
        """W H (..., c) of W (..., K). Raises OptionError for another number of features."""
        w = np.asarray(w, np.float32)
        if w.shape[-1:] != (len(self.components),):
            raise OptionError(f"weights of shape {w.shape} must be (..., K), of K = {len(self.components)} features")
        return w @ self.components

    def signed_transform(self, attribution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reduced channels (..., K) in units of attribution, and the residual (..., 1).

        A channel is its weight (of the positive part less of the negative) times its component's sum; the residual is
        the attribution less its reconstruction, summed over channels. Raises OptionError for another number of layer
        channels.
        """
        rows, positions = self._checked(attribution), np.shape(attribution)[:-1]
        channels = np.empty((len(rows), len(self.components)), np.float32)
        residual = np.empty((len(rows), 1), np.float32)
        units = self.components.sum(axis=1)

        def fill(part: slice) -> None:
            x = rows[part]
            weights = self._solve(np.maximum(x, 0)) - self._solve(np.maximum(-x, 0))
            np.multiply(weights, units, out=channels[part])
            residual[part] = x.sum(axis=-1, keepdims=True) - channels[part].sum(axis=-1, keepdims=True)

        in_threads(fill, _blocks(len(rows)))
        return channels.reshape(*positions, -1), residual.reshape(*positions, 1)

    def reconstruction_error(self, attribution: np.ndarray) -> float:
        """Norm of X - W H relative to the norm of X, over the positive and the negative part; X is (..., c).

        Raises OptionError for another number of channels.
        """
        rows = self._checked(attribution)

        def sums(part: slice) -> tuple[float, float]:
            squared, total = 0.0, 0.0
            for x in (np.maximum(rows[part], 0), np.maximum(-rows[part], 0)):
                squared += float(np.sum((x - self._solve(x) @ self.components) ** 2, dtype=np.float64))
                total += float(np.sum(x**2, dtype=np.float64))
            return squared, total

        squared, total = np.sum(in_threads(sums, _blocks(len(rows))), axis=0) if len(rows) else (0.0, 0.0)
        return float(np.sqrt(squared / total)) if total else 0.0

    def _checked(self, x: np.ndarray) -> np.ndarray:
        """Rows (n, c) of an array (..., c)."""
        channels = self.components.shape[1]
        if np.shape(x)[-1:] != (channels,):
            raise OptionError(
                f"an array of shape {np.shape(x)} must be (..., c), of the c = {channels} channels of the layer that "
                "the reduction is fitted to"
            )
        return _rows(x)

    def _solve(self, rows: np.ndarray) -> np.ndarray:
        """Coordinate descent on ||x - w H||^2, w >= 0, for all rows at once; a row that has settled is left alone."""
        target = self.components @ rows.T  # (K, n)
        weights = np.maximum(self._start @ target, 0)
        settled = np.zeros_like(target)
        left = np.arange(len(rows))
        tolerance = TOLERANCE * weights.max(axis=0, initial=0)
        for sweep in range(MAX_SWEEPS):
            change = np.zeros(len(left), np.float32)
            for k in self._used:
                step = (target[k] - self._gram[k] @ weights) / self._gram[k, k]
                np.maximum(step, -weights[k], out=step)
                weights[k] += step
                np.maximum(change, np.abs(step, out=step), out=change)
            if sweep % CHECK_EVERY == CHECK_EVERY - 1:
                moving = change > tolerance
                settled[:, left[~moving]] = weights[:, ~moving]
                left, target, weights, tolerance = (
                    left[moving],
                    target[:, moving],
                    weights[:, moving],
                    tolerance[moving],
                )
                if not len(left):
                    break
        settled[:, left] = weights
        return settled.T


def _rows(array: np.ndarray) -> np.ndarray:
    """Rows (n, c) of an array (..., c), float32."""
    array = np.asarray(array, np.float32)
    if array.ndim == 0:
        raise OptionError(f"{array!r} must be an array (..., c), whose last axis is a layer's channels")
    return array.reshape(-1, array.shape[-1])


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, rows, BLOCK))


def _draw_rows(rows: np.ndarray, count: int | None, rng: np.random.Generator) -> np.ndarray:
    """Rows of the positive and of the negative part of `rows` (n, c), drawn as `fit` says; never both parts whole."""
    squares = np.empty((2, len(rows)))
    for part in _blocks(len(rows)):
        for sign, x in enumerate((np.maximum(rows[part], 0), np.maximum(-rows[part], 0))):
            squares[sign, part] = np.einsum("nc,nc->n", x, x, dtype=np.float64)
    squares = squares.ravel()
    if not np.isfinite(squares).all():
        raise OptionError("the attribution has values that are NaN or infinite: features cannot be fitted to it")
    chosen = np.flatnonzero(squares)
    drawn = count is not None and len(chosen) > count
    if drawn:
        chosen = chosen[rng.choice(len(chosen), count, p=squares[chosen] / squares[chosen].sum())]
    signs = np.where(chosen < len(rows), 1, -1).astype(np.float32)
    sample = np.maximum(rows[chosen % len(rows)] * signs[:, None], 0)
    return (sample / np.sqrt(squares[chosen])[:, None]).astype(np.float32) if drawn else sample


def _factorize(rows: np.ndarray, features: int, seed: int) -> np.ndarray:
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    init = "nndsvda" if features < min(rows.shape) else "random"
    model = NMF(features, init=init, solver="cd", random_state=seed, max_iter=400, tol=1e-5)
    scale = float(rows.max())  # far from 1 the solver's tolerance would mean something else
    # One thread: sums in another order would give other components.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = model.fit_transform(rows / scale)
    carried = weights.sum(axis=0) * model.components_.sum(axis=1)
    return np.asarray(model.components_[np.argsort(-carried, kind="stable")], np.float32)
