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
"""Largest number of rows that each method is fitted to. Other rows are assigned to clusters afterwards."""
SHARE = 0.95
"""Share of the variance that the principal components must explain."""
MOST_COMPONENTS = 16
NOISE = -1
SMALLEST = 0.005
"""Minimum size of an HDBSCAN cluster, as a share of the rows that HDBSCAN is fitted to."""


@dataclass(frozen=True)
class Clusters:
    """A clustering of n states."""

    method: str
    labels: np.ndarray  # (n,) int32: from 0, which is the largest cluster; -1 for noise points of HDBSCAN
    agreement: float
    """Mean adjusted Rand index with the clusterings of other seeds: 1 if they are identical, 0 on average by chance."""

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """(count,) number of states in each cluster."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.count)


def principal_coordinates(values: np.ndarray, seed: int = 0, rows: np.ndarray | None = None) -> np.ndarray:
    """Return principal components (n, D) of values (n, H): as few as explain 95 % of the variance, at most 16.

    They are fitted to the rows with the indices `rows` (m,), by default to all rows.
    """
    directions = principal_directions(values if rows is None else values[rows], seed)
    return np.asarray(directions.to(values), np.float32)


def principal_directions(values: np.ndarray, seed: int = 0) -> Directions:
    """Return the directions of the principal components of values (n, H): as few as explain 95 % of the variance, at
    most 16.
    """
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
    """Cluster points (n, D), and measure how well the clusters agree with those from `seeds` other seeds.

    `kmeans`, `gaussian_mixture` (full covariances), `ward` and `hdbscan` are those of scikit-learn. If there are many
    points, they are fitted to a random sample, which also depends on the seed. With `ward` and `hdbscan`, other points
    get the label of the nearest point of the sample.

    Args:
        points: Points in the space of principal components (`principal_coordinates`), not positions on a t-SNE map.
        method: `kmeans`, `gaussian_mixture`, `ward` or `hdbscan`.
        count: Number of clusters. HDBSCAN determines the number itself.
        seed: Seed of the fit and of its sample of points.
        seeds: Number of other seeds with which the clusters are compared.
        rows: (m,) indices of the points that clusters are fitted to, by default all. Other points get the label of the
            nearest of these.

    Raises:
        OptionError: The method is unknown, or there are not more points than clusters.
    """
    from sklearn.metrics import adjusted_rand_score
    from threadpoolctl import threadpool_limits

    if method not in METHODS:
        raise OptionError(f"method={method!r} must be one of {', '.join(METHODS)}")
    if rows is not None:
        found = find_clusters(points[rows], method, count, seed, seeds=seeds)
        return replace(found, labels=_nearest(points, rows, found.labels))
    if isinstance(count, bool) or count < 1 or len(points) <= count:
        raise OptionError(f"count={count!r} must be at least 1, and less than the number of points ({len(points)})")
    points = np.asarray(points, np.float64)
    with threadpool_limits(1):  # the same sums on any machine; more threads would gain little
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
    """Return the label of the nearest fitted point for each point. `rows` are the indices of the fitted points."""
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
