"""Commands that are killed at any moment write the same bytes when they are repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rl_clarity.environments import KINDS
from rl_clarity.formats import read
from rl_clarity.ppo import train
from rl_clarity.ppo.logs import read_csv
from rl_clarity.ppo.trainer import COLUMNS, TrainingState
from rl_clarity.world_models import fitting, report
from tests.failing_files import failing_files
from tests.ppo.small import STATEFUL, tiny
from tests.ppo.toys import KIND
from tests.small_commands import ablate, check, memory, prepare, written
from tests.world_models.conftest import SMALLEST
from tests.world_models.dots import dot_agent, record_dots

KILLS = 10
FIT: dict[str, Any] = {
    **{"size": "tiny", "steps": 4, "batch_size": 2, "horizon": 2},
    **{"log_interval": 2, "save_interval": 2, "clip_interval": 2},
}
TIMED = {name for name in COLUMNS if "second" in name}


@dataclass
class Job:
    """A command that writes below a folder, and how what it wrote is read."""

    command: Callable[[Path], Any]
    prepare: Callable[[Path], Any]
    read: Callable[[Path], Any]


@pytest.fixture
def _eager() -> Iterator[None]:
    """Compiling functions would take most of the time."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    KINDS.register("columns", KIND)
    yield
    KINDS.unregister("columns")
    tf.config.run_functions_eagerly(False)


def is_killed_and_repeated(job: Job, folder: Path) -> None:
    """Kill a job at moments that are spread over all that it writes, and compare with an uninterrupted one."""
    job.prepare(folder / "uninterrupted")
    with failing_files(folder / "uninterrupted") as operations:
        job.command(folder / "uninterrupted")
    expected = job.read(folder / "uninterrupted")
    moments = np.unique(np.linspace(1, len(operations), KILLS).astype(int))
    assert len(moments) == KILLS
    for moment in moments:
        job.prepare(folder / "killed")
        with failing_files(folder / "killed", int(moment), kill=True), suppress(Exception):
            job.command(folder / "killed")
        job.command(folder / "killed")
        assert job.read(folder / "killed") == expected, operations[moment - 1]
        shutil.rmtree(folder / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("command", [memory, ablate, check])
def test_a_killed_page_command_is_completed_with_the_same_bytes(command: Callable[..., None], tmp_path: Path) -> None:
    is_killed_and_repeated(Job(command, prepare, written), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("_eager")
def test_a_killed_training_is_completed_with_the_same_result(tmp_path: Path) -> None:
    options = {**tiny(4), **STATEFUL, "use_lstm": False, "save_interval": 1}

    def read_training(folder: Path) -> Any:
        state = TrainingState.load(folder / "training-state.npz")
        values = {name: value for name, value in state.values.items() if "second" not in name}
        rows = [{name: row[name] for name in row.keys() - TIMED} for row in read_csv(folder / "progress.csv")]
        arrays = {**state.arrays, **read(folder / "checkpoint.jd").parameters}
        return rows, values, {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}

    job = Job(lambda folder: train(folder, **options), lambda folder: folder.mkdir(), read_training)
    is_killed_and_repeated(job, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("_eager")
def test_a_killed_simulator_fit_is_completed_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = dot_agent()
    recording = record_dots(tmp_path / "recording", agent)
    monkeypatch.setattr(fitting, "SIZES", {"tiny": SMALLEST})
    # Measuring takes most of the time, and writes nothing.
    monkeypatch.setattr(report, "measure_quality", lambda *arguments, **options: SimpleNamespace(to_dict=dict))

    def read_simulator(folder: Path) -> Any:
        rows = [{name: row[name] for name in row if "second" not in name} for row in read_csv(folder / "progress.csv")]
        names = ["simulator.safetensors", "quality.json", "clips/0000002.apng", "clips/0000004.apng"]
        return rows, [(folder / name).read_bytes() for name in names]

    def fit(folder: Path) -> None:
        report.fit_and_measure(agent, recording.location, folder, recording.location, **FIT)

    is_killed_and_repeated(Job(fit, lambda folder: folder.mkdir(), read_simulator), tmp_path)
