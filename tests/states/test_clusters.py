"""Clusters: methods find groups that are there, order them by size, and agree with other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import directions as directions_module
from rl_clarity.states.clusters import METHODS, Method, find_clusters, principal_coordinates


@pytest.fixture(scope="module")
def groups() -> tuple[np.ndarray, np.ndarray]:
    """600 points in three groups, that last for 20 steps each, and the groups' numbers."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.choice(3, 30, p=[0.6, 0.3, 0.1]), 20)
    return 6 * np.eye(3)[labels] + rng.normal(size=(600, 3)), labels


@pytest.mark.parametrize("method", METHODS)
def test_clustering_methods_find_well_separated_groups(groups: tuple[np.ndarray, np.ndarray], method: Method) -> None:
    points, expected = groups
    clusters = find_clusters(points, method, 3)
    assert clusters.count == 3
    assert (np.diff(clusters.sizes) <= 0).all()
    kept = clusters.labels >= 0
    assert adjusted_rand_score(expected[kept], clusters.labels[kept]) > 0.95
    assert clusters.agreement > 0.9


def test_clusters_of_noise_disagree_between_seeds() -> None:
    points = np.random.default_rng(1).normal(size=(1000, 10))
    assert find_clusters(points, "kmeans", 8).agreement < 0.7


def test_points_beyond_the_fitted_subset_join_the_nearest_cluster() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=6000)
    points = 10 * np.eye(2)[labels] + rng.normal(size=(6000, 2))
    clusters = find_clusters(points, "ward", 2, seeds=1)
    assert len(np.unique(labels * 2 + clusters.labels)) == 2


def test_principal_coordinates_keep_the_variance_of_the_data() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40))
    assert principal_coordinates(values).shape == (500, 3)
    assert principal_coordinates(rng.normal(size=(500, 40))).shape == (500, 16)


def test_clustering_many_units_computes_no_more_components_than_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One factorization of 16 components, not five of as many as have 95 % of the variance."""
    from sklearn.utils import extmath

    sizes = []

    def counted(rows: np.ndarray, count: int, **options: Any) -> Any:
        sizes.append((rows.shape, count))
        return factorize(rows, count, **options)

    factorize = extmath.randomized_svd
    monkeypatch.setattr(extmath, "randomized_svd", counted)
    monkeypatch.setattr(directions_module, "FIT_NUMBERS", 400 * 1000)
    values = np.random.default_rng(4).normal(size=(900, 1000)).astype(np.float32)
    assert principal_coordinates(values).shape == (900, 16)
    assert sizes == [((400, 1000), 16)]
    directions_module.fit_directions(values, "ica", 3)
    assert {size for _, size in sizes[1:]} == {3}
    assert max(shape for shape, _ in sizes[1:]) == (400, 1000)


def test_invalid_clustering_options_are_refused() -> None:
    points = np.zeros((5, 2))
    with pytest.raises(OptionError, match="method='tsne' must be one of kmeans"):
        find_clusters(points, "tsne")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="count=5 must be at least 1, and less than the number of points \\(5\\)"):
        find_clusters(points, "kmeans", 5)
