"""Directions: coordinates and their gradients, what each method finds, and how stable that is."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.reduction import REDUCTIONS
from rl_clarity.reduction.directions import CLASSIFIER, Directions, fit_directions
from rl_clarity.reduction.stability import matched_similarity

DIMENSIONS = 8


@pytest.fixture(scope="module")
def sources() -> np.ndarray:
    """(3000, 4) independent, skewed: so that independent components are determined."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.exponential(size=(3000, 4)) * (rng.random((3000, 4)) < 0.5))


@pytest.fixture(scope="module")
def mixing() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(4, DIMENSIONS))


@pytest.fixture(scope="module")
def states(sources: np.ndarray, mixing: np.ndarray) -> np.ndarray:
    offset = np.linspace(-3, 5, DIMENSIONS)
    return np.asarray(offset + sources @ mixing + np.random.default_rng(2).normal(0, 0.01, (3000, DIMENSIONS)))


def fit(states: np.ndarray, method: str, count: int = 4) -> Directions:
    states = states[::6]
    labels = {"first": states[:, 0] > states[:, 0].mean(), "last": states[:, -1] > states[:, -1].mean()}
    return fit_directions(states, method, count, labels=labels if method == "classifier" else None)


@pytest.mark.parametrize("method", [*REDUCTIONS, CLASSIFIER])
def test_gradients_in_component_coordinates_equal_finite_differences(states: np.ndarray, method: str) -> None:
    directions = fit(states, method)
    weights = np.random.default_rng(3).normal(size=(DIMENSIONS, 5))

    def function(coordinates: np.ndarray) -> float:
        return float(np.sin(directions.back(coordinates) @ weights / 10).sum())

    start = directions.to(states[7])
    gradient = weights @ np.cos(directions.back(start) @ weights / 10) / 10  # with respect to the state
    steps = 1e-4 * np.eye(len(directions))
    differences = [(function(start + step) - function(start - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(directions.pull(gradient), differences, atol=1e-6)


@pytest.mark.parametrize("method", [*REDUCTIONS, CLASSIFIER])
def test_coordinates_are_exact_in_the_span_of_the_components(states: np.ndarray, method: str) -> None:
    directions = fit(states, method)
    coordinates = np.random.default_rng(4).normal(size=(3, 2, len(directions)))
    np.testing.assert_allclose(directions.to(directions.back(coordinates)), coordinates, atol=1e-8)
    np.testing.assert_allclose(directions.readout.T @ directions.vectors.T, np.eye(len(directions)), atol=1e-8)


def test_pca_components_explain_the_largest_variances(states: np.ndarray) -> None:
    directions = fit_directions(states, "pca", 4)
    standardized = (states - states.mean(axis=0)) / states.std(axis=0)
    expected = np.linalg.eigvalsh(np.cov(standardized.T, ddof=0))[::-1]
    np.testing.assert_allclose(directions.to(states).var(axis=0), expected[:4], rtol=1e-6)
    assert directions.explained is not None
    np.testing.assert_allclose(directions.explained, expected[:4] / expected.sum(), rtol=1e-6)
    np.testing.assert_allclose(directions.basis @ directions.basis.T, np.eye(4), atol=1e-9)


def test_pca_keeps_enough_components_for_a_share_of_the_variance(states: np.ndarray) -> None:
    explained = fit_directions(states, "pca", DIMENSIONS).explained
    assert explained is not None
    for share in (0.5, 0.9, 0.95):
        number = len(fit_directions(states, "pca", share))
        assert explained[:number].sum() >= share
        assert explained[: number - 1].sum() < share


def test_ica_recovers_the_independent_sources(states: np.ndarray, sources: np.ndarray, mixing: np.ndarray) -> None:
    directions = fit_directions(states, "ica", 4)
    assert (matched_similarity(mixing, directions.vectors, absolute=True) > 0.99).all()
    coordinates = directions.to(states)
    np.testing.assert_allclose(coordinates.mean(axis=0), 0, atol=1e-8)  # one mean for fit and projection
    np.testing.assert_allclose(coordinates.var(axis=0), 1, atol=1e-6)
    assert (np.mean(coordinates**3, axis=0) > 0).all()
    assert (directions.stability > 0.98).all()


def test_ica_components_of_noise_have_low_stability() -> None:
    noise = np.random.default_rng(0).normal(size=(2000, DIMENSIONS))  # any rotation is as good as another
    assert np.median(fit_directions(noise, "ica", 6).stability) < 0.8


def test_the_units_method_selects_the_units_that_vary_most(states: np.ndarray) -> None:
    changed = states * np.array([1, 5, 0, 1, 1, 9, 1, 1])
    directions = fit_directions(changed, "units", 2)
    assert sorted(directions.names) == ["unit 1", "unit 5"]
    assert len(fit_directions(changed, "units", 99)) == DIMENSIONS - 1  # one is constant


def test_classifier_components_are_tested_on_held_out_states(states: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    labels = {"above": states[:, 0] > np.median(states[:, 0]), "random": rng.random(len(states)) < 0.5}
    directions = fit_directions(states, "classifier", labels=labels)
    assert directions.auc is not None
    assert directions.names == ("above", "random")
    assert directions.auc[0] > 0.97
    assert abs(directions.auc[1] - 0.5) < 0.08


def test_the_same_seed_gives_the_same_components(states: np.ndarray) -> None:
    one, other = (fit_directions(states, "ica", 4, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.basis, other.basis)


def test_outliers_among_the_states_are_counted(states: np.ndarray) -> None:
    far = np.concatenate([states, 1e6 * np.eye(DIMENSIONS)[:3]])
    assert fit_directions(far, "pca", 2, outliers=5000).dropped == 3
    assert fit_directions(far, "pca", 2).dropped == 0


def test_stability_compares_fits_to_halves_with_different_episodes() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(30, 3)) * [3, 1, 0.1], rng.normal(size=(70, 3)) * [0.1, 1, 3]
    states, episodes = np.concatenate([first, second]), np.repeat([4, 7], [30, 70])
    found = fit_directions(states, "pca", 2, episodes=episodes)
    halves = [
        matched_similarity(found.vectors, fit_directions(half, "pca", 2).vectors, absolute=True)
        for half in (first, second)
    ]
    without = fit_directions(states, "pca", 2)
    assert found.half_stability is not None
    assert without.half_stability is not None
    np.testing.assert_allclose(found.half_stability, np.mean(halves, axis=0), atol=1e-6)
    assert found.fits is not None
    np.testing.assert_allclose(found.fits[:, 2:], np.transpose(halves), atol=1e-6)
    assert not np.allclose(found.half_stability, without.half_stability, atol=1e-3)
    with pytest.raises(OptionError, match=r"episodes= has the shape \(3,\); \(100,\) is needed"):
        fit_directions(states, "pca", episodes=episodes[:3])


def test_the_pairs_method_finds_directions_specific_to_an_object() -> None:
    """Objects add axis 0, and as much of axis 1; other rows contain axis 1, and a lot of axis 2."""
    rng = np.random.default_rng(0)
    without = rng.normal(size=(400, DIMENSIONS)) * [0.1, 0.1, 5, 0.1, 0.1, 0.1, 0.1, 0.1]
    added = np.zeros((400, DIMENSIONS))
    added[:, 0], added[:, 1] = rng.uniform(1, 2, 400), rng.uniform(1.5, 2.5, 400)
    others = rng.normal(size=(300, DIMENSIONS)) * [0, 4, 4, 0.1, 0, 0, 0, 0]
    alone = fit_directions(without + added, "pairs", 1, without=without)
    expected = np.linalg.svd(added)[2][0]
    np.testing.assert_allclose(alone.vectors[0] * np.sign(alone.vectors[0, 0] * expected[0]), expected, atol=1e-6)
    assert alone.vectors[0, :2].min() > 0  # the mean difference along it is positive
    found = fit_directions(without + added, "pairs", 5, without=without, others=others)
    assert found.vectors[0, 0] > 0.95 > 0.7 > alone.vectors[0, 0]
    assert found.vectors.shape == (2, DIMENSIONS)  # differences have two dimensions
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(2), atol=1e-9)
    assert found.explained is not None
    np.testing.assert_allclose(found.explained.sum(), 1)
    assert found.stability.min() > 0.98


def test_components_survive_conversion_to_arrays(states: np.ndarray) -> None:
    directions = fit(states, "classifier")
    again = Directions.from_arrays(directions.arrays())
    np.testing.assert_array_equal(again.to(states), directions.to(states))
    assert (again.names, again.method, again.dropped) == (directions.names, "classifier", 0)
    np.testing.assert_array_equal(again.stability, directions.stability)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "tsne"}, "method='tsne' must be one of pca, ica"),
        ({"count": 0}, "count=0 must be a positive integer"),
        ({"method": "nmf", "count": 0.5}, "needs method='pca' or 'ica', not 'nmf'"),
        ({"method": "classifier"}, "'classifier' needs labels"),
        ({"method": "pairs"}, "'pairs' needs without="),
        ({"method": "pca", "others": np.zeros((3, 8))}, "the other methods take neither without= nor others="),
        ({"method": "pairs", "without": np.zeros((3, 8))}, r"without= has the shape \(3, 8\); \(3000, 8\) is needed"),
        ({"method": "pairs", "without": np.full((3000, 8), np.nan)}, "without= must be finite"),
        ({"outliers": 0.1}, "outliers=0.1 must be at least 1"),
    ],
)
def test_invalid_options_of_fit_directions_are_refused(
    states: np.ndarray, options: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        fit_directions(states, **options)  # type: ignore[arg-type]


def test_invalid_states_of_fit_directions_are_refused(states: np.ndarray) -> None:
    with pytest.raises(OptionError, match="the states are all the same"):
        fit_directions(np.ones((10, 3)), "pca")
    with pytest.raises(OptionError, match="must be finite"):
        fit_directions(np.full((10, 3), np.nan), "pca")
    with pytest.raises(OptionError, match=r"\(\.\.\., 8\), like those of the fit"):
        fit(states, "pca").to(np.zeros((2, 3)))
    with pytest.raises(OptionError, match="with and without the object are the same"):
        fit_directions(states, "pairs", 2, without=states)


@pytest.mark.parametrize("count", [4, 0.97])
def test_pca_of_many_units_uses_the_same_components_as_a_full_pca(
    count: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states vary most along four axes of 600; their square of covariances is not computed."""
    rng = np.random.default_rng(5)
    axes = np.linalg.qr(rng.normal(size=(600, 4)))[0].T
    states = rng.normal(size=(200, 4)) * [8, 6, 4, 3] @ axes + rng.normal(0, 0.02, (200, 600))
    many = fit_directions(states, "pca", count)
    monkeypatch.setattr("rl_clarity.reduction.directions.WIDE", 600)
    few = fit_directions(states, "pca", count)
    assert len(many) == len(few)
    assert many.explained is not None
    assert few.explained is not None
    np.testing.assert_allclose(many.explained, few.explained, rtol=1e-6)
    np.testing.assert_allclose(many.to(states)[:, :4], few.to(states)[:, :4], atol=1e-3)


def test_ica_recovers_sources_mixed_into_many_units(sources: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    states = sources @ rng.normal(size=(4, 2000)) + rng.normal(0, 0.1, (len(sources), 2000))
    found = fit_directions(states.astype(np.float32), "ica", 4).to(states)
    correlations = np.abs(np.corrcoef(found.T, sources.T)[:4, 4:])
    assert correlations.max(axis=0).min() > 0.98
    assert sorted(correlations.argmax(axis=0)) == [0, 1, 2, 3]
