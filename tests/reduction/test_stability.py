"""Stability of features over seeds."""

from __future__ import annotations

import numpy as np

from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.stability import stability


def test_separable_features_are_stable() -> None:
    rng = np.random.default_rng(0)
    components = np.kron(np.eye(4), np.ones(3))
    rows = rng.exponential(1, (600, 4)) * (rng.random((600, 4)) < 0.3) @ components
    reduction = ChannelReduction.fit(rows, 4)
    np.testing.assert_allclose(stability(reduction, rows), 1, atol=1e-3)


def test_features_of_noise_are_unstable() -> None:
    rows = np.random.default_rng(0).random((400, 30))
    reduction = ChannelReduction.fit(rows, 6)
    found = stability(reduction, rows, seed=3)
    assert found.shape == (6,)
    assert found.mean() < 0.97
    np.testing.assert_array_equal(found, stability(reduction, rows, seed=3))


def test_features_of_a_layer_without_attribution_have_stability_zero() -> None:
    rows = np.zeros((10, 4))
    np.testing.assert_array_equal(stability(ChannelReduction.fit(rows, 2), rows), 0)
