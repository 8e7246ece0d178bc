"""From a checkpoint to a page: the whole way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from rl_clarity import checkpoints
from rl_clarity.agents.protocol import Agent
from rl_clarity.distributed import Communicator, WorkStore, communicator, locked, run_tasks
from rl_clarity.distributed.memory import available_memory
from rl_clarity.errors import OptionError
from rl_clarity.interface.notebook import Page
from rl_clarity.interface.page_files import PageFiles
from rl_clarity.models import resolve
from rl_clarity.options import InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.parsing import parse
from rl_clarity.progress import progress_bar
from rl_clarity.quiet import import_keras
from rl_clarity.sampling.samples import Observations, Trajectories
from rl_clarity.stages.assembly import assemble
from rl_clarity.stages.given import agent_key, as_observations, as_trajectories, samples_key
from rl_clarity.stages.output import Output, open_output
from rl_clarity.stages.plan import check_options, plan_page
from rl_clarity.stages.provenance import describe
from rl_clarity.stages.samples import SamplingPlan, Source, open_source, samples_of
from rl_clarity.stages.tasks import Explanation, attribution_tasks, first_tasks


def run(
    checkpoint_path: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    load_kwargs: Mapping[str, Any] | LoadOptions | None = None,
    trajectories_kwargs: Mapping[str, Any] | TrajectoriesOptions | None = None,
    observations_kwargs: Mapping[str, Any] | ObservationsOptions | None = None,
    trajectories: Trajectories | Mapping[str, Any] | None = None,
    observations: Observations | np.ndarray | None = None,
    observations_full: np.ndarray | None = None,
    **options: Any,
) -> Page:
    """Let the agent in a checkpoint play, explain what it did, and write a page into `output_dir`.

    Parameters
    ----------
    checkpoint_path: a file of any supported format, or the name of a shipped agent (`models:coinrun`)
    output_dir: holds `interface.html` and its data afterwards; a directory, or an address such as `s3://bucket/page`
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
    ranks = communicator()
    path = resolve(checkpoint_path)
    if trajectories is not None or observations is not None:
        if trajectories is None or observations is None:
            raise OptionError("trajectories and observations are given both as arrays, or neither")
        agent = checkpoints.load_agent(path, **load.metadata)
        return generate(agent, trajectories, observations, output_dir, observations_full=observations_full, **options)
    with _failing_together(ranks), open_source(path, load, plan, ranks, chosen.env_name) as source:
        check_options(source.agent, chosen)
        read = [source.checkpoint.sha256, source.checkpoint.metadata]
        made_from = [*read, source.trajectories_key, source.observations_key]
        output = open_output(output_dir, chosen, made_from, ranks)
        if not output.finished:
            with _alone_in(output, ranks), samples_of(source, ranks) as samples:
                metadata = {"network": source.checkpoint.network, **source.checkpoint.metadata, **samples.metadata}
                _explain(output, source.agent, samples.trajectories, samples.observations, metadata, source, ranks)
        return _finished(output, ranks)


def generate(
    agent: Agent,
    trajectories: Trajectories | Mapping[str, Any],
    observations: Observations | np.ndarray,
    output_dir: str | os.PathLike[str],
    *,
    observations_full: np.ndarray | None = None,
    observations_kwargs: Any = None,
    **options: Any,
) -> Page:
    """Explain what an agent did, from samples given as arrays, and write a page into `output_dir`.

    Parameters
    ----------
    agent: anything that satisfies the protocol `rl_clarity.Agent`
    trajectories: `observations` (N, T, H, W, C) uint8, `actions` and `rewards` (N, T), `firsts` or `dones` (N, T), and
        maybe `observations_full` (N, T, H', W', 3); or what `collect_trajectories` gave
    observations: (M, H, W, C) uint8, varied, on which features are found
    observations_full: (M, H', W', 3) uint8, to show in their place
    observations_kwargs: ignored, so that `**ORIGINAL` can be passed here too
    options: see `InterfaceOptions`
    """
    chosen = parse(InterfaceOptions, options)
    import_keras()
    ranks = communicator()
    with _failing_together(ranks):
        check_options(agent, chosen)
        played = as_trajectories(agent, trajectories)
        varied = as_observations(agent, observations, observations_full)
        made_from = [agent_key(agent, played), samples_key(played), samples_key(varied)]
        output = open_output(output_dir, chosen, made_from, ranks)
        if not output.finished:
            with _alone_in(output, ranks):
                _explain(output, agent, played, varied, agent.metadata, None, ranks)
        return _finished(output, ranks)


def _explain(
    output: Output,
    agent: Agent,
    trajectories: Trajectories,
    observations: Observations,
    metadata: Mapping[str, Any],
    source: Source | None,
    ranks: Communicator,
) -> None:
    """Plan the page, do its tasks, put it together."""
    plan = plan_page(agent, trajectories, observations, output.options, metadata)
    files = PageFiles(output.data, plan.layout)
    job = Explanation(files, agent, plan, trajectories, observations, output.key, available_memory())
    if ranks.rank == 0:
        output.begin()
    store = WorkStore(output.data)
    with progress_bar("Features and frames", shown=ranks.rank == 0) as report:
        facts = run_tasks(first_tasks(job), store, ranks, report)
    with progress_bar("Attribution", shown=ranks.rank == 0) as report:
        facts |= run_tasks(attribution_tasks(job), store, ranks, report)
    if ranks.rank == 0:
        with progress_bar("Page"):
            page_id = output.page_id([action.combo for action in plan.actions])
            provenance = describe(plan, source, metadata)
            manifest = assemble(files, plan, trajectories, observations, job.advantages, facts, provenance, page_id)
            output.write(manifest, facts)
    ranks.barrier()


def _finished(output: Output, ranks: Communicator) -> Page:
    if ranks.rank == 0:
        output.remove_parts()
    return output.page()


def _alone_in(output: Output, ranks: Communicator) -> Any:
    return locked(output.directory.location) if ranks.rank == 0 else nullcontext()


@contextmanager
def _failing_together(ranks: Communicator) -> Iterator[None]:
    """An error on one rank ends the job on all: the others would wait for it for ever."""
    try:
        yield
    except BaseException as error:
        ranks.fail(error, "the job")
        raise
