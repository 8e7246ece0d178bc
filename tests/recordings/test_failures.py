"""Recordings after a failed write, sync or rename, and after last writes that did not reach the disk."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings import recording_writer
from rl_clarity.recordings.blocks import MAX_STEPS
from rl_clarity.recordings.layout import BLOCK, EPISODE
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from tests.failing_files import failing_files
from tests.recordings.episodes import add_episode, step_values

LENGTHS = (5, 70, 3)


@pytest.fixture(autouse=True)
def _small_data_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "LOCAL_FILE_BYTES", 2**15)


def record(directory: Path) -> list[str]:
    """Record episodes; return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Recorder(directory, name=None) as recorder:
            recorder.agent(lambda path: Path(path).write_text("agent"))
            for episode, length in enumerate(LENGTHS):
                add_episode(recorder, episode, length)
    return [str(one.message) for one in caught]


def read_lengths(directory: Path, before: int = 0) -> list[int]:
    """Lengths of the episodes, all of which have the steps that were recorded first.

    The program that recorded the first `before` episodes was stopped, and started again.
    """
    lengths = []
    for index, episode in enumerate(open_recording(directory)):
        number = index if index < before else index - before
        expected = [step_values(number, step)["observation"] for step in range(len(episode))]
        np.testing.assert_array_equal(episode.observations, expected)
        assert episode.end != "done" or len(episode) == LENGTHS[number]
        lengths.append(len(episode))
    return lengths


def test_a_long_recording_is_divided_into_several_data_files(tmp_path: Path) -> None:
    assert not record(tmp_path)
    assert len(list(tmp_path.glob("data-*.bin"))) > 1
    assert read_lengths(tmp_path) == list(LENGTHS)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True])
def test_repeating_a_program_completes_a_recording_after_any_failure(tmp_path: Path, lasting: bool) -> None:
    with failing_files(tmp_path / "counted") as operations:
        record(tmp_path / "counted")
    assert len(operations) > 20
    for number in range(1, len(operations) + 1):
        directory = tmp_path / str(number)
        with failing_files(directory, number, lasting=lasting):
            try:
                problems = record(directory)
            except SamplesError as error:
                problems = [str(error)]
        name = operations[number - 1]
        assert any("No space left" in problem for problem in problems) or "fsync" in name, name
        before = read_lengths(directory) if (directory / "recording.json").exists() else []
        assert before == list(LENGTHS[: len(before)]) or before[-1] < LENGTHS[len(before) - 1]
        assert record(directory) == []
        assert read_lengths(directory, len(before)) == [*before, *LENGTHS]


class HalfWritten:
    """A file whose next write stops in the middle, as on a full disk."""

    def __init__(self, file: Any) -> None:
        self._file, self._failed = file, False

    def write(self, data: memoryview) -> int:
        if self._failed:
            return int(self._file.write(data))
        self._failed = True
        self._file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_partly_written_record_is_removed_before_the_next_one(tmp_path: Path) -> None:
    with Recorder(tmp_path, name=None, on_error="raise") as recorder:
        add_episode(recorder, 0, LENGTHS[0])
        writer, path = recorder._writer, tmp_path / "blocks.bin"
        file: Any = HalfWritten(writer._blocks)
        before = path.read_bytes()
        with pytest.raises(SamplesError, match="No space left"):
            writer._write(file, bytes(BLOCK.itemsize))
        assert path.read_bytes() == before
        assert writer._write(file, b"next") == len(before)
        assert path.read_bytes() == before + b"next"
        file.truncate(len(before))
    assert read_lengths(tmp_path) == [LENGTHS[0]]


def torn(path: Path, size: int) -> Iterator[bytes]:
    """Contents of a file whose last write, of so many bytes, reached the disk in part, as zeros, or not at all."""
    data = path.read_bytes()
    yield data
    for missing in (size // 2, size):
        yield data[:-missing]
        yield data[:-missing] + bytes(missing)


@pytest.mark.parametrize("is_going", [False, True])
def test_a_crash_loses_at_most_one_block_of_steps(tmp_path: Path, is_going: bool) -> None:
    recorder = Recorder(tmp_path / "running", name=None)
    for episode in range(2):
        add_episode(recorder, episode, LENGTHS[episode], **({"terminated": False} if is_going and episode else {}))
    if is_going:
        for step in range(LENGTHS[1], 100):
            recorder.add(**step_values(1, step), terminated=False)
    recorder._thread.submit(lambda: None).result()  # all blocks are written
    shutil.copytree(tmp_path / "running", tmp_path / "before")
    recorder.close()
    records = np.frombuffer((tmp_path / "before" / "blocks.bin").read_bytes(), BLOCK)
    written = int(records["steps"][records["episode"] == 1].sum())
    data = sorted((tmp_path / "before").glob("data-*.bin"))[-1].name
    sizes = {data: int(records["header"][-1] + records["data"][-1]), "blocks.bin": BLOCK.itemsize}
    if not is_going:
        sizes["episodes.bin"] = EPISODE.itemsize
    contents = [torn(tmp_path / "before" / name, size) for name, size in sizes.items()]
    for case, variant in enumerate(itertools.product(*contents)):
        directory = tmp_path / str(case)
        shutil.copytree(tmp_path / "before", directory)
        for name, content in zip(sizes, variant, strict=True):
            (directory / name).write_bytes(content)
        assert len(open_recording(directory)[0]) == LENGTHS[0]
        with Recorder(directory, name=None) as continued:
            add_episode(continued, 2, LENGTHS[2])
        lengths = {row["episode"]: row["steps"] for row in open_recording(directory).table()}
        assert lengths[0] == LENGTHS[0]
        assert written - MAX_STEPS <= lengths[1] <= written
        assert lengths[2] == LENGTHS[2]
        for read in open_recording(directory):
            expected = [step_values(read.index, step)["observation"] for step in range(len(read))]
            np.testing.assert_array_equal(read.observations, expected)


def test_only_the_blocks_of_a_lost_data_file_are_lost(tmp_path: Path) -> None:
    record(tmp_path)
    newest = sorted(tmp_path.glob("data-*.bin"))[-1]
    newest.unlink()
    (tmp_path / "episodes.bin").write_bytes((tmp_path / "episodes.bin").read_bytes()[: -EPISODE.itemsize])
    with Recorder(tmp_path, name=None) as continued:
        add_episode(continued, 2, LENGTHS[2])
    lengths = {row["episode"]: row["steps"] for row in open_recording(tmp_path).table()}
    assert lengths[0] == LENGTHS[0]
    assert lengths[max(lengths)] == LENGTHS[2]
    np.testing.assert_array_equal(
        open_recording(tmp_path)[-1].observations, [step_values(2, step)["observation"] for step in range(LENGTHS[2])]
    )


def test_a_recording_accepts_no_steps_after_an_incomplete_write(tmp_path: Path) -> None:
    with failing_files(tmp_path / "a") as operations, Recorder(tmp_path / "a", name=None) as recorder:
        add_episode(recorder, 0, 70)
    last = max(number for number, name in enumerate(operations, 1) if name.startswith("write") and "blocks" in name)
    with failing_files(tmp_path / "b", last, lasting=True):
        recorder = Recorder(tmp_path / "b", name=None, on_error="raise")
        with pytest.raises(SamplesError, match="No space left"):
            add_episode(recorder, 0, 70)
    with pytest.raises(SamplesError, match=r"No space left|incomplete write"):
        recorder.close()
    assert len(open_recording(tmp_path / "b")[0]) >= 70 - MAX_STEPS
