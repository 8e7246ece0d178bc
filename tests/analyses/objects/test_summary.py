"""Summaries of effects by type, and the sentences that intervals allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.objects.section import TypeEffects
from rl_clarity.analyses.objects.summary import (
    Removals,
    SingleRemovals,
    plural,
    removals_from_chunks,
    sentences,
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


def test_small_effects_are_called_absent() -> None:
    effects = summarize([0.01] * 98 + [0.6] * 2, [0.001] * 97 + [0.2] * 3)
    assert effects.absent_policy is not None
    assert effects.absent_value is not None
    assert effects.absent_policy.share == pytest.approx(0.97)
    assert effects.share_above_noise == pytest.approx(0.02)
    assert sentences([effects], NOISE) == [
        "No reaction to crates: effect on the policy below 0.03 in 97 % of 100.",
        "No effect of crates on the value: below 0.5 in 98 % of 100.",
    ]


@pytest.mark.parametrize(
    ("policy", "episodes"),
    [
        ([0.001] * 94 + [0.2] * 6, 10),  # too many react
        ([0.001] * 95 + [0.9] * 5, 10),  # the interval of the mean is wider than the band
        ([0.001] * 100, 1),  # a single episode has no interval
        ([0.001] * 100, 4),  # the interval of a few episodes is too narrow
    ],
)
def test_nothing_is_called_absent_without_an_interval_inside_the_band(policy: list[float], episodes: int) -> None:
    effects = summarize([1.0, -1.0] * 50, policy, episodes)
    assert effects.absent_policy is None
    assert effects.absent_value is None
    assert not [text for text in sentences([effects], NOISE) if text.startswith("No ")]


def test_effects_with_a_sign_are_told_with_their_interval() -> None:
    rng = np.random.default_rng(0)
    effects = summarize(rng.normal(-2, 0.1, 100), rng.uniform(0.2, 0.3, 100))
    lower, policy = sentences([effects], NOISE)
    assert lower.startswith("Crates lower the value by 2 on average (2 to 2; 100 in 10 episodes)")
    assert policy.startswith("Crates change the policy by 0.25 on average (0.2")
    assert sentences([summarize(rng.normal(0, 2, 100), [0.02, 0.05] * 50)], NOISE) == []
    assert sentences([summarize(rng.normal(-2, 0.1, 100), [0.3] * 100, episodes=4)], NOISE) == []
    assert sentences([], NOISE, exact=False)[0].endswith("painted over with their surroundings, not removed.")


def test_single_episodes_have_no_interval_and_agents_without_a_value_none_of_it() -> None:
    effects = summarize(None, [0.1] * 5, episodes=1)
    assert effects.policy.mean == pytest.approx(0.1)
    assert (effects.policy.low, effects.policy.high) == (None, None)
    assert (effects.value, effects.value_magnitude, effects.share_above_noise, effects.together_value) == (None,) * 4


def test_distances_have_as_many_objects_each() -> None:
    distance = np.random.default_rng(0).permutation(100).astype(float)
    effects = summarize(distance - 50, distance / 100, distance=distance)
    bins = effects.by_distance
    assert [one.count for one in bins] == [20] * 5
    assert [(one.near, one.far) for one in bins] == [(20 * i, 20 * i + 19) for i in range(5)]
    assert [one.policy.mean for one in bins] == pytest.approx([(20 * i + 9.5) / 100 for i in range(5)])
    assert bins[0].value is not None
    assert bins[0].value.mean == pytest.approx(40.5)
    assert len(summarize([1.0] * 30, [0.1] * 30).by_distance) == 1


def test_trajectories_share_no_episodes_frames_or_tracks() -> None:
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


def test_noise_is_a_share_of_the_range_of_values() -> None:
    assert value_noise([[1.0, 2.0], None, [0.0, 1.5]]) == (2.0, 0.1)
    assert value_noise([None, None]) == (None, None)


def test_names_of_types_have_plurals() -> None:
    names = ["saw", "enemy", "lava", "wanted ship", "type 12", "bush", "bad food"]
    expected = ["saws", "enemies", "lava", "wanted ships", "objects of type 12", "bushes", "bad food"]
    assert [plural(name)[0] for name in names] == expected
    assert [plural(name)[1] for name in ("saw", "lava")] == ["", "s"]
