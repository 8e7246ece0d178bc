"""Totals of attribution over positions and frames."""

import numpy as np
import pytest

from rl_clarity.visualization.totals import (
    channel_totals,
    effect_spread,
    mean_effects,
    peak_positions,
    unexplained_shares,
    variance_share,
)


def test_channel_totals_sum_positive_and_negative_attribution_separately() -> None:
    channels = np.array([1, -2, 3, 4, -5, 6, 7, -8], np.float32).reshape(1, 2, 2, 2)
    residual = np.full((1, 2, 2), -0.5, np.float32)
    totals = channel_totals(channels, residual)
    np.testing.assert_array_equal(totals[0], [[11, -5], [10, -10], [0, -2]])
    np.testing.assert_array_equal(channel_totals(channels), totals[:, :2])


def test_mean_effects_average_over_all_frames() -> None:
    short = np.array([[[4.0, -1.0]]])
    long = np.array([[[1.0, 0.0]], [[0.0, -1.0]]])
    np.testing.assert_allclose(mean_effects([short, long]), [1.0])


def test_the_effect_spread_covers_four_fifths_of_all_frames() -> None:
    totals = np.zeros((11, 2, 2))
    totals[:, 0, 0] = np.arange(11)
    totals[:, 1, 1] = -10
    np.testing.assert_allclose(effect_spread([totals[:4], totals[4:]]), [[1, 9], [-10, -10]])


def test_peak_positions_are_those_of_strongest_attribution() -> None:
    channels = np.zeros((2, 3, 4, 2), np.float32)
    channels[0, 1, 2, 0], channels[0, 2, 3, 0] = 5, -7
    channels[1, 0, 1, 1], channels[1, 0, 2, 1] = -1, -2
    assert peak_positions(channels)[:, :, 1].tolist() == [[11, 0], [0, 2]]
    assert peak_positions(channels)[0, 0, 0] == 6


def test_features_that_follow_an_output_explain_its_variance() -> None:
    output = np.array([1.0, 4.0, 2.0, 5.0])
    account = {"features": output[:, None] * [0.5, 0.75], "residual": -0.25 * output - 3, "output": output}
    half = {**account, "features": account["features"] * [1, 0]}
    assert variance_share([account]) == 1
    assert variance_share([half]) == pytest.approx(1 - 0.75**2)
    against = {**account, "features": -account["features"], "residual": 0 * output}
    assert variance_share([against]) == pytest.approx(1 - 2.25**2)
    constant = {**account, "output": np.full(4, 2.0)}
    assert variance_share([constant]) is None
    shifted = {name: values + (100 if name == "output" else 0) for name, values in account.items()}
    found = variance_share([account, shifted])
    assert found is not None
    assert found < 0.1, "over all frames, not within each trajectory"


def test_unexplained_variance_is_divided_into_memory_error_and_residual() -> None:
    rng = np.random.default_rng(1)
    names = ("baseline", "memory", "completeness_error", "residual")
    terms = {name: rng.normal(size=40) * scale for name, scale in zip(names, (0.0, 2.0, 0.5, 0.3), strict=True)}
    features = rng.normal(size=(40, 3))
    output = features.sum(axis=1) + sum(terms.values())
    parts = {**terms, "features": features, "output": output}
    shares, explained = unexplained_shares([parts]), variance_share([parts])
    assert shares is not None
    assert explained is not None
    assert explained + sum(shares.values()) == pytest.approx(1)
    assert shares["baseline"] == 0
    assert shares["memory"] > 4 * abs(shares["completeness_error"]) > 0
    assert unexplained_shares([{**parts, "output": np.ones(40)}]) is None
