"""Positions of points in the plane."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import DependencyError, OptionError
from rl_clarity.reduction.embedding import embed

PER_GROUP = 40


@pytest.fixture(scope="module")
def groups() -> np.ndarray:
    """Points (3 n, 10) of three Gaussian distributions."""
    rng = np.random.default_rng(0)
    centers = 8 * rng.normal(size=(3, 10))
    return np.concatenate([center + rng.normal(size=(PER_GROUP, 10)) for center in centers])


def are_separated(positions: np.ndarray) -> bool:
    """Whether every point is closer to all points of its group than to any of another one."""
    distances = np.linalg.norm(positions[:, None] - positions, axis=-1)
    same = np.equal.outer(np.arange(len(positions)) // PER_GROUP, np.arange(len(positions)) // PER_GROUP)
    return bool(distances[same].max() < distances[~same].min())


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_embeddings_separate_three_gaussian_clusters(groups: np.ndarray, method: Any) -> None:
    positions, _ = embed(groups, method, perplexity=15)
    assert positions.shape == (3 * PER_GROUP, 2)
    assert positions.dtype == np.float32
    assert are_separated(positions)


def test_new_points_are_embedded_near_their_cluster(groups: np.ndarray) -> None:
    positions, place = embed(groups[::2], perplexity=10)
    np.testing.assert_array_equal(place(groups[::2]), positions)
    everything = place(groups)
    everything[::2] = positions
    assert are_separated(everything)


def test_embeddings_of_many_points_are_fitted_on_a_subset(groups: np.ndarray) -> None:
    positions, _ = embed(groups, perplexity=10, fitted_on=60)
    assert are_separated(positions)
    other, _ = embed(groups, perplexity=10, fitted_on=60, seed=1)
    assert not np.array_equal(positions, other)


def test_embeddings_are_reproducible_with_the_same_seed(groups: np.ndarray) -> None:
    first, second = (embed(groups, perplexity=10, fitted_on=60, seed=3)[0].tobytes() for _ in range(2))
    assert first == second


def test_pca_embeddings_have_the_scales_of_the_principal_components(groups: np.ndarray) -> None:
    positions, place = embed(groups, "pca")
    centered = groups - groups.mean(axis=0)
    _, scales, _ = np.linalg.svd(centered, full_matrices=False)
    np.testing.assert_allclose(np.linalg.norm(positions, axis=0), scales[:2], rtol=1e-4)
    np.testing.assert_allclose(place(groups.mean(axis=0)[None]), 0, atol=1e-4)


@pytest.mark.parametrize("method", ["tsne", "pca"])
@pytest.mark.parametrize("shape", [(12, 1), (12, 3, 2)])
def test_identical_points_have_finite_positions(method: Any, shape: tuple[int, ...]) -> None:
    positions, place = embed(np.ones(shape), method, perplexity=3)
    assert positions.shape == (12, 2)
    assert np.isfinite(positions).all()
    assert np.isfinite(place(np.zeros(shape))).all()


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (np.zeros((5, 2)), {"perplexity": 5}, "perplexity=5 must be .* less than .* 5"),
        (np.full((5, 2), np.nan), {}, "must be finite"),
        (np.zeros(5), {}, r"points of shape \(5,\)"),
        (np.zeros((0, 3)), {}, "at least one point is needed"),
        (np.zeros((5, 2)), {"method": "som"}, "method='som' must be one of tsne, pca, umap"),
    ],
)
def test_invalid_inputs_of_embed_are_refused(points: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        embed(points, **options)


def test_umap_embeddings_are_reproducible_and_separate_clusters(groups: np.ndarray) -> None:
    pytest.importorskip("umap")
    first, place = embed(groups[::2], "umap", perplexity=10)
    second, _ = embed(groups[::2], "umap", perplexity=10)
    assert first.tobytes() == second.tobytes()
    everything = place(groups)
    np.testing.assert_array_equal(everything[::2], first)
    assert are_separated(everything)


def test_the_error_without_umap_names_the_install_command(groups: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(DependencyError, match=r'pip install "rl-clarity\[umap\]"'):
        embed(groups, "umap", perplexity=10)
