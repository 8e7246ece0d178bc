"""What an update changed, from made-up answers of two checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses.saliency import map_arrays
from rl_clarity.analyses.updates import MOST, changes_between, compared_chunks, compared_frames

STEPS = 8


def answers(seed: int, **arrays: Any) -> dict[str, np.ndarray]:
    """The chunk of a checkpoint with maps of every second step."""
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.ones(3), STEPS)
    maps = map_arrays(np.arange(0, STEPS, 2), {"value": rng.random((4, 5, 5)).astype(np.float32)})
    arrays = {"probabilities": policies, "values": rng.normal(size=STEPS), **maps, **arrays}
    return {name: np.asarray(array) for name, array in arrays.items() if array is not None}


def test_changes_between_equal_checkpoints_are_zero() -> None:
    for array in changes_between(answers(1), answers(1), np.array([0, 2])).values():
        assert array == pytest.approx([0, 0], abs=1e-12)


def test_changes_between_checkpoints_are_those_at_the_compared_steps() -> None:
    before, after = answers(1), answers(2)
    after["probabilities"], before["probabilities"] = np.eye(3)[[0] * STEPS], np.eye(3)[[0] * 6 + [1] * 2]
    changes = changes_between(before, after, np.array([4, 6]))
    assert changes["policy"] == pytest.approx([0, np.log(2)])
    assert changes["value"] == pytest.approx(abs(after["values"] - before["values"])[[4, 6]])
    maps = [one["codes.value"][[2, 3]] / 255 * one["scales.value"][[2, 3], None, None] for one in (before, after)]
    assert changes["maps.value"] == pytest.approx(abs(maps[1] - maps[0]).sum((1, 2)))


def test_a_constant_saliency_map_counts_as_zero() -> None:
    constant = map_arrays(np.arange(0, STEPS, 2), {"value": np.ones((4, 5, 5), np.float32)})
    changes = changes_between(answers(1, **constant), answers(2), np.array([0]))
    assert changes["maps.value"] == pytest.approx(answers(2)["totals.value"][:1], rel=0.02)


def test_q_value_agents_are_compared_by_best_action_and_its_value() -> None:
    rng = np.random.default_rng(0)
    chunks = [answers(k, probabilities=None, values=None, q_values=rng.normal(size=(STEPS, 3))) for k in (1, 2)]
    changes = changes_between(chunks[0], chunks[1], np.array([0, 2, 4, 6]))
    best = [one["q_values"][::2].argmax(axis=1) for one in chunks]
    assert changes["policy"] == pytest.approx(np.where(best[0] == best[1], 0, np.log(2)))
    difference = chunks[1]["q_values"][::2].max(axis=1) - chunks[0]["q_values"][::2].max(axis=1)
    assert changes["value"] == pytest.approx(abs(difference))


def test_the_number_of_compared_steps_is_limited() -> None:
    assert compared_frames({"steps": np.arange(0, 32, 4)}).tolist() == [*range(0, 32, 4)]
    assert compared_frames({"probabilities": np.eye(3)[[0] * 5]}).tolist() == [0, 1, 2, 3, 4]
    frames = compared_frames({"steps": np.arange(0, 4000, 4)})
    assert (len(frames), frames[0], frames[-1]) == (MOST, 0, 3996)


def test_each_checkpoint_but_the_first_has_mean_changes() -> None:
    means, arrays = compared_chunks([answers(1), answers(2), answers(3)], np.array([0, 2]))
    assert [sorted(one) for one in means] == [[], *[["maps.value", "policy", "value"]] * 2]
    assert {name: array.shape for name, array in arrays.items() if isinstance(array, np.ndarray)} == {
        "policy": (2, 2), "value": (2, 2), "maps.value": (2, 2)
    }  # fmt: skip
    assert compared_chunks([answers(1)], np.array([0]))[1] == {}
