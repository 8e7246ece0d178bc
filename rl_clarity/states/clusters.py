"""Clusters of states, in the space of their principal components, and how much they depend on the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions, fit_directions

Method = Literal["kmeans", "gaussian_mixture", "ward", "hdbscan"]
METHODS = ("kmeans", "gaussian_mixture", "ward", "hdbscan")
FIT_ROWS = {"kmeans": 20_000, "gaussian_mixture": 20_000, "ward": 4_000, "hdbscan": 8_000}
"""Rows that each method is fitted to; other rows are placed afterwards."""
SHARE = 0.95
"""Share of the variance that principal components keep."""
MOST_COMPONENTS = 16
NOISE = -1
SMALLEST = 0.005
"""Smallest cluster of HDBSCAN, as a share of the rows."""


@dataclass(frozen=True)
class Clusters:
    """A partition of n states."""

    method: str
    labels: np.ndarray  # (n,) int32: from 0, the largest first; -1 for what HDBSCAN leaves out
    agreement: float
    """Mean adjusted Rand index with the partitions of other seeds: 1 for the same, 0 for chance."""

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """(count,) states in each cluster."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.count)


def principal_coordinates(values: np.ndarray, seed: int = 0, rows: np.ndarray | None = None) -> np.ndarray:
    """Return coordinates (n, D) of values (n, H): the fewest components with 95 % of the variance, at most 16.

    The components are fitted to the rows (m,), by default to all.
    """
    directions = principal_directions(values if rows is None else values[rows], seed)
    return np.asarray(directions.to(values), np.float32)


def principal_directions(values: np.ndarray, seed: int = 0) -> Directions:
    """Return the fewest principal components of values (n, H) with 95 % of the variance, at most 16."""
    directions = fit_directions(values, "pca", MOST_COMPONENTS, seed, stability=False)
    assert directions.explained is not None  # they are principal components
    count = int(np.searchsorted(np.cumsum(directions.explained), SHARE - 1e-12)) + 1
    return replace(directions, basis=directions.basis[:count], explained=directions.explained[:count], names=())


def find_clusters(
    points: np.ndarray,
    method: Method = "kmeans",
    count: int = 8,
    seed: int = 0,
    *,
    seeds: int = 2,
    rows: np.ndarray | None = None,
) -> Clusters:
    """Return clusters of points (n, D), and how much they agree with those of `seeds` other seeds.

    `kmeans`, `gaussian_mixture` (full covariances), `ward` and `hdbscan` are those of scikit-learn. They are fitted to
    a random part of many points; seeds change that part, too. For `ward` and `hdbscan` other points are placed with
    their nearest fitted one.

    Args:
        points: In the space of principal components (`principal_coordinates`); never positions of t-SNE.
        method: `kmeans`, `gaussian_mixture`, `ward` or `hdbscan`.
        count: Number of clusters; HDBSCAN finds their number itself.
        seed: Seed of the fit, and of the choice of points for it.
        seeds: Number of other seeds.
        rows: (m,) the points that clusters are fitted to; the others are placed with their nearest one. By default all.

    Raises:
        OptionError: An unknown method, or fewer points than clusters.
    """
    from sklearn.metrics import adjusted_rand_score
    from threadpoolctl import threadpool_limits

    if method not in METHODS:
        raise OptionError(f"method={method!r} must be one of {', '.join(METHODS)}")
    if rows is not None:
        found = find_clusters(points[rows], method, count, seed, seeds=seeds)
        return replace(found, labels=_nearest(points, rows, found.labels))
    if isinstance(count, bool) or count < 1 or len(points) <= count:
        raise OptionError(f"count={count!r} must be at least 1, and less than the number of points, {len(points)}")
    points = np.asarray(points, np.float64)
    with threadpool_limits(1):  # the same sums on any machine; and little is gained by more threads
        fits = [_ordered(_FITS[method](points, count, seed + i)) for i in range(1 + seeds)]
    scores = [adjusted_rand_score(fits[0], other) for other in fits[1:]]
    return Clusters(method, fits[0], float(np.mean(scores)) if scores else float("nan"))


def _ordered(labels: np.ndarray) -> np.ndarray:
    """Return the labels numbered by size, the largest cluster first."""
    kept = labels[labels != NOISE]
    if not len(kept):
        return np.full(len(labels), NOISE, np.int32)
    names, inverse, sizes = np.unique(kept, return_inverse=True, return_counts=True)
    rank = np.empty(len(names), np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(names))
    result = np.full(len(labels), NOISE, np.int32)
    result[labels != NOISE] = rank[inverse]
    return result


def _rows(count: int, most: int, seed: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, most]).choice(count, most, replace=False))


def _kmeans(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    rows = _rows(len(points), FIT_ROWS["kmeans"], seed)
    return np.asarray(KMeans(count, n_init=4, random_state=seed).fit(points[rows]).predict(points))


def _gaussian_mixture(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.mixture import GaussianMixture

    rows = _rows(len(points), FIT_ROWS["gaussian_mixture"], seed)
    floor = 1e-6 * float(points.var(axis=0).max())
    fitted = GaussianMixture(count, random_state=seed, reg_covar=max(floor, 1e-12)).fit(points[rows])
    return np.asarray(fitted.predict(points))


def _ward(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import AgglomerativeClustering

    rows = _rows(len(points), FIT_ROWS["ward"], seed)
    return _nearest(points, rows, AgglomerativeClustering(count, linkage="ward").fit_predict(points[rows]))


def _hdbscan(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import HDBSCAN

    rows = _rows(len(points), FIT_ROWS["hdbscan"], seed)
    smallest = max(5, round(SMALLEST * len(rows)))
    labels = HDBSCAN(min_cluster_size=smallest, copy=True).fit_predict(points[rows])
    return _nearest(points, rows, labels)


def _nearest(points: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the labels of all points. Each point gets the label of the nearest of the fitted points, `rows`."""
    from sklearn.neighbors import KNeighborsClassifier

    if len(rows) == len(points):
        return labels
    return np.asarray(KNeighborsClassifier(1).fit(points[rows], labels).predict(points))


_FITS: dict[str, Callable[..., Any]] = {
    "kmeans": _kmeans,
    "gaussian_mixture": _gaussian_mixture,
    "ward": _ward,
    "hdbscan": _hdbscan,
}
