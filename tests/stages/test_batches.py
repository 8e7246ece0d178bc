"""As many frames are worked on together as memory holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl_clarity.errors import ClarityError
from rl_clarity.stages.batches import (
    MOST,
    activations_at_once,
    frames_at_once,
    gradient_bytes,
    parts,
)
from rl_clarity.stages.plan import PlannedLayer
from tests.fakes import TinyAgent

AMPLE = 10**12
LAYER = PlannedLayer("1a", "1a", "net/1a/Relu", (64, 64, 16), 8)


def test_a_segment_where_there_is_room() -> None:
    assert frames_at_once(TinyAgent(), LAYER, 1, AMPLE) == MOST


def test_more_memory_than_usual_changes_nothing() -> None:
    """So that machines that have enough make the same bytes."""
    counts = {frames_at_once(TinyAgent(), LAYER, 40, memory) for memory in (3 * 10**9, 10**10, AMPLE)}
    assert len(counts) == 1
    assert counts.pop() < MOST


def test_less_memory_makes_smaller_batches_that_fit() -> None:
    agent, found = TinyAgent(), []
    for megabytes in (400, 200, 100, 50, 10):
        memory = megabytes * 10**6
        found.append(frames_at_once(agent, LAYER, 1, memory))
        assert found[-1] * gradient_bytes(agent, LAYER, 1) <= memory
    assert found == sorted(found, reverse=True)
    assert all(count & (count - 1) == 0 for count in found)  # few shapes to compile for
    assert found[-1] < found[0]


def test_more_scores_take_more() -> None:
    assert gradient_bytes(TinyAgent(), LAYER, 15) > 10 * gradient_bytes(TinyAgent(), LAYER, 1)


def test_a_frame_that_has_no_room_is_an_error_with_a_way_out() -> None:
    with pytest.raises(ClarityError, match=r"one frame's gradients at layer 1a take about \d+ MB; 1 MB .*layer_kwargs"):
        frames_at_once(TinyAgent(), LAYER, 1, 10**6)


def test_activations() -> None:
    assert activations_at_once(LAYER, 512, AMPLE) == activations_at_once(LAYER, 512, 3 * 10**9) < 512
    assert activations_at_once(replace(LAYER, shape=(2, 2, 2)), 512, AMPLE) == 512
    assert activations_at_once(LAYER, 512, 1) == 1


def test_parts() -> None:
    assert list(parts(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(parts(0, 2)) == []
