"""Manage the threads of this process.

The process uses as many threads as its linear algebra library, which is limited to the rank's share of the machine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_ARENA_MAX = -8
"""The constant M_ARENA_MAX of glibc's malloc.h."""


def thread_count() -> int:
    """Return the number of threads that this process may use, ignoring the limit that `single_threaded` sets."""
    return single_threaded.otherwise() or _current_threads()


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call `work` for each item in a thread pool, and return the results in order.

    NumPy releases the GIL for large arrays. Linear algebra is limited to one thread per item, so that results do not
    depend on the number of threads.
    """
    items = list(items)
    threads = min(thread_count(), len(items))
    with single_threaded:
        if threads < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))


def prefetch(work: Callable[[Item], Result], items: Iterable[Item], workers: int = 1) -> Iterator[Result]:
    """Yield `work(item)` for each item in order. Threads compute the next results while the caller uses the current
    one.

    At most `workers` + 1 results exist at a time, in addition to the one that the caller uses.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def limit_heaps() -> None:
    """Limit the number of heaps (arenas) that threads share to the number of cores, if the C library is glibc.

    By default there are up to eight heaps per core. Each heap keeps memory that its threads freed, in total about a
    twentieth of a job's memory. The limit applies to threads that start later. The environment variable
    MALLOC_ARENA_MAX overrides it.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError, TypeError):  # other systems and libraries
            ctypes.CDLL(None).mallopt(_ARENA_MAX, max(2, os.cpu_count() or 1))


class _SingleThreaded:
    """A context that limits linear algebra to one thread as long as at least one thread of the process is in it."""

    def __init__(self) -> None:
        self._lock, self._users, self._limits = threading.Lock(), 0, ExitStack()
        self._threads = 0

    def otherwise(self) -> int:
        """Return the number of threads that linear algebra would use without the limit, or 0 if there is no limit at
        present.
        """
        with self._lock:
            return self._threads if self._users else 0

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._threads = _current_threads()
                self._limits.enter_context(_libraries().limit(limits=1, user_api="blas"))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limits.close()


single_threaded = _SingleThreaded()
"""A context for `with` blocks in which linear algebra is limited to one thread."""


def _current_threads() -> int:
    return max((library["num_threads"] for library in _libraries().info()), default=1)


@functools.cache
def _libraries() -> Any:
    import numpy as np  # noqa: F401 (loads its linear algebra, which is looked up below)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
