"""Thread pools."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from rl_clarity.base import threads
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.nmf import BLOCK


@pytest.mark.parametrize("count", [1, 2, 5])
def test_thread_pool_results_are_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: count)
    used: set[int] = set()

    def square(x: int) -> int:
        used.add(threading.get_ident())
        return x * x

    assert threads.in_threads(square, range(50)) == [x * x for x in range(50)]
    assert threads.in_threads(square, []) == []
    assert len(used) <= count
    assert count > 1 or used == {threading.get_ident()}


def test_errors_in_worker_threads_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        threads.in_threads(lambda x: 1 // x, [2, 1, 0])


def test_the_number_of_blas_threads_is_restored() -> None:
    before = threads._current_threads()
    assert threads.in_threads(lambda _: threads._current_threads(), range(3)) == [1, 1, 1]
    assert threads._current_threads() == before


def test_channel_reductions_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    attribution = rng.standard_normal((3 * BLOCK + 7, 12), dtype=np.float32)
    reduction = ChannelReduction(np.abs(rng.standard_normal((5, 12))))
    results = []
    for count in (1, 4):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        results.append([*reduction.signed_transform(attribution), reduction.reconstruction_error(attribution)])
    for array, other in zip(*results, strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("workers", [1, 3])
def test_prefetched_results_are_computed_ahead_in_other_threads(workers: int) -> None:
    together = threading.Barrier(workers, timeout=10)
    started: list[int] = []

    def square(x: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        started.append(x)
        together.wait()  # passes only when as many are computed at once
        return x * x

    prefetched = threads.prefetch(square, range(12), workers)
    assert next(prefetched) == 0
    assert len(started) <= 2 * workers
    assert [*prefetched] == [x * x for x in range(1, 12)]


def test_prefetch_computes_at_most_the_requested_number_of_items_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(10):
            taken.append(item)
            yield item

    prefetched = threads.prefetch(lambda x: x, items(), 2)
    assert next(prefetched) == 0
    assert taken == [0, 1, 2]
    prefetched.close()  # type: ignore[attr-defined]
    assert taken == [0, 1, 2]


def test_prefetch_raises_errors_at_the_item_that_failed() -> None:
    prefetched = threads.prefetch(lambda x: 1 // x, (1, 0))
    assert next(prefetched) == 1
    with pytest.raises(ZeroDivisionError):
        next(prefetched)


def test_blas_stays_single_threaded_until_all_thread_pools_are_done() -> None:
    before = threads._current_threads()
    inside, leave = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        inside.set()
        assert leave.wait(10)

    other = threading.Thread(target=threads.in_threads, args=(wait, [0]))
    other.start()
    assert inside.wait(10)
    threads.in_threads(str, [0])
    assert threads._current_threads() == 1
    leave.set()
    other.join()
    assert threads._current_threads() == before


def test_thread_count_does_not_change_while_blas_is_single_threaded() -> None:
    before = threads.thread_count()
    with threads.single_threaded:
        assert threads.thread_count() == before
        with threads.single_threaded:
            assert threads.thread_count() == before
    assert threads.thread_count() == before


def test_limit_heaps_limits_malloc_arenas_where_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def __init__(self, name: None) -> None: ...

        def mallopt(self, option: int, value: int) -> None:
            calls.append((option, value))

    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    monkeypatch.setattr("ctypes.CDLL", Library)
    threads.limit_heaps()
    monkeypatch.delattr(Library, "mallopt")  # as on macOS
    threads.limit_heaps()
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    threads.limit_heaps()
    assert calls == [(-8, 6)]
