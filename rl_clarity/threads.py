"""Threads of this process, as many as its linear algebra uses, which a rank's share of its machine limits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """Number of threads that this process may use."""
    return max((library["num_threads"] for library in _libraries().info()), default=1)


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call `work` for each item in a thread pool; return the results in order.

    NumPy releases the GIL for large arrays. Linear algebra is limited to one thread per item, so that results do not
    depend on the number of threads.
    """
    items = list(items)
    threads = min(thread_count(), len(items))
    with _libraries().limit(limits=1, user_api="blas"):
        if threads < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items; the next one is computed in a thread while the caller uses the last one."""
    iterator = iter(items)
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, iterator, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, iterator, end)
            yield item


@functools.cache
def _libraries() -> Any:
    import numpy as np  # noqa: F401 (loads its linear algebra, which is looked up below)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
