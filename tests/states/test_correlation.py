"""Correlation over time and its agreement with influence, on systems whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.states import consistency, correlation_intervals, lagged_correlation

LAGS = (1, 2, 4)
DIMENSIONS = 16
CONTRACTION = 0.8


@pytest.fixture(scope="module")
def transition() -> np.ndarray:
    """(16, 16) A of s(t + 1) = A s(t) + noise, whose states are white: uncorrelated, with unit variance."""
    return CONTRACTION * np.linalg.qr(np.random.default_rng(0).normal(size=(DIMENSIONS, DIMENSIONS)))[0]


@pytest.fixture(scope="module")
def sequences(transition: np.ndarray) -> np.ndarray:
    """(50, 400, 16)."""
    rng = np.random.default_rng(1)
    states = [rng.normal(size=(50, DIMENSIONS))]
    for _ in range(399):
        noise = (1 - CONTRACTION**2) ** 0.5 * rng.normal(size=(50, DIMENSIONS))
        states.append(states[-1] @ transition.T + noise)
    return np.stack(states, axis=1)


@pytest.fixture(scope="module")
def jacobians(transition: np.ndarray) -> np.ndarray:
    """(3, 16, 16): [l, i, j] is d s_j(t + lag) / d s_i(t)."""
    return np.stack([np.linalg.matrix_power(transition, lag).T for lag in LAGS])


def test_correlation_in_a_linear_system_equals_its_jacobians(sequences: np.ndarray, jacobians: np.ndarray) -> None:
    correlation = lagged_correlation(sequences, LAGS)
    np.testing.assert_allclose(correlation, jacobians, atol=0.05)
    result = consistency(jacobians, correlation)
    np.testing.assert_allclose(result.share, [0.99, 0.98, 0.97], atol=0.02)
    np.testing.assert_allclose(result.null.mean(axis=-1), 0.5, atol=0.03)
    assert (result.share > result.null[:, 1]).all()
    assert (result.p < 0.01).all()


def test_independent_matrices_agree_in_sign_only_by_chance(jacobians: np.ndarray) -> None:
    others = np.random.default_rng(2).normal(size=(40, *jacobians.shape[1:]))
    result = consistency(np.repeat(jacobians[:1], 40, axis=0), others)
    assert abs(result.share.mean() - 0.5) < 0.03
    within = (result.null[:, 0] <= result.share) & (result.share <= result.null[:, 1])
    assert within.mean() > 0.85


def test_matrix_entries_of_zero_have_no_sign() -> None:
    influence, correlation = np.zeros((2, 1, 4, 4))
    influence[0, 0] = correlation[0, 0] = 5, -1, 0, 1  # the first entry is on the diagonal, which is not counted
    influence[0, 1, 0] = correlation[0, 1, 0] = 1
    correlation[0, 0, 3] = -1
    result = consistency(influence, correlation)
    assert result.count.tolist() == [3]
    assert result.share.tolist() == [2 / 3]
    assert np.isnan(consistency(np.zeros((1, 2, 2)), np.ones((1, 2, 2))).share).all()


def test_a_threshold_restricts_agreement_to_large_entries(jacobians: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    noisy = jacobians + rng.normal(0, 0.1, jacobians.shape)
    everything, large = consistency(jacobians, noisy), consistency(jacobians, noisy, threshold=0.5)
    assert (large.count < everything.count).all()
    assert (large.share == 1).all()


def test_lagged_correlation_is_invariant_to_offset_and_scale(sequences: np.ndarray) -> None:
    changed = 1000 + sequences * np.geomspace(1e-3, 1e3, DIMENSIONS)
    np.testing.assert_allclose(lagged_correlation(changed, LAGS), lagged_correlation(sequences, LAGS), atol=1e-6)
    constant = sequences.copy()
    constant[..., 3] = 7.0
    assert not lagged_correlation(constant, [1])[0, 3].any()
    np.testing.assert_allclose(np.diag(lagged_correlation(sequences, [0])[0]), 1)


def test_entry_i_j_correlates_earlier_unit_i_with_later_unit_j() -> None:
    noise = np.random.default_rng(4).normal(size=(5, 300))
    sequences = np.stack([noise, np.roll(noise, 2, axis=1)], axis=-1)  # 1 is what 0 was two steps ago
    correlation = lagged_correlation(sequences, [1, 2])
    assert correlation[1, 0, 1] > 0.95
    assert np.abs(correlation[1, 1, 0]) < 0.15
    assert np.abs(correlation[0]).max() < 0.15


def test_correlation_can_be_computed_separately_by_cluster() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(40, 60, 1))
    later = np.roll(noise, 1, axis=1)
    labels = np.arange(40) % 2
    sequences = np.concatenate([noise, np.where(labels[:, None, None] == 0, later, -later)], axis=2)
    correlation = lagged_correlation(sequences, [1], by=labels)
    assert correlation.shape == (2, 1, 2, 2)
    np.testing.assert_allclose(correlation[:, 0, 0, 1], [1, -1], atol=0.1)
    permuted = lagged_correlation(sequences, [1], by=rng.permutation(labels))
    assert np.abs(permuted[:, 0, 0, 1]).max() < 0.6
    by_step = lagged_correlation(sequences, [1], by=np.repeat(labels[:, None], 60, axis=1))
    np.testing.assert_allclose(by_step, correlation)


def test_padding_after_the_episode_end_does_not_affect_correlation(sequences: np.ndarray) -> None:
    padded = np.concatenate([sequences[:, :90], np.full((50, 20, DIMENSIONS), np.nan)], axis=1)
    np.testing.assert_allclose(lagged_correlation(padded, LAGS), lagged_correlation(sequences[:, :90], LAGS))


def test_correlation_intervals_contain_the_true_values(sequences: np.ndarray, jacobians: np.ndarray) -> None:
    intervals = correlation_intervals(sequences, LAGS)
    assert intervals.shape == (3, DIMENSIONS, DIMENSIONS, 2)
    inside = (intervals[..., 0] <= jacobians) & (jacobians <= intervals[..., 1])
    assert 0.88 < inside.mean() < 0.99
    np.testing.assert_array_equal(
        correlation_intervals(sequences[:9, :50], [1]), correlation_intervals(sequences[:9, :50], [1])
    )


def test_invalid_arguments_of_correlation_functions_are_refused(sequences: np.ndarray) -> None:
    with pytest.raises(OptionError, match=r"lags=\[400\] must be from 0 to 399"):
        lagged_correlation(sequences, [400])
    with pytest.raises(OptionError, match=r"expected \(N, T, D\)"):
        lagged_correlation(sequences[0], [1])
    with pytest.raises(OptionError, match=r"by has the shape \(3,\)"):
        lagged_correlation(sequences, [1], by=np.zeros(3))
    with pytest.raises(OptionError, match="must have the same shape"):
        consistency(np.zeros((1, 2, 2)), np.zeros((1, 3, 3)))


def slow_units(rng: np.random.Generator, episodes: int = 12, steps: int = 40, units: int = 4) -> np.ndarray:
    """Independent units (E, T, D), each of which decays slowly."""
    states = np.zeros((episodes, steps, units))
    states[:, 0] = rng.normal(size=(episodes, units)) / np.sqrt(1 - 0.9**2)
    for t in range(1, steps):
        states[:, t] = 0.9 * states[:, t - 1] + rng.normal(size=(episodes, units))
    return states


def test_independent_units_rarely_agree_beyond_chance() -> None:
    """Influence that is a unit's on itself, seen with small errors of the directions, which are the same both ways."""
    positive = 0
    for run in range(200):
        rng = np.random.default_rng([7, run])
        s, error = slow_units(rng), rng.normal(0, 0.05, (4, 4))
        jacobian = (0.9 * np.eye(4) + error + error.T)[None]
        found = consistency(jacobian, lagged_correlation(s, [1]), 99, run, sequences=s, lags=[1])
        assert found.count[0] == 12
        positive += bool(found.p[0] < 0.05)
    assert positive <= 0.07 * 200


def test_related_units_agree_beyond_chance() -> None:
    rng = np.random.default_rng(3)
    transition = 0.7 * np.linalg.qr(rng.normal(size=(6, 6)))[0]
    states = [rng.normal(size=(30, 6))]
    for _ in range(39):
        states.append(states[-1] @ transition.T + rng.normal(size=(30, 6)))
    s = np.stack(states, axis=1)
    found = consistency(transition.T[None], lagged_correlation(s, [1]), sequences=s, lags=[1])
    assert found.p[0] < 0.01
    assert found.share[0] > found.null[0, 1]


def test_consistency_with_sequences_requires_their_lags() -> None:
    with pytest.raises(OptionError, match="as many lags as matrices"):
        consistency(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), sequences=np.zeros((3, 4, 2)))
