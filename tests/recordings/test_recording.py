"""Reading recordings: indexing, live reading, addresses, damaged and hostile files."""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import zstandard
from hypothesis import strategies
from PIL import Image

from rl_clarity.base.errors import ClarityError, OptionError, SamplesError
from rl_clarity.base.statistics import entropy, softmax
from rl_clarity.recordings import blocks, recording_writer
from rl_clarity.recordings.layout import BLOCK, EPISODE, STATISTIC, encode_episode
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, StoredRecording, open_recording
from tests.recordings.episodes import SHAPE, add_episode, make_recording, step_values


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording")
    make_recording(path)
    return path


@pytest.fixture
def copy(directory: Path, tmp_path: Path) -> Path:
    """A copy of the recording, to be damaged."""
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def read_all(recording: Recording) -> None:
    recording.table()
    for episode in recording:
        for array in episode.fields.values():
            np.asarray(array)


@pytest.mark.parametrize(
    "key",
    [
        5,
        -1,
        slice(10, 20),
        slice(60, 3, -7),
        slice(None),
        [3, 69, 3],
        np.arange(70) % 9 == 0,
        (slice(30, 40), 2),
        (40, slice(2, 5), ..., 1),
        ...,
    ],
)
def test_indexing_recorded_observations_works_like_numpy(directory: Path, key: Any) -> None:
    observations = open_recording(directory)[1].observations
    expected = np.stack([step_values(1, step)["observation"] for step in range(70)])
    np.testing.assert_array_equal(observations[key], expected[key])
    assert observations.shape == expected.shape


def test_recording_indices_out_of_range_are_errors(directory: Path) -> None:
    recording = open_recording(directory)
    with pytest.raises(IndexError):
        recording[3]
    with pytest.raises(IndexError):
        recording[0].observations[3]
    assert [len(episode) for episode in recording[1:]] == [70, 32]
    assert recording[-1].index == 2


def test_one_step_is_read_without_the_rest_of_its_episode(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = blocks.decode_array

    def spy(stored: blocks.StoredArray, data: bytes, file: str) -> np.ndarray:
        decoded.append(stored.shape)
        return decode(stored, data, file)

    monkeypatch.setattr("rl_clarity.recordings.step_arrays.decode_array", spy)
    open_recording(directory)[1].observations[40]
    assert decoded == [(blocks.MAX_STEPS, 16, 12, 3)]


def test_large_frames_are_stored_in_blocks_of_few_steps(tmp_path: Path) -> None:
    with Recorder(tmp_path, name=None) as recorder:
        for step in range(12):
            frame = np.full((512, 512, 3), step, np.uint8)
            recorder.add(**step_values(0, step), frame=frame, terminated=step == 11)
    frames = open_recording(tmp_path)[0].frames
    assert frames is not None
    assert frames[[0, 11], 0, 0, 0].tolist() == [0, 11]
    steps = np.frombuffer((tmp_path / "blocks.bin").read_bytes(), BLOCK)["steps"]
    assert steps.max() * 512 * 512 * 3 <= blocks.MAX_BYTES


def test_many_short_episodes_share_few_files(tmp_path: Path) -> None:
    make_recording(tmp_path, (2,) * 500)
    assert len(open_recording(tmp_path)) == 500
    assert len(list(tmp_path.iterdir())) <= 5


@pytest.mark.parametrize("noise", [0, 3])
def test_images_are_not_much_larger_than_as_png(tmp_path: Path, noise: int) -> None:
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.linspace(0, 120, 84), np.linspace(0, 120, 84))[..., None]
    images = np.clip(ramp + noise * rng.normal(size=(64, 84, 84, 3)), 0, 255).astype(np.uint8)
    png = 0
    with Recorder(tmp_path, name=None) as recorder:
        for step, image in enumerate(images):
            recorder.add(observation=image, action=0, reward=0, terminated=step == 63)
            file = io.BytesIO()
            Image.fromarray(image).save(file, "PNG")
            png += len(file.getvalue())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1.2 * png


def test_a_recording_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, name=None)
    add_episode(recorder, 0, 3)
    recording = StoredRecording(tmp_path)
    assert [episode.end for episode in recording] == ["done"]
    for step in range(70):
        recorder.add(**step_values(1, step), terminated=False)
    assert len(recording) == 1
    going = recording.refresh()[1]
    assert going.end == "still going"
    assert 70 - 64 <= len(going) < 70
    np.testing.assert_array_equal(going.observations[-1], step_values(1, len(going) - 1)["observation"])
    assert recording.table()[1]["return"] == sum(range(len(going)))
    recorder.close()
    assert recording.refresh()[1].end == "stopped"
    assert len(recording[1]) == 70
    assert going.end == "still going"


