"""Tasks are done once, kept on disk, and done again only when what decides them has changed."""

from __future__ import annotations

import pytest

from rl_clarity.errors import OutputError
from rl_clarity.jobs import SingleProcess, Task, TaskResult, WorkStore, locked, run_tasks
from rl_clarity.pages.files import open_directory


def make_tasks(directory, calls, inputs=1):
    def work(name):
        def run(report):
            report(0.5)
            calls.append(name)
            (directory / f"{name}.txt").write_text(name)
            return TaskResult({"length": len(name)}, [f"{name}.txt"])

        return run

    return [Task(name, work(name), inputs, cost=len(name)) for name in ("a", "bb", "ccc")]


@pytest.fixture
def store(tmp_path):
    return WorkStore(open_directory(tmp_path))


def test_dearest_first_and_all_facts(tmp_path, store):
    calls, shares = [], []
    facts = run_tasks(make_tasks(tmp_path, calls), store, SingleProcess(), shares.append)
    assert calls == ["ccc", "bb", "a"]
    assert facts == {"a": {"length": 1}, "bb": {"length": 2}, "ccc": {"length": 3}}
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_finished_tasks_are_not_done_again(tmp_path, store):
    calls = []
    first = run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert run_tasks(make_tasks(tmp_path, calls), WorkStore(open_directory(tmp_path)), SingleProcess()) == first
    assert len(calls) == 3


def test_changed_inputs_are_done_again(tmp_path, store):
    calls = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    run_tasks(make_tasks(tmp_path, calls, inputs=2), store, SingleProcess())
    assert len(calls) == 6


@pytest.mark.parametrize("damage", ["remove", "entry"])
def test_lost_work_is_done_again(tmp_path, store, damage):
    calls = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    if damage == "remove":
        (tmp_path / "bb.txt").unlink()
    else:
        next((tmp_path / ".rl-clarity").glob("bb-*.json")).write_text("{")
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert calls == ["ccc", "bb", "a", "bb"]


def test_an_error_keeps_what_was_finished(tmp_path, store):
    calls = []
    tasks = make_tasks(tmp_path, calls)

    def fail(report):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run_tasks([tasks[2], Task("bb", fail, 1, cost=2), tasks[0]], store, SingleProcess())
    run_tasks(tasks, store, SingleProcess())
    assert calls == ["ccc", "bb", "a"]


def test_work_that_was_begun_anew_is_not_taken_for_the_old(tmp_path, store):
    calls = []
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())

    def stopped(report):
        (tmp_path / "a.txt").write_text("half of another result")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task("a", stopped, 2)], store, SingleProcess())
    run_tasks(make_tasks(tmp_path, calls), store, SingleProcess())
    assert calls == ["ccc", "bb", "a", "a"]
    assert (tmp_path / "a.txt").read_text() == "a"


def test_names_of_what_was_written(tmp_path, store):
    run_tasks(make_tasks(tmp_path, []), store, SingleProcess())
    (tmp_path / ".rl-clarity" / "notes.json").write_text("[1]")
    files = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / ".rl-clarity").glob("*-*.json")}
    store.refresh()
    assert store.written() == {"a.txt", "bb.txt", "ccc.txt"} | files
    assert {name for name in store.written(["bb"]) if name.endswith(".txt")} == {"bb.txt"}


def test_a_run_that_writes_nothing_leaves_nothing(tmp_path):
    with locked(str(tmp_path / "new" / "page")):
        pass
    assert not (tmp_path / "new").exists()


def test_a_second_run_is_refused_by_name_of_the_first(tmp_path):
    refused = pytest.raises(OutputError, match=r"being written by process \d+ on ")
    with locked(str(tmp_path)), refused, locked(str(tmp_path)):
        pass
    with locked(str(tmp_path)):
        pass
