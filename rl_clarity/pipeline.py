"""From a checkpoint to a page: the whole way."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, overload

import numpy as np

from rl_clarity import formats
from rl_clarity.agents.capabilities import EXPLAINING, PLAYING, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.errors import OptionError
from rl_clarity.files import local_path
from rl_clarity.formats import Checkpoint
from rl_clarity.jobs import WorkStore, run_tasks
from rl_clarity.models import fetched
from rl_clarity.options import InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.pages.notebook import Page
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.parsing import parse
from rl_clarity.progress import progress_bar
from rl_clarity.quiet import import_keras
from rl_clarity.recordings.arrays import agent_key, as_observations, as_trajectories, samples_key
from rl_clarity.recordings.preview import Preview, preview_of, preview_source
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.source import SamplingPlan, open_source, page_is_of, samples_of
from rl_clarity.stages.assembly import assemble
from rl_clarity.stages.forecast import Forecast, forecast
from rl_clarity.stages.output import Output, finished_page, open_output
from rl_clarity.stages.plan import check_options, plan_page
from rl_clarity.stages.provenance import describe
from rl_clarity.stages.tasks import Explanation, attribution_tasks, first_tasks
from rl_clarity.stages.unfinished import UnfinishedPage
from rl_clarity.stages.work import Team, Work, at_work, team

Path = str | os.PathLike[str]


@overload
def run(checkpoint_path: Path, output_dir: Path, *, dry_run: Literal[True], **options: Any) -> Forecast: ...


@overload
def run(checkpoint_path: Path, output_dir: Path, *, dry_run: Literal[False] = False, **options: Any) -> Page: ...


@overload
def run(checkpoint_path: Path, output_dir: Path, *, dry_run: bool, **options: Any) -> Page | Forecast: ...


def run(
    checkpoint_path: Path,
    output_dir: Path,
    *,
    dry_run: bool = False,
    load_kwargs: Mapping[str, Any] | LoadOptions | None = None,
    trajectories_kwargs: Mapping[str, Any] | TrajectoriesOptions | None = None,
    observations_kwargs: Mapping[str, Any] | ObservationsOptions | None = None,
    trajectories: Trajectories | Mapping[str, Any] | None = None,
    observations: Observations | np.ndarray | None = None,
    observations_full: np.ndarray | None = None,
    **options: Any,
) -> Page | Forecast:
    """Let the agent in a checkpoint play, explain what it did, and write a page into `output_dir`.

    Parameters
    ----------
    checkpoint_path: a file of any supported format, here or at an address, or a shipped agent (`models:coinrun`)
    output_dir: holds `interface.html` and its data afterwards; a directory, or an address such as `s3://bucket/page`
    dry_run: only measure a little, and return what the job will take; nothing is written
    load_kwargs: see `LoadOptions`; where samples are kept and whether they are made anew
    trajectories_kwargs, observations_kwargs: how much the agent plays
    trajectories, observations, observations_full: samples to explain instead, as `generate` takes them
    options: see `InterfaceOptions`

    Stopped and called again, it goes on where it was. Under mpiexec all ranks call it and share the work.
    Raises ClarityError (a ValueError) for input that cannot be used; then nothing is written.
    """
    load = parse(LoadOptions, load_kwargs, "load_kwargs.")
    chosen = parse(InterfaceOptions, options)
    plan = SamplingPlan(
        parse(TrajectoriesOptions, trajectories_kwargs, "trajectories_kwargs."),
        parse(ObservationsOptions, observations_kwargs, "observations_kwargs."),
        load.full_resolution,
        chosen.seed,
    )
    given = (trajectories, observations, observations_full)
    if any(samples is not None for samples in given):
        _check_given(*given, trajectories_kwargs)
        with fetched(checkpoint_path) as path:
            checkpoint = formats.read(path, **load.metadata)
            agent = formats.build_agent(checkpoint)
        return _explain_given(agent, given, output_dir, chosen, dry_run, checkpoint)
    with team() as workers, fetched(checkpoint_path) as path:
        ranks, name = workers.ranks, chosen.env_name
        if load.resample:  # found without TensorFlow
            page = finished_page(output_dir, chosen, lambda actions: page_is_of(path, load, plan, name, actions), ranks)
            if page is not None:
                return Forecast.nothing_to_do(ranks.size) if dry_run else page
        share = workers.share()
        with open_source(path, load, plan, ranks, name, _address(checkpoint_path)) as source:
            check_options(source.agent, chosen)
            output = open_output(output_dir, chosen, source.made_from, ranks)

            def played(work: Work) -> Played:
                with work.stage("playing"):
                    samples = samples_of(source, ranks)
                metadata = {"network": source.checkpoint.network, **source.checkpoint.metadata, **samples.metadata}
                return Played(source.agent, samples.trajectories, samples.observations, metadata, source.checkpoint)

            return _page(workers, output, source.agent, share.memory(), lambda: preview_source(source), played, dry_run)


def generate(
    agent: Agent,
    trajectories: Trajectories | Mapping[str, Any],
    observations: Observations | np.ndarray,
    output_dir: Path,
    *,
    dry_run: bool = False,
    observations_full: np.ndarray | None = None,
    observations_kwargs: Any = None,
    **options: Any,
) -> Any:
    """Explain what an agent did, from samples given as arrays, and write a page into `output_dir`: a `Page`.

    Parameters
    ----------
    agent: anything that satisfies the protocol `rl_clarity.Agent`
    trajectories: `observations` (N, T, H, W, C) uint8, `actions` and `rewards` (N, T), `firsts` or `dones` (N, T), and
        maybe `observations_full` (N, T, H', W', 3); or what `collect_trajectories` gave
    observations: (M, H, W, C) uint8, varied, on which features are found
    dry_run: only measure a little, and return what the job will take (a `Forecast`); nothing is written
    observations_full: (M, H', W', 3) uint8, to show in their place
    observations_kwargs: ignored, so that `**ORIGINAL` can be passed here too
    options: see `InterfaceOptions`
    """
    require(agent, *PLAYING, *EXPLAINING, for_="generate")
    given = (trajectories, observations, observations_full)
    return _explain_given(agent, given, output_dir, parse(InterfaceOptions, options), dry_run, None)


@dataclass(frozen=True)
class Played:
    """An agent, and samples of its play."""

    agent: Agent
    trajectories: Trajectories
    observations: Observations
    metadata: Mapping[str, Any]
    checkpoint: Checkpoint | None
    """The file that the agent is from, if it is from one."""


def _check_given(trajectories: Any, observations: Any, observations_full: Any, trajectories_kwargs: Any) -> None:
    missing = [name for name, one in (("trajectories", trajectories), ("observations", observations)) if one is None]
    if missing:
        raise OptionError(
            f"arrays are given, but no {' and no '.join(missing)}: give both trajectories and observations, or neither "
            "(rl_clarity.collect plays and gives both)"
        )
    if trajectories_kwargs:
        raise OptionError("trajectories_kwargs say how the agent plays; it does not, as trajectories are given")


def _explain_given(
    agent: Agent,
    given: tuple[Any, Any, np.ndarray | None],
    output_dir: Path,
    options: InterfaceOptions,
    dry_run: bool,
    checkpoint: Checkpoint | None,
) -> Page | Forecast:
    """A page of samples given as arrays: trajectories, observations and maybe frames to show in their place."""
    with team() as workers:
        share = workers.share()
        import_keras()
        check_options(agent, options)
        trajectories, observations = as_trajectories(agent, given[0]), as_observations(agent, *given[1:])
        made_from = [agent_key(agent, trajectories), samples_key(trajectories), samples_key(observations)]
        if checkpoint is not None:
            made_from.append(checkpoint.sha256)
        output = open_output(output_dir, options, made_from, workers.ranks)
        played = Played(agent, trajectories, observations, agent.metadata, checkpoint)
        preview = preview_of(trajectories, observations, agent.metadata)
        return _page(workers, output, agent, share.memory(), lambda: preview, lambda work: played, dry_run)


def _page(
    workers: Team,
    output: Output,
    agent: Agent,
    memory: int,
    preview: Callable[[], Preview],
    play: Callable[[Work], Played],
    dry_run: bool,
) -> Page | Forecast:
    """Say what the job will take, do it, and return the page; or only say it."""
    ranks = workers.ranks
    if output.finished:
        return Forecast.nothing_to_do(ranks.size) if dry_run else output.page()
    said = forecast(output, agent, preview(), ranks.size, memory) if workers.leads else None
    if dry_run:
        return cast(Forecast, ranks.broadcast(said))
    with at_work(output, workers, said) as work:
        _explain(work, output, play(work), memory)
    return output.page()


def _address(checkpoint_path: Path) -> str | None:
    """Where a checkpoint that is not on this machine was fetched from."""
    text = os.fspath(checkpoint_path)
    return text if local_path(text) is None else None


def _explain(work: Work, output: Output, played: Played, memory: int) -> None:
    """Do the page's tasks, put it together."""
    ranks, leads = work.team.ranks, work.team.leads
    agent, trajectories, observations = played.agent, played.trajectories, played.observations
    plan = plan_page(agent, trajectories, observations, output.options, played.metadata)
    files = PageFiles(output.data, plan.layout)
    job = Explanation(files, agent, plan, trajectories, observations, output.key, memory)
    first, then = first_tasks(job), attribution_tasks(job)
    provenance = describe(plan, played.checkpoint, played.metadata)
    if leads:
        output.begin()
        work.log.begin()
        work.page = UnfinishedPage(output, job, [*first, *then], provenance)
        work.page.update(now=True)
    store = WorkStore(output.data)
    facts: dict[str, dict[str, Any]] = {}
    for name, tasks in (("features and frames", first), ("attribution", then)):
        with work.stage(name), progress_bar(name.capitalize(), shown=leads) as report:
            facts |= run_tasks(tasks, store, ranks, report, begun=work.begun, ended=work.ended)
        if work.page is not None and tasks is first:
            work.page.update(now=True)
    with work.stage("page"), progress_bar("Page", shown=leads):
        if leads:
            page_id = output.page_id([action.combo for action in job.plan.actions])
            made = (job.trajectories, job.observations, job.advantages, facts, provenance, page_id)
            output.write(assemble(job.files, job.plan, *made), facts)
            output.remove_parts()
        ranks.barrier()
