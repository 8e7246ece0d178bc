"""Checkpoints that a recorder stores at each update, as differences from one another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.checkpoints import FULL_EVERY, decode_difference, encode_difference
from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import StoredRecording
from tests.recordings.episodes import step_values

PARAMETERS = 30_000


def parameters(update: int) -> np.ndarray:
    """Parameters after an update: each update changes them by a thousandth."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=PARAMETERS)
    for _ in range(update):
        values = values + 1e-3 * rng.normal(size=PARAMETERS)
    return values.astype(np.float32)


def save(values: np.ndarray, path: str) -> None:
    np.save(f"{path}.npy", values)


def record(location: Path, lengths: tuple[int, ...], *, per_update: int = 5, **options: Any) -> int:
    """Record episodes, with an update every few steps; return the number of updates."""
    update = steps = 0
    with Recorder(location, **{"name": None, "on_error": "raise", "checkpoint_every": 1, **options}) as recorder:
        for episode, length in enumerate(lengths):
            for step in range(length):
                if steps % per_update == 0:
                    recorder.agent(partial(save, parameters(update)))
                    update += 1
                recorder.add(**step_values(episode, step), terminated=step == length - 1)
                steps += 1
    return update


def read(recording: StoredRecording, position: int, step: int) -> np.ndarray:
    path = recording.checkpoint(recording[position], step)
    assert path is not None
    return np.load(path)


@pytest.mark.parametrize("sizes", [(1000, 1000), (1001, 1000), (1000, 1003), (3, 0), (0, 5)])
def test_checkpoint_differences_are_decoded_exactly(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    data, base = (rng.integers(0, 256, size, np.uint8).tobytes() for size in sizes)
    assert decode_difference(encode_difference(data, base), base, "x") == data


def test_the_checkpoint_that_acted_at_each_step_is_restored(tmp_path: Path) -> None:
    updates = record(tmp_path, (40, 200))
    recording = StoredRecording(tmp_path)
    assert updates == 48 > FULL_EVERY
    for position, first in ((0, 0), (1, 8)):
        numbers = recording[position].agents
        assert numbers is not None
        for step in (*range(0, len(numbers), 17), len(numbers) - 1):
            assert numbers[step] == first + step // 5
            np.testing.assert_array_equal(read(recording, position, step), parameters(int(numbers[step])))
    names = sorted(path.name for path in (tmp_path / "agents").iterdir())
    assert [name for name in names if not name.endswith(".diff")] == ["00000.npy", f"{FULL_EVERY:05}.npy"]
    sizes = [(tmp_path / "agents" / name).stat().st_size for name in names]
    assert sum(sizes) < 0.65 * updates * PARAMETERS * 4


def test_checkpoints_within_episodes_stop_when_the_byte_budget_is_used(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"only checkpoints with which recorded .*checkpoint_every=2") as warned:
        record(tmp_path, (60, 60), checkpoint_bytes=3 * 4 * PARAMETERS)
    assert len(warned) == 1
    recording = StoredRecording(tmp_path)
    numbers = [recording[position].agents for position in (0, 1)]
    assert numbers[0] is not None
    assert numbers[1] is not None
    assert 2 < numbers[0][-1] < 11
    assert (numbers[0][40:] == numbers[0][40]).all()
    assert (numbers[1] == numbers[0][-1] + 1).all()  # that of its beginning
    np.testing.assert_array_equal(read(recording, 1, 30), parameters(12))
    assert sum(path.stat().st_size for path in (tmp_path / "agents").iterdir()) < 5 * 4 * PARAMETERS


def test_checkpoints_of_removed_episodes_are_deleted_unless_needed(tmp_path: Path) -> None:
    record(tmp_path, (40,) * 8, max_episodes=2)
    record(tmp_path, (40,) * 2, max_episodes=2)  # continued
    recording = StoredRecording(tmp_path)
    assert len(recording) == 2
    stored = len(list((tmp_path / "agents").iterdir()))
    assert stored < 80
    for position in range(2):
        numbers = recording[position].agents
        assert numbers is not None
        for step in range(0, 40, 5):
            assert len(read(recording, position, step)) == PARAMETERS


@pytest.mark.parametrize("damage", ["cut", "base", "foreign"])
def test_damaged_checkpoint_differences_are_named_in_the_error(tmp_path: Path, damage: str) -> None:
    record(tmp_path, (20,))
    file = tmp_path / "agents/00002.npy.diff"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    elif damage == "base":
        (tmp_path / "agents/00001.npy.diff").unlink()
    else:
        file.write_bytes(b"x" * 100)
    recording = StoredRecording(tmp_path)
    with pytest.raises(SamplesError, match="damaged"):
        recording.checkpoint(recording[0], 12)


def test_restored_checkpoint_files_are_deleted_after_use(tmp_path: Path) -> None:
    record(tmp_path, (60,))
    recording = StoredRecording(tmp_path)
    paths = [recording.checkpoint(recording[0], step) for step in range(5, 60, 5)]
    assert sum(Path(path).exists() for path in paths if path) <= 4
    folder = Path(paths[-1] or "").parent
    del recording
    assert not folder.exists()


def test_the_checkpoint_interval_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="checkpoint_every=0 must be at least 1"):
        Recorder(tmp_path, checkpoint_every=0)
