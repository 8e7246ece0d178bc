"""The agents that explain recorded episodes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias, cast

import numpy as np

from rl_clarity.agents.capabilities import EXPLAINING, initial_state, parameters, require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.errors import OptionError
from rl_clarity.models import fetched, load_agent
from rl_clarity.parsing import path_text
from rl_clarity.recordings.arrays import agent_key
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Trajectories, from_arrays, to_arrays
from rl_clarity.registry import source_hash

COMPARED_STEPS = 16
"""Steps whose outputs tell agents apart that do not show their parameters."""

AgentLoader: TypeAlias = Callable[[str], Agent]
AgentChoice: TypeAlias = str | os.PathLike[str] | Agent | AgentLoader | None
"""An agent, or its checkpoint, for all episodes; a function that loads the agent of a recorded checkpoint; or None."""


class Agents:
    """Agents of episodes; the last one that was loaded is kept."""

    def __init__(self, choice: AgentChoice, context: ExitStack) -> None:
        """Raise CheckpointError for a checkpoint that cannot be fetched, OptionError if it is not an agent."""
        self._checkpoint: str | None = None
        """That of all episodes."""
        self._agent: Any = None
        self._path: str | None = None
        self._load: AgentLoader = load_agent
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
        """Hash of the agent that explains an episode; None if there is none."""
        path = recording.checkpoint(episode) if self._checkpoint is None else self._checkpoint
        if path is None:
            return None
        if not path:
            return self._passed_key(recording, episode)
        if path not in self._hashes:  # a recorder writes each checkpoint only once
            with fetched(path) as local, local.open("rb") as file:
                self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[path] + self._load_key

    def load(self, recording: Recording, episode: Episode) -> Agent:
        """The agent of an episode that has one."""
        path = recording.checkpoint(episode) if self._checkpoint is None else self._checkpoint
        if path is None:
            raise OptionError(f"episode {episode.index} has no checkpoint")
        if path != self._path:
            self._agent = self._path = None  # frees its memory
            self._agent = require(self._load(path), *EXPLAINING, for_=f"explaining with {path}")
            self._path = path
        return cast(Agent, self._agent)

    def _passed_key(self, recording: Recording, episode: Episode) -> str:
        """Hash of the agent that was passed: of its parameters, or of its outputs in the episode."""
        name = "" if parameters(self._agent) else f"{episode.index}"
        if name not in self._hashes:
            arrays = to_arrays(recorded_episode(recording, episode)).items()
            few = {key: np.asarray(array[0, :COMPARED_STEPS])[None] for key, array in arrays}
            self._hashes[name] = agent_key(self._agent, from_arrays(Trajectories, few))
        return self._hashes[name]


def episode_states(agent: Agent, episode: Episode) -> State:
    """The states before each step of an episode: those that were recorded, in the shapes of the agent's own.

    If they do not fit the agent, or were not recorded, the agent follows the observations. None without a state.
    """
    initial = initial_state(agent, 1)
    if initial is None:
        return None
    steps, recorded = len(episode), episode.states
    if recorded is not None:
        sizes = [int(np.prod(part.shape[1:])) for part in recorded]
        if sizes == [part.size for part in initial]:
            pairs = zip(recorded, initial, strict=True)
            return tuple(np.reshape(np.asarray(part, np.float32), (steps, *own.shape[1:])) for part, own in pairs)
    state: State = initial
    before = []
    for step in range(steps):
        before.append(state)
        _, state = agent.step(np.asarray(episode.observations[step : step + 1]), state, np.array([step == 0]))
    return tuple(np.concatenate(parts) for parts in zip(*before, strict=True))


def state_rows(states: State, rows: Any) -> State:
    """The states of some steps."""
    return None if states is None else tuple(part[rows] for part in states)
