"""Damaged recordings are named, and rebuilt from what their blocks hold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.cli import main
from rl_clarity.recordings.layout import BLOCK
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import open_recording
from rl_clarity.recordings.verification import repair_recording, verify_recording
from tests.recordings.episodes import make_recording, step_values

LENGTHS = (3, 70, 32)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact")
    make_recording(path, LENGTHS)
    return path


@pytest.fixture
def copy(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "copy"))


def read(directory: Path) -> dict[int, tuple[int, str]]:
    """Steps and end of each episode by index; all steps are those that were recorded."""
    episodes = {}
    for episode in open_recording(directory):
        expected = [step_values(episode.index, step)["observation"] for step in range(len(episode))]
        np.testing.assert_array_equal(episode.observations, expected)
        episodes[episode.index] = len(episode), episode.end
    return episodes


def change(path: Path, function: Callable[[bytes], bytes]) -> None:
    path.write_bytes(function(path.read_bytes()))


DONE = {index: (length, "done") for index, length in enumerate(LENGTHS)}
STOPPED = {index: (length, "stopped") for index, length in enumerate(LENGTHS)}
DAMAGE: dict[str, tuple[Callable[[Path], object], dict[int, tuple[int, str]]]] = {
    "a bit in the end of an episode": (
        lambda folder: change(folder / "episodes.bin", lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:]),
        DONE | {0: (3, "stopped")},
    ),
    "bytes that shift the records": (
        lambda folder: change(folder / "episodes.bin", lambda data: data[:5] + b"abc" + data[5:]),
        DONE,
    ),
    "no episodes": (lambda folder: (folder / "episodes.bin").write_bytes(b""), STOPPED),
    "noise for episodes": (lambda folder: (folder / "episodes.bin").write_bytes(b"\xff" * 1000), STOPPED),
    "no blocks": (lambda folder: (folder / "blocks.bin").unlink(), DONE),
    "noise for blocks": (lambda folder: (folder / "blocks.bin").write_bytes(os.urandom(1000)), DONE),
    "a byte too many before blocks": (lambda folder: change(folder / "blocks.bin", lambda data: b"x" + data), DONE),
    "a bit in the data": (
        lambda folder: change(folder / "data-00000.bin", lambda data: flip(data, block_of(folder, 2))),
        DONE | {1: (32, "stopped")},
    ),
}


def block_of(folder: Path, number: int) -> int:
    """Position of the data of a block."""
    record = np.frombuffer((folder / "blocks.bin").read_bytes(), BLOCK)[number]
    return int(record["offset"] + record["header"]) + 9


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize("name", DAMAGE)
def test_repair_rebuilds_episode_lists_from_the_data_blocks(copy: Path, name: str) -> None:
    damage, expected = DAMAGE[name]
    damage(copy)
    before = {path.name: path.read_bytes() for path in copy.glob("*.bin")}
    assert not verify_recording(copy).is_intact
    repaired = repair_recording(copy)
    assert repaired.is_intact
    assert read(copy) == expected
    assert repaired.replaced == str(copy / "before-repair-1")
    kept = {path.name: path.read_bytes() for path in (copy / "before-repair-1").iterdir()}
    assert kept == {name: before[name] for name in ("blocks.bin", "episodes.bin") if name in before}
    assert (copy / "data-00000.bin").read_bytes() == before["data-00000.bin"]
    with Recorder(copy, name=None) as recorder:
        recorder.add(**step_values(3, 0), terminated=True)
    assert read(copy) == expected | {3: (1, "done")}


def test_repair_does_not_change_an_intact_recording(copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert verify_recording(copy).is_intact
    assert repair_recording(copy).replaced is None
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_a_recording_that_is_being_written_is_not_repaired(copy: Path) -> None:
    change(copy / "data-00000.bin", lambda data: flip(data, block_of(copy, 2)))
    with Recorder(copy, name=None), pytest.raises(SamplesError, match="another process is writing"):
        repair_recording(copy)
    with pytest.raises(OptionError, match="is an address"):
        repair_recording("memory://recording")


def test_repair_does_not_restore_removed_episodes(tmp_path: Path) -> None:
    make_recording(tmp_path, (20,) * 12, max_episodes=4)
    rows = read(tmp_path)
    change(tmp_path / "blocks.bin", lambda data: b"x" + data)
    assert repair_recording(tmp_path).is_intact
    assert read(tmp_path) == rows


@hypothesis.given(
    file=strategies.sampled_from(["episodes.bin", "blocks.bin", "data-00000.bin"]),
    position=strategies.floats(0, 1, exclude_max=True),
    replacement=strategies.binary(max_size=12),
    removed=strategies.integers(0, 200),
)
@hypothesis.settings(max_examples=60)
def test_any_damaged_recording_can_be_repaired(
    tmp_path_factory: pytest.TempPathFactory,
    intact: Path,
    file: str,
    position: float,
    replacement: bytes,
    removed: int,
) -> None:
    folder = Path(shutil.copytree(intact, tmp_path_factory.mktemp("damaged") / "copy"))
    data = (folder / file).read_bytes()
    start = int(position * len(data))
    (folder / file).write_bytes(data[:start] + replacement + data[start + removed :])
    assert repair_recording(folder).is_intact
    episodes = read(folder)
    if file != "data-00000.bin":
        assert {index: steps for index, (steps, _) in episodes.items()} == dict(enumerate(LENGTHS))


def test_the_verify_command_reports_and_repairs_damage(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(copy)]) == 0
    assert "all 3 episodes can be read" in capsys.readouterr().out
    change(copy / "episodes.bin", lambda data: flip(data, 100))
    assert main(["verify", str(copy)]) == 1
    assert "--repair" in capsys.readouterr().out
    assert main(["verify", str(copy), "--repair"]) == 0
    assert "before-repair-1" in capsys.readouterr().out
    assert main(["verify", str(copy.parent / "nothing"), "--repair"]) == 1
    assert "--repair is for recordings" in capsys.readouterr().err
