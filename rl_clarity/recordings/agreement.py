"""Check that an agent is the one that acted in recorded episodes, by comparing its outputs with the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import initial_state
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording

TOLERANCE = 1e-3
"""Largest accepted difference at the first compared step of an episode, as a fraction of the outputs' range."""
FLOOR = 0.01
"""Smallest range that is assumed for an output, as a fraction of its largest magnitude. It is needed because even
constant outputs differ by rounding."""
SMALLEST_RANGE = 1e-6
MASKED = -1e7
"""Logits below this value belong to invalid actions and are not compared."""
OUTPUTS = ("policy_logits", "values", "q_values")
COMPARED_EPISODES = 16
COMPARED_STEPS = 16
BATCH = 64


@dataclass(frozen=True)
class Agreement:
    """Differences between an agent's outputs and the recorded ones."""

    steps: int
    """Number of compared steps, or 0 if no outputs were recorded."""
    largest: float = 0.0
    """Largest difference, as a fraction of the outputs' range."""
    other_agent: bool = False
    """Whether the caller deliberately uses a different agent from the one that acted."""
    tolerance: float = 0.0
    """Largest error of weights that the recorder rounded, as a fraction of the root mean square of their tensor."""

    def __str__(self) -> str:
        text = "deliberately not the agent that played; " if self.other_agent else ""
        rounded = f"; stored weights were rounded by at most {self.tolerance:.1g} of their tensors' root mean square"
        end = rounded if self.tolerance else ""
        if not self.steps:
            return f"{text}not checked, because the recording has no outputs{end}"
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return (
            f"{text}recomputed outputs differ from the recorded ones by at most {self.largest:.1g} of their range "
            f"({steps} compared){end}"
        )


def join_agreements(parts: Iterable[Agreement]) -> Agreement:
    """Return the combined agreement of several episodes."""
    parts = list(parts)
    return Agreement(
        sum(part.steps for part in parts),
        max((part.largest for part in parts), default=0.0),
        any(part.other_agent for part in parts),
        max((part.tolerance for part in parts), default=0.0),
    )


def check_player(agent: Agent, recording: Recording, *, other_agent: bool) -> Agreement:
    """Compare an agent's outputs with the recorded ones at a few steps of a few episodes, spread over the recording.

    Raises OptionError if the outputs at the first step of an episode differ by more than `TOLERANCE`, unless
    `other_agent` is True.
    """
    positions = [i for i, row in enumerate(recording.table()) if row["steps"]]
    parts = []
    for i in _spread(len(positions), COMPARED_EPISODES):
        episode = recording[positions[i]]
        # Without recorded states, the states of later steps would have to be computed step by step.
        follows = initial_state(agent, 1) is None or _recorded_states(agent, episode) is not None
        steps = _spread(len(episode), COMPARED_STEPS) if follows else np.zeros(1, int)
        differences = output_differences(agent, episode, steps)
        if not other_agent:
            check_first_step(episode, differences)
        if differences is not None:
            parts.append(Agreement(len(steps), float(differences.max())))
    joined = join_agreements(parts)
    return Agreement(joined.steps, joined.largest, other_agent)


def describe_recording(agent: Agent, recording: Recording, *, other_agent: bool) -> dict[str, Any]:
    """Return facts about a recording for the page that explains it: its number of episodes, and how well the agent's
    outputs agree with the recorded ones. Raises OptionError like `check_player`.
    """
    return {"episodes": len(recording), "outputs": str(check_player(agent, recording, other_agent=other_agent))}


def check_first_step(episode: Episode, differences: np.ndarray | None) -> None:
    """Raise OptionError if the first of `differences` (n,), the one at the first step of the episode, exceeds
    `TOLERANCE`. Nothing is checked if `differences` is None, because no outputs were recorded.
    """
    if differences is not None and not differences[0] <= TOLERANCE:
        raise OptionError(
            f"the agent is not the one that played episode {episode.index}: at the first step its outputs differ from "
            f"the recorded ones by {differences[0]:.2g} of their range, which is more than {TOLERANCE:g}. Pass the "
            "agent that played, or a loader that reads its parameters. To explain with a different agent on purpose, "
            "use other_agent=True (--other-agent)"
        )


