"""Summaries of effects by type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.objects.section import TypeEffects
from rl_clarity.analyses.objects.summary import (
    Removals,
    SingleRemovals,
    removals_from_chunks,
    removed_types,
    summarize_types,
    value_noise,
)

NOISE = 0.5


def summarize(value: Any, policy: Any, episodes: int = 10, distance: Any = 1.0) -> TypeEffects:
    """Effects of objects of a type, evenly in so many episodes."""
    count = len(policy)
    arrays: dict[str, Any] = {
        "type": np.full(count, "crate"),
        "episode": np.arange(count) % episodes,
        "frame": np.arange(count),
        "policy": np.array(policy),
        "value": None if value is None else np.array(value),
        "logits": np.zeros((count, 3)),
    }
    single = SingleRemovals(**arrays, track=np.arange(count), distance=np.broadcast_to(distance, count))
    (effects,) = summarize_types(single, Removals(**arrays), [], None if value is None else NOISE, seed=0)
    return effects


def test_the_share_of_effects_above_the_noise_is_counted() -> None:
    effects = summarize([0.01] * 98 + [0.6] * 2, [0.001] * 100)
    assert effects.share_above_noise == pytest.approx(0.02)


def test_object_types_are_summarized_with_the_frame_of_largest_effect() -> None:
    arrays: dict[str, Any] = {
        "type": np.array(["saw", "coin", "coin", "coin"]),
        "episode": np.array([5, 5, (1 << 32) + 1, (1 << 32) + 1]),
        "frame": np.array([8, 8, (1 << 32) + 4, (1 << 32) + 12]),
        "policy": np.array([0.5, 0.1, 0.4, 0.2]),
        "value": np.array([-1.0, 1.0, 2.0, 4.0]),
        "logits": np.zeros((4, 3)),
    }
    coin, saw = removed_types(SingleRemovals(**arrays, track=np.arange(4), distance=np.ones(4)))
    assert (coin.type, coin.trajectory, coin.frame, coin.largest) == ("coin", 1, 4, 0.4)
    assert (saw.type, saw.trajectory, saw.frame, saw.largest) == ("saw", 0, 8, 0.5)
    assert coin.value is not None
    assert (coin.value.sums, coin.value.counts) == ([1, 6], [1, 2])
    assert saw.policy.counts == [1, 0]
    (coin, _) = removed_types(SingleRemovals(**{**arrays, "value": None}, track=np.arange(4), distance=np.ones(4)))
    assert coin.value is None


def test_missing_intervals_and_value_effects_are_none_in_summaries() -> None:
    effects = summarize(None, [0.1] * 5, episodes=1)
    assert effects.policy.mean == pytest.approx(0.1)
    assert (effects.policy.low, effects.policy.high) == (None, None)
    assert (effects.value, effects.value_magnitude, effects.share_above_noise, effects.together_value) == (None,) * 4


def test_distance_bins_contain_equal_numbers_of_objects() -> None:
    distance = np.random.default_rng(0).permutation(100).astype(float)
    effects = summarize(distance - 50, distance / 100, distance=distance)
    bins = effects.by_distance
    assert [one.count for one in bins] == [20] * 5
    assert [(one.near, one.far) for one in bins] == [(20 * i, 20 * i + 19) for i in range(5)]
    assert [one.policy.mean for one in bins] == pytest.approx([(20 * i + 9.5) / 100 for i in range(5)])
    assert bins[0].value is not None
    assert bins[0].value.mean == pytest.approx(40.5)
    assert len(summarize([1.0] * 30, [0.1] * 30).by_distance) == 1


def test_merged_trajectories_keep_distinct_episodes_frames_and_tracks() -> None:
    chunk = {
        **{"frame": np.array([0, 3]), "type": np.array([0, 1]), "track": np.array([0, 1]), "offset": np.ones((2, 2))},
        **{"policy": np.zeros(2), "logits": np.zeros((2, 3)), "value": np.ones(2)},
    }
    chunk |= {f"together.{name}": values for name, values in chunk.items()}
    firsts = np.array([1, 0, 1, 0], bool)
    single, together = removals_from_chunks([chunk, chunk], [["a", "b"], ["b", "c"]], [firsts, firsts])
    assert single.type.tolist() == ["a", "b", "b", "c"]
    assert together.type.tolist() == single.type.tolist()
    for array in (single.episode, single.frame, single.track, together.episode):
        assert len(np.unique(array)) == 4


def test_the_noise_threshold_is_a_share_of_the_value_range() -> None:
    assert value_noise([[1.0, 2.0], None, [0.0, 1.5]]) == (2.0, 0.1)
    assert value_noise([None, None]) == (None, None)
