"""Read windows of consecutive steps of a recording, as batches from which the simulator learns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.layout import DONE
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.losses import Batch


class Windows:
    """All windows of a recording. A window has `context` frames and up to `horizon` following steps of an episode.

    Only the blocks of the recording that contain a window are read. `actions` are those that were taken, possibly with
    noise.

    Raises:
        SamplesError: The recording does not fit the agent, or has no episode that is long enough.
    """

    def __init__(self, recording: Recording, agent: Agent, context: int, horizon: int) -> None:
        self.recording, self.context, self.horizon = recording, context, horizon
        self._state_shapes = [np.shape(part)[1:] for part in agent.initial_state(1) or ()]
        lengths = np.array([row["steps"] for row in recording.table()], np.int64)
        self.offsets = np.cumsum(lengths) - lengths
        """The row of each episode's first step among all steps of the recording, concatenated."""
        self.steps = int(lengths.sum())
        """Number of steps of all episodes together."""
        # number of windows in each episode: at least one step must follow the context
        self._counts = np.maximum(lengths - context, 0)
        self._ends = np.cumsum(self._counts)
        if not len(self) or not len(recording):
            raise SamplesError(
                f"{recording.location} has no episode of more than {context} steps: record longer ones, or reduce "
                f"context={context}"
            )
        self._check(recording[int(np.argmax(self._counts))], agent)
        sampling = recording.metadata.get("sampling") or {}
        if sampling.get("greedy") and not sampling.get("action_noise"):
            warnings.warn(
                f"{recording.location} was recorded without noise in the actions (greedy), so the simulator cannot "
                "learn the effects of actions that the agent would not choose. Record with action_noise=0.1",
                stacklevel=3,
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """Return `size` random windows, drawn independently."""
        # sorted, because neighbors are in the same blocks
        return self.read(np.sort(rng.integers(len(self), size=size)))

    def read(self, numbers: Sequence[int] | np.ndarray) -> Batch:
        """Return the windows with these numbers. Windows are numbered from 0, in the order of episodes and steps."""
        episodes, starts = self.places(numbers)
        parts = [self._window(self.recording[int(e)], int(t)) for e, t in zip(episodes, starts, strict=True)]
        return Batch(*(np.stack(arrays) for arrays in zip(*parts, strict=True)))

    def complete(self) -> np.ndarray:
        """Return the numbers of the windows that have all `horizon` steps before their episode ends."""
        starts = np.arange(len(self)) - np.repeat(self._ends - self._counts, self._counts)
        return np.flatnonzero(np.repeat(self._counts, self._counts) - starts >= self.horizon)

    def places(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for each window number the position of its episode in the recording, and its first step."""
        episodes = np.searchsorted(self._ends, numbers, side="right")
        return episodes, np.asarray(numbers) - (self._ends - self._counts)[episodes]

    def _window(self, episode: Episode, start: int) -> tuple[np.ndarray, ...]:
        first, steps = start + self.context, self.context + self.horizon
        stop = min(start + steps, len(episode))
        count = stop - first
        rewards = _padded(np.asarray(episode.rewards[first:stop], np.float32), self.horizon)
        ends = np.zeros(self.horizon, np.float32)
        if stop == len(episode) and episode.end == DONE:
            ends[count - 1] = 1
        mask = (np.arange(self.horizon) < count).astype(np.float32)
        states = self._states(episode, first, stop)
        return (
            _padded(np.asarray(episode.observations[start:stop]), steps),
            _padded(np.asarray(episode.actions[start:stop], np.int32), steps),
            rewards,
            ends,
            mask,
            (np.arange(self.horizon) < len(states) - 1).astype(np.float32),
            _padded(states, self.horizon + 1),
        )

    def _states(self, episode: Episode, first: int, stop: int) -> np.ndarray:
        """Return the agent's states before steps `first` to `stop - 1`, and after the last one if that was recorded."""
        if not self._state_shapes:
            return np.zeros((stop - first + 1, 0), np.float32)
        after = episode.final_states if stop == len(episode) else None
        rows = [np.asarray(part[first : stop + 1], np.float32) for part in episode.states or ()]
        if after is not None:
            rows = [np.concatenate([part, last[None]]) for part, last in zip(rows, after, strict=True)]
        return np.concatenate([part.reshape(len(part), -1) for part in rows], axis=1).astype(np.float32)

    def _check(self, episode: Episode, agent: Agent) -> None:
        """Raise SamplesError unless the observations, actions and states of the recording fit the agent."""
        location, shape = self.recording.location, tuple(episode.observations.shape[1:])
        if shape != tuple(agent.observation_shape) or episode.observations.dtype != np.uint8:
            raise SamplesError(
                f"{location} has observations {shape} {episode.observations.dtype}; the agent takes uint8 "
                f"{tuple(agent.observation_shape)}"
            )
        actions = episode.actions
        if actions.ndim != 1 or actions.dtype.kind not in "iu":
            raise SamplesError(
                f"{location} has actions {actions.dtype} with {actions.ndim - 1} axes; single integers are needed"
            )
        largest = int(np.max(np.asarray(actions)))
        if largest >= agent.num_actions:
            raise SamplesError(f"{location} has action {largest}, but the agent has {agent.num_actions} actions")
        shapes = [tuple(part.shape[1:]) for part in episode.states or ()]
        if shapes != self._state_shapes:
            raise SamplesError(
                f"{location} has agent states with the shapes {shapes}, but those of this agent are "
                f"{self._state_shapes}: record its episodes with rl_clarity.record"
            )


def _padded(array: np.ndarray, length: int) -> Any:
    """Pad the array with rows of zeros to a length."""
    return np.concatenate([array, np.zeros((length - len(array), *array.shape[1:]), array.dtype)])
