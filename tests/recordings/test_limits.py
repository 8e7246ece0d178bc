"""Recordings whose size is limited, and checkpoints of episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording, open_recording
from rl_clarity.recordings.retention import Limits, StoredEpisode, choose_removed
from tests.recordings.episodes import add_episode, make_recording, step_values


def check_numbers(recording: StoredRecording) -> list[int]:
    """Check that every episode holds what was recorded under its number; return the numbers."""
    numbers = []
    for episode in recording:
        expected = [step_values(episode.number, step)["observation"] for step in range(len(episode))]
        np.testing.assert_array_equal(episode.observations, expected)
        numbers.append(episode.number)
    return numbers


def test_limited_recordings_keep_new_episodes_and_a_few_old_ones(tmp_path: Path) -> None:
    make_recording(tmp_path, (3,) * 60, max_episodes=10)
    numbers = check_numbers(StoredRecording(tmp_path))
    assert len(numbers) == 10
    assert numbers[-5:] == [55, 56, 57, 58, 59]
    assert numbers[0] == 0
    assert max(np.diff(numbers)) < 25


def test_max_bytes_limits_the_size_of_a_recording(tmp_path: Path) -> None:
    limit = 200_000
    recorder = Recorder(tmp_path, name=None, max_bytes=limit, on_error="raise")
    sizes = []
    with recorder:
        for number in range(60):
            recorder.agent(lambda path: Path(path).write_bytes(bytes(1000)))
            add_episode(recorder, number, 20)
            recorder._thread.submit(lambda: None).result()
            sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
    assert limit / 2 < sizes[-1]
    assert max(sizes) < 1.2 * limit
    numbers = check_numbers(StoredRecording(tmp_path))
    assert numbers[0] == 0
    assert numbers[-3:] == [57, 58, 59]
    assert len(list((tmp_path / "agents").iterdir())) == len(numbers)


def test_limits_hold_for_a_continued_recording(tmp_path: Path) -> None:
    make_recording(tmp_path, (3,) * 8)
    with Recorder(tmp_path, max_episodes=4) as recorder:
        add_episode(recorder, 0, 3)
    recording = StoredRecording(tmp_path)
    assert len(recording) == 4
    assert recording[-1].index == 8
    assert [row["episode"] for row in recording.table()] == [episode.index for episode in recording]


def test_an_open_reader_finds_episodes_moved_to_another_file(tmp_path: Path) -> None:
    make_recording(tmp_path, (40,) * 4)
    before = StoredRecording(tmp_path)
    make_recording(tmp_path, (3,), max_episodes=2)
    assert not (tmp_path / "data-00000.bin").exists()
    with pytest.raises(SamplesError, match=r"data-00000\.bin"):
        before[0].observations[0]
    recording = before.refresh()
    assert [len(episode) for episode in recording] == [40, 3]
    np.testing.assert_array_equal(recording[0].observations[39], step_values(recording[0].number, 39)["observation"])


@pytest.mark.parametrize(("name", "value"), [("max_episodes", 0), ("max_bytes", -1)])
def test_limits_of_recordings_must_be_positive(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(OptionError, match=f"{name}={value} must be at least 1"):
        Recorder(tmp_path, **{name: value})  # type: ignore[arg-type]


def test_a_recording_in_remote_storage_cannot_be_limited() -> None:
    with pytest.raises(OptionError, match="cannot be limited"):
        Recorder("memory://limits/test", max_episodes=3)


def test_the_newest_episode_is_kept_even_if_it_exceeds_the_limit() -> None:
    episodes = {index: StoredEpisode(100) for index in range(3)}
    assert choose_removed(episodes, {}, 300, Limits(bytes=10)) == [0, 1]
    assert choose_removed(episodes, {}, 300, Limits(episodes=1)) == [0, 1]
    assert choose_removed(episodes, {}, 300, Limits(bytes=300)) == []


def test_a_checkpoint_shared_by_episodes_counts_once_toward_the_limit() -> None:
    episodes = {index: StoredEpisode(0, range(1)) for index in range(4)}
    assert choose_removed(episodes, {0: 100}, 100, Limits(bytes=100)) == []


def test_episodes_store_the_checkpoint_with_which_they_began(tmp_path: Path) -> None:
    saved = []
    file = tmp_path / "agent.pt"
    with Recorder(tmp_path, every=2, on_error="raise") as recorder:
        for number in range(6):
            if number == 0:
                file.write_text("from a file")
                recorder.agent(file)
            if number == 3:

                def save(path: str) -> None:
                    saved.append(path)
                    Path(f"{path}.zip").write_text("from a function")

                recorder.agent(save)
            add_episode(recorder, number, 2)
    recording = open_recording(tmp_path)
    paths = [recording.checkpoint(episode) for episode in recording]
    assert len(saved) == 1
    assert [Path(path).name for path in paths if path] == ["00000.pt", "00000.pt", "00001.zip"]
    assert [Path(path).read_text() for path in paths if path] == ["from a file"] * 2 + ["from a function"]
    assert [row["agent"] for row in recording.table()] == [0, 0, 1]
    assert len(list((Path(recording.location) / "agents").iterdir())) == 2


def test_checkpoints_of_several_programs_have_different_numbers(tmp_path: Path) -> None:
    for _ in range(2):
        with Recorder(tmp_path) as recorder:
            recorder.agent(lambda path: Path(path).write_text("x"))
            add_episode(recorder, 0, 2)
    assert [row["agent"] for row in open_recording(tmp_path).table()] == [0, 1]


def test_checkpoints_are_stored_in_remote_storage() -> None:
    address = "memory://recordings/agents"
    for _ in range(2):
        with Recorder(address, name=None, on_error="raise") as recorder:
            recorder.agent(lambda path: Path(path).write_text("x"))
            add_episode(recorder, 0, 2)
    recording = open_recording(address)
    assert [recording.checkpoint(episode) for episode in recording] == [
        f"{address}/agents/00000",
        f"{address}/agents/00001",
    ]


def test_a_checkpoint_that_cannot_be_saved_ends_the_recording(tmp_path: Path) -> None:
    with (  # noqa: PT031
        pytest.warns(RuntimeWarning, match="cannot save a checkpoint in .*No such file"),
        Recorder(tmp_path) as recorder,
    ):
        recorder.agent(tmp_path / "missing.pt")
        add_episode(recorder, 0, 2)
    with Recorder(tmp_path, on_error="raise") as recorder:
        recorder.agent(lambda path: None)
        with pytest.raises(SamplesError, match="must write one file, but it wrote 0"):
            add_episode(recorder, 0, 2)


def test_episodes_may_have_no_checkpoint(tmp_path: Path) -> None:
    make_recording(tmp_path, (2,))
    recording = open_recording(tmp_path)
    assert recording.checkpoint(recording[0]) is None
