"""A forecast measures a small piece of each kind of task, and scales it by the declared sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_clarity.jobs import Piece, Task, TaskResult, WorkStore
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.forecast import (
    DOCUMENT_BYTES,
    SECONDS_OF_DOCUMENT,
    SECONDS_PER_TASK,
    Cost,
    CountingDirectory,
    Forecast,
    forecast,
)
from rl_clarity.jobs.machine import peak_memory

pytestmark = pytest.mark.usefixtures("measured_forecasts")


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return WorkStore(open_directory(tmp_path))


@pytest.fixture
def counter() -> CountingDirectory:
    return CountingDirectory()


class Clock:
    """A clock that only work moves."""

    seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that a forecast reads."""
    clock = Clock()
    monkeypatch.setattr("rl_clarity.jobs.forecast.time", clock)
    return clock


def task(
    name: str, size: float, clock: Clock | None = None, *, measured: list[str] | None = None, group: str = "work"
) -> Task:
    """A task that writes 10 bytes per unit of size; a measured piece has size 1 and takes 10 ms of the clock."""

    def pieces(sample: CountingDirectory, frames: int) -> list[Piece]:
        if measured is not None:
            measured.append(name)

        def work() -> None:
            if clock is not None:
                clock.seconds += 0.01
            sample.write("piece", b"0123456789")

        return [Piece(work, size)]

    return Task(name, lambda work: TaskResult(), None, size, group, pieces=pieces)


def estimate(
    tasks: list[Task], store: WorkStore, counter: CountingDirectory, ranks: int = 1, **options: Any
) -> Forecast:
    return forecast(tasks, store, counter, counter, ranks=ranks, memory=2**33, **options)


def test_the_forecast_measures_one_task_of_a_group_and_scales_it(
    store: WorkStore, counter: CountingDirectory, clock: Clock
) -> None:
    measured: list[str] = []
    tasks = [task(f"a/{i}", size, clock, measured=measured) for i, size in ((1, 100), (2, 300))]
    result = estimate(tasks, store, counter)
    assert measured == ["a/1"]
    assert result.stages["a"] == pytest.approx(400 * 0.01 + 2 * SECONDS_PER_TASK)
    assert result.output == DOCUMENT_BYTES + 4000
    assert (result.tasks, result.tasks_done) == (2, 0)


def test_the_forecast_reports_its_progress(store: WorkStore, counter: CountingDirectory) -> None:
    shares: list[float] = []
    tasks = [task(f"a/{i}", 1, group=group) for i, group in enumerate("xxyz")]
    estimate(tasks, store, counter, report=shares.append)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])


def test_measurements_with_the_same_name_are_made_once(store: WorkStore, counter: CountingDirectory) -> None:
    done: list[str] = []

    def shared(name: str) -> Task:
        piece = Piece(lambda: done.append(name), 1, lambda: done.append("warm-up"), "shared")
        return Task(name, lambda work: TaskResult(), None, pieces=lambda sample, frames: [piece])

    result = estimate([shared("a/1"), shared("b/1")], store, counter)
    assert done == ["warm-up", "a/1"]
    assert result.stages["a"] == result.stages["b"]


@pytest.mark.parametrize(("ranks", "tasks_of_a_rank"), [(1, 4), (2, 2), (8, 1)])
def test_the_forecast_divides_tasks_among_mpi_ranks(
    store: WorkStore, counter: CountingDirectory, clock: Clock, ranks: int, tasks_of_a_rank: int
) -> None:
    tasks = [task(f"a/{i}", 100, clock) for i in range(4)]
    seconds = estimate(tasks, store, counter, ranks=ranks).seconds
    assert seconds == pytest.approx(SECONDS_OF_DOCUMENT + tasks_of_a_rank * (1 + SECONDS_PER_TASK))


def test_the_forecast_does_not_count_finished_tasks(store: WorkStore, counter: CountingDirectory) -> None:
    tasks = [task("a/1", 100), task("a/2", 100)]
    store.enter("a/1", tasks[0].key, {}, [])
    store.refresh()
    result = estimate(tasks, store, counter)
    assert (result.tasks, result.tasks_done) == (1, 1)
    assert result.output == DOCUMENT_BYTES + 1000
    assert "(1 of 2 tasks are done)" in str(result)


def test_a_task_that_cannot_be_measured_is_named_in_the_forecast(store: WorkStore, counter: CountingDirectory) -> None:
    result = estimate([Task("mystery/1", lambda work: TaskResult(), None)], store, counter)
    assert result.notes == ("Not included: mystery, which cannot be measured beforehand.",)


def test_the_forecast_adds_the_cost_of_collecting_samples(store: WorkStore, counter: CountingDirectory) -> None:
    result = estimate([], store, counter, playing=Cost(100, 1000))
    assert result.stages["playing"] == 100
    assert result.seconds > 100
    assert result.samples == 1000


def test_the_memory_forecast_ignores_memory_that_was_freed(store: WorkStore, counter: CountingDirectory) -> None:
    held = b"x" * 600_000_000
    before = estimate([], store, counter).memory
    del held
    assert estimate([], store, counter).memory < before - 400_000_000


def test_the_memory_forecast_includes_short_peaks(store: WorkStore, counter: CountingDirectory) -> None:
    before = estimate([], store, counter).memory
    size = 300_000_000 + peak_memory() - before  # above all that the process had before
    pieces = [Piece(lambda: bytearray(b"x") * size, 1)]
    large = Task("large", lambda work: TaskResult(), None, pieces=lambda sample, frames: pieces)
    assert estimate([large], store, counter).memory > before + 200_000_000
