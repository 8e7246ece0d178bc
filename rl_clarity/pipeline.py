"""From a checkpoint, or an agent and samples, to a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal, cast, overload

import numpy as np

from rl_clarity import formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, has, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses import ANALYSES, Analysis, Subject
from rl_clarity.analyses.analysis import action_combos, action_groups, describe_agent, equivalent_actions
from rl_clarity.analyses.attribution.quadrature import RULES
from rl_clarity.analyses.trajectories import discounts
from rl_clarity.environments import override_name
from rl_clarity.errors import OptionError
from rl_clarity.files import local_path
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs.forecast import Cost, CountingDirectory, Forecast, forecast
from rl_clarity.jobs.job import Job, Team, open_job, team
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.keys import cache_key, package_versions
from rl_clarity.models import fetched
from rl_clarity.options import InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions, options_as_data
from rl_clarity.pages.files import PageFiles
from rl_clarity.pages.kinds import PAGE_KINDS
from rl_clarity.pages.manifest import Manifest, ProvenanceGroup, RecordingInfo, ViewOptions, provenance_group
from rl_clarity.pages.output import Decisive, PageOutput, finished_page, open_output
from rl_clarity.pages.results import Page
from rl_clarity.parsing import parse, path_text
from rl_clarity.recordings.arrays import agent_key, as_observations, as_trajectories, samples_key
from rl_clarity.recordings.preview import Preview, preview_samples, preview_source
from rl_clarity.recordings.recording import Recording, open_recording
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.source import Samples, SamplingPlan, load_or_collect, open_source, predict_identity

Path = str | os.PathLike[str]
NOT_DECISIVE = ("overwrite", "analyses")
"""Options that do not decide the page; those of further analyses enter its id with their code."""
UNLISTED = {
    "overwrite",
    "page_kind",
    "analyses",
    "action_combos",
    "equivalent_actions",
    "title",
    "env_name",
    *ViewOptions.__dataclass_fields__,
}
"""Options that the page's provenance leaves out, and all names of subdirectories."""


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
    load_kwargs: Mapping[str, Any] | LoadOptions | None = None,
    trajectories_kwargs: Mapping[str, Any] | TrajectoriesOptions | None = None,
    observations_kwargs: Mapping[str, Any] | ObservationsOptions | None = None,
    trajectories: Trajectories | Recording | Mapping[str, Any] | None = None,
    observations: Observations | Recording | np.ndarray | None = None,
    observations_full: np.ndarray | None = None,
    recording: Path | Recording | None = None,
    **options: Any,
) -> Page | Forecast:
    """Collect samples of the agent in a checkpoint, explain it, and write a page into `output_dir`.

    Args:
        checkpoint_path: a file of any supported format, local or at an address, an included agent (`models:coinrun`),
            or an agent that was loaded from one and may be edited (`rl_clarity.edit`)
        output_dir: a directory, or an address such as `s3://bucket/page`, for `interface.html` and its data
        dry_run: only measure, and return the forecast; nothing is written
        load_kwargs: where samples are stored and whether they are reused; see `LoadOptions`
        trajectories_kwargs: how much the agent plays; see `TrajectoriesOptions`
        observations_kwargs: how many more observations are collected; see `ObservationsOptions`
        trajectories: samples to explain instead, as for `generate`
        observations: extra observations, with `trajectories`, as for `generate`
        observations_full: images to show instead of `observations`, as for `generate`
        recording: a recording or Minari dataset, or its path or address, whose episodes are explained instead; the
            options above say how much of it
        options: see `InterfaceOptions`

    A stopped call is resumed by calling it again. Under mpiexec all ranks call it and share the work.
    Raises ClarityError (a ValueError) for invalid input; nothing is written then.
    """
    load = parse(LoadOptions, load_kwargs, "load_kwargs.")
    page_options = parse(InterfaceOptions, options)
    load = replace(load, metadata=override_name(load.metadata, page_options.env_name))
    plan = SamplingPlan(
        parse(TrajectoriesOptions, trajectories_kwargs, "trajectories_kwargs."),
        parse(ObservationsOptions, observations_kwargs, "observations_kwargs.").resolved(),
        load.full_resolution,
        page_options.seed,
    )
    samples: tuple[Any, Any, Any] = (trajectories, observations, observations_full)
    if any(array is not None for array in samples):
        _check_arrays(*samples, trajectories_kwargs, recording)
    elif recording is not None:
        samples = (*_from_recording(recording, plan), None)
    if samples[0] is not None:
        with _fetched(checkpoint_path) as (path, agent):
            checkpoint = formats.read(path, **load.metadata) if agent is None else formats.checkpoint_of(agent)
            agent = agent or formats.build_agent(checkpoint, load.check)
        return _explain_arrays(agent, samples, output_dir, page_options, dry_run, checkpoint)
    with team() as workers, _fetched(checkpoint_path) as (path, agent):
        ranks = workers.ranks
        decisive = _decisive(page_options)
        if (
            agent is None and load.resample and load.check is None
        ):  # a finished page is recognized without importing a framework
            page = finished_page(
                output_dir,
                page_options,
                lambda actions: predict_identity(path, load, plan, actions),
                decisive,
                ranks,
            )
            if page is not None:
                return Forecast.nothing_to_do(ranks.size) if dry_run else page
        share = workers.share()
        with open_source(path, load, plan, ranks, _address(checkpoint_path), agent) as source:
            build = _Builder(source.agent, page_options, source.checkpoint)

            def collect(job: Job) -> Samples:
                with job.stage("playing"):
                    samples = load_or_collect(source, ranks)
                metadata = {"network": source.checkpoint.network, **source.checkpoint.metadata, **samples.metadata}
                return Samples(samples.trajectories, samples.observations, metadata)

            return build.page(
                workers, output_dir, source.identity, share.memory, lambda: preview_source(source), collect, dry_run
            )


