"""Numbers of a page of checkpoints: learning curve, divergence, correlation of maps."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.analyses.checkpoints import binned_curve, jensen_shannon, map_correlation


def test_a_short_learning_curve_is_not_binned() -> None:
    curve = binned_curve(np.array([0.0, 10, 20, 40]), np.array([1.0, 3, 2, 5]))
    assert curve["steps"].tolist() == [0, 10, 20, 40]
    for name in ("returns", "low", "high"):
        assert curve[name].tolist() == [1, 3, 2, 5]


def test_a_long_learning_curve_is_binned_into_means_and_ranges() -> None:
    curve = binned_curve(np.arange(100.0), np.tile([0.0, 4], 50), points=10)
    assert curve["steps"].shape == (10,)
    assert curve["returns"].tolist() == [2] * 10
    assert (curve["low"].tolist(), curve["high"].tolist()) == ([0] * 10, [4] * 10)


def test_jensen_shannon_divergence_is_0_for_equal_policies() -> None:
    same = np.tile([0.2, 0.3, 0.5], (4, 5, 1))
    assert jensen_shannon(same) == pytest.approx(np.zeros(5), abs=1e-12)
    disjoint = np.eye(3)[:, None]  # (C, T, A): three checkpoints, one step
    assert jensen_shannon(disjoint) == pytest.approx([np.log(3)])


def test_map_correlation_averages_over_frames_with_nonconstant_maps() -> None:
    rng = np.random.default_rng(0)
    maps = rng.random((3, 4, 5))
    assert map_correlation(maps, 2 * maps + 1) == pytest.approx(1)
    assert map_correlation(maps, -maps) == pytest.approx(-1)
    other = rng.random((3, 4, 5))
    expected = np.mean([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(maps[1:], other[1:], strict=True)])
    maps[0] = 7
    assert map_correlation(maps, other) == pytest.approx(expected)
    assert map_correlation(np.zeros((2, 4, 5)), other[:2]) is None
