"""The tasks that a page is made of: which there are, what each costs, and what decides its result."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution.quadrature import RULES
from rl_clarity.jobs import Task
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.recordings.advantages import advantages_of
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.stages.assembly import attribution_task, features_task, trajectory_task
from rl_clarity.stages.attribution import attribute_trajectory
from rl_clarity.stages.features import find_features
from rl_clarity.stages.plan import Plan, PlannedLayer
from rl_clarity.stages.provenance import options_as_data
from rl_clarity.stages.trajectories import write_trajectory

REDUCTION_OPTIONS = (
    "attr_quadrature",
    "batch_size",
    "nmf_attr_opts",
    "nmf_features",
    "nmf_fit_observations",
    "seed",
)
FEATURE_OPTIONS = (
    *REDUCTION_OPTIONS,
    "feature_images",
    "features_subdir",
    "optimized_features",
    "thumbnails_subdir",
    "vis_subdiv_mults",
    "vis_thumbnail_expand_mult",
    "vis_thumbnail_num_mult",
)
ATTRIBUTION_OPTIONS = (
    *REDUCTION_OPTIONS,
    "attr_images",
    "attr_integrate_steps",
    "attr_max_paths",
    "attribution_scrub_subdir",
    "attribution_subdir",
    "attribution_totals_subdir",
)
TRAJECTORY_OPTIONS = ("scrub_range", "trajectories_scrub_subdir", "trajectories_subdir")


@dataclass(frozen=True)
class Explanation:
    """Everything that tasks work with."""

    files: PageFiles
    agent: Agent
    plan: Plan
    trajectories: Trajectories
    observations: Observations
    key: str
    """Stands for agent, samples and code."""
    memory: int
    """Bytes that a task may take."""

    @functools.cached_property
    def advantages(self) -> np.ndarray:
        """(N, T)."""
        return advantages_of(self.trajectories, self.plan.gamma, self.plan.lam)


def first_tasks(job: Explanation) -> list[Task]:
    """Features of each layer and frames of each trajectory: they depend on nothing but the samples."""
    tasks = []
    for layer in job.plan.layers:
        if not layer.is_input:
            work = functools.partial(find_features, job.files, job.agent, job.plan, layer, job.observations, job.memory)
            zooms = job.plan.options.vis_expand_mults if job.plan.options.feature_images else None
            inputs = _inputs(job, FEATURE_OPTIONS, asdict(layer), zooms)
            cost = _cost(layer, len(job.observations.observations))
            tasks.append(Task(features_task(layer), work, inputs, cost))
    count, steps = job.trajectories.actions.shape
    for trajectory in range(count):
        work = functools.partial(write_trajectory, job.files, job.plan, job.trajectories, job.advantages, trajectory)
        groups = [group.actions for group in job.plan.groups]
        inputs = _inputs(job, TRAJECTORY_OPTIONS, trajectory, job.plan.gamma, job.plan.lam, groups)
        tasks.append(Task(trajectory_task(trajectory), work, inputs, cost=10 * steps))
    return tasks


def attribution_tasks(job: Explanation) -> list[Task]:
    """Attribution of each trajectory to each layer: it needs the layer's reduction."""
    count, steps = job.trajectories.actions.shape
    strips = job.plan.options.scrub_range if job.plan.options.attr_images else None
    tasks = []
    for layer in job.plan.layers:
        for trajectory in range(count):
            work = functools.partial(
                attribute_trajectory,
                job.files,
                job.agent,
                job.plan,
                layer,
                job.trajectories,
                trajectory,
                job.memory,
            )
            inputs = _inputs(job, ATTRIBUTION_OPTIONS, asdict(layer), trajectory, _outputs(job.plan), strips)
            cost = _cost(layer, steps) * len(job.plan.outputs)
            tasks.append(Task(attribution_task(layer, trajectory), work, inputs, cost))
    return tasks


def _inputs(job: Explanation, options: Sequence[str], *more: Any) -> Any:
    """What decides a task's result: agent, samples and code, what an observation is, these options, and more."""
    chosen = options_as_data(job.plan.options)
    rule = RULES.source(job.plan.options.attr_quadrature)  # of a custom rule, which the key of the code does not cover
    return [job.key, asdict(job.plan.observation), {name: chosen[name] for name in options}, rule, more]


def _outputs(plan: Plan) -> list[Any]:
    """What is attributed: ids of outputs, and the actions of those that are groups."""
    return [(output.id, None if output.group is None else plan.groups[output.group].actions) for output in plan.outputs]


def _cost(layer: PlannedLayer, frames: int) -> float:
    height, width, depth = layer.shape
    return frames * (300 + height * width * depth / 64)
