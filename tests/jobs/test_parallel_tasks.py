"""Tasks that run in parallel in one process."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from rl_clarity.base import parallel
from rl_clarity.jobs import SingleProcess, Task, TaskResult, WorkStore, run_tasks, tasks
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Work

SECONDS = 20
"""Nothing here takes longer, unless tasks wait for one another."""


class Running:
    """Tasks that note how many run at once."""

    def __init__(self) -> None:
        self._lock, self.now, self.alone = threading.Lock(), 0, list[str]()
        self.meeting = threading.Barrier(2)

    def task(self, name: str, size: float = 1, parallel: int = 2) -> Task:
        def run(work: Work) -> TaskResult:
            with self._lock:
                self.now += 1
            if parallel == 1:
                assert self.now == 1
                self.alone.append(name)
            else:
                assert self.now <= parallel
                self.meeting.wait(SECONDS)  # until the other one runs, too
            for share in (0.25, 0.5, 0.75):
                work.report(share)
            with self._lock:
                self.now -= 1
            return TaskResult({"threads": work.threads})

        return Task(name, run, 1, size=size, parallel=parallel)


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "thread_count", lambda: 4)


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return WorkStore(open_directory(tmp_path))


def test_tasks_marked_as_parallel_run_together_and_others_alone(store: WorkStore) -> None:
    running, shares, finished = Running(), list[float](), list[str]()
    listed = [running.task("alone/1", 9, parallel=1), *(running.task(f"both/{i}") for i in range(4))]
    listed.append(running.task("alone/2", parallel=1))
    facts = run_tasks(
        listed, store, SingleProcess(), shares.append, finished=lambda name, seconds: finished.append(name)
    )
    assert running.alone == ["alone/1", "alone/2"]
    assert sorted(finished) == sorted(task.name for task in listed)
    assert facts == {task.name: {"threads": 4 if task.parallel == 1 else 2} for task in listed}
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_with_several_mpi_ranks_each_runs_one_task_at_a_time(store: WorkStore) -> None:
    class Ranks(SingleProcess):
        size = 2

    threads = list[int]()

    def run(work: Work) -> TaskResult:
        assert threading.current_thread() is threading.main_thread()
        threads.append(work.threads)
        return TaskResult()

    run_tasks([Task(f"a/{i}", run, 1, parallel=2) for i in range(3)], store, Ranks())
    assert threads == [4, 4, 4]


def test_an_error_stops_other_tasks_and_keeps_finished_ones(store: WorkStore) -> None:
    runs, failing = list[str](), threading.Event()

    def fail(work: Work) -> TaskResult:
        failing.wait(SECONDS)
        raise OSError(28, "No space left on device")

    def last(work: Work) -> TaskResult:
        failing.set()
        for _ in range(10**6):
            work.report(0.5)  # ends here
        return TaskResult()

    def quick(name: str) -> Task:
        def run(work: Work) -> TaskResult:
            runs.append(name)
            return TaskResult()

        return Task(name, run, 1, parallel=2)

    listed = [
        quick("first"),
        Task("endless", last, 1, parallel=2),
        Task("failing", fail, 1, parallel=2),
        quick("never"),
    ]
    with pytest.raises(OSError, match="No space"):
        run_tasks(listed, store, SingleProcess(), largest_first=False)
    assert runs == ["first"]
    run_tasks([listed[0], listed[3]], store, SingleProcess())
    assert runs == ["first", "never"]


@pytest.mark.parametrize("interrupt", [False, True])
def test_stopping_does_not_wait_for_tasks_that_never_report_progress(
    store: WorkStore, monkeypatch: pytest.MonkeyPatch, interrupt: bool
) -> None:
    monkeypatch.setattr(parallel, "STOP_SECONDS", 0.1)
    started, released, main = threading.Event(), threading.Event(), threading.get_ident()

    def silent(work: Work) -> TaskResult:
        started.set()
        released.wait(SECONDS)
        return TaskResult()

    def stop(work: Work) -> TaskResult:
        started.wait(SECONDS)
        if not interrupt:
            raise OSError(28, "No space left on device")
        signal.pthread_kill(main, signal.SIGINT)
        released.wait(SECONDS)
        return TaskResult()

    listed = [Task("silent", silent, 1, parallel=2), Task("stopping", stop, 1, parallel=2)]
    start = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt if interrupt else OSError):
            run_tasks(listed, store, SingleProcess(), largest_first=False)
        assert time.monotonic() - start < SECONDS / 4
    finally:
        signal.signal(signal.SIGINT, before)
        released.set()


def test_the_process_can_exit_while_a_task_is_running() -> None:
    program = """
        import threading
        from rl_clarity.base import parallel

        parallel.STOP_SECONDS = 0.1
        started = threading.Event()

        def run(index):
            if index:
                started.wait()
                raise SystemExit(3)
            started.set()
            threading.Event().wait()

        parallel.run_in_threads(run, 2, 2, parallel.SharedProgress(print, [1, 1]))
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=SECONDS).returncode == 3


def test_an_interrupt_stops_all_parallel_tasks(store: WorkStore) -> None:
    def endless(work: Work) -> TaskResult:
        _thread.interrupt_main()  # as Ctrl-C does
        for _ in range(10**6):
            work.report(0.5)
        return TaskResult()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tasks([Task(f"a/{i}", endless, 1, parallel=2) for i in range(2)], store, SingleProcess())
    finally:
        signal.signal(signal.SIGINT, before)