def generate(
    agent: Agent,
    trajectories: Trajectories | Recording | Mapping[str, Any],
    observations: Observations | Recording | np.ndarray,
    output_dir: Path,
    *,
    dry_run: bool = False,
    observations_full: np.ndarray | None = None,
    observations_kwargs: Any = None,
    **options: Any,
) -> Any:
    """Explain what an agent did, from samples as arrays, and write a page into `output_dir`; returns a `Page`.

    Args:
        agent: an object that implements the protocol `rl_clarity.Agent`
        trajectories: `observations` (N, T, H, W, C) uint8, `actions` and `rewards` (N, T), `firsts` or `dones` (N, T),
            and optionally `observations_full` (N, T, H', W', 3); or what `collect` returned, or a recording
        observations: (M, H, W, C) uint8, varied, to compute features from; or a recording
        dry_run: only measure, and return the forecast; nothing is written
        observations_full: (M, H', W', 3) uint8, to show instead of the observations
        observations_kwargs: ignored, so that `**ORIGINAL` can be passed
        options: see `InterfaceOptions`
    """
    require(agent, *PLAYING, *EXPLAINING, for_="generate")
    samples = (trajectories, observations, observations_full)
    return _explain_arrays(agent, samples, output_dir, parse(InterfaceOptions, options), dry_run, None)


def _from_recording(recording: Path | Recording, plan: SamplingPlan) -> tuple[Trajectories, Observations]:
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    trajectories = opened.to_trajectories(plan.trajectories.num_envs, plan.trajectories.num_steps)
    return trajectories, opened.to_observations(plan.observations.num_envs * plan.observations.num_obs)


def _check_arrays(
    trajectories: Any, observations: Any, observations_full: Any, trajectories_kwargs: Any, recording: Any
) -> None:
    if recording is not None:
        raise OptionError("recording cannot be combined with trajectories and observations")
    missing = [name for name, one in (("trajectories", trajectories), ("observations", observations)) if one is None]
    if missing:
        raise OptionError(
            f"samples are passed without {' and '.join(missing)}: pass both trajectories and observations, or neither "
            "(rl_clarity.collect returns both)"
        )
    if trajectories_kwargs:
        raise OptionError("trajectories_kwargs cannot be combined with trajectories: the agent does not play")


def _explain_arrays(
    agent: Agent,
    arrays: tuple[Any, Any, np.ndarray | None],
    output_dir: Path,
    options: InterfaceOptions,
    dry_run: bool,
    checkpoint: Checkpoint | None,
) -> Page | Forecast:
    """A page of samples that are passed as arrays."""
    with team() as workers:
        share = workers.share()
        build = _Builder(agent, options, checkpoint)
        samples = Samples(as_trajectories(agent, arrays[0]), as_observations(agent, *arrays[1:]), agent.metadata)
        trajectories, observations = samples.trajectories, samples.observations
        made_from = [agent_key(agent, trajectories), samples_key(trajectories), samples_key(observations)]
        if checkpoint is not None:
            made_from.append(checkpoint.sha256)
        preview = preview_samples(trajectories, observations, agent.metadata)
        return build.page(workers, output_dir, made_from, share.memory, lambda: preview, lambda job: samples, dry_run)


