"""Batches are as large as memory allows."""

from __future__ import annotations

import pytest

from rl_clarity.analyses.layers import MEMORY_HINT, PageLayer, gradient_bytes
from rl_clarity.base.errors import ClarityError
from rl_clarity.jobs.tasks import MAX_FRAMES, Task, TaskResult, slices
from tests.fakes import TinyAgent

AMPLE = 10**12
LAYER = PageLayer("1a", "1a", "net/1a/Relu", (64, 64, 16), 8)


def task(scores: int = 1) -> Task:
    frame_bytes = gradient_bytes(TinyAgent(), LAYER.shape, scores)
    return Task("attribution/1a/1", lambda work: TaskResult(), None, frame_bytes=frame_bytes, memory_hint=MEMORY_HINT)


def test_ample_memory_allows_batches_of_maximal_size() -> None:
    assert task().batch(AMPLE) == MAX_FRAMES
    assert Task("small", lambda work: TaskResult(), None).batch(1) == MAX_FRAMES


def test_batch_size_does_not_grow_beyond_a_limit() -> None:
    """Machines with enough memory compute the same bytes."""
    batches = {task(40).batch(memory) for memory in (3 * 10**9, 10**10, AMPLE)}
    assert len(batches) == 1
    assert batches.pop() < MAX_FRAMES


def test_less_memory_gives_smaller_batches_that_fit() -> None:
    batches = []
    for megabytes in (400, 200, 100, 50, 10):
        memory = megabytes * 10**6
        batches.append(task().batch(memory))
        assert batches[-1] * task().frame_bytes <= memory
    assert batches == sorted(batches, reverse=True)
    assert all(count & (count - 1) == 0 for count in batches)  # powers of 2: few shapes to compile
    assert batches[-1] < batches[0]


def test_gradients_of_more_outputs_need_more_memory() -> None:
    assert gradient_bytes(TinyAgent(), LAYER.shape, 15) > 10 * gradient_bytes(TinyAgent(), LAYER.shape, 1)


def test_too_little_memory_for_one_frame_is_an_error_with_a_hint() -> None:
    taken = r"one frame of attribution/1a/1 takes about \d+ MB of memory, but only 1 MB are available"
    message = rf"{taken}: .*layers\.discard_first_n"
    with pytest.raises(ClarityError, match=message):
        task().batch(10**6)


def test_slices_divide_a_range_into_batches() -> None:
    assert list(slices(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(slices(0, 2)) == []
