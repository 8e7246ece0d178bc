"""Tasks run once, are stored on disk, and run again only when their inputs have changed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs import SingleProcess, Task, TaskResult, WorkStore, locked, run_tasks
from rl_clarity.jobs.directory import Checksum, open_directory
from rl_clarity.jobs.tasks import Work, waves


def make_tasks(directory: Path, calls: list[str], inputs: int = 1) -> list[Task]:
    """Make tasks of sizes 1, 2 and 3 that write a file each and record their names in `calls`."""

    def run(name: str, work: Work) -> TaskResult:
        work.report(0.5)
        calls.append(name)
        (directory / f"{name}.txt").write_text(name)
        return TaskResult({"length": len(name)}, [f"{name}.txt"])

    return [Task(name, partial(run, name), inputs, size=len(name)) for name in ("a", "bb", "ccc")]


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return WorkStore(open_directory(tmp_path))


def test_the_largest_tasks_run_first(tmp_path: Path, store: WorkStore) -> None:
    calls: list[str] = []
    shares: list[float] = []
    facts = run_tasks(make_tasks(tmp_path, calls), store, SingleProcess(), shares.append)
    assert calls == ["ccc", "bb", "a"]
    assert facts == {"a": {"length": 1}, "bb": {"length": 2}, "ccc": {"length": 3}}
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_finished_tasks_are_not_repeated(tmp_path: Path, store: WorkStore) -> None:
    calls: list[str] = []
    first = run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert run_tasks(make_tasks(tmp_path, calls), WorkStore(open_directory(tmp_path)), SingleProcess()) == first
    assert len(calls) == 3


def test_tasks_with_changed_inputs_run_again(tmp_path: Path, store: WorkStore) -> None:
    calls: list[str] = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    run_tasks(make_tasks(tmp_path, calls, inputs=2), store, SingleProcess())
    assert len(calls) == 6


@pytest.mark.parametrize("damage", ["remove", "empty", "entry"])
def test_tasks_with_deleted_or_damaged_results_run_again(tmp_path: Path, store: WorkStore, damage: str) -> None:
    calls: list[str] = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    if damage == "remove":
        (tmp_path / "bb.txt").unlink()
    elif damage == "empty":
        (tmp_path / "bb.txt").write_text("")
    else:
        next((tmp_path / ".rl-clarity").glob("bb-*.json")).write_text("{")
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert calls == ["ccc", "bb", "a", "bb"]


def test_an_error_keeps_finished_tasks(tmp_path: Path, store: WorkStore) -> None:
    calls: list[str] = []
    tasks = make_tasks(tmp_path, calls)

    def fail(work: Work) -> TaskResult:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run_tasks([tasks[2], Task("bb", fail, 1, size=2), tasks[0]], store, SingleProcess())
    run_tasks(tasks, store, SingleProcess())
    assert calls == ["ccc", "bb", "a"]


def test_an_interrupted_task_does_not_count_as_finished(tmp_path: Path, store: WorkStore) -> None:
    calls: list[str] = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())

    def stop(work: Work) -> TaskResult:
        (tmp_path / "a.txt").write_text("part of another result")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task("a", stop, 2)], store, SingleProcess())
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert calls == ["ccc", "bb", "a", "a"]
    assert (tmp_path / "a.txt").read_text() == "a"


def test_the_store_lists_the_files_that_tasks_wrote(tmp_path: Path, store: WorkStore) -> None:
    run_tasks(make_tasks(tmp_path, []), store, SingleProcess())
    (tmp_path / ".rl-clarity" / "notes.json").write_text("[1]")
    files = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / ".rl-clarity").glob("*-*.json")}
    store.refresh()
    written = store.written()
    assert set(written) == {"a.txt", "bb.txt", "ccc.txt"} | files
    assert written == {name: Checksum.of((tmp_path / name).read_bytes()) for name in written}
    assert {name for name in store.written(["bb"]) if name.endswith(".txt")} == {"bb.txt"}


def test_a_released_lock_leaves_no_files(tmp_path: Path) -> None:
    with locked(str(tmp_path / "new" / "page")):
        pass
    assert not (tmp_path / "new").exists()


def test_a_second_run_is_refused_with_the_id_of_the_first_process(tmp_path: Path) -> None:
    refused = pytest.raises(OutputError, match=r"is in use by process \d+ on ")
    with locked(str(tmp_path)), refused, locked(str(tmp_path)):
        pass
    with locked(str(tmp_path)):
        pass


def named(name: str, after: tuple[str, ...] = ()) -> Task:
    return Task(name, lambda work: TaskResult(), None, after=after)


def test_tasks_wait_for_their_dependencies() -> None:
    tasks = [named("grids/2b", ("features/", "attribution/2b/")), named("attribution/2b/1", ("features/2b",))]
    tasks += [named("features/2b"), named("trajectories/1")]
    ordered = [[task.name for task in wave] for wave in waves(tasks)]
    assert ordered == [["features/2b", "trajectories/1"], ["attribution/2b/1"], ["grids/2b"]]


def test_a_cycle_of_task_dependencies_is_an_error() -> None:
    with pytest.raises(ValueError, match="wait for one another: a, b"):
        waves([named("a", ("b",)), named("b", ("a",))])


def test_tasks_receive_the_results_of_earlier_tasks(tmp_path: Path, store: WorkStore) -> None:
    received: list[dict[str, Any]] = []

    def run(work: Work) -> TaskResult:
        received.append(dict(work.results))
        return TaskResult()

    run_tasks([Task("b", run, None)], store, SingleProcess(), results={"a": {"length": 1}})
    assert received == [{"a": {"length": 1}}]
