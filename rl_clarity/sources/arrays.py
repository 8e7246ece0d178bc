"""A source of existing samples: arrays, or episodes of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.job import Job
from rl_clarity.jobs.tasks import Results
from rl_clarity.recordings.arrays import agent_key, samples_key
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.sources.preview import Preview, preview_samples
from rl_clarity.sources.source import Samples, Source


@dataclass(frozen=True)
class ArraysSource(Source):
    """Samples in memory, or read from a recording when they are indexed."""

    agent: Agent
    checkpoint: Checkpoint | None
    trajectories: Trajectories
    observations: Observations
    metadata: Mapping[str, Any]
    recording: Recording | None = None
    content: Sequence[object] | None = None
    """A JSON value that identifies the agent and its samples. By default it is computed from all arrays."""

    @cached_property
    def identity(self) -> list[object]:
        if self.content is not None:
            return list(self.content)
        trajectories = self.trajectories
        samples = [samples_key(trajectories), samples_key(self.observations)]
        key: list[object] = [agent_key(self.agent, trajectories), *samples]
        return key if self.checkpoint is None else [*key, self.checkpoint.sha256, self.checkpoint.metadata]

    def preview(self, recordings: Directory) -> Preview:
        return preview_samples(self.trajectories, self.observations, self.metadata)

    def samples(self, recordings: Directory, job: Job, results: Results) -> Samples:
        return Samples(self.trajectories, self.observations, self.metadata, self.recording)
