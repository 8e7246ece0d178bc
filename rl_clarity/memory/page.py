"""`rl_clarity.explain_memory` and `rl-clarity memory`: a page of what a recurrent agent remembers."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from rl_clarity import environments, formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, initial_state, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.environments import EnvironmentSpec, override_name, spec_from_metadata
from rl_clarity.errors import OptionError
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs.directory import Directory, open_directory
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.job import Job, team
from rl_clarity.jobs.store import DIRECTORY, WorkStore
from rl_clarity.jobs.tasks import Task, TaskResult, Work
from rl_clarity.keys import as_json, code_version, to_plain
from rl_clarity.memory.options import MemoryOptions, PlayOptions
from rl_clarity.memory.source import MemorySource
from rl_clarity.models import open_agent
from rl_clarity.page_builder import Member, PageBuilder
from rl_clarity.pages.results import Page
from rl_clarity.parsing import parse, path_text
from rl_clarity.playing import record_for_page
from rl_clarity.recordings.conversion import recorded_episodes
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.preview import Preview, preview_play, preview_samples
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations
from rl_clarity.recordings.source import Samples
from rl_clarity.states.data import read_states
from rl_clarity.states.parts import check_states
from rl_clarity.world_models.files import load_simulator
from rl_clarity.world_models.simulator import Simulator, agent_fingerprint, check_agent

Path = str | os.PathLike[str]
RECORDINGS = f"{DIRECTORY}/recordings"
"""Where the recording is, inside the page's directory."""
PLAY = "play"
"""Its name there."""


@overload
def explain_memory(
    checkpoint: Path | Agent, output_dir: Path, *, dry_run: Literal[True], **options: Any
) -> Forecast: ...


@overload
def explain_memory(
    checkpoint: Path | Agent, output_dir: Path, *, dry_run: Literal[False] = False, **options: Any
) -> Page: ...


@overload
def explain_memory(checkpoint: Path | Agent, output_dir: Path, *, dry_run: bool, **options: Any) -> Page | Forecast: ...


