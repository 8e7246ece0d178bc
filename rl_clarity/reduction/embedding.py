"""`rl_clarity.embed` maps points with many dimensions, such as states, to two dimensions.

In maps by t-SNE, distances between groups and sizes of groups mean little, and small perplexities produce groups of
noise; see Wattenberg et al. 2016, "How to use t-SNE effectively", https://distill.pub/2016/misread-tsne.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from rl_clarity.base.errors import DependencyError, OptionError

Method = Literal["tsne", "pca", "umap"]
FITTED_ON = 5000
"""Default of `fitted_on`, the largest number of points to which t-SNE and UMAP are fitted."""
NEIGHBORS = 15
"""Number of fitted points whose positions determine the position of another point."""
Placement = Callable[[np.ndarray], np.ndarray]


def embed(
    points: np.ndarray,
    method: Method = "tsne",
    *,
    perplexity: float = 30,
    seed: int = 0,
    fitted_on: int = FITTED_ON,
) -> tuple[np.ndarray, Placement]:
    """Return positions (n, 2) float32 of points (n, D), and a function that places further points (m, D) among them.

    The same points, options and seed give the same positions on the same machine. PCA returns the first principal
    components. t-SNE (van der Maaten and Hinton 2008, with the approximation of Barnes and Hut) and UMAP (McInnes et
    al. 2018, in the package umap-learn) start from these. They are fitted to at most `fitted_on` random points. All
    other points are placed at the mean position of their nearest fitted points, weighted by the inverse of their
    distance.

    Args:
        points: Finite numbers. Axes after the first are flattened.
        method: `tsne`, `pca` or `umap`.
        perplexity: Perplexity of t-SNE, approximately the number of neighbors of a point. For UMAP it is the number of
            neighbors.
        seed: Seed of the choice of points to which t-SNE and UMAP are fitted, and of UMAP.
        fitted_on: Largest number of points to which t-SNE and UMAP are fitted.

    Raises:
        OptionError: The points are not finite, or an option does not fit their number.
        DependencyError: umap-learn is not installed.
    """
    if method not in get_args(Method):
        raise OptionError(f"method={method!r} must be one of {', '.join(get_args(Method))}")
    rows = _rows(points)
    if not len(rows):
        raise OptionError(f"points have the shape {np.shape(points)}, but at least one point is needed")
    if method == "pca":
        place = _pca(rows)
        return place(rows), place
    count = min(len(rows), fitted_on)
    if not 1 <= perplexity < count:
        raise OptionError(
            f"perplexity={perplexity} must be at least 1, and less than the number of points that are fitted, {count}"
        )
    chosen = np.sort(np.random.default_rng(seed).choice(len(rows), count, replace=False))
    fitted = rows[chosen]
    start = _pca(fitted)(fitted)
    positions = _tsne(fitted, start, perplexity) if method == "tsne" else _umap(fitted, start, perplexity, seed)
    place = place_among(fitted, positions)
    return place(rows), place


def usable_perplexity(perplexity: float, count: int) -> float:
    """Return `perplexity`, or about a third of the number of points, `count`, if that is smaller; at least 1."""
    return min(perplexity, max(1.0, (count - 1) / 3))


def place_among(fitted: np.ndarray, positions: np.ndarray) -> Placement:
    """Return a function that places points among fitted ones (n, D) with known positions (n, 2)."""
    from sklearn.neighbors import KNeighborsRegressor

    neighbors = KNeighborsRegressor(min(NEIGHBORS, len(fitted)), weights="distance").fit(_rows(fitted), positions)

    def place(points: np.ndarray) -> np.ndarray:
        return np.asarray(neighbors.predict(_rows(points)), np.float32)

    return place


def _rows(points: np.ndarray) -> np.ndarray:
    rows = np.asarray(points, np.float32)
    if rows.ndim < 2 or not np.isfinite(rows).all():
        raise OptionError(f"points of shape {rows.shape} must be finite numbers (n, D)")
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _pca(rows: np.ndarray) -> Placement:
    from sklearn.decomposition import PCA

    components = min(2, *rows.shape)
    with np.errstate(invalid="ignore"):  # equal points have no variance to explain
        fitted = PCA(components, svd_solver="covariance_eigh").fit(rows.astype(np.float64))

    def place(points: np.ndarray) -> np.ndarray:
        positions = fitted.transform(_rows(points).astype(np.float64)).astype(np.float32)
        return np.pad(positions, ((0, 0), (0, 2 - components)))

    return place


def _tsne(rows: np.ndarray, start: np.ndarray, perplexity: float) -> np.ndarray:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # scikit-learn would scale by the deviation of the first component, which is 0 for equal points.
    start = start * np.float32(1e-4 / max(float(start[:, 0].std()), 1e-12))
    fitted = TSNE(2, perplexity=perplexity, init=start, random_state=0)
    # Use one thread: several add in another order, and on a busy machine mostly wait for each other.
    with threadpool_limits(1):
        return np.asarray(fitted.fit_transform(rows), np.float32)


def _umap(rows: np.ndarray, start: np.ndarray, neighbors: float, seed: int) -> np.ndarray:
    try:
        from umap import UMAP
    except ImportError as error:
        raise DependencyError(f'method="umap" needs umap-learn ({error}): pip install "rl-clarity[umap]"') from None
    start = start * np.float32(10 / max(float(np.abs(start).max()), 1e-12))
    count = max(2, min(round(neighbors), len(rows) - 1))
    fitted = UMAP(count, init=start, random_state=seed, n_jobs=1)
    return np.asarray(fitted.fit_transform(rows), np.float32)
