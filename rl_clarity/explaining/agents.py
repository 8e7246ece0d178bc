"""The agents that explain recorded episodes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias, cast

import numpy as np

from rl_clarity.agents.capabilities import EXPLAINING, parameters, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError
from rl_clarity.base.files import open_regular
from rl_clarity.base.parsing import path_text
from rl_clarity.base.registry import source_hash
from rl_clarity.formats.included import fetched, load_agent
from rl_clarity.recordings.agreement import check_first_step, output_differences
from rl_clarity.recordings.arrays import agent_key
from rl_clarity.recordings.conversion import recorded_episode
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Trajectories, from_arrays, to_arrays

COMPARED_STEPS = 16
"""Steps whose outputs tell agents apart that do not show their parameters."""

AgentLoader: TypeAlias = Callable[[str], Agent]
AgentChoice: TypeAlias = str | os.PathLike[str] | Agent | AgentLoader | None
"""An agent, or its checkpoint, for all episodes; a function that loads the agent of a recorded checkpoint; or None."""


class Agents:
    """Agents of episodes; the last one that was loaded is kept."""

    def __init__(self, choice: AgentChoice, context: ExitStack, *, other_agent: bool = False) -> None:
        """Raise CheckpointError for a checkpoint that cannot be fetched, OptionError if it is not an agent.

        With `other_agent`, agents are not compared with those that played.
        """
        self._other_agent = other_agent
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
        """Return the hash of the agent that explains an episode; None if there is none."""
        path = recording.checkpoint(episode) if self._checkpoint is None else self._checkpoint
        if path is None:
            return None
        if not path:
            return self._passed_key(recording, episode)
        if path not in self._hashes:  # a recorder writes each checkpoint only once
            with fetched(path) as local, open_regular(local, "rb") as file:
                self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[path] + self._load_key

    def load(self, recording: Recording, episode: Episode) -> Agent:
        """Return the agent of an episode that has one; raises OptionError for one that did not play its first step."""
        path = recording.checkpoint(episode) if self._checkpoint is None else self._checkpoint
        if path is None:
            raise OptionError(f"episode {episode.index} has no checkpoint")
        if path != self._path:
            self._agent = self._path = None  # frees its memory
            self._agent = require(self._load(path), *EXPLAINING, for_=f"explaining with {path}")
            self._path = path
        agent = cast(Agent, self._agent)
        if not self._other_agent:
            check_first_step(episode, output_differences(agent, episode, np.zeros(1, int)))
        return agent

    def _passed_key(self, recording: Recording, episode: Episode) -> str:
        """Return the hash of the agent that was passed: of its parameters, or of its outputs in the episode."""
        name = "" if parameters(self._agent) else f"{episode.index}"
        if name not in self._hashes:
            arrays = to_arrays(recorded_episode(recording, episode)).items()
            few = {key: np.asarray(array[0, :COMPARED_STEPS])[None] for key, array in arrays}
            self._hashes[name] = agent_key(self._agent, from_arrays(Trajectories, few))
        return self._hashes[name]
