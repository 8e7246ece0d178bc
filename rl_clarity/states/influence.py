"""Measure how an earlier state of a recurrent agent influences a later state through memory, with the frames fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import split_state
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import Directions
from rl_clarity.states.data import StateData, read_states

SAMPLES = 256
"""Number of pairs of steps for each lag over which influence is averaged."""


def influence(
    agent: Agent,
    recording: Recording | StateData,
    directions: Directions,
    lags: Sequence[int] = (1, 2, 4, 8),
    *,
    by: np.ndarray | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """Return the mean Jacobian (L, D, D) of coordinate j at t + lag with respect to coordinate i at t.

    The Jacobian is the product of those of the recurrent cell at each step, with the observed frames fixed,

        d h(t + lag) / d h(t) = J(t + lag - 1) ... J(t + 1) J(t),    J(u) = d h(u + 1) / d h(u) at frame u,

    expressed in the coordinates of D directions. h(t) is the recorded state before step t. This measures influence
    through memory. It excludes influence through the environment, where actions change later frames.

    Args:
        agent: A recurrent agent with `state_gradients`: any `KerasAgent`, `TorchAgent` or `JaxAgent`.
        recording: A recording with states, or its states from `rl_clarity.states.read_states`.
        directions: Directions that were fitted to the whole state, that is, to all of its parts concatenated.
        lags: L numbers of steps.
        by: Labels (n,) of the steps of the recording. The result is then (K, L, D, D), in the order of the sorted
            labels: means over the pairs whose earlier step has the label, NaN if there is none.
        samples: Number of later steps t + lag over which the Jacobian is averaged, chosen at random.
        seed: Seed of the choice of samples.

    Raises:
        OptionError: The agent has no `state_gradients`, an argument is invalid, or no episode is longer than the
            largest lag.
    """
    data = recording if isinstance(recording, StateData) else read_states(recording)
    if by is not None and np.shape(by) != (len(data),):
        raise OptionError(f"by has the shape {np.shape(by)}; expected ({len(data)},), a label for each step")
    ends, gradients = memory_jacobians(agent, data, directions.readout, lags, samples=samples, seed=seed)
    jacobians = np.swapaxes(directions.pull(gradients), -1, -2)  # (n, L, D of t, D of t + lag)
    return mean_jacobian(jacobians, ends, lags, by)


def mean_jacobian(jacobians: np.ndarray, ends: np.ndarray, lags: Sequence[int], by: np.ndarray | None) -> np.ndarray:
    """Return the mean (L, D, D) of Jacobians (n, L, D, D) or, with labels `by`, the means for each label, (K, L, D, D).

    `ends` (n,) are the rows of the later steps. The label of the earlier step counts.
    """
    if by is None:
        return np.asarray(jacobians.mean(axis=0))
    labels = np.asarray(by)
    groups = np.unique(labels)
    result = np.full((len(groups), *jacobians.shape[1:]), np.nan)
    for k, group in enumerate(groups):
        for i, lag in enumerate(lags):
            members = labels[ends - lag] == group
            if members.any():
                result[k, i] = jacobians[members, i].mean(axis=0)
    return result


def memory_jacobians(
    agent: Agent,
    data: StateData,
    weights: np.ndarray,
    lags: Sequence[int],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (n,) of sampled steps, and gradients (n, L, D, H) of D linear combinations of the states there.

    The gradients are with respect to the states (H,) `lags` steps earlier, through the recurrent cell.

    Args:
        weights: (H, D) weights of the combinations.
    """
    differentiable: Any = require(agent, "state_gradients", for_="influence")
    if not len(lags) or min(lags) < 1 or samples < 1:
        raise OptionError(f"lags={list(lags)} and samples={samples} must be at least 1")
    depth = max(lags)
    candidates = np.flatnonzero(data.time >= depth)
    if not len(candidates):
        raise OptionError(
            f"lags={list(lags)} are too large, because no episode has more than {depth} steps; the longest has "
            f"{data.time.max() + 1}"
        )
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice(candidates, min(samples, len(candidates)), replace=False))
    initial = initial_state(agent, len(ends))
    weights = np.asarray(weights, np.float32)
    if weights.shape[0] != data.states.shape[1]:
        raise OptionError(f"weights have {weights.shape[0]} rows, but the states have {data.states.shape[1]} values")
    current = np.repeat(weights.T[None], len(ends), axis=0)  # (n, D, H)
    results: dict[int, np.ndarray] = {}
    for lag in range(1, depth + 1):
        rows = ends - lag
        state = split_state(data.states[rows], initial)
        gradients = differentiable.state_gradients(data.observations(rows), state, current)
        current = np.moveaxis(gradients, 0, 1)
        if lag in lags:
            results[lag] = current
    return ends, np.stack([results[lag] for lag in lags], axis=1)