def test_a_recording_can_be_written_to_remote_storage() -> None:
    address = "memory://recordings/test"
    make_recording(address)
    make_recording(address, (4,))
    recording = open_recording(address)
    assert [len(episode) for episode in recording] == [3, 70, 32, 4]
    np.testing.assert_array_equal(recording[3].observations[2], step_values(0, 2)["observation"])


def test_the_mean_entropy_of_each_episode_is_stored(tmp_path: Path) -> None:
    make_recording(tmp_path, (3, 70))
    make_recording(tmp_path, (40,))  # continued by another writer
    recording = open_recording(tmp_path)
    for row, episode in zip(recording.table(), recording, strict=True):
        assert row["entropy"] == pytest.approx(entropy(softmax(np.asarray(episode.policy_logits))).mean())
        assert episode.facts["entropy"] == row["entropy"]
    corrupt = bytearray((tmp_path / "statistics.bin").read_bytes())
    corrupt[STATISTIC.itemsize + 5] ^= 255
    (tmp_path / "statistics.bin").write_bytes(corrupt[:-3])  # and the last record is cut off
    assert [row["entropy"] is None for row in open_recording(tmp_path).table()] == [False, True, True]
    make_recording(tmp_path, (5,))
    assert [row["entropy"] is None for row in open_recording(tmp_path).table()] == [False, True, True, False]
    (tmp_path / "statistics.bin").unlink()  # as in recordings of an earlier version
    assert [row["entropy"] for row in open_recording(tmp_path).table()] == [None] * 4


def test_entropy_is_none_without_finite_logits(tmp_path: Path) -> None:
    for name, logits in {"none": None, "nan": np.full(5, np.nan, np.float32)}.items():
        with Recorder(tmp_path / name, on_error="raise") as recorder:
            recorder.add(**{**step_values(0, 0), "logits": logits}, terminated=True)
        assert open_recording(tmp_path / name).table()[0]["entropy"] is None


def test_uploads_keep_data_that_are_still_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "UPLOAD_SECONDS", 0)
    with Recorder("memory://recordings/probe", name=None, on_error="raise") as recorder:
        recorder.probe(np.zeros((2, *SHAPE), np.uint8))
        add_episode(recorder, 0, 3)
        add_episode(recorder, 1, 70)
    recording = open_recording("memory://recordings/probe")
    assert [len(episode) for episode in recording] == [3, 70]
    read_all(recording)


def test_a_missing_recording_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=r"no recording in .*nothing"):
        open_recording(tmp_path / "nothing")


def test_an_unknown_protocol_is_an_error() -> None:
    with pytest.raises(SamplesError, match="cannot open unknown://x"):
        open_recording("unknown://x/y")


@pytest.mark.parametrize("newest", [0, 4, -1, True, "1"])
def test_an_impossible_number_of_stacked_channels_is_an_error(newest: Any) -> None:
    array = np.zeros((2, 3, 3, 4), np.uint8)
    header = json.dumps({"arrays": [["observations", "|u1", array.shape, 9, False, newest]], "episode": 0, "start": 0})
    data = blocks.PREFIX.pack(blocks.MAGIC, len(header), zlib.crc32(header.encode())) + header.encode()
    with pytest.raises(SamplesError, match="a step cannot add"):
        blocks.decode_header(data, 0, 0, 0, "data-00000.bin")


@pytest.mark.parametrize("version", [1, 4, None, "2"])
def test_an_unsupported_recording_version_is_an_error(copy: Path, version: Any) -> None:
    metadata = json.loads((copy / "recording.json").read_text())
    (copy / "recording.json").write_text(json.dumps({**metadata, "version": version}))
    with pytest.raises(SamplesError, match=f"recording.json has version {version!r}"):
        open_recording(copy)


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"format": "x"}', "[" * 100_000])
def test_damaged_metadata_are_an_error(copy: Path, text: str) -> None:
    (copy / "recording.json").write_text(text)
    with pytest.raises(SamplesError, match=r"recording\.json"):
        open_recording(copy)


def test_a_named_pipe_instead_of_the_block_list_is_refused(copy: Path) -> None:
    (copy / "blocks.bin").unlink()
    os.mkfifo(copy / "blocks.bin")
    with pytest.raises(SamplesError, match=r"blocks\.bin is not a file"):
        open_recording(copy)


def test_a_named_pipe_instead_of_data_is_refused_without_waiting(copy: Path) -> None:
    (copy / "data-00000.bin").unlink()
    os.mkfifo(copy / "data-00000.bin")
    with pytest.raises(SamplesError, match=r"data-00000\.bin is not a"):
        read_all(open_recording(copy))
    with pytest.raises(SamplesError, match=r"data-00000\.bin is not a"):
        Recorder(copy, name=None)


