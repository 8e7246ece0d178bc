"""Read the states of a recording as rows, with the facts of each step. Frames stay on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording
from rl_clarity.reduction.directions import FEWEST_STATES


@dataclass(frozen=True, eq=False)
class StateData:
    """States, actions and rewards at n steps of a recording. The steps of an episode are consecutive and in order."""

    recording: Recording
    states: np.ndarray  # (n, H) float32: the state before each step, all of its parts flattened and concatenated
    episode: np.ndarray  # (n,) int: position of the episode in the recording
    time: np.ndarray  # (n,) int: step in the episode, from 0
    length: np.ndarray  # (n,) int: number of steps of the episode
    actions: np.ndarray  # (n,)
    rewards: np.ndarray  # (n,) float32
    logits: np.ndarray | None = None  # (n, A) float32: logits of the policy, without noise, or action values
    values: np.ndarray | None = None  # (n,) float32: values, or the largest action values
    parts: tuple[int, ...] = ()
    """Sizes of the parts of the state (its arrays, such as the hidden and the cell state of an LSTM)."""

    def __len__(self) -> int:
        return len(self.states)

    @property
    def starts(self) -> np.ndarray:
        """(E,) the row at which each episode begins."""
        return np.flatnonzero(self.time == 0)

    @property
    def changed(self) -> np.ndarray:
        """(n,) whether the state has changed at least once since the episode began. It is False at step 0."""
        episode = np.cumsum(self.time == 0) - 1
        differs = (self.states != self.states[self.starts][episode]).any(axis=1)
        count = np.cumsum(differs)
        return np.asarray(count > (count - differs)[self.starts][episode])

    @property
    def changed_rows(self) -> np.ndarray:
        """(m,) rows whose state has changed since the episode began. Directions and clusters are fitted to these.

        Initial states hold no memory, and are far from other states. If the state has changed at too few rows, all rows
        are returned.
        """
        rows = np.flatnonzero(self.changed)
        return rows if len(rows) >= FEWEST_STATES else np.arange(len(self))

    @property
    def returns(self) -> np.ndarray:
        """(n,) the return of the episode that each step belongs to."""
        totals = np.bincount(np.cumsum(self.time == 0) - 1, self.rewards)
        return np.asarray(totals[np.cumsum(self.time == 0) - 1])

    @property
    def log_probabilities(self) -> np.ndarray | None:
        """(n, A) log probabilities of the agent's policy; None for agents with action values."""
        if self.logits is None or self._has_q_values:
            return None
        logits = self.logits.astype(np.float64)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    @property
    def _has_q_values(self) -> bool:
        return len(self.recording) > 0 and self.recording[int(self.episode[0])].policy_logits is None

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """Read the uint8 observations (len(rows), height, width, channels) at some rows.

        Raises OptionError if there are no rows.
        """
        return self._read(rows, lambda episode: episode.observations)

    def windows(self, first: np.ndarray, steps: int) -> np.ndarray:
        """Read the uint8 observations (len(first), steps, height, width, channels) of windows that begin at the rows
        `first`.
        """
        rows = np.asarray(first)[:, None] + np.arange(steps)
        observations = self.observations(rows.ravel())
        return observations.reshape(*rows.shape, *observations.shape[1:])

    def frames(self, rows: np.ndarray) -> np.ndarray:
        """Read uint8 images (len(rows), height, width, channels) that show the steps at some rows: frames if they were
        recorded, otherwise observations.
        """
        return self._read(rows, lambda episode: episode.observations if episode.frames is None else episode.frames)

    def sequences(self, values: np.ndarray, longest: int | None = None) -> np.ndarray:
        """Return values (n, ...) as sequences (E, T, ...) float64, one for each episode, padded with NaN at the end.

        Episodes of more than `longest` steps are split into several sequences.
        """
        longest = longest or int(self.length.max())
        time = self.time % longest
        numbers = np.cumsum(time == 0) - 1
        result = np.full((int(numbers[-1]) + 1, int(time.max()) + 1, *values.shape[1:]), np.nan)
        result[numbers, time] = values
        return result

    def _read(self, rows: np.ndarray, field: Any) -> np.ndarray:
        rows = np.asarray(rows)
        result: np.ndarray | None = None
        for number in np.unique(self.episode[rows]):
            here = np.flatnonzero(self.episode[rows] == number)
            # read in this order, so that each block is decompressed once
            order = here[np.argsort(self.time[rows[here]], kind="stable")]
            values = np.asarray(field(self.recording[int(number)])[self.time[rows[order]]])
            if result is None:
                result = np.empty((len(rows), *values.shape[1:]), values.dtype)
            result[order] = values
        if result is None:
            raise OptionError("no steps are chosen")
        return result


def read_states(recording: Recording, *, part: int | None = None) -> StateData:
    """Read the states of a recording's episodes, with the action, the reward and the outputs at each step.

    These arrays are held in memory (100,000 states of 64 units take 26 MB). Frames are read when they are requested.

    Args:
        recording: A recording with states. Episodes without steps are left out.
        part: Index of the only part of the state to read, such as 0 for the first array; by default all parts are read
            and concatenated.

    Raises:
        OptionError: The recording has no steps or no states, or `part` is out of range.
    """
    columns: dict[str, list[np.ndarray]] = {}
    sizes: tuple[int, ...] = ()
    for number, episode in enumerate(recording):
        if not len(episode):
            continue
        states = episode.states
        if states is None:
            raise OptionError(
                f"episode {number} of {recording.location} has no recurrent states; record a recurrent agent"
            )
        if part is not None:
            if not 0 <= part < len(states):
                raise OptionError(f"part={part} does not exist; the state has the parts 0 to {len(states) - 1}")
            states = (states[part],)
        arrays = [np.asarray(state, np.float32).reshape(len(episode), -1) for state in states]
        sizes = tuple(array.shape[1] for array in arrays)
        for name, values in _columns(episode).items():
            columns.setdefault(name, []).append(values)
        columns.setdefault("states", []).append(np.concatenate(arrays, axis=1))
        columns.setdefault("episode", []).append(np.full(len(episode), number))
    if not columns:
        raise OptionError(f"{recording.location} has no steps")
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return StateData(recording, parts=sizes, **joined)


def _columns(episode: Episode) -> dict[str, np.ndarray]:
    steps = len(episode)
    columns = {
        "time": np.arange(steps),
        "length": np.full(steps, steps),
        "actions": np.asarray(episode.actions),
        "rewards": np.asarray(episode.rewards, np.float32),
    }
    scores = episode.q_values if episode.policy_logits is None else episode.policy_logits
    if scores is not None:
        columns["logits"] = np.asarray(scores, np.float32)
    if episode.values is not None:
        columns["values"] = np.asarray(episode.values, np.float32)
    elif episode.q_values is not None:
        columns["values"] = np.asarray(episode.q_values, np.float32).max(axis=1)
    return columns
