"""Parts of a job that run at once in threads of one process, and share a progress bar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from rl_clarity.progress import Report


class SharedProgress:
    """The share of all tasks that is done: those listed before one that has started count as done by other ranks."""

    def __init__(self, report: Report, sizes: Sequence[float]) -> None:
        self._report, self._sizes = report, sizes
        self._lock, self._left, self._begun = threading.Lock(), dict[int, float](), 0
        self._stopped = False

    def of(self, index: int) -> Report:
        """The report of one task, which raises StoppedError after `stop`."""

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
        """End running tasks at their next report."""
        self._stopped = True


class StoppedError(Exception):
    """Another task has failed, or the job is interrupted."""


def run_in_threads(run: Callable[[int], None], count: int, threads: int, progress: SharedProgress) -> None:
    """Call `run` for indices below `count` in at most so many threads, or in this one; the first error stops all."""
    threads = min(threads, count)
    if threads < 2:
        for index in range(count):
            run(index)
        return
    indices = iter(range(count))

    def run_next() -> None:
        for index in indices:
            run(index)

    with ThreadPoolExecutor(threads) as pool:
        try:  # an interrupt may come at any time
            futures = [pool.submit(run_next) for _ in range(threads)]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            progress.stop()
            raise