@pytest.mark.parametrize("end", ["still going", "stopped"])
def test_an_episode_without_steps_is_skipped(copy: Path, end: str) -> None:
    facts = {"episode": 3, "number": 3, "environment": 0, "start_time": 1.0, "steps": 0}
    with (copy / "episodes.bin").open("ab") as file:
        file.write(encode_episode({**facts, "end": "still going"}))
        if end == "stopped":
            file.write(encode_episode({**facts, "end": end}))
    recording = open_recording(copy)
    assert [len(episode.rewards) for episode in recording] == [3, 70, 32]
    assert len(recording.table()) == 3
    make_recording(copy, (4,))
    assert [episode.index for episode in open_recording(copy)] == [0, 1, 2, 4]


@pytest.mark.parametrize("file", ["episodes.bin", "blocks.bin"])
def test_incomplete_last_records_are_ignored(copy: Path, file: str) -> None:
    with (copy / file).open("ab") as stream:
        stream.write(b"\xff" * 7)
    read_all(open_recording(copy))
    make_recording(copy, (4,))
    assert [len(episode) for episode in open_recording(copy)] == [3, 70, 32, 4]


def test_a_damaged_episode_is_named_and_other_episodes_are_read(copy: Path) -> None:
    records = np.frombuffer((copy / "blocks.bin").read_bytes(), BLOCK)
    data = bytearray((copy / "data-00000.bin").read_bytes())
    block = records[1]  # the first of episode 1
    data[int(block["offset"]) + int(block["header"]) + 5] ^= 1
    (copy / "data-00000.bin").write_bytes(data)
    recording = open_recording(copy)
    with pytest.raises(SamplesError, match=r"data-00000\.bin is damaged at byte"):
        read_all(recording)
    for index in (0, 2):
        np.asarray(recording[index].observations)


def test_a_missing_data_file_is_named(copy: Path) -> None:
    (copy / "data-00000.bin").unlink()
    recording = open_recording(copy)
    assert len(recording.table()) == 3
    with pytest.raises(SamplesError, match=r"cannot read .*data-00000\.bin"):
        read_all(recording)


def test_missing_data_blocks_are_an_error(copy: Path) -> None:
    data = (copy / "blocks.bin").read_bytes()
    (copy / "blocks.bin").write_bytes(data[: BLOCK.itemsize * 2])
    recording = open_recording(copy)
    with pytest.raises(SamplesError, match=r"blocks\.bin is damaged: blocks of episode 1 are missing"):
        recording[1]


