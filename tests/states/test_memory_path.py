"""Gradients through memory equal finite differences of a replay; a frame after the output changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.states.data import StateData, read_states
from rl_clarity.states.memory_path import mean_frame, memory_gradients, outputs_at
from tests.light_switch import Game, checkpoint

STEPS, UNITS = 4, 3


@pytest.fixture(scope="module")
def agent() -> Any:
    return rl_clarity.load_agent(checkpoint("memory"))


@pytest.fixture(scope="module")
def data(light_switch_recordings: dict[Game, Recording]) -> StateData:
    return read_states(light_switch_recordings["memory"])


def outputs_after(agent: Any, frames: list[np.ndarray], state: np.ndarray, action: int) -> np.ndarray:
    """Value, preference for the action, and 3 units of the state before the last step, (5,), from a state (1, H)."""
    parts = (state.astype(np.float32),)
    for frame in frames:
        before, outputs = parts, agent.forward(frame, parts)
        parts = outputs.state
    logits = outputs.policy_logits[0]
    others = [logit for i, logit in enumerate(logits) if i != action]
    return np.array([outputs.values[0], logits[action] - np.mean(others), *before[0][0][:UNITS]])


@pytest.mark.slow
def test_gradients_through_memory_equal_finite_differences(agent: Any, data: StateData) -> None:
    rows = np.flatnonzero(data.time == 5)[:2]
    units = np.eye(16, dtype=np.float32)[None, :UNITS].repeat(2, axis=0)
    scores = list(outputs_at(agent, data, rows).values())
    frames, states = memory_gradients(agent, data, rows, scores, units, STEPS)
    assert frames.shape == (2 + UNITS, 2, STEPS, 16, 16, 3)
    row = rows[1]
    seen = [data.observations(np.array([row - STEPS + 1 + i])).astype(np.float32) for i in range(STEPS)]
    action, start = int(data.actions[row]), data.states[[row - STEPS + 1]]
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        change = rng.uniform(-4, 4, seen[step].shape).astype(np.float32)
        change = np.where((seen[step] + change < 0) | (seen[step] - change < 0), 0, change)
        ends = []
        for sign in (1, -1):
            changed = [frame + sign * change if i == step else frame for i, frame in enumerate(seen)]
            ends.append(outputs_after(agent, changed, start, action))
        expected = (ends[0] - ends[1]) / 2
        found = (frames[:, 1, step] * change[0] / 255).reshape(2 + UNITS, -1).sum(axis=1)
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max() + 1e-5)
    assert not frames[2:, :, -1].any()  # the state before a step does not depend on its frame
    change = rng.normal(size=(1, 16)).astype(np.float32) * 1e-3
    ends = [outputs_after(agent, seen, start + sign * change, action) for sign in (1, -1)]
    np.testing.assert_allclose(states[:, 1, 0] @ change[0], (ends[0] - ends[1]) / 2, atol=2e-5)


def test_integrated_gradients_through_memory_are_complete(agent: Any, data: StateData) -> None:
    """Integrated gradients of one step: completeness."""
    rows = np.flatnonzero(data.time == 1)[:1]
    baseline = mean_frame(data)
    units = np.eye(16, dtype=np.float32)[None, :UNITS]
    frames, _ = memory_gradients(agent, data, rows, [], units, 2, baseline=baseline, points=64)
    first = data.observations(rows - 1)
    parts = (frames[:, 0, 0] * (first[0] / 255 - baseline / 255)).reshape(UNITS, -1).sum(axis=1)
    state = (data.states[rows - 1],)
    after = [agent.forward(frame, state).state[0][0] for frame in (first, baseline[None])]
    np.testing.assert_allclose(parts, (after[0] - after[1])[:UNITS], atol=0.02)


def test_windows_that_begin_before_their_episode_are_refused(agent: Any, data: StateData) -> None:
    with pytest.raises(OptionError, match="begin before their episodes"):
        memory_gradients(agent, data, np.array([1]), ["value"], np.zeros((1, 0, 16)), 3)
