"""Load the agents with which recorded episodes are explained."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from rl_clarity.agents.capabilities import EXPLAINING, parameters, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError
from rl_clarity.base.files import open_regular
from rl_clarity.base.keys import cache_key
from rl_clarity.base.parsing import path_text
from rl_clarity.base.registry import source_hash
from rl_clarity.formats.included import fetched, load_agent, open_agent
from rl_clarity.recordings.agreement import check_first_step, output_differences
from rl_clarity.recordings.arrays import agent_key
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.metadata import TOLERANCE
from rl_clarity.recordings.recording import Recording, StoredRecording
from rl_clarity.recordings.samples import Trajectories, from_arrays, to_arrays

COMPARED_STEPS = 16
"""Number of steps whose outputs identify an agent that does not expose its parameters."""

AgentLoader: TypeAlias = Callable[[str], Agent]
AgentChoice: TypeAlias = str | os.PathLike[str] | Agent | AgentLoader | None
"""An agent, or its checkpoint, for all episodes; a function that loads the agent of a recorded checkpoint from its
path; or None to load recorded checkpoints in the default way."""


@dataclass(frozen=True)
class Players:
    """The agents that acted in an episode, or that are used instead to explain it. Each is loaded when it is needed."""

    starts: np.ndarray
    """(n,) int: the first step at which each agent acts. The first entry is 0."""
    load: Callable[[int], Agent]
    """Function that loads the agent that begins to act at one of these steps."""
    tolerance: float = 0.0
    """Largest error of weights that were stored rounded, as a fraction of the root mean square of their tensor."""

    def at(self, step: int) -> Agent:
        """Return the agent that acts at a step."""
        return self.load(int(self.starts[np.searchsorted(self.starts, step, side="right") - 1]))

    def groups(self, steps: np.ndarray) -> Iterator[tuple[np.ndarray, Agent]]:
        """Yield agents, each with the positions (m,) in `steps` (n,) at which it acted."""
        owners = np.searchsorted(self.starts, steps, side="right") - 1
        for owner in np.unique(owners):
            yield np.flatnonzero(owners == owner), self.load(int(self.starts[owner]))


def _load_recorded(path: str) -> Agent:
    """Load a recorded checkpoint, without warnings about missing information. They are not needed, because the agent's
    outputs are compared with the recorded ones and the environment is not played.
    """
    return open_agent(path)[1]


def _starts(episode: Episode) -> np.ndarray:
    """Return the steps (n,) of an episode at which a checkpoint begins to act: 0, and each step at which a different
    checkpoint takes over.
    """
    numbers = episode.agents
    return np.zeros(1, int) if numbers is None else np.append(0, 1 + np.flatnonzero(np.diff(numbers)))


class Agents:
    """Loads the agents of episodes, and keeps the agent that was loaded last."""

    def __init__(self, choice: AgentChoice, context: ExitStack, *, other_agent: bool = False) -> None:
        """Load the agent if one is chosen for all episodes. Raises CheckpointError for a checkpoint that cannot be
        fetched, and OptionError for an object that is not an agent.

        With `other_agent`, agents are not compared with those that played.
        """
        self._other_agent = other_agent
        self._checkpoint: str | None = None
        """Path of the checkpoint for all episodes: "" for an agent that was passed, None if each episode has its
        own."""
        self._agent: Any = None
        self._path: str | None = None
        self._load: AgentLoader = _load_recorded
        self._load_key = ""
        self._hashes: dict[str, str] = {}
        if isinstance(choice, str | os.PathLike):
            self._checkpoint = str(context.enter_context(fetched(path_text(choice, "agent"))))
            self._agent, self._path = load_agent(self._checkpoint), self._checkpoint
        elif choice is None:
            pass
        elif callable(choice) and not hasattr(choice, "forward"):
            self._load, self._load_key = choice, source_hash(choice)
        else:
            self._agent = require(choice, *EXPLAINING, for_="agent: explain_recording")
            self._path = self._checkpoint = ""

    def key(self, recording: Recording, episode: Episode) -> str | None:
        """Return the hash of the agents that explain an episode, or None if the episode has no checkpoint."""
        if self._checkpoint is not None:
            return self._hash(self._checkpoint) if self._checkpoint else self._passed_key(recording, episode)
        name = f"{recording.location} {episode.index} {episode.facts['start_time']}"
        if name not in self._hashes:
            hashes = [self._acting_hash(recording, episode, start) for start in _starts(episode).tolist()]
            if hashes[0] is None:
                return None
            self._hashes[name] = hashes[0] if len(hashes) == 1 else cache_key([hashes, _starts(episode)])
        return self._hashes[name]

    def players(self, recording: Recording, episode: Episode) -> Players:
        """Return the agents with which an episode is explained, by step.

        Raises OptionError for an episode without a checkpoint. Unless `other_agent` was set, also raises OptionError if
        the outputs at the first step differ from the recorded ones.
        """
        load = partial(self._load_at, recording, episode)
        if self._checkpoint is not None:
            players = Players(np.zeros(1, int), load)
        else:
            players = Players(_starts(episode), load, recording.metadata.get(TOLERANCE) or 0.0)
        if not self._other_agent:
            check_first_step(episode, output_differences(players.at(0), episode, np.zeros(1, int)))
        return players

    @property
    def is_fixed(self) -> bool:
        """Whether all episodes are explained with the same agent, instead of with their checkpoints."""
        return self._checkpoint is not None

    def checkpoint_key(self, recording: StoredRecording, number: int) -> str:
        """Return the hash of the agent of a stored checkpoint."""
        digest = recording.checkpoints.digest(number)
        return self._hash(self._stored(recording, number)) if digest is None else digest + self._load_key

    def checkpoint_agent(self, recording: StoredRecording, number: int) -> Agent:
        """Return the agent of a stored checkpoint."""
        return self._loaded(self._stored(recording, number))

    def _stored(self, recording: StoredRecording, number: int) -> str:
        path = recording.checkpoints.path(number)
        if path is None:
            raise OptionError(f"{recording.location} has no checkpoint {number}")
        return path

    def _load_at(self, recording: Recording, episode: Episode, step: int) -> Agent:
        """Return the agent with which an episode is explained from a step on."""
        path = recording.checkpoint(episode, step) if self._checkpoint is None else self._checkpoint
        if path is None:
            raise OptionError(f"episode {episode.index} has no checkpoint at step {step}")
        return self._loaded(path)

    def _loaded(self, path: str) -> Agent:
        if path != self._path:
            self._agent = self._path = None  # frees its memory
            self._agent = require(self._load(path), *EXPLAINING, for_=f"explaining with {path}")
            self._path = path
        return cast(Agent, self._agent)

    def _acting_hash(self, recording: Recording, episode: Episode, step: int) -> str | None:
        """Return the hash of the checkpoint that acted at a step."""
        digest = recording.checkpoint_digest(episode, step)
        if digest is not None:
            return digest + self._load_key
        path = recording.checkpoint(episode, step)
        return None if path is None else self._hash(path)

    def _hash(self, path: str) -> str:
        if path not in self._hashes:  # a recorder writes each checkpoint only once
            with fetched(path) as local, open_regular(local, "rb") as file:
                self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[path] + self._load_key

    def _passed_key(self, recording: Recording, episode: Episode) -> str:
        """Return the hash of the agent that was passed. It is computed from the agent's parameters, or from its outputs
        in the episode if it does not expose parameters.
        """
        name = "" if parameters(self._agent) else f"{episode.index}"
        if name not in self._hashes:
            arrays = to_arrays(recorded_episode(recording, episode)).items()
            few = {key: np.asarray(array[0, :COMPARED_STEPS])[None] for key, array in arrays}
            self._hashes[name] = agent_key(self._agent, from_arrays(Trajectories, few))
        return self._hashes[name]
