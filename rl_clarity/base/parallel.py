"""Run parts of a job at the same time in threads of one process, with a shared progress bar."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from rl_clarity.base.progress import Report

STOP_SECONDS = 2.0
"""Longest time, in seconds, to wait after an error or an interrupt for running tasks to stop at their next report."""


class SharedProgress:
    """Reports the share of all tasks that is done. Tasks that are listed before a started task count as done, because
    other ranks may run them.
    """

    def __init__(self, report: Report, sizes: Sequence[float]) -> None:
        self._report, self._sizes = report, sizes
        self._lock, self._left, self._begun = threading.Lock(), dict[int, float](), 0
        self._stopped = False

    def of(self, index: int) -> Report:
        """Return the function with which a task reports its progress. After `stop`, the function raises
        StoppedError.
        """

        def update(share: float) -> None:
            if self._stopped:
                raise StoppedError
            with self._lock:
                self._begun = max(self._begun, index + 1)
                self._left[index] = self._sizes[index] * (1 - share)
                done = sum(self._sizes[: self._begun]) - sum(self._left.values())
                self._report(done / sum(self._sizes))

        return update

    def stop(self) -> None:
        """Make running tasks end at their next report."""
        self._stopped = True


class StoppedError(Exception):
    """Raised in tasks if another task failed, or the job was interrupted."""


def run_in_threads(run: Callable[[int], None], count: int, threads: int, progress: SharedProgress) -> None:
    """Call `run` for each index below `count`, in at most `threads` threads. The first error stops all threads.

    After an error or an interrupt, wait at most `STOP_SECONDS` for the other threads. Threads whose tasks report
    nothing in this time continue in the background, and end at their next report.
    """
    threads = min(threads, count)
    if threads < 2:
        for index in range(count):
            run(index)
        return
    indices, outcomes = iter(range(count)), queue.SimpleQueue[BaseException | None]()

    def run_next() -> None:
        try:
            for index in indices:
                run(index)
        except BaseException as error:
            outcomes.put(error)
        else:
            outcomes.put(None)

    workers = [threading.Thread(target=run_next, daemon=True) for _ in range(threads)]
    try:  # an interrupt may occur at any time
        for worker in workers:
            worker.start()
        for _ in workers:
            error = outcomes.get()
            if error is not None:
                raise error
    except BaseException:
        progress.stop()
        for _ in indices:  # start no further task
            pass
        end = time.monotonic() + STOP_SECONDS
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(0.0, end - time.monotonic()))
        raise