def output_differences(agent: Agent, episode: Episode, steps: np.ndarray, states: State = None) -> np.ndarray | None:
    """Return the largest difference (n,) between recomputed and recorded outputs at some steps (n,) of an episode.

    Differences are fractions of the range of the output's recorded values in the episode. Logits are compared up to a
    constant per step, so log probabilities may be recorded instead. Returns None if no output of the agent was
    recorded.

    Args:
        agent: the agent that computes outputs
        episode: a recorded episode
        steps: (n,) int: the steps to compare
        states: the states before these steps; by default those of `episode_states`
    """
    recorded = {name: _rows(getattr(episode, name)) for name in OUTPUTS if getattr(episode, name) is not None}
    if not recorded or not len(steps):
        return None
    if states is None:
        states = state_rows(episode_states(agent, episode, int(steps.max()) + 1), steps)
    observations = episode.observations
    differences: list[np.ndarray] = []
    for start in range(0, len(steps), BATCH):
        rows = slice(start, start + BATCH)
        outputs = agent.forward(np.asarray(observations[steps[rows]]), state_rows(states, rows))
        parts = [
            _difference(name, _rows(getattr(outputs, name)), values, steps[rows])
            for name, values in recorded.items()
            if getattr(outputs, name) is not None
        ]
        if not parts:
            return None
        differences.append(np.max(parts, axis=0))
    return np.concatenate(differences)


def episode_states(
    agent: Agent, episode: Episode, stop: int | None = None, acting: Callable[[int], Agent] | None = None
) -> State:
    """Return the states before each step of an episode, or None for an agent without a state.

    The recorded states are returned, in the shapes of the agent's states. If they do not fit the agent or were not
    recorded, the agent recomputes them from the observations.

    Args:
        agent: the agent whose states are returned
        episode: a recorded episode
        stop: number of steps; by default all
        acting: function that returns the agent that acts at a step, if it is not the same at all steps; that agent
            computes the state after the step
    """
    state = initial_state(agent, 1)
    if state is None:
        return None
    steps = len(episode) if stop is None else stop
    recorded = _recorded_states(agent, episode)
    if recorded is not None:
        pairs = zip(recorded, state, strict=True)
        return tuple(np.reshape(np.asarray(part[:steps], np.float32), (steps, *own.shape[1:])) for part, own in pairs)
    before = []
    for step in range(steps):
        before.append(state)
        actor = agent if acting is None else acting(step)
        _, state = actor.step(np.asarray(episode.observations[step : step + 1]), state, np.array([step == 0]))
        assert state is not None
    return tuple(np.concatenate(parts) for parts in zip(*before, strict=True))


def state_rows(states: State, rows: Any) -> State:
    """Return the states at some rows, or None for an agent without a state."""
    return None if states is None else tuple(part[rows] for part in states)


def _recorded_states(agent: Agent, episode: Episode) -> tuple[Any, ...] | None:
    """Return the parts of an episode's recorded states, or None if their sizes do not fit the agent's states."""
    recorded, initial = episode.states, initial_state(agent, 1)
    if recorded is None or initial is None:
        return None
    sizes = [int(np.prod(part.shape[1:])) for part in recorded]
    return recorded if sizes == [part.size for part in initial] else None


def _rows(values: Any) -> np.ndarray:
    """Return outputs of shape (T, ...) as (T, n)."""
    array = np.asarray(values, np.float64)
    return array.reshape(len(array), -1)


def _difference(name: str, actual: np.ndarray, recorded: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return differences (n,) of an output (n, k) from its recorded values (T, k) at some steps (n,), as fractions of
    the range of the recorded values. The differences are infinite if the two outputs differ in their number of values
    k.
    """
    if actual.shape[1] != recorded.shape[1]:
        return np.full(len(actual), np.inf)
    known = np.isfinite(recorded) & (recorded > MASKED)
    if name == "policy_logits":
        actual = actual - _means(actual, known[steps])
        recorded = recorded - _means(recorded, known)
    values = recorded[known]
    if not values.size:
        return np.zeros(len(actual))
    scale = max(float(np.ptp(values)), FLOOR * float(np.abs(values).max()), SMALLEST_RANGE)
    differences = np.where(known[steps], np.abs(actual - np.where(known, recorded, 0)[steps]), 0)
    return np.asarray(differences.max(axis=1) / scale)


def _means(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the mean (n, 1) of each row, ignoring unknown values."""
    return np.asarray(np.where(known, values, 0).sum(1, keepdims=True) / np.maximum(known.sum(1, keepdims=True), 1))


def _spread(count: int, most: int) -> np.ndarray:
    """Return at most `most` evenly spaced indices from 0 to `count` - 1, including 0."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))
