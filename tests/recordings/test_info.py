"""Numbers that environments report are recorded with the observations that they came with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError, SamplesError, WorldError
from rl_clarity.environments.light_switch import LEFT
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.recordings.info import InfoNumbers, object_numbers
from rl_clarity.recordings.recording import open_recording
from tests.light_switch import checkpoint


class Walk(gymnasium.Env[np.ndarray, np.int64]):
    """The place is in the observation and, except after a reset, in the info, beside a text."""

    observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 3
        return self.draw(), {"at": [self.place, 0]}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += 1
        info = {"at": [self.place, 0], "place": self.place, "name": "x"}
        return self.draw(), 0.0, self.place == 8, False, info

    def draw(self) -> np.ndarray:
        return np.full((8, 8, 3), self.place, np.uint8)


def walk(environment: gymnasium.Env[Any, Any], episodes: int = 2) -> None:
    for _ in range(episodes):
        environment.reset()
        while not environment.step(0)[2]:
            pass
    environment.close()


def test_info_values_are_recorded_with_their_observation(tmp_path: Path) -> None:
    walk(rl_clarity.RecordEpisodes(Walk(), tmp_path, info=["place", "at"], on_error="raise"))
    for episode in open_recording(tmp_path):
        seen = np.asarray(episode.observations)[:, 0, 0, 0].astype(float)
        place = np.asarray(episode.info["place"])
        assert np.isnan(place[0])  # the reset's info has no place
        np.testing.assert_array_equal(place[1:], seen[1:])
        np.testing.assert_array_equal(np.asarray(episode.info["at"])[:, 0], seen)


def test_a_recording_without_info_can_be_continued_with_info(tmp_path: Path) -> None:
    walk(rl_clarity.RecordEpisodes(Walk(), tmp_path, on_error="raise"), 1)
    walk(rl_clarity.RecordEpisodes(Walk(), tmp_path, info=["at"], on_error="raise"), 1)
    assert [list(episode.info) for episode in open_recording(tmp_path)] == [[], ["at"]]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["name"], r"info\['name'\] .* 'x', which is neither a number"),
        (["plaec"], "'plaec': the environment's info never contained this name; it contained .*at, name, place"),
    ],
)
def test_info_entries_that_cannot_be_recorded_are_named_in_the_error(
    tmp_path: Path, names: list[str], message: str
) -> None:
    with pytest.raises(SamplesError, match=message):
        walk(rl_clarity.RecordEpisodes(Walk(), tmp_path, info=names, on_error="raise"))


def test_info_entries_that_are_text_are_refused(tmp_path: Path) -> None:
    step: dict[str, Any] = {
        "observation": np.zeros((4, 4, 3), np.uint8),
        "action": 0,
        "reward": 0.0,
        "terminated": False,
    }
    recorder = rl_clarity.Recorder(tmp_path, on_error="raise")
    with recorder, pytest.raises(SamplesError, match=r"info\.name has type"):
        recorder.add(**step, info={"name": "x"})


@pytest.mark.parametrize("names", ["cue", ["a name"]])
def test_invalid_names_of_info_entries_are_refused(names: Any) -> None:
    with pytest.raises(OptionError, match="info="):
        InfoNumbers(names)


def test_record_stores_requested_info_of_the_environment(tmp_path: Path) -> None:
    recording = rl_clarity.record(checkpoint("memory"), tmp_path / "play", episodes=8, info=["cue"])
    rewarded = 0
    for episode in recording:
        cues = np.asarray(episode.info["cue"])
        assert len(set(cues)) == 1
        assert episode.cause in ("right switch", "wrong switch", "no switch")
        assert (episode.cause == "right switch") == bool(episode.rewards[-1])
        rewarded += (episode.actions[-1] == cues[-1] + LEFT) == bool(episode.rewards[-1])
    assert rewarded == len(recording)
    with pytest.raises(SamplesError, match=r"'clue': .* never contained this name; it contained cue"):
        rl_clarity.record(checkpoint("memory"), tmp_path / "other", episodes=2, info=["clue"])
    with pytest.raises(WorldError):
        rl_clarity.record(checkpoint("memory"), tmp_path / "objects", episodes=2, info=["objects"])
    assert not (tmp_path / "objects").exists()


def test_objects_are_recorded_as_position_of_the_nearest_of_each_type() -> None:
    def item(type: str, dx: float, dy: float, left: float) -> WorldObject:
        return WorldObject(type, 0, (0, 0, 1, 1), (dx, dy), (left, 0, left + 0.1, 0.1))

    numbers = object_numbers([item("saw", 3, -4, 0.5), item("saw", 30, 0, 2.0), item("fast coin", 6, 8, 1.5)],
                             ("saw", "fast coin", "crate"))  # fmt: skip
    assert (numbers["objects.saw.distance"], numbers["objects.saw.dx"], numbers["objects.saw.dy"]) == (5, 3, -4)
    assert (numbers["objects.saw.visible"], numbers["objects.fast_coin.visible"]) == (1, 0)
    assert numbers["objects.crate.visible"] == 0
    assert np.isnan(numbers["objects.crate.distance"])
