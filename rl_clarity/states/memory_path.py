"""Gradients of an agent's outputs through its memory: down to each earlier frame, and to each earlier state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state, require
from rl_clarity.agents.protocol import Agent, Score
from rl_clarity.agents.recurrence import split_state
from rl_clarity.agents.sites import INPUT
from rl_clarity.errors import OptionError
from rl_clarity.states.data import StateData


def memory_gradients(
    agent: Agent, data: StateData, rows: np.ndarray, scores: Sequence[Score], weights: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of targets at B steps with respect to the last frames, and to the states before these.

    Recorded frames are fixed: the gradient goes from an output at step t to the state h(t) before it, and from there
    through the recurrent cell, one step after another,

        d y(t) / d h(u) = d y(t) / d h(t)  J(t - 1) ... J(u),    d y(t) / d x(u) = d y(t) / d h(u + 1)  d h(u + 1) / d x(u),

    with J(u) = d h(u + 1) / d h(u) at frame x(u). What the agent causes in the world is not part of it.

    Args:
        agent: A recurrent agent with `state_gradients`: any `KerasAgent`, `TorchAgent` or `JaxAgent`.
        data: What `read_states` made of a recording.
        rows: (B,) the steps t, each at least `steps` - 1 steps after the beginning of its episode.
        scores: S outputs at t, as for `Agent.gradients`.
        weights: (B, D, H) further targets: combinations of the state before step t, which frame t cannot change.
        steps: n, of the window that ends at t.

    Returns:
        Frames (S + D, B, n, height, width, channels), of observations / 255, and states (S + D, B, n, H), of the state
        before each step. The last of n is step t.

    Raises:
        OptionError: The agent has no gradients, or a window begins before its episode.
    """
    differentiable: Any = require(agent, "state_gradients", "gradients", for_="gradients through memory")
    rows = np.asarray(rows)
    if not len(rows) or steps < 1 or (data.time[rows] < steps - 1).any():
        raise OptionError(f"windows of steps={steps} steps begin before their episodes, or there are none")
    initial = initial_state(agent, len(rows))
    observations, state = data.observations(rows), split_state(data.states[rows], initial)
    own = np.asarray(weights, np.float32)
    count = len(scores) + own.shape[1]
    frames = np.zeros((count, len(rows), steps, *observations.shape[1:]), np.float32)
    states = np.zeros((count, len(rows), steps, data.states.shape[1]), np.float32)
    states[len(scores) :, :, -1] = np.moveaxis(own, 0, 1)
    if scores:
        frames[: len(scores), :, -1] = differentiable.gradients(observations, INPUT, scores, state=state)
        parts = [
            differentiable.gradients(observations, f"state/{i}", scores, state=state) for i in range(len(state or ()))
        ]
        flat = [part.reshape(*part.shape[:2], -1) for part in parts]
        states[: len(scores), :, -1] = np.concatenate(flat, axis=2)
    for step in range(steps - 2, -1, -1):
        earlier = rows - (steps - 1 - step)
        observations, state = data.observations(earlier), split_state(data.states[earlier], initial)
        later = np.moveaxis(states[:, :, step + 1], 0, 1)  # (B, S + D, H)
        frames[:, :, step] = differentiable.state_gradients(observations, state, later, "input")
        states[:, :, step] = differentiable.state_gradients(observations, state, later)
    return frames, states


def outputs_at(agent: Agent, data: StateData, rows: np.ndarray) -> dict[str, Score]:
    """Return the outputs at steps (B,) that are explained: `value`, if there is one, and `action`.

    That is the logit, or the value, of the action that was taken less the mean of the others.
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