class _Builder:
    """Plans the page of an agent, says what it will take, and builds it."""

    def __init__(self, agent: Agent, options: InterfaceOptions, checkpoint: Checkpoint | None) -> None:
        """Raise OptionError for options that do not fit the agent, before anything is sampled or computed."""
        self._agent, self._options, self._checkpoint = agent, options, checkpoint
        self._analyses: list[tuple[Analysis, Any]] = _analyses(options)
        if options.action_combos is not None:
            action_combos(agent, options.action_combos)
        equivalent_actions(agent, options.equivalent_actions)
        for analysis, own_options in self._analyses:
            analysis.check(agent, own_options)

    def page(
        self,
        workers: Team,
        output_dir: Path,
        made_from: Any,
        memory: Callable[[], int],
        preview: Callable[[], Preview],
        collect: Callable[[Job], Samples],
        dry_run: bool,
    ) -> Page | Forecast:
        """Forecast the job, do it, and return the page; with `dry_run`, only forecast it."""
        ranks, options = workers.ranks, self._options
        output = open_output(output_dir, options, made_from, _decisive(options), ranks)
        if output.finished:
            return Forecast.nothing_to_do(ranks.size) if dry_run else output.page()
        available = memory()
        expected = self._forecast(output, preview(), ranks.size, available) if workers.leads else None
        if dry_run:
            return cast(Forecast, ranks.broadcast(expected))
        with open_job(workers, output.directory, expected) as job:
            self._build(job, output, collect(job), available)
        return output.page()

    def _forecast(self, output: PageOutput, preview: Preview, ranks: int, memory: int) -> Forecast:
        subject = self._subject(output, Samples(*preview.whole(), preview.metadata))
        written = CountingDirectory()
        sample = replace(
            subject,
            trajectories=preview.trajectories,
            observations=preview.observations,
            files=PageFiles(written),
        )
        playing = Cost(preview.seconds, preview.sample_bytes)
        expected = forecast(
            self._tasks(subject),
            output.reusable,
            sample,
            written,
            ranks=ranks,
            memory=memory,
            playing=playing,
            single_file=self._options.is_single_file,
        )
        notes = () if self._checkpoint is None else self._checkpoint.notes
        return replace(expected, notes=(*expected.notes, *(f"Note: {note}." for note in notes)))

    def _build(self, job: Job, output: PageOutput, samples: Samples, memory: int) -> None:
        subject = self._subject(output, samples)
        tasks = self._tasks(subject)
        page_id = output.page_id([action.combo for action in subject.info.actions])
        if job.team.leads:
            output.begin(page_id)
            job.begin()
            job.update = output.updater(lambda results: self._manifest(subject, page_id, results), tasks)
            job.update()
        results = job.run(tasks, output.store, memory)
        with job.stage("page"):
            if job.team.leads:
                output.write(self._manifest(subject, page_id, results, tasks), results)
            job.team.ranks.barrier()

    def _subject(self, output: PageOutput, samples: Samples) -> Subject:
        return Subject(
            agent=self._agent,
            info=describe_agent(self._agent, samples.trajectories, samples.metadata, self._options),
            trajectories=samples.trajectories,
            observations=samples.observations,
            metadata=samples.metadata,
            options=self._options,
            files=PageFiles(output.data),
            key=output.key,
            analyses=tuple(analysis.kind for analysis, _ in self._analyses),
            plugin_keys=_plugin_keys(self._options),
        )

    def _tasks(self, subject: Subject) -> list[Task]:
        return [task for analysis, options in self._analyses for task in analysis.tasks(subject, options)]

    def _manifest(
        self, subject: Subject, page_id: str, results: Results, tasks: Sequence[Task] | None = None
    ) -> Manifest:
        """The manifest from the facts of finished tasks: of all `tasks`, or of some if they are None."""
        options = self._options
        sections = []
        for analysis, own_options in self._analyses:
            done = tasks is not None or not analysis.needs_all
            section = analysis.section(subject, own_options, results) if done else None
            if section is not None:
                sections.append(section)
        metadata = subject.metadata
        played = metadata.get("environment") or {}  # of samples that were collected for this page or an earlier one
        names = (options.env_name, played.get("name"), metadata.get("env_name"), metadata.get("env_id"))
        env_name = str(next(filter(None, names), "unknown"))
        return Manifest(
            id=page_id,
            kind=options.page_kind,
            title=options.title or f"{env_name}, {subject.info.network}",
            agents=[subject.info],
            recordings=[RecordingInfo(env_name)],
            sections=sections,
            view=options.view(),
            numpy_precision=options.numpy_precision,
            provenance=_provenance(subject, self._checkpoint),
            complete=tasks is not None,
        )