def explain_memory(
    checkpoint: Path | Agent,
    output_dir: Path,
    *,
    simulator: Path | Simulator | None = None,
    recording: Path | Recording | None = None,
    dry_run: bool = False,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Page | Forecast:
    """Explain what a recurrent agent remembers, and which earlier steps its outputs depend on, as a page.

    The agent plays episodes, which are recorded with its states in `.rl-clarity/recordings/` of the page and reused by
    later calls. The page shows them with directions, clusters, behaviours and maps of the states (`analyse_states`),
    causes of single steps by gradients through memory (with a simulator also through the world), paired episodes with
    and without directions (`intervene`), and how good the simulator is (`measure_quality`).

    Args:
        checkpoint: a checkpoint of any supported format, local or at an address, an included agent (`models:NAME`), or
            an agent that was loaded from one
        simulator: of this agent (`rl_clarity.fit_simulator`), its file, or an included one (`models:NAME`)
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        recording: explain the episodes of this recording, which has the agent's states (`rl_clarity.record`), instead
            of new ones
        dry_run: only measure, and return the forecast; nothing is written
        metadata: overrides the checkpoint's: `env_name`, `num_levels`, ...
        options: see `MemoryOptions`

    A stopped call is resumed by calling it again. Under mpiexec all ranks call it and share the work.

    Raises:
        OptionError: Invalid options, an agent without a state, a recording without states, a recording or a simulator
            of another agent.
        CheckpointError: The checkpoint or the simulator cannot be read.
        EnvironmentSetupError: Its environment cannot be made, and there is no recording.
    """
    page_options = parse(MemoryOptions, options)
    overrides = override_name(metadata or {}, page_options.env_name)
    with team() as workers:
        read, agent = open_agent(checkpoint, overrides)
        require(agent, *PLAYING, *EXPLAINING, for_="explain_memory")
        if initial_state(agent, 1) is None:
            raise OptionError(
                f"{_name(checkpoint)} has no recurrent state; explain_memory needs a recurrent agent (rl_clarity.run "
                "explains others)"
            )
        world = None if simulator is None else _read_simulator(simulator, agent)
        origin: _Origin = _Played(agent, read, world, page_options)
        if recording is not None:
            origin = _Recorded(agent, read, world, recording)
        made_from = [origin.identity, None if world is None else _simulator_key(world)]
        share = workers.share()
        builder = PageBuilder([Member(agent, read, made_from)], page_options)
        recordings = open_directory(f"{path_text(output_dir, 'output_dir')}/{RECORDINGS}")

        def collect(job: Job) -> list[Samples]:
            return [origin.samples(job, recordings, share.memory())]

        return builder.page(
            workers,
            output_dir,
            made_from,
            share.memory,
            lambda: [origin.preview(recordings)],
            collect,
            dry_run,
        )


class _Origin(ABC):
    """Where the episodes come from."""

    def __init__(self, agent: Agent, checkpoint: Checkpoint, simulator: Simulator | None) -> None:
        self.agent, self.checkpoint, self.simulator = agent, checkpoint, simulator

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """JSON value that identifies agent and episodes."""

    @abstractmethod
    def samples(self, job: Job, recordings: Directory, memory: int) -> Samples:
        """The episodes; the agent plays them if they are not there."""

    @abstractmethod
    def preview(self, recordings: Directory) -> Preview:
        """A few steps of them."""

    def recorded(self, recording: Recording, metadata: Mapping[str, Any]) -> Samples:
        """The samples of a recording."""
        source = {"memory": MemorySource(recording, self.simulator)}
        return Samples(
            recorded_episodes(recording), Observations.none(self.agent.observation_shape), {**metadata, **source}
        )


class _Played(_Origin):
    """Episodes that the agent plays for the page."""

    def __init__(
        self, agent: Agent, checkpoint: Checkpoint, simulator: Simulator | None, options: MemoryOptions
    ) -> None:
        super().__init__(agent, checkpoint, simulator)
        self.options = options
        self.play = {name: getattr(options, name) for name in PlayOptions.__dataclass_fields__}

    @property
    def spec(self) -> EnvironmentSpec:
        return spec_from_metadata(self.checkpoint.metadata, num_actions=self.agent.num_actions)

    @property
    def identity(self) -> list[Any]:
        sources = [formats.source_key(self.checkpoint), environments.source_key(self.spec)]
        spec = dataclasses.asdict(self.spec)
        return [self.checkpoint.sha256, self.checkpoint.metadata, spec, sources, self.play, self.options.seed]

    def samples(self, job: Job, recordings: Directory, memory: int) -> Samples:
        task = self._task(recordings)
        job.run([task], WorkStore(recordings), memory)
        return self.recorded(open_recording(f"{recordings.location}/{PLAY}"), self._metadata)

    def preview(self, recordings: Directory) -> Preview:
        task, options = self._task(recordings), self.options
        if WorkStore(recordings).finished(task.name, task.key) is not None:
            samples = self.recorded(open_recording(f"{recordings.location}/{PLAY}"), self._metadata)
            return preview_samples(samples.trajectories, samples.observations, samples.metadata)
        expected = preview_play(
            self.agent, self.spec, options.episodes, options.max_steps, options.seed,
            full_resolution=options.full_resolution,
        )  # fmt: skip
        source = {"memory": MemorySource(None, self.simulator)}
        metadata = {**expected.metadata, **self._metadata, **source}
        return dataclasses.replace(
            expected, observations=Observations.none(self.agent.observation_shape), metadata=metadata
        )

    @property
    def _metadata(self) -> dict[str, Any]:
        played = {"environment": dataclasses.asdict(self.spec), "sampling": {"seed": self.options.seed, **self.play}}
        return {"network": self.checkpoint.network, **self.checkpoint.metadata, **played}

    def _task(self, recordings: Directory) -> Task:
        return Task(f"playing/{PLAY}", partial(self._record, recordings), [self.identity, code_version()])

    def _record(self, recordings: Directory, work: Work) -> TaskResult:
        options = self.options
        play = RecordOptions(
            episodes=options.episodes,
            steps=options.episodes * options.max_steps,
            seed=options.seed,
            greedy=options.greedy,
            full_resolution=options.full_resolution,
        )
        names = record_for_page(self.agent, self.checkpoint, recordings, PLAY, play)
        return TaskResult(files=names)


class _Recorded(_Origin):
    """Episodes of a recording."""

    def __init__(
        self, agent: Agent, checkpoint: Checkpoint, simulator: Simulator | None, recording: Path | Recording
    ) -> None:
        super().__init__(agent, checkpoint, simulator)
        self.recording = recording if isinstance(recording, Recording) else open_recording(recording)
        self.data = read_states(self.recording)
        check_states(agent, self.data)

    @property
    def identity(self) -> list[Any]:
        digest, data = hashlib.sha256(), self.data
        for array in (data.states, data.episode, data.actions, data.rewards):
            digest.update(np.ascontiguousarray(array).tobytes())
        return [
            self.checkpoint.sha256,
            self.checkpoint.metadata,
            formats.source_key(self.checkpoint),
            digest.hexdigest(),
        ]

    def samples(self, job: Job, recordings: Directory, memory: int) -> Samples:
        return self.recorded(self.recording, self._metadata)

    def preview(self, recordings: Directory) -> Preview:
        samples = self.recorded(self.recording, self._metadata)
        return preview_samples(samples.trajectories, samples.observations, samples.metadata)

    @property
    def _metadata(self) -> dict[str, Any]:
        about = {
            name: self.recording.metadata[name]
            for name in ("environment", "sampling")
            if name in self.recording.metadata
        }
        return {"network": self.checkpoint.network, **self.checkpoint.metadata, **about}


def _read_simulator(simulator: Path | Simulator, agent: Agent) -> Simulator:
    if not isinstance(simulator, Simulator):
        return load_simulator(simulator, agent)
    if agent_fingerprint(simulator.agent) != agent_fingerprint(check_agent(agent)):
        raise OptionError("simulator is of another agent: its parameters differ from this agent's")
    return simulator


def _simulator_key(simulator: Simulator) -> str:
    """Hash of what decides a simulation, and of what the page says of the simulator."""
    digest = hashlib.sha256(as_json(to_plain([simulator.metadata, simulator.world.size])).encode())
    for name, array in simulator.world.parameters().items():
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _name(checkpoint: Path | Agent) -> str:
    return os.fspath(checkpoint) if isinstance(checkpoint, str | os.PathLike) else repr(checkpoint)
