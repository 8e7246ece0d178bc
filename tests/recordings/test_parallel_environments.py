"""Recording of several environments that step together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from tests.recordings.episodes import SHAPE, step_values


def vector_values(step: int, count: int) -> dict[str, Any]:
    """One step of several environments; environment i has the values of episode i."""
    rows = [step_values(env, step) for env in range(count)]
    values: dict[str, Any] = {
        key: np.stack([row[key] for row in rows]) for key in ("observation", "action", "reward", "logits")
    }
    return values


def record_vector(directory: Path, **options: Any) -> None:
    """Environment 0 ends after 4 steps, environment 1 after 3, again and again."""
    with Recorder(directory, **options) as recorder:
        for step in range(12):
            ends = np.array([step % 4 == 3, step % 3 == 2])
            recorder.add(**vector_values(step, 2), terminated=ends, truncated=np.zeros(2, bool))


def test_the_option_every_counts_episodes_of_all_recorded_environments(tmp_path: Path) -> None:
    """Both begin at once, then environment 1 at steps 3, 6 and 9, and environment 0 at 4 and 8."""
    record_vector(tmp_path / "both", envs=None, every=2)
    rows = open_recording(tmp_path / "both").table()
    begins = [(row["number"], row["environment"], row["start_step"] // 2) for row in rows]
    assert begins == [(0, 0, 0), (2, 1, 3), (4, 1, 6), (6, 1, 9)]
    record_vector(tmp_path / "one", envs=[1], every=2)
    rows = open_recording(tmp_path / "one").table()
    assert [(row["number"], row["start_step"] // 2) for row in rows] == [(0, 0), (2, 6)]


def test_output_functions_are_called_only_for_recorded_environments(tmp_path: Path) -> None:
    calls = []

    def logits(env: int) -> np.ndarray:
        calls.append(env)
        return np.full(5, env, np.float32)

    with Recorder(tmp_path, envs=[2, 0], on_error="raise") as recorder:
        for step in range(3):
            values = vector_values(step, 4) | {"logits": logits}
            recorder.add(**values, terminated=np.full(4, step == 2), value=lambda: np.arange(4.0))
    assert calls == [2, 0] * 3
    for episode in open_recording(tmp_path):
        env = episode.facts["environment"]
        assert np.asarray(episode.policy_logits).tolist() == [[env] * 5] * 3
        assert np.asarray(episode.values).tolist() == [env] * 3


def test_episodes_of_parallel_environments_are_recorded_separately(tmp_path: Path) -> None:
    record_vector(tmp_path, envs=None)
    recording = open_recording(tmp_path)
    assert sorted((row["environment"], row["start_step"], row["steps"]) for row in recording.table()) == [
        *((0, start, 4) for start in (0, 8, 16)),
        *((1, start, 3) for start in (0, 6, 12, 18)),
    ]
    second = next(episode for episode in recording if episode.facts["environment"] == 1 and episode.number > 1)
    np.testing.assert_array_equal(second.observations[0], step_values(1, 3)["observation"])


def test_only_the_first_environment_is_recorded_by_default(tmp_path: Path) -> None:
    record_vector(tmp_path)
    assert {row["environment"] for row in open_recording(tmp_path).table()} == {0}


def test_an_environment_index_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"envs=\(2,\) must be indices from 0 to 1"):
        record_vector(tmp_path, envs=(2,))


def test_steps_of_idle_environments_are_not_recorded(tmp_path: Path) -> None:
    with Recorder(tmp_path, envs=None) as recorder:
        for step in range(4):
            idle = np.array([False, step == 1])
            recorder.add(**vector_values(step, 2), terminated=np.full(2, step == 3), idle=idle)
    assert sorted(row["steps"] for row in open_recording(tmp_path).table()) == [3, 4]


def test_final_observations_belong_to_the_environment_that_ended(tmp_path: Path) -> None:
    with Recorder(tmp_path, envs=None) as recorder:
        for step in range(2):
            recorder.add(
                **vector_values(step, 2),
                terminated=np.array([step == 1, False]),
                final_observation={0: np.full(SHAPE, 9, np.uint8)},
                final_state=np.array([[1.0], [2.0]], np.float32),
                final_value=np.array([5.0, 6.0]),
            )
    ended, stopped = open_recording(tmp_path)
    assert ended.final_observation is not None
    assert (ended.final_observation == 9).all()
    assert ended.final_states is not None
    assert ended.final_states[0].tolist() == [1.0]
    assert ended.final_value == 5.0
    assert stopped.final_observation is None