@hypothesis.given(
    file=strategies.sampled_from(["recording.json", "episodes.bin", "blocks.bin", "data-00000.bin"]),
    position=strategies.floats(0, 1, exclude_max=True),
    replacement=strategies.binary(max_size=12),
    removed=strategies.integers(0, 12),
)
@hypothesis.settings(max_examples=150)
def test_damaged_recording_files_raise_only_samples_errors(
    tmp_path_factory: pytest.TempPathFactory,
    directory: Path,
    file: str,
    position: float,
    replacement: bytes,
    removed: int,
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.name == file:
            start = int(position * len(data))
            data = data[:start] + replacement + data[start + removed :]
        (folder / path.name).write_bytes(data)
    try:
        read_all(open_recording(folder))
    except ClarityError as error:
        assert str(folder) in str(error)  # noqa: PT017 (there may be no error)


def block_file(folder: Path, entry: list[Any], data: bytes) -> Path:
    """Replace the blocks of a recording by one with this header and data."""
    make_recording(folder, (1,))
    header = json.dumps({"arrays": [entry], "episode": 0, "start": 0}).encode()
    header = blocks.PREFIX.pack(blocks.MAGIC, len(header), zlib.crc32(header)) + header
    (folder / "data-00000.bin").write_bytes(header + data)
    record = np.array([(0, 0, 1, 0, 0, len(header), len(data))], BLOCK)
    (folder / "blocks.bin").write_bytes(record.tobytes())
    return folder


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


BOMB = zstd(b"\0" * 2**24)
HOSTILE: dict[str, Callable[[Path], Path]] = {
    "bomb": lambda folder: block_file(folder, ["observations", "|u1", [1, 64, 64, 3], len(BOMB), False], BOMB),
    "huge shape": lambda folder: block_file(folder, ["observations", "|u1", [1, 2**30], 3, False], b"abc"),
    "overflowing shape": lambda folder: block_file(
        folder, ["observations", "<f8", [1, 2**31 - 1] * 4, 3, False], b"abc"
    ),
    "negative shape": lambda folder: block_file(folder, ["observations", "|u1", [1, -1], 3, False], b"abc"),
    "objects": lambda folder: block_file(folder, ["observations", "|O", [1], 8, False], b"12345678"),
    "text": lambda folder: block_file(folder, ["observations", "<U9", [1], 8, False], b"12345678"),
    "wrong rows": lambda folder: block_file(folder, ["observations", "|u1", [2], 11, False], zstd(b"ab")),
    "number as text": lambda folder: block_file(folder, ["observations", "|u1", [1], "11", False], b"a"),
    "data of another block": lambda folder: block_file(folder, ["observations", "|u1", [1], 99, False], b"a"),
    "name": lambda folder: block_file(folder, ["../x", "|u1", [1], 1, False], b"a"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_blocks_are_refused(tmp_path: Path, name: str) -> None:
    recording = open_recording(HOSTILE[name](tmp_path))
    with pytest.raises(SamplesError, match=r"data-00000\.bin is damaged at byte"):
        read_all(recording)


def test_stored_rewards_with_several_axes_are_refused(tmp_path: Path) -> None:
    make_recording(tmp_path, ())
    with Recorder(tmp_path, name=None) as recorder:
        recorder.add(**step_values(0, 0), terminated=True)
    records = np.frombuffer((tmp_path / "episodes.bin").read_bytes(), EPISODE)
    (tmp_path / "episodes.bin").write_bytes(records[:1].tobytes())  # still going
    header, data = blocks.encode_block(0, 0, {"rewards": np.zeros((1, 2**16))}, {})
    (tmp_path / "data-00000.bin").write_bytes(header + data)
    record = np.array([(0, 0, 1, 0, 0, len(header), len(data))], BLOCK)
    (tmp_path / "blocks.bin").write_bytes(record.tobytes())
    with pytest.raises(SamplesError, match="rewards of episode 0 have several axes"):
        open_recording(tmp_path).table()


def test_oversized_metadata_are_refused(copy: Path) -> None:
    (copy / "recording.json").write_text("[" * 2**20 + " ")
    with pytest.raises(SamplesError, match=r"recording\.json is damaged: its size of 1048577 bytes is too large"):
        open_recording(copy)


def test_a_recording_is_converted_to_trajectories_and_observations(directory: Path) -> None:
    recording = open_recording(directory)
    trajectories = recording.to_trajectories(count=2)
    assert trajectories.observations.shape == (2, 52, 16, 12, 3)
    assert len(recording.to_trajectories().actions) == min(8, len(recording))
    assert trajectories.firsts[0].nonzero()[0].tolist() == [0, 3]
    assert trajectories.states is not None
    np.testing.assert_array_equal(trajectories.observations[0, 3], step_values(1, 0)["observation"])
    np.testing.assert_array_equal(trajectories.states[1][0, 3], step_values(1, 0)["state"][1])
    observations = recording.to_observations(count=21)
    assert observations.ages is not None
    np.testing.assert_array_equal(observations.observations[-1], step_values(2, 31)["observation"])
    assert observations.ages[-1] == 31
    assert observations.episodes is not None
    assert set(observations.episodes) <= set(range(len(recording)))
    assert observations.episodes[-1] == 2
    assert len(recording.to_observations().observations) == 105


def test_trajectories_begin_with_an_episode_start_where_possible(directory: Path) -> None:
    trajectories = open_recording(directory).to_trajectories(count=1, max_steps=32)
    assert trajectories.firsts[0, 0]
    trajectories = open_recording(directory).to_trajectories(count=2, max_steps=20)
    assert trajectories.firsts[:, 0].tolist() == [True, True]


def test_too_few_steps_for_trajectories_are_an_error(directory: Path) -> None:
    with pytest.raises(OptionError, match="105 steps, which are too few for 200 trajectories"):
        open_recording(directory).to_trajectories(count=200)


def test_stopped_episodes_count_as_truncated(tmp_path: Path) -> None:
    with Recorder(tmp_path, name=None) as recorder:
        add_episode(recorder, 0, 3)
        add_episode(recorder, 1, 3, terminated=False, truncated=True, final_value=0.5)
        recorder.add(**step_values(2, 0), terminated=False)
    trajectories = open_recording(tmp_path).to_trajectories(count=1)
    assert trajectories.truncated is not None
    assert trajectories.final_values is not None
    assert trajectories.truncated[0].nonzero()[0].tolist() == [5, 6]
    np.testing.assert_allclose(trajectories.final_values[0, [2, 5, 6]], [0, 0.5, 2])
