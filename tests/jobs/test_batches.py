"""As many frames are processed together as memory allows."""

from __future__ import annotations

import pytest

from rl_clarity.analyses.layers import MEMORY_HINT, PageLayer, gradient_bytes
from rl_clarity.errors import ClarityError
from rl_clarity.jobs.tasks import MAX_FRAMES, Task, TaskResult, slices
from tests.fakes import TinyAgent

AMPLE = 10**12
LAYER = PageLayer("1a", "1a", "net/1a/Relu", (64, 64, 16), 8)


def task(scores: int = 1) -> Task:
    frame_bytes = gradient_bytes(TinyAgent(), LAYER, scores)
    return Task("attribution/1a/1", lambda work: TaskResult(), None, frame_bytes=frame_bytes, memory_hint=MEMORY_HINT)


def test_a_segment_where_memory_allows() -> None:
    assert task().batch(AMPLE) == MAX_FRAMES
    assert Task("small", lambda work: TaskResult(), None).batch(1) == MAX_FRAMES


def test_more_memory_than_usual_changes_nothing() -> None:
    """So that machines that have enough compute the same bytes."""
    batches = {task(40).batch(memory) for memory in (3 * 10**9, 10**10, AMPLE)}
    assert len(batches) == 1
    assert batches.pop() < MAX_FRAMES


def test_less_memory_makes_smaller_batches_that_fit() -> None:
    batches = []
    for megabytes in (400, 200, 100, 50, 10):
        memory = megabytes * 10**6
        batches.append(task().batch(memory))
        assert batches[-1] * task().frame_bytes <= memory
    assert batches == sorted(batches, reverse=True)
    assert all(count & (count - 1) == 0 for count in batches)  # few shapes to compile for
    assert batches[-1] < batches[0]


def test_more_scores_take_more() -> None:
    assert gradient_bytes(TinyAgent(), LAYER, 15) > 10 * gradient_bytes(TinyAgent(), LAYER, 1)


def test_too_little_memory_for_a_frame_is_an_error_with_a_hint() -> None:
    message = r"one frame of attribution/1a/1 takes about \d+ MB of memory, 1 MB are available: .*layer_kwargs"
    with pytest.raises(ClarityError, match=message):
        task().batch(10**6)


def test_slices() -> None:
    assert list(slices(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(slices(0, 2)) == []
