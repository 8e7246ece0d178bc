"""`rl_clarity.run` and `rl_clarity.generate`: write a page from a checkpoint, or from an agent and samples."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from rl_clarity import formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, has, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.files import local_path
from rl_clarity.base.parsing import find_part, parse, path_text
from rl_clarity.environments import override_name
from rl_clarity.formats import Checkpoint
from rl_clarity.formats.included import fetched, open_agent
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.job import team
from rl_clarity.pages.builder import Member, PageBuilder, decisive
from rl_clarity.pages.options import (
    DebugOptions,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    PageOptions,
    TrajectoriesOptions,
)
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.output import finished_page
from rl_clarity.pages.results import Page
from rl_clarity.recordings.agreement import describe_recording
from rl_clarity.recordings.arrays import as_observations, as_trajectories
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.sources.arrays import ArraysSource
from rl_clarity.sources.checkpoint import SamplingPlan, open_source, predict_identity

Path = str | os.PathLike[str]
Arrays: TypeAlias = tuple[Any, Any, np.ndarray | None]
"""Trajectories, extra observations, and full-resolution images of these observations, as for `run` and `generate`."""


@overload
def run(checkpoint_path: Path | Agent, output_dir: Path, *, dry_run: Literal[True], **options: Any) -> Forecast: ...


@overload
def run(
    checkpoint_path: Path | Agent, output_dir: Path, *, dry_run: Literal[False] = False, **options: Any
) -> Page: ...


@overload
def run(checkpoint_path: Path | Agent, output_dir: Path, *, dry_run: bool, **options: Any) -> Page | Forecast: ...


def run(
    checkpoint_path: Path | Agent,
    output_dir: Path,
    *,
    dry_run: bool = False,
    load: Mapping[str, Any] | LoadOptions | None = None,
    trajectories: Mapping[str, Any] | TrajectoriesOptions | Trajectories | Recording | None = None,
    observations: Mapping[str, Any] | ObservationsOptions | Observations | Recording | np.ndarray | None = None,
    observations_full: np.ndarray | None = None,
    recording: Path | Recording | None = None,
    other_agent: bool = False,
    live: bool = False,
    **options: Any,
) -> Page | Forecast:
    """Let the agent in a checkpoint play to collect samples, explain it, and write a page into `output_dir`.

    Args:
        checkpoint_path: a file of any supported format, local or at an address, an included agent (`models:coinrun`),
            or an agent that was loaded from one and may be edited (`rl_clarity.edit`)
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        load: where samples are stored and whether they are reused; see `LoadOptions`
        trajectories: how much the agent plays; see `TrajectoriesOptions`. Or existing samples to explain, as for
            `generate`
        observations: how many extra observations are collected; see `ObservationsOptions`. Or existing observations,
            as for `generate`, if `trajectories` are existing samples
        observations_full: images to show instead of `observations`, as for `generate`
        recording: a recording or Minari dataset, or its path or address, whose episodes are explained instead of new
            ones; `trajectories` and `observations` determine how much of it is used
        other_agent: accept a recording of another agent; by default, OptionError is raised if the agent's outputs
            differ from the recorded ones
        live: also write the network to a file beside the page, so that the "What if" panel can evaluate it in the
            browser. Everyone who receives the page then also has the network
        options: see `InterfaceOptions`; option names of understanding-rl-vision and of version 0.1 are accepted

    Repeat an interrupted call to resume it. Under mpiexec, all ranks call it and share the work.
    Raises ClarityError (a ValueError) for invalid input, before anything is written.
    """
    translated = translate(options, InterfaceOptions)
    load, sizes, more = (
        choose_value(name, value, translated.pop(name, None))
        for name, value in (("load", load), ("trajectories", trajectories), ("observations", observations))
    )
    page_options = parse(InterfaceOptions, translated)
    if live:
        page_options = replace(page_options, analyses={**page_options.analyses, "what_if": {}})
    return explain(
        checkpoint_path,
        output_dir,
        page_options,
        load=load,
        trajectories=sizes,
        observations=more,
        observations_full=observations_full,
        recording=recording,
        other_agent=other_agent,
        dry_run=dry_run,
    )


def explain(
    checkpoint_path: Path | Agent,
    output_dir: Path,
    page_options: PageOptions,
    *,
    load: Mapping[str, object] | LoadOptions | None = None,
    trajectories: Mapping[str, object] | TrajectoriesOptions | Trajectories | Recording | None = None,
    observations: Mapping[str, object] | ObservationsOptions | Observations | Recording | np.ndarray | None = None,
    observations_full: np.ndarray | None = None,
    recording: Path | Recording | None = None,
    other_agent: bool = False,
    dry_run: bool = False,
    kinds: Sequence[str] | None = None,
) -> Page | Forecast:
    """Write a page of any kind about one agent. Arguments are those of `run`.

    If samples are collected, only the analyses in `kinds` are applied to them; None for all analyses of the page.
    """
    load = parse(LoadOptions, load, "load.")
    load = replace(load, metadata=override_name(load.metadata, page_options.env_name))
    objects = find_part(page_options, ObjectsOptions)
    played_size, played_samples = _sizes_or_samples(trajectories, TrajectoriesOptions)
    more_size, more_samples = _sizes_or_samples(observations, ObservationsOptions)
    plan = SamplingPlan(
        parse(TrajectoriesOptions, played_size, "trajectories."),
        parse(ObservationsOptions, more_size, "observations.").resolved(),
        load.full_resolution,
        page_options.seed,
        world_states=(objects is not None and objects.every is not None) or isinstance(page_options, DebugOptions),
    )
    samples: Arrays = (played_samples, more_samples, observations_full)
    played = None
    if any(array is not None for array in samples):
        _check_arrays(*samples, recording)
    elif recording is not None:
        played = recording if isinstance(recording, Recording) else open_recording(recording)
        samples = (*_from_recording(played, plan), None)
    if samples[0] is not None:
        checkpoint, loaded = open_agent(checkpoint_path, load.metadata, name="checkpoint_path", check=load.check)
        return explain_arrays(
            loaded, samples, output_dir, page_options, dry_run, checkpoint, played, other_agent=other_agent
        )
    with team() as workers, _fetched(checkpoint_path) as (path, agent):
        ranks = workers.ranks
        page_decisive = decisive(page_options)
        if (
            agent is None and load.resample and load.check is None
        ):  # a finished page is recognized without importing a framework
            page = finished_page(
                output_dir,
                page_options,
                lambda actions: predict_identity(path, load, plan, actions),
                page_decisive,
                ranks,
            )
            if page is not None:
                return Forecast.nothing_to_do(ranks.size) if dry_run else page
        memory = workers.share().memory
        with open_source(path, load, plan, ranks, _address(checkpoint_path), agent) as source:
            return PageBuilder([Member(source, kinds)], page_options).page(
                workers, output_dir, source.identity, memory, dry_run
            )


def generate(
    agent: Agent,
    trajectories: Trajectories | Recording | Mapping[str, Any],
    observations: Observations | Recording | np.ndarray,
    output_dir: Path,
    *,
    dry_run: bool = False,
    observations_full: np.ndarray | None = None,
    other_agent: bool = False,
    **options: Any,
) -> Any:
    """Explain an agent on existing samples, write a page into `output_dir`, and return it as a `Page`.

    With `dry_run`, return a `Forecast` instead.

    Args:
        agent: an object that implements the protocol `rl_clarity.Agent`
        trajectories: arrays of N trajectories of T steps: `observations` (N, T, H, W, C) uint8, `actions` and `rewards`
            (N, T), `firsts` or `dones` (N, T), and optionally `observations_full` (N, T, H', W', 3); or the
            trajectories that `collect` returned; or a recording
        observations: M varied observations (M, H, W, C) uint8, from which features are computed; or a recording
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        observations_full: images (M, H', W', 3) uint8 to show instead of the observations
        other_agent: accept a recording of another agent
        options: see `InterfaceOptions`; option names of understanding-rl-vision and of version 0.1 are accepted
    """
    require(agent, *PLAYING, *EXPLAINING, for_="generate")
    samples = (trajectories, observations, observations_full)
    translated = translate(options, InterfaceOptions)
    for name in ("trajectories", "observations"):  # the sizes in ORIGINAL
        translated.pop(name, None)
    chosen = parse(InterfaceOptions, translated)
    return explain_arrays(agent, samples, output_dir, chosen, dry_run, None, other_agent=other_agent)


def choose_value(name: str, value: Any, original: Any) -> Any:
    """Return the value of an argument that may be passed by its current name or by that of understanding-rl-vision.

    `original` is the value that was passed by the latter. Dicts of options are merged if they have no common key.
    Otherwise, raises OptionError if both are given.
    """
    sizes = isinstance(value, Mapping) and not _has_arrays(value) and isinstance(original, Mapping)
    if sizes and value.keys().isdisjoint(original):
        return {**original, **value}
    if value is not None and original is not None:
        raise OptionError(f"{name}_kwargs cannot be combined with {name}: leave one of them out")
    return original if value is None else value


def _sizes_or_samples(value: Any, kind: type) -> tuple[Any, Any]:
    """Return a pair: options for collecting samples, and existing samples. At least one of the two is None."""
    is_size = isinstance(value, kind) or (isinstance(value, Mapping) and not _has_arrays(value))
    return (value, None) if is_size else (None, value)


def _has_arrays(value: Mapping[str, object]) -> bool:
    return not {"observations", "actions", "rewards"}.isdisjoint(value)


def _from_recording(recording: Recording, plan: SamplingPlan) -> tuple[Trajectories, Observations]:
    trajectories = recording.to_trajectories(plan.trajectories.num_envs, plan.trajectories.num_steps)
    return trajectories, recording.to_observations(plan.observations.num_envs * plan.observations.num_obs)


def _check_arrays(
    trajectories: object,
    observations: object,
    observations_full: object,
    recording: object,
) -> None:
    if recording is not None:
        raise OptionError("recording cannot be combined with trajectories and observations")
    missing = [name for name, one in (("trajectories", trajectories), ("observations", observations)) if one is None]
    if missing:
        raise OptionError(
            f"samples are passed without {' and '.join(missing)}: pass both trajectories and observations, or neither "
            "(rl_clarity.collect returns both)"
        )


def explain_arrays(
    agent: Agent,
    arrays: Arrays,
    output_dir: Path,
    options: PageOptions,
    dry_run: bool,
    checkpoint: Checkpoint | None,
    recording: Recording | None = None,
    *,
    other_agent: bool,
) -> Page | Forecast:
    """Write a page from samples that are arrays or a recording, and return it. With `dry_run`, return a forecast."""
    if isinstance(arrays[0], Recording):
        recording = arrays[0]
    with team() as workers:
        memory = workers.share().memory
        metadata = {**agent.metadata, **({} if checkpoint is None else checkpoint.metadata)}
        if recording is not None:
            metadata["recording"] = describe_recording(agent, recording, other_agent=other_agent)
        source = ArraysSource(
            agent, checkpoint, as_trajectories(agent, arrays[0]), as_observations(agent, *arrays[1:]), metadata
        )
        return PageBuilder([Member(source)], options).page(workers, output_dir, source.identity, memory, dry_run)


@contextmanager
def _fetched(checkpoint_path: Path | Agent) -> Iterator[tuple[pathlib.Path, Agent | None]]:
    """Yield the local path of a checkpoint and None. For an agent, yield the path it was loaded from and the agent."""
    if isinstance(checkpoint_path, str | os.PathLike):
        with fetched(path_text(checkpoint_path, "checkpoint_path")) as path:
            yield path, None
    else:
        if not has(checkpoint_path, "step"):
            raise OptionError(f"checkpoint_path={checkpoint_path!r:.80} must be a path or an agent")
        yield formats.checkpoint_of(checkpoint_path).path, checkpoint_path


def _address(checkpoint_path: Path | Agent) -> str | None:
    """Return the address that a checkpoint was fetched from; None for a local one, and for an agent."""
    if not isinstance(checkpoint_path, str | os.PathLike):
        return None
    text = os.fspath(checkpoint_path)
    return text if local_path(text) is None else None
