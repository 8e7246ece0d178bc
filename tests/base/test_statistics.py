"""Differences, intervals and tests of paired episodes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from rl_clarity.base.statistics import bootstrap_interval, compare, entropy, holm

RNG = np.random.default_rng(0)


def test_intervals_contain_zero_where_the_paired_test_is_not_significant() -> None:
    """With 4 of 20 pairs that differ, p is at least 1 / 8, though nearly all resamples have a difference."""
    before = np.zeros((20, 2))
    after = before.copy()
    after[:4, 0] = -1
    after[:, 1] = -1
    compared = compare(before, after)
    assert compared.p[0] > 0.1
    assert compared.intervals[0, 0] < -0.3
    assert compared.intervals[0, 1] == 0
    assert compared.p[1] < 0.01
    np.testing.assert_array_equal(compared.intervals[1], -1)


def test_confidence_intervals_are_those_of_the_paired_bootstrap() -> None:
    before = RNG.normal(size=(60, 2)) * 5
    after = before + RNG.normal([0.5, 0], [1, 2], size=(60, 2))
    compared = compare(before, after)
    expected = scipy.stats.bootstrap(
        (after - before,), np.mean, method="percentile", n_resamples=20_000, random_state=1
    )
    interval = np.column_stack([expected.confidence_interval.low, expected.confidence_interval.high])
    np.testing.assert_allclose(compared.intervals, interval, atol=0.03)
    widths, corrected = (np.ptp(one, axis=1) for one in (compared.intervals, compared.corrected_intervals))
    assert np.all(corrected > widths)


def test_entropy_is_exact_for_known_distributions() -> None:
    distributions = np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert entropy(distributions) == pytest.approx([np.log(4), 0, np.log(2)])


def test_a_bootstrap_interval_contains_the_mean() -> None:
    interval = bootstrap_interval(np.arange(100.0), np.random.default_rng(0))
    assert interval.low < interval.mean == 49.5 < interval.high
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * np.arange(100.0).std() / 10, rel=0.1)
    assert bootstrap_interval(np.ones(3), np.random.default_rng(0)).low == 1


def test_p_values_are_those_of_the_paired_permutation_test() -> None:
    before, after = RNG.normal(size=(2, 9, 1))

    def mean_difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray((x - y).mean(axis=axis))

    exact = scipy.stats.permutation_test(
        (after, before), mean_difference, permutation_type="samples", n_resamples=np.inf
    )
    assert compare(before, after).p[0] == pytest.approx(exact.pvalue[0], abs=0.015)


def test_equal_paired_episodes_have_no_difference() -> None:
    before = RNG.normal(size=(20, 3))
    compared = compare(before, before)
    np.testing.assert_array_equal(compared.intervals, 0)
    np.testing.assert_array_equal(compared.adjusted_p, 1)


def test_holm_correction_accounts_for_the_number_of_tests() -> None:
    # The example of R's documentation of p.adjust.
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).max() == 1


def test_statistics_are_reproducible_with_the_same_seed() -> None:
    before, after = RNG.normal(size=(2, 20, 2))
    first, second, other = (compare(before, after, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.intervals, second.intervals)
    assert not np.array_equal(first.intervals, other.intervals)