def _kinds(options: InterfaceOptions) -> list[str]:
    """Kinds of the page's analyses, in order."""
    return list(dict.fromkeys([*PAGE_KINDS.get(options.page_kind).analyses, *options.analyses]))


def _analyses(options: InterfaceOptions) -> list[tuple[Analysis, Any]]:
    """The page's analyses and the options of each: all of the page's for built-in ones, their own for others."""
    kinds = _kinds(options)
    analyses = []
    for kind in kinds:
        analysis = ANALYSES.get(kind)()
        own = options if isinstance(options, analysis.Options) else None
        if own is None:
            own = parse(analysis.Options, options.analyses.get(kind), f"analyses.{kind}.")
        analyses.append((analysis, own))
    return analyses


def _plugin_keys(options: InterfaceOptions) -> dict[str, str]:
    """A hash of code and options of each analysis, and of the quadrature rule, that is not part of the package."""
    sources = {kind: ANALYSES.source(kind) for kind in _kinds(options)} | {
        "quadrature": RULES.source(options.attr_quadrature)
    }
    return {kind: cache_key([source, options.analyses.get(kind)]) for kind, source in sources.items() if source}


def _decisive(options: InterfaceOptions) -> Decisive:
    """What decides the page beside agent and samples, as a function of the buttons of each action."""
    values = {name: value for name, value in options_as_data(options).items() if name not in NOT_DECISIVE}
    # Predicates have no value: they stand for the groups that they select.
    predicates = options.action_group_fns
    plugins = _plugin_keys(options)
    kinds = _kinds(options)
    return lambda combos: [values, kinds, plugins, None if predicates is None else action_groups(combos, predicates)]


@contextmanager
def _fetched(checkpoint_path: Path | Agent) -> Iterator[tuple[Any, Agent | None]]:
    """The local path of a checkpoint, or of that which an agent was loaded from, and the agent."""
    if isinstance(checkpoint_path, str | os.PathLike):
        with fetched(path_text(checkpoint_path, "checkpoint_path")) as path:
            yield path, None
    else:
        if not has(checkpoint_path, "step"):
            raise OptionError(f"checkpoint_path={checkpoint_path!r:.80} must be a path or an agent")
        yield formats.checkpoint_of(checkpoint_path).path, checkpoint_path


def _address(checkpoint_path: Path | Agent) -> str | None:
    """The address that a checkpoint was fetched from; None for a local one, and for an agent."""
    if not isinstance(checkpoint_path, str | os.PathLike):
        return None
    text = os.fspath(checkpoint_path)
    return text if local_path(text) is None else None


def _provenance(subject: Subject, checkpoint: Checkpoint | None) -> list[ProvenanceGroup]:
    """Groups of facts about what made the page."""
    groups, metadata = [], subject.metadata
    if checkpoint is not None:
        reading = {name: checkpoint.metadata.get(name) for name in formats.READING}
        notes = " ".join(f"{note}." for note in checkpoint.notes) or None
        groups.append(provenance_group("Checkpoint", {**checkpoint.identity, **reading, "notes": notes}))
    environment = dict(metadata.get("environment") or {})
    if environment:
        shown = {"kind": environment.get("kind"), "name": environment.get("name"), **environment.get("options", {})}
        for key, default in (("epsilon_greedy", 0), ("reward_scale", 1)):
            if environment.get(key, default) != default:
                shown[key] = environment[key]
        groups.append(provenance_group("Environment", shown))
    if metadata.get("sampling"):
        groups.append(provenance_group("Sampling", metadata["sampling"]))
    info = {name: getattr(subject.info, name) for name in ("network", "kind", "recurrent", "num_actions")}
    gamma, lam = discounts(subject)
    observation = {name: value for name, value in asdict(subject.info.observation).items() if value is not None}
    groups.append(provenance_group("Agent", {**info, "observation": observation, "gamma": gamma, "lambda": lam}))
    options = options_as_data(subject.options)
    listed = {k: v for k, v in options.items() if k not in UNLISTED and not k.endswith("_subdir")}
    groups.append(provenance_group("Options", listed))
    groups.append(provenance_group("Versions", package_versions()))
    return groups
