"""Measure what a frame causes: replace it, replay the frames after it, and compute the outputs again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rl_clarity.agents.protocol import Agent, Outputs, Score
from rl_clarity.agents.recurrence import agent_state, join_state
from rl_clarity.agents.scores import action_scores
from rl_clarity.states.data import StateData
from rl_clarity.states.replay import policy_change

REPLACED = 3
"""Number of causes of each target whose frames are replaced."""


def measured_causes(
    agent: Agent,
    data: StateData,
    rows: np.ndarray,
    outputs: Mapping[str, Score],
    weights: np.ndarray,
    frames: np.ndarray,
    baseline: np.ndarray,
) -> dict[str, np.ndarray]:
    """Replace the frames of the three largest causes of each target, and compute the target again.

    Causes are frames before the explained step, by the sums of gradients (G, B, n, ...) times differences from the
    baseline. The arrays (G, B, 3) are `replaced.frames`, their places in the window, or -1; `replaced.mean`, by how
    much the target is larger with the frame than with the baseline in its place; `replaced.partner`, the same with the
    frame of another episode at the same step, the one whose state after it differs most; and `replaced.mean.policy` and
    `replaced.partner.policy`, the Kullback-Leibler divergences of the changed policies in nats. `memory.change` (G, B):
    by how much the target is larger than with the baseline in place of all frames of the window.
    """
    targets, count, steps = frames.shape[:3]
    first = rows - steps + 1
    seen = np.stack([data.observations(first + step) for step in range(steps)], axis=1).astype(np.float32)
    sums = (frames * (seen - baseline) / 255).reshape(targets, count, steps, -1).sum(axis=-1)
    causes = np.argsort(-np.abs(sums[..., :-1]), axis=-1, kind="stable")[..., :REPLACED]  # (G, B, at most 3)
    places = np.full((targets, count, REPLACED), -1, np.int32)
    places[..., : causes.shape[-1]] = causes
    window = np.broadcast_to(np.arange(count)[None, :, None], places.shape)
    chosen = np.unique(np.stack([window, places], axis=-1)[places >= 0].reshape(-1, 2), axis=0)  # (m, 2)
    of_window, place = chosen.T
    at = first[of_window] + place
    partners = _partners(data, at)
    other = np.zeros((len(at), *agent.observation_shape), np.uint8)
    other[partners >= 0] = data.observations(partners[partners >= 0]) if (partners >= 0).any() else 0
    # replays: unchanged, without any frame of the window, with the mean frame, with the frame of a partner
    lanes = np.concatenate([np.arange(count), np.arange(count), of_window, of_window])
    begin = np.concatenate([rows, first, at, at])
    kind = np.repeat(range(4), [count, count, len(at), len(at)])

    def see(now: np.ndarray, observations: np.ndarray) -> None:
        replaced = now == begin
        observations[(kind == 1) & (now >= 0) | (kind == 2) & replaced] = baseline
        observations[(kind == 3) & replaced] = other[replaced[kind == 3]]

    after, states = replay_frames(agent, data, rows[lanes], begin, see)
    scores = [_of_lanes(score, lanes) for score in outputs.values()]
    values = target_values(after, states, scores, weights[lanes])  # (G, replays)
    changes = values[:, lanes] - values  # of the unchanged replays, which are the first ones
    policy = policy_change(after, after, lanes)
    changes[:, kind == 3] = np.where(partners >= 0, changes[:, kind == 3], np.nan)
    index = np.full((count, steps), -1)
    index[of_window, place] = np.arange(len(at))
    target = np.arange(targets)[:, None, None]
    result = {"replaced.frames": places, "memory.change": changes[:, kind == 1].astype(np.float32)}
    for number, name in ((2, "mean"), (3, "partner")):
        of_place = index[window, places] + np.flatnonzero(kind == number)[:1].sum()
        known = (places >= 0) & np.isfinite(changes[0, np.minimum(of_place, len(lanes) - 1)])
        of_place = np.where(known, of_place, 0)
        result[f"replaced.{name}"] = np.where(known, changes[target, of_place], np.nan).astype(np.float32)
        result[f"replaced.{name}.policy"] = np.where(known, policy[of_place], np.nan).astype(np.float32)
    return result


def _of_lanes(score: Score, lanes: np.ndarray) -> Score:
    return (
        {action: np.asarray(weight)[lanes] for action, weight in score.items()} if isinstance(score, Mapping) else score
    )


def _partners(data: StateData, rows: np.ndarray) -> np.ndarray:
    """Return steps (m,) of other episodes at the same time whose states after them differ most, or -1."""
    scale = np.maximum(np.ptp(data.states, axis=0), 1e-9)
    result = np.full(len(rows), -1)
    for i, row in enumerate(rows):
        time = data.time[row]
        possible = data.starts[data.length[data.starts] > time + 1] + time
        possible = possible[data.episode[possible] != data.episode[row]]
        if len(possible):
            differences = (data.states[possible + 1] - data.states[row + 1]) / scale
            result[i] = possible[np.linalg.norm(differences, axis=1).argmax()]
    return result


def replay_frames(
    agent: Agent, data: StateData, rows: np.ndarray, first: np.ndarray, see: Callable[[np.ndarray, np.ndarray], None]
) -> tuple[Outputs, np.ndarray]:
    """Return the outputs at steps (n,), and the states (n, H) before them, if the agent had seen other frames.

    Replay n starts at step `first[n]` from the recorded state. `see` gets the steps (n,) that come next, or -1 where
    a replay has not started, and their observations (n, height, width, channels) uint8, which it changes.
    """
    lags = np.asarray(rows) - first
    states = data.states[first].copy()
    for lag in range(int(lags.max()), -1, -1):
        here = np.flatnonzero(lags >= lag)
        now = np.where(lags >= lag, rows - lag, -1)
        different, position = np.unique(now[here], return_inverse=True)
        observations = np.zeros((len(rows), *agent.observation_shape), np.uint8)
        observations[here] = data.observations(different)[position]
        see(now, observations)
        outputs = agent.forward(observations[here], agent_state(agent, states[here]))
        if lag:
            states[here] = join_state(outputs.state)
    return outputs, states


def target_values(outputs: Outputs, states: np.ndarray, scores: Sequence[Score], weights: np.ndarray) -> np.ndarray:
    """Return the values (S + D, n) of the targets of `memory_gradients`; scores are "value" or weights of actions."""
    values = []
    for score in scores:
        if isinstance(score, Mapping):
            logits = action_scores(outputs)
            values.append(np.sum([weight * logits[:, int(action)] for action, weight in score.items()], axis=0))
        else:
            assert outputs.values is not None
            values.append(outputs.values)
    of_state = np.einsum("ndh,nh->dn", weights, states)
    return np.concatenate([np.reshape(values, (len(scores), len(states))), of_state])
