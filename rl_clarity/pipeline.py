"""From a checkpoint to a page: the whole way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.distributed import Communicator, WorkStore, communicator, locked, run_tasks
from rl_clarity.interface.notebook import Page
from rl_clarity.interface.page import write_page
from rl_clarity.interface.page_files import PageFiles
from rl_clarity.models import resolve
from rl_clarity.options import InterfaceOptions, LoadOptions, ObservationsOptions, TrajectoriesOptions, parse
from rl_clarity.progress import progress_bar
from rl_clarity.quiet import import_keras
from rl_clarity.sampling.samples import Observations, Trajectories
from rl_clarity.stages.assembly import assemble
from rl_clarity.stages.given import as_observations, as_trajectories
from rl_clarity.stages.output import Output, open_output
from rl_clarity.stages.plan import plan_page
from rl_clarity.stages.provenance import agent_key, describe, samples_key
from rl_clarity.stages.samples import SamplingPlan, Source, open_source, samples_of
from rl_clarity.stages.tasks import Explanation, attribution_tasks, first_tasks


def run(
    checkpoint_path: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    load_kwargs: Mapping[str, Any] | LoadOptions | None = None,
    trajectories_kwargs: Mapping[str, Any] | TrajectoriesOptions | None = None,
    observations_kwargs: Mapping[str, Any] | ObservationsOptions | None = None,
    **options: Any,
) -> Page:
    """Let the agent in a checkpoint play, explain what it did, and write a page into `output_dir`.

    Parameters
    ----------
    checkpoint_path: a file of any supported format, or the name of a shipped agent (`models:coinrun`)
    output_dir: holds `interface.html` and its data afterwards; a directory, or an address such as `s3://bucket/page`
    load_kwargs: see `LoadOptions`; where samples are kept and whether they are made anew
    trajectories_kwargs, observations_kwargs: how much the agent plays
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
    with _failing_together(ranks):
        source = open_source(resolve(checkpoint_path), load, plan, ranks)
        output = open_output(output_dir, chosen, [source.checkpoint.sha256, source.key], ranks)
        if not output.finished:
            with _alone_in(output, ranks), samples_of(source, ranks) as samples:
                metadata = {**source.checkpoint.metadata, **samples.metadata}
                _explain(output, source.agent, samples.trajectories, samples.observations, metadata, source, ranks)
        return output.page()


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
        played = as_trajectories(agent, trajectories)
        varied = as_observations(agent, observations, observations_full)
        output = open_output(output_dir, chosen, [agent_key(agent, played), samples_key(played, varied)], ranks)
        if not output.finished:
            with _alone_in(output, ranks):
                _explain(output, agent, played, varied, agent.metadata, None, ranks)
        return output.page()


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
    job = Explanation(files, agent, plan, trajectories, observations, output.key)
    store = WorkStore(output.data)
    with progress_bar("Features and frames", shown=ranks.rank == 0) as report:
        facts = run_tasks(first_tasks(job), store, ranks, report)
    with progress_bar("Attribution", shown=ranks.rank == 0) as report:
        facts |= run_tasks(attribution_tasks(job), store, ranks, report)
    if ranks.rank == 0:
        with progress_bar("Page"):
            manifest = assemble(
                files, plan, trajectories, observations, job.advantages, facts, describe(plan, source), output.page_id
            )
            write_page(
                output.directory,
                manifest.to_dict(),
                inline_js=plan.options.inline_js,
                single_file=output.single_file,
                data=output.data,
            )
            output.clean()
    ranks.barrier()


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
