"""Threads of this process, as many as its linear algebra has: that is what a rank's share of its machine limits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """How many threads this process may use."""
    return max((library["num_threads"] for library in _libraries().info()), default=1)


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The work's result for each item, some items at a time.

    NumPy leaves other threads alone while it is inside large arrays; its linear algebra has one thread for each item
    meanwhile, so that results depend neither on how many there are nor on what else is being computed.
    """
    items = list(items)
    threads = min(thread_count(), len(items))
    with _libraries().limit(limits=1, user_api="blas"):
        if threads < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))


@functools.cache
def _libraries() -> Any:
    import numpy as np  # noqa: F401 (its linear algebra must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
