"""The protocol of sources, which provide the episodes and extra observations of an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.keys import JsonObject
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.job import Job
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.sources.preview import Preview


@dataclass(frozen=True)
class Samples:
    """What an agent observed and did, and metadata of its environment."""

    trajectories: Trajectories
    observations: Observations
    metadata: Mapping[str, Any]
    recording: Recording | None = None
    """The recording from which the trajectories are read, if any."""


class Source(ABC):
    """Samples of an agent, which can be identified and previewed before they exist."""

    agent: Agent
    checkpoint: Checkpoint | None
    """The checkpoint that the agent was loaded from, or None for an agent in memory."""

    @property
    @abstractmethod
    def identity(self) -> list[object]:
        """A JSON value that identifies the agent and its samples."""

    @abstractmethod
    def preview(self, recordings: Directory) -> Preview:
        """Return a few of the samples, to plan the page and to measure its cost. `recordings` has the same meaning as
        in `samples`.
        """

    def tasks(self, recordings: Directory) -> list[Task]:
        """Return the tasks that record missing episodes. The ranks share the tasks of all sources of a page."""
        return []

    @abstractmethod
    def samples(self, recordings: Directory, job: Job, results: Results) -> Samples:
        """Return the samples. All ranks call this together.

        Args:
            recordings: Directory for recordings that are made for the page.
            job: The running job.
            results: Facts of the finished `tasks` of all sources, by name.
        """


def checkpoint_metadata(checkpoint: Checkpoint) -> JsonObject:
    """Return those metadata of samples that come from the agent's checkpoint."""
    return {"network": checkpoint.network, **checkpoint.metadata}
