"""Which windows are explained, and how gradients become what a chunk contains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rl_clarity.analyses.memory.explained import window_arrays
from rl_clarity.analyses.memory.windows import WindowOptions, choose_windows
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions

EPISODES, STEPS = 5, 20
REWARDS = np.zeros(EPISODES * STEPS)
REWARDS[[27, 33]] = 1, -10
LOG_PROBABILITIES = np.log(np.tile([0.9, 0.1], (EPISODES * STEPS, 1)))
LOG_PROBABILITIES[STEPS * np.arange(EPISODES) + 12] = np.log(0.5)


def fitted(**fields: Any) -> Any:
    data = SimpleNamespace(
        time=np.tile(np.arange(STEPS), EPISODES),
        starts=np.arange(0, EPISODES * STEPS, STEPS),
        length=np.full(EPISODES * STEPS, STEPS),
        rewards=REWARDS,
        log_probabilities=LOG_PROBABILITIES,
        observations=lambda rows: np.full((len(rows), 4, 6, 3), 51, np.uint8),
    )
    return cast(Any, SimpleNamespace(data=data, **fields))


def cards() -> dict[str, np.ndarray]:
    """Examples of two directions; the top of the first is the first step of an episode, before which there is none."""
    places = {"top": [[[0, 0], [1, 5]], [[2, 3], [3, 3]]], "middle": [[[1, 7], [-1, -1]], [[2, 9], [-1, -1]]]}
    places["bottom"] = [[[2, 3], [4, 4]], [[0, 8], [0, 9]]]
    return {end: np.array(steps, np.int32) for end, steps in places.items()}


EVENTS = ("reward", "entropy", "end")
CLIPS = np.array([[[3, 10]], [[4, 11]]], np.int32)


def test_windows_cover_state_components_behaviors_and_episodes() -> None:
    chosen = choose_windows(fitted(), cards(), CLIPS, 16)
    assert len(chosen) == 16
    kinds = [reason.kind for why in chosen.values() for reason in why]
    assert kinds.count("behaviour") == 2
    assert not {"decision", "reward", "entropy", "end"} & set(kinds)  # a twentieth of 16 is none
    shared = chosen[2 * STEPS + 3]
    assert [(one.direction, one.end) for one in shared] == [(0, "bottom"), (1, "top")]
    assert 0 not in chosen  # the first step of an episode
    assert {row // STEPS for row, why in chosen.items() if why[0].kind == "episode"} == set(range(EPISODES))


def test_windows_start_after_the_context_frames_of_a_simulation() -> None:
    chosen = choose_windows(fitted(), cards(), CLIPS, 200, context=8)
    assert min(row % STEPS for row in chosen) == 9
    assert len(chosen) == EPISODES * (STEPS - 9)


def test_windows_cover_rewards_high_entropies_and_episode_ends() -> None:
    chosen = choose_windows(fitted(), cards(), CLIPS, 40)
    events = {kind: [row for row, why in chosen.items() if kind in {one.kind for one in why}] for kind in EVENTS}
    assert events == {"reward": [33, 27], "entropy": [12, 32], "end": [19, 39]}


def test_the_requested_number_of_windows_is_chosen() -> None:
    assert [len(choose_windows(fitted(), cards(), CLIPS, count)) for count in (1, 2, 7)] == [1, 2, 7]


def test_requested_steps_are_chosen_first_as_windows() -> None:
    places = WindowOptions(count=2, at=("3:8", "1:2")).places()
    chosen = choose_windows(fitted(), cards(), CLIPS, 2, asked=places)
    assert {row: [one.kind for one in why] for row, why in chosen.items()} == {
        2 * STEPS + 7: ["asked"],
        1: ["asked"],
    }
    assert len(choose_windows(fitted(), cards(), CLIPS, 16, asked=places)) == 16
    with pytest.raises(OptionError, match=f"at has 1:1, but only steps 2 to {STEPS} of this episode"):
        choose_windows(fitted(), cards(), CLIPS, 16, asked=[(0, 0)])
    with pytest.raises(OptionError, match=f"at has 9:1, but only {EPISODES} episodes were played"):
        choose_windows(fitted(), cards(), CLIPS, 16, asked=[(8, 0)])


@pytest.mark.parametrize(
    ("options", "message"), [({"at": ("3",)}, "EPISODE:STEP"), ({"at": ("1:2",), "count": 0}, "at most")]
)
def test_invalid_requested_steps_are_refused(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        WindowOptions(**options)


def test_a_window_stores_gradients_times_frames_and_coordinates() -> None:
    rng = np.random.default_rng(0)
    directions = Directions(np.zeros(3), np.ones(3), np.eye(3)[:2])
    coordinates = rng.normal(size=(EPISODES * STEPS, 2))
    frames, states = rng.normal(size=(1, 2, 4, 6, 3)), rng.normal(size=(1, 2, 3))
    baseline = np.zeros((4, 6, 3), np.uint8)
    center = coordinates[1:].mean(axis=0)
    one = fitted(coordinates=coordinates, center=center, directions=directions)
    arrays = window_arrays(one, "memory", 7, frames, states, baseline, 2)
    maps = (frames.sum(axis=-1) * 51 / 255).reshape(1, 2, 2, 2, 2, 3).sum(axis=(3, 5))
    assert arrays["memory"].dtype == np.int8
    stored = arrays["memory"] / 127 * arrays["memory.scale"][:, None, None, None]
    np.testing.assert_allclose(stored, maps, atol=np.abs(maps).max() / 250)
    expected = states[..., :2] * (coordinates - center)[6:8]
    np.testing.assert_allclose(arrays["memory.components"], expected, rtol=1e-5)
