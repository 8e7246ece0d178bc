"""Gradients of an agent's outputs with respect to earlier frames and states, through its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state, require
from rl_clarity.agents.protocol import Agent, Score
from rl_clarity.agents.recurrence import split_state
from rl_clarity.agents.sites import INPUT
from rl_clarity.base.errors import OptionError
from rl_clarity.states.data import StateData


def memory_gradients(
    agent: Agent,
    data: StateData,
    rows: np.ndarray,
    scores: Sequence[Score],
    weights: np.ndarray,
    steps: int,
    *,
    baseline: np.ndarray | None = None,
    points: int = 4,
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of targets at B steps with respect to the last n frames, and to the states before them.

    Recorded frames are fixed: the gradient goes from an output at step t to the state h(t) before it, and from there
    through the recurrent cell, one step after another,

        d y(t) / d h(u) = d y(t) / d h(t)  J(t - 1) ... J(u)
        d y(t) / d x(u) = d y(t) / d h(u + 1)  d h(u + 1) / d x(u),

    with J(u) = d h(u + 1) / d h(u) at frame x(u). Effects of the agent's actions on the world are not included.

    Args:
        agent: A recurrent agent with `state_gradients`: any `KerasAgent`, `TorchAgent` or `JaxAgent`.
        data: The states of a recording, from `read_states`.
        rows: (B,) the steps t, each at least `steps` - 1 steps after the beginning of its episode.
        scores: S outputs at t, as for `Agent.gradients`.
        weights: (B, D, H) further targets: combinations of the state before step t, which frame t cannot change.
        steps: n, the length of the window that ends at t.
        baseline: (height, width, channels) uint8. Gradients with respect to a frame are then means over the line from
            the baseline to it, as in integrated gradients (Sundararajan et al. 2017,
            https://arxiv.org/abs/1703.01365): a clear cue can saturate a cell, whose gradient at the cue itself is then
            almost 0.
        points: Number of points on that line.

    Returns:
        Frames (S + D, B, n, height, width, channels), of observations / 255, and states (S + D, B, n, H), of the state
        before each step. The last of n is step t.

    Raises:
        OptionError: The agent has no gradients, or a window begins before its episode.
    """
    differentiable: Any = require(agent, "state_gradients", "gradients", for_="gradients through memory")
    rows = np.asarray(rows)
    if not len(rows) or steps < 1 or (data.time[rows] < steps - 1).any():
        raise OptionError(f"rows is empty, or windows of steps={steps} steps begin before their episodes")
    initial = initial_state(agent, len(rows))
    own = np.asarray(weights, np.float32)
    count = len(scores) + own.shape[1]
    frames = np.zeros((count, len(rows), steps, *agent.observation_shape), np.float32)
    states = np.zeros((count, len(rows), steps, data.states.shape[1]), np.float32)
    states[len(scores) :, :, -1] = np.moveaxis(own, 0, 1)
    for step in range(steps - 1, -1, -1):
        now = rows - (steps - 1 - step)
        observations, state = data.observations(now), split_state(data.states[now], initial)
        way = _way(observations, baseline, points)
        if step == steps - 1:
            if scores:
                seen = [differentiable.gradients(x, INPUT, scores, state=state) for x in way]
                frames[: len(scores), :, step] = np.mean(seen, axis=0)
                parts = [
                    differentiable.gradients(observations, f"state/{i}", scores, state=state)
                    for i in range(len(state or ()))
                ]
                flat = [part.reshape(*part.shape[:2], -1) for part in parts]
                states[: len(scores), :, step] = np.concatenate(flat, axis=2)
            continue
        later = np.moveaxis(states[:, :, step + 1], 0, 1)  # (B, S + D, H)
        seen = [differentiable.state_gradients(x, state, later, "input") for x in way]
        frames[:, :, step] = np.mean(seen, axis=0)
        states[:, :, step] = differentiable.state_gradients(observations, state, later)
    return frames, states


def _way(observations: np.ndarray, baseline: np.ndarray | None, points: int) -> list[np.ndarray]:
    """Return observations at the midpoints of equal parts of the line from the baseline, if there is a baseline."""
    if baseline is None:
        return [observations]
    start = baseline.astype(np.float32)
    shares = (np.arange(points) + 0.5) / points
    return [np.rint(start + share * (observations - start)).astype(np.uint8) for share in shares]


def mean_frame(data: StateData, frames: int = 256) -> np.ndarray:
    """Return the mean frame (height, width, channels) uint8 of observations at even distances in the recording."""
    rows = np.linspace(0, len(data) - 1, min(frames, len(data))).astype(int)
    return np.rint(data.observations(rows).mean(axis=0, dtype=np.float64)).astype(np.uint8)


def outputs_at(agent: Agent, data: StateData, rows: np.ndarray) -> dict[str, Score]:
    """Return the outputs at steps (B,) to explain: `value`, if the agent has a value, and `action`.

    `action` is the logit, or the value, of the action taken less the mean of the others.
    """
    scores: dict[str, Score] = {}
    if any(site.name == "values" for site in agent.sites):
        scores["value"] = "value"
    if data.actions.ndim == 1 and data.logits is not None:
        count = data.logits.shape[1]
        taken = data.actions[rows][:, None] == np.arange(count)
        shares = np.where(taken, 1.0, -1.0 / max(count - 1, 1))
        scores["action"] = {action: shares[:, action] for action in range(count)}
    return scores
