"""`rl_clarity.explain_memory` and `rl-clarity memory`: a page about what a recurrent agent remembers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, overload

import numpy as np

from rl_clarity import formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, require
from rl_clarity.agents.held_inputs import held_inputs, is_recurrent
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.memory.source import SIMULATOR
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import as_json, to_plain
from rl_clarity.base.parsing import parse
from rl_clarity.environments import override_name
from rl_clarity.formats import Checkpoint
from rl_clarity.formats.included import open_agent
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.job import team
from rl_clarity.pages.builder import Member, PageBuilder
from rl_clarity.pages.memory_options import MemoryOptions
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.results import Page
from rl_clarity.recordings.agreement import describe_recording
from rl_clarity.recordings.conversion import recorded_episodes
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations
from rl_clarity.sources.arrays import ArraysSource
from rl_clarity.sources.recorded_play import RecordedPlay
from rl_clarity.sources.source import Source, checkpoint_metadata
from rl_clarity.states.data import read_states
from rl_clarity.states.parts import check_states
from rl_clarity.world_models.files import load_simulator
from rl_clarity.world_models.simulator import Simulator, agent_fingerprint, check_agent

Path = str | os.PathLike[str]

PLAY = "play"
"""Name of the recording that is made for the page, in the page's directory of recordings."""


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
    other_agent: bool = False,
    dry_run: bool = False,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Page | Forecast:
    """Explain what a recurrent agent remembers, and which earlier steps its outputs depend on, as a page.

    The agent plays episodes, which are recorded with its states in `.rl-clarity/recordings/` of the page and reused by
    later calls. The page shows them with directions, clusters, behaviors and maps of the states (`analyze_states`).
    It also shows causes of single steps, from gradients through memory and, with a simulator, through the environment;
    paired episodes with and without an exchange of directions (`intervene`); and the quality of the simulator
    (`measure_quality`).

    Args:
        checkpoint: a checkpoint of any supported format, local or at an address, an included agent (`models:NAME`), or
            an agent. An agent that was not loaded from a checkpoint needs metadata that name its environment, or
            `recording`
        simulator: a simulator of this agent (`rl_clarity.fit_simulator`), its file, or an included one (`models:NAME`)
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        recording: explain the episodes of this recording instead of new ones; it must contain the agent's states
            (`rl_clarity.record`)
        other_agent: accept a recording of another agent
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        metadata: metadata that override the checkpoint's: `env_name`, `num_levels`, ...
        options: see `MemoryOptions`

    Repeat an interrupted call to resume it. Under mpiexec, all ranks call it and share the work.

    Raises:
        OptionError: An option is invalid, the agent has no recurrent state or observes more than an image, the
            recording has no states, or the recording or the simulator belongs to another agent.
        CheckpointError: The checkpoint or the simulator cannot be read.
        EnvironmentSetupError: The agent's environment cannot be created, and `recording` is not given.
    """
    page_options = parse(MemoryOptions, translate(options, MemoryOptions)).seeded()
    overrides = override_name(metadata or {}, page_options.env_name)
    with team() as workers:
        read, agent = open_agent(checkpoint, overrides, in_memory=True)
        require(agent, *PLAYING, *EXPLAINING, for_="explain_memory")
        if not is_recurrent(agent) or held_inputs(agent):
            lacks = (
                f"takes {', '.join(held_inputs(agent))} beside the image"
                if is_recurrent(agent)
                else "has no recurrent state"
            )
            raise OptionError(
                f"{_name(checkpoint)} {lacks}; explain_memory needs a recurrent agent that observes only images "
                "(for any other agent, use rl_clarity.run or rl_clarity.generate)"
            )
        world = None if simulator is None else _read_simulator(simulator, agent)
        source: Source
        if recording is None:
            source = _play(agent, read, world, page_options)
        else:
            source = _recorded(agent, read, world, recording, other_agent=other_agent)
        made_from = [source.identity, None if world is None else _simulator_key(world)]
        return PageBuilder([Member(source)], page_options).page(
            workers, output_dir, made_from, workers.share().memory, dry_run
        )


def _play(agent: Agent, checkpoint: Checkpoint, simulator: Simulator | None, options: MemoryOptions) -> RecordedPlay:
    """Return the source of episodes that the agent plays for the page."""
    play = options.play
    record = RecordOptions(
        episodes=play.episodes,
        steps=play.episodes * play.max_steps,
        seed=options.seed,
        greedy=play.greedy,
        full_resolution=play.full_resolution,
        info=play.info,
    )
    return RecordedPlay(agent, checkpoint, PLAY, asdict(play), record, about={SIMULATOR: simulator})


def _recorded(
    agent: Agent,
    checkpoint: Checkpoint,
    simulator: Simulator | None,
    recording: Path | Recording,
    *,
    other_agent: bool,
) -> ArraysSource:
    """Return the source of a recording's episodes, identified by a hash of their states, actions and rewards."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    data = read_states(opened)
    check_states(agent, data)
    about = {"recording": describe_recording(agent, opened, other_agent=other_agent)}
    digest = hashlib.sha256()
    for array in (data.states, data.episode, data.actions, data.rewards):
        digest.update(np.ascontiguousarray(array).tobytes())
    played = {name: opened.metadata[name] for name in ("environment", "sampling") if name in opened.metadata}
    return ArraysSource(
        agent,
        checkpoint,
        recorded_episodes(opened),
        Observations.none(agent.observation_shape),
        {**checkpoint_metadata(checkpoint), **played, **about, SIMULATOR: simulator},
        opened,
        [checkpoint.sha256, checkpoint.metadata, formats.source_key(checkpoint), digest.hexdigest()],
    )


def _read_simulator(simulator: Path | Simulator, agent: Agent) -> Simulator:
    if not isinstance(simulator, Simulator):
        return load_simulator(simulator, agent)
    if agent_fingerprint(simulator.agent) != agent_fingerprint(check_agent(agent)):
        raise OptionError("the simulator is for a different agent, whose parameters differ from those of this agent")
    return simulator


def _simulator_key(simulator: Simulator) -> str:
    """Return the hash of a simulator's metadata, sizes and parameters, which determine what the page shows about it."""
    digest = hashlib.sha256(as_json(to_plain([simulator.metadata, simulator.world.size])).encode())
    for name, array in simulator.world.parameters().items():
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _name(checkpoint: Path | Agent) -> str:
    return os.fspath(checkpoint) if isinstance(checkpoint, str | os.PathLike) else repr(checkpoint)
