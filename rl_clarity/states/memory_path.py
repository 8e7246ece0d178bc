"""Gradients of an agent's outputs with respect to earlier frames and states, through its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Score, State
from rl_clarity.agents.recurrence import agent_state
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
    points: int = 32,
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of targets at B steps with respect to the last n frames, and to the state before each of them.

    Frames are treated as independent of the agent's actions. The gradient is propagated from an output at step t to the
    state h(t) before it, and from there back through the recurrent cell, step by step:

        d y(t) / d h(u) = d y(t) / d h(t)  J(t - 1) ... J(u)
        d y(t) / d x(u) = d y(t) / d h(u + 1)  d h(u + 1) / d x(u),

    where J(u) = d h(u + 1) / d h(u) at frame x(u). Effects of the agent's actions on the environment are not included.

    Args:
        agent: A recurrent agent with `state_gradients`: any `KerasAgent`, `TorchAgent` or `JaxAgent`.
        data: The states of a recording, from `read_states`.
        rows: (B,) the steps t, each at least `steps` - 1 steps after the beginning of its episode.
        scores: S outputs at t, in the format of `Agent.gradients`.
        weights: (B, D, H) weights of D further targets: linear combinations of the state before step t, which does not
            depend on frame t.
        steps: n, the length of the window that ends at t.
        baseline: uint8 frames that the agent could have seen instead, (B, n, height, width, channels), or one frame for
            all steps, (height, width, channels). Gradients are then averaged over the line from the baseline to the
            observed frames, along which the states after the first are computed again, as in integrated gradients
            (Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365). Multiplied by the differences from the
            baseline, they add up to the change of the target. This helps if a clear cue saturates a cell, whose
            gradient at the observed frames is then almost 0.
        points: Number of points on that line.

    Returns:
        Gradients with respect to the frames, (S + D, B, n, height, width, channels), for observations divided by 255,
        and with respect to the state before each step, (S + D, B, n, H). The last of the n steps is t.

    Raises:
        OptionError: The agent has no gradients, `rows` is empty, or a window begins before its episode.
    """
    differentiable: Any = require(agent, "state_gradients", "gradients", for_="gradients through memory")
    rows = np.asarray(rows)
    if not len(rows) or steps < 1 or (data.time[rows] < steps - 1).any():
        raise OptionError(f"rows is empty, or some windows of steps={steps} steps begin before their episodes")
    shares = np.ones(1) if baseline is None else (np.arange(points) + 0.5) / points
    copies = len(shares) * len(rows)
    first = rows - steps + 1
    if baseline is not None:
        baseline = np.broadcast_to(baseline, (len(rows), steps, *agent.observation_shape))
    state = agent_state(agent, np.tile(data.states[first], (len(shares), 1)))
    seen: list[tuple[np.ndarray, State]] = []
    for step in range(steps):
        observations = data.observations(first + step)
        if baseline is not None:
            observations = _between(baseline[:, step], observations, shares)
        seen.append((observations, state))
        if step < steps - 1:
            state = agent.forward(observations, state).state
    repeated = [_repeated(score, len(shares)) for score in scores]
    targets = np.asarray(weights, np.float32)
    count = len(scores) + targets.shape[1]
    frames = np.zeros((count, len(rows), steps, *agent.observation_shape), np.float32)
    states = np.zeros((count, len(rows), steps, data.states.shape[1]), np.float32)
    of_state = np.zeros((count, copies, data.states.shape[1]), np.float32)
    of_state[len(scores) :] = np.tile(np.moveaxis(targets, 0, 1), (1, len(shares), 1))

    def mean(gradients: np.ndarray) -> np.ndarray:
        return np.asarray(gradients.reshape(len(gradients), len(shares), len(rows), *gradients.shape[2:]).mean(axis=1))

    for step in range(steps - 1, -1, -1):
        observations, state = seen[step]
        if step < steps - 1:
            later = np.moveaxis(of_state, 0, 1)  # (copies, S + D, H)
            frames[:, :, step] = mean(differentiable.state_gradients(observations, state, later, "input"))
            of_state = differentiable.state_gradients(observations, state, later)
        elif scores:
            frames[: len(scores), :, step] = mean(differentiable.gradients(observations, INPUT, repeated, state=state))
            parts = [
                differentiable.gradients(observations, f"state/{i}", repeated, state=state)
                for i in range(len(state or ()))
            ]
            of_state[: len(scores)] = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
        states[:, :, step] = mean(of_state)
    return frames, states


def _between(baseline: np.ndarray, observations: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return observations (P * B, height, width, channels) at P points on the line from the baseline to B observations.

    `shares` (P,) are the positions of the points: 0 for the baseline, 1 for the observation.
    """
    start = baseline.astype(np.float32)
    line = [start + share * (observations - start) for share in shares]
    return np.rint(np.concatenate(line)).astype(np.uint8)


def _repeated(score: Score, times: int) -> Score:
    if not isinstance(score, Mapping):
        return score
    return {key: np.tile(weight, times) if np.ndim(weight) else weight for key, weight in score.items()}


def mean_frame(data: StateData, frames: int = 256) -> np.ndarray:
    """Return the mean frame (height, width, channels) uint8 of evenly spaced observations of the recording."""
    rows = np.linspace(0, len(data) - 1, min(frames, len(data))).astype(int)
    return np.rint(data.observations(rows).mean(axis=0, dtype=np.float64)).astype(np.uint8)


def outputs_at(agent: Agent, data: StateData, rows: np.ndarray) -> dict[str, Score]:
    """Return the outputs to explain at B rows: `value`, if the agent has one, and `action`, if actions are discrete.

    `action` is the logit (or the action value) of the chosen action, minus the mean of those of the other actions.
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
