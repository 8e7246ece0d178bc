"""Facts about features from their activations: known answers."""

from __future__ import annotations

import numpy as np

from rl_clarity.visualization.dataset_examples import NONE
from rl_clarity.visualization.feature_facts import (
    BINS,
    EXAMPLES,
    feature_facts,
    frames_by_effect,
    from_different_episodes,
    net_histogram,
    sign_shares,
)

OBSERVATIONS, SIDE = 200, 16


def activations() -> np.ndarray:
    """Features (4, M, h, w): twins beside each other in every other observation, one elsewhere, and one never on."""
    rng = np.random.default_rng(0)
    values = np.zeros((4, OBSERVATIONS, SIDE, SIDE), np.float32)
    for index in range(OBSERVATIONS):
        row, column = rng.integers(0, 8), rng.integers(0, SIDE - 1)
        strength = 1 + index / OBSERVATIONS
        if index % 2:
            values[0, index, row, column] = strength
            values[1, index, row, column + 1] = 3 * strength
        if index % 4 == 1:
            values[2, index, row + 8, column] = strength
    return values


def test_features_that_overlap_are_found_as_twins() -> None:
    found = feature_facts(activations().__getitem__, 4, np.arange(OBSERVATIONS))
    assert found.twins == [[1], [0], [], []]
    np.testing.assert_array_equal(found.overlap[:2, :2], 1)
    np.testing.assert_array_equal(found.overlap[2, :2], 0)
    np.testing.assert_array_equal(found.overlap[3], 0)


def test_overlap_of_features_is_not_transitive() -> None:
    """Each is one position from the next, and the first two from the last: further than features overlap."""
    values = np.stack([np.roll(activations()[0], shift, axis=2) for shift in range(3)])
    found = feature_facts(values.__getitem__, 3, np.arange(OBSERVATIONS))
    assert found.twins == [[1], [0, 2], [1]]


def test_feature_facts_include_shares_and_histograms_of_activation() -> None:
    found = feature_facts(activations().__getitem__, 4, np.arange(OBSERVATIONS))
    np.testing.assert_allclose(found.frames, [0.5, 0.5, 0.25, 0])
    np.testing.assert_allclose(found.positions, np.array([0.5, 0.5, 0.25, 0]) / SIDE**2)
    np.testing.assert_array_equal(found.histogram.sum(axis=1), OBSERVATIONS)
    np.testing.assert_array_equal(found.histogram[:, 0], [100, 100, 150, 200])
    np.testing.assert_allclose(found.strongest, [1.995, 5.985, 1.985, 0], rtol=1e-6)


def test_examples_of_a_feature_come_from_different_episodes() -> None:
    values = activations()
    episodes = np.arange(OBSERVATIONS) // 4
    found = feature_facts(values.__getitem__, 4, episodes)
    for name in ("excites", "middle", "lowest"):
        places, strengths = found.examples[name].places, found.examples[name].strengths
        assert places.shape == (4, EXAMPLES, 2)
        shown = places[0, :, 0]
        assert len(set(episodes[shown])) == EXAMPLES
        at = values[0, shown].reshape(EXAMPLES, -1)[np.arange(EXAMPLES), places[0, :, 1]]
        np.testing.assert_array_equal(at, strengths[0])
        assert (np.diff(strengths[0]) <= 0).all()
    assert found.examples["excites"].places[0, :, 0].tolist() == list(range(199, 199 - 4 * EXAMPLES, -4))
    np.testing.assert_array_equal(found.examples["lowest"].strengths[0], 0)
    middle = found.examples["middle"].strengths[0]
    assert middle.min() < 1.5 < middle.max(), "around the median of the observations in which it is on"
    assert (found.examples["excites"].places[3] == NONE).all(), "a feature that is never on has no examples"


def test_episodes_repeat_only_if_there_are_too_few_of_them() -> None:
    order = np.array([4, 3, 2, 1, 0])
    assert from_different_episodes(order, np.array([0, 1, 1, 0, 0]), 2).tolist() == [4, 2]
    assert from_different_episodes(order, np.array([0, 1, 1, 0, 0]), 4).tolist() == [4, 3, 2, 1]
    assert from_different_episodes(order, np.zeros(5, int), 9).tolist() == order.tolist()


def test_frames_are_listed_by_the_effect_of_a_feature() -> None:
    totals = [np.zeros((30, 1, 2)), np.zeros((30, 1, 2))]
    peaks = [np.arange(60).reshape(30, 1, 2), np.arange(60, 120).reshape(30, 1, 2)]
    firsts = [np.zeros(30, bool), np.zeros(30, bool)]
    firsts[1][20] = True
    totals[0][7, 0] = 5, -1
    totals[0][9, 0] = 3, 0  # of the same episode
    totals[1][21, 0] = 2, -8
    totals[1][3, 0] = 1, 0
    found = frames_by_effect(totals, peaks, firsts)
    # One of each episode first, then the second best.
    assert found["raises"].places[0, :4].tolist() == [[0, 7, 14], [0, 9, 18], [1, 3, 66], [-1, -1, -1]]
    assert found["raises"].strengths[0, :4].tolist() == [4, 3, 1, 0]
    assert found["lowers"].places[0, :2].tolist() == [[1, 21, 103], [-1, -1, -1]]
    assert found["lowers"].strengths[0, 0] == -6


def test_shares_and_histograms_of_feature_effects_are_computed() -> None:
    totals = [np.array([[[10, 0]], [[0, -5]], [[0, -4]], [[1, -0.5]]], np.float32)]
    np.testing.assert_allclose(sign_shares(totals), [[0.25, 0.5]])
    rare = [np.array([[[0.1, 0]]] * 3 + [[[0, -0.1]], [[0.001, 0]], [[9, 0]]], np.float32)]
    np.testing.assert_allclose(sign_shares(rare), [[4 / 6, 1 / 6]])
    counts, limits = net_histogram(totals)
    assert counts.shape == (1, BINS)
    assert counts.sum() == 4
    assert counts[0, -1] == 1
    assert counts[0, : BINS // 2].sum() == 2
    assert limits.tolist() == [10]


def test_feature_facts_are_deterministic() -> None:
    first, second = (feature_facts(activations().__getitem__, 4, np.arange(OBSERVATIONS)) for _ in range(2))
    for name in ("strongest", "frames", "positions", "histogram", "overlap"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
