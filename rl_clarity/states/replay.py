"""Measure how far back outputs depend on the state, by replaying recorded frames from changed states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.capabilities import initial_state
from rl_clarity.agents.protocol import Agent, Outputs
from rl_clarity.agents.recurrence import agent_state, join_state
from rl_clarity.agents.scores import action_scores
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions
from rl_clarity.states.data import StateData

KINDS = ("reset", "frozen", "swapped")
RESAMPLES = 500
LEVEL = 0.05


@dataclass(frozen=True)
class ReplayCurves:
    """Differences of outputs after C changes of the state, at each of K steps: means over samples, with 95 % intervals.

    Intervals are percentile bootstrap intervals over the samples.
    """

    changes: tuple[str, ...]
    """`reset`, `frozen`, `swapped`, and `removed NAME` for each direction."""
    policy: np.ndarray  # (C, K): Kullback-Leibler divergence from the unchanged policy; of action values, their softmax
    policy_interval: np.ndarray  # (C, K, 2)
    effect: np.ndarray  # (C,): mean of `policy` over the K steps
    effect_interval: np.ndarray  # (C, 2)
    value: np.ndarray  # (C, K): mean |change|
    value_interval: np.ndarray  # (C, K, 2)
    same_action: np.ndarray  # (C, K): share of samples with the same most likely action

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all fields as arrays by name."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}


def replay(
    agent: Agent,
    data: StateData,
    directions: Directions | None = None,
    *,
    kinds: Sequence[str] = KINDS,
    steps: int = 16,
    samples: int = 32,
    seed: int = 0,
) -> ReplayCurves:
    """Replay recorded frames from changed states, and compare outputs with those from the unchanged states.

    At a step t, the state h(t) is replaced. Then the agent gets the recorded frames t, t + 1, ..., whatever actions it
    chooses. The changes are:

    - `reset`: h(t) is the initial state;
    - `frozen`: every step starts from h(t), as if nothing was remembered after t;
    - `swapped`: h(t) is the state of another random episode, at the same step if possible;
    - `removed NAME`: the coordinate of a direction is set to 0, its mean, at t.

    The curve over the steps shows how far back memory reaches, because the replayed frames gradually determine the
    state again.

    Args:
        agent: A recurrent agent.
        data: States of a recording, with several episodes for `swapped`.
        directions: Directions of the whole state (all of its parts concatenated), which are removed one by one.
        kinds: Any of `reset`, `frozen` and `swapped`.
        steps: K, the number of replayed steps from t on; fewer if no episode is long enough.
        samples: Number of steps t, which are drawn at random from those at which the episode's state has changed.
        seed: Seed of all random choices.

    Raises:
        OptionError: There are no such steps, or an option is out of range.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or steps < 1 or samples < 1:
        raise OptionError(
            f"kinds={list(kinds)} may contain {', '.join(KINDS)}; steps={steps} and samples={samples} must be positive"
        )
    candidates = data.changed_rows
    candidates = candidates[data.time[candidates] > 0]
    if not len(candidates):
        raise OptionError(f"no episode has more than one step; the longest has {data.length.max()}")
    left = (data.length - data.time)[candidates]
    steps = min(steps, int(left.max()))
    candidates = candidates[left >= steps]
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(candidates, min(samples, len(candidates)), replace=False))
    initial = initial_state(agent, len(rows))
    states = data.states[rows]
    changed: dict[str, np.ndarray] = {}
    for kind in kinds:
        if kind == "swapped":
            others = _other_episodes(data, rows, rng)
            if others is not None:
                changed[kind] = data.states[others]
        else:
            changed[kind] = join_state(initial) if kind == "reset" else states
    if directions is not None:
        coordinates = directions.to(states)
        for i, name in enumerate(directions.names):
            changed[f"removed {name}"] = states - coordinates[:, i : i + 1] * directions.vectors[i]
    frames = [data.observations(rows + k) for k in range(steps)]
    plain = _play(agent, frames, states)
    results = [
        _differences(plain, _play(agent, frames, start, frozen=kind == "frozen")) for kind, start in changed.items()
    ]
    policy, value, same = (np.stack(parts) for parts in zip(*results, strict=True))  # (C, K, n)
    return ReplayCurves(
        tuple(changed), policy.mean(axis=2), _intervals(policy, rng), policy.mean(axis=(1, 2)),
        _intervals(policy.mean(axis=1, keepdims=True), rng)[:, 0], value.mean(axis=2), _intervals(value, rng),
        same.mean(axis=2),
    )  # fmt: skip


def _play(agent: Agent, frames: Sequence[np.ndarray], states: np.ndarray, *, frozen: bool = False) -> list[Outputs]:
    state = agent_state(agent, states)
    start, outputs = state, []
    for observations in frames:
        outputs.append(agent.forward(observations, state))
        state = start if frozen else outputs[-1].state
    return outputs


def _other_episodes(data: StateData, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Return, for each row, a random row of another episode, at the same step if possible. Return None if there is a
    single episode.
    """
    if len(np.unique(data.episode)) < 2:
        return None
    others = []
    for row in rows:
        elsewhere = data.episode != data.episode[row]
        same_time = np.flatnonzero(elsewhere & (data.time == data.time[row]))
        others.append(rng.choice(same_time if len(same_time) else np.flatnonzero(elsewhere)))
    return np.array(others)


def _differences(plain: Sequence[Outputs], others: Sequence[Outputs]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the differences (K, n) of policy and value, and whether the most likely action is the same."""
    policies, values, same = [], [], []
    for before, after in zip(plain, others, strict=True):
        policies.append(policy_change(before, after))
        values.append(value_change(before, after))
        same.append((_scores(before).argmax(axis=1) == _scores(after).argmax(axis=1)).astype(np.float64))
    return np.stack(policies), np.stack(values), np.stack(same)


def policy_change(before: Outputs, after: Outputs, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the Kullback-Leibler divergence (n,), in nats, of the policy `after` from the policy `before` at `rows`.

    For agents with action values, the policy is their softmax.
    """
    logs = []
    for scores in (_scores(before)[rows], _scores(after)):
        shifted = scores - scores.max(axis=1, keepdims=True)
        logs.append(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
    return np.asarray((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1))


def value_change(before: Outputs, after: Outputs, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the absolute change (n,) of the value, or of the largest action score for agents without a value."""
    values = [_scores(one).max(axis=1) if one.values is None else one.values.astype(float) for one in (before, after)]
    return np.asarray(np.abs(values[1] - values[0][rows]))


def _scores(outputs: Outputs) -> np.ndarray:
    return action_scores(outputs).astype(np.float64)


def _intervals(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the percentile bootstrap intervals (C, K, 2) of the means of (C, K, n)."""
    count = values.shape[2]
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count  # (R, n)
    means = values @ weights.T  # (C, K, R)
    return np.moveaxis(np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2], axis=2), 0, -1)
