"""The tasks that a page is made of: which there are, what each costs, and what decides its result."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.distributed import Task
from rl_clarity.interface.page_files import PageFiles
from rl_clarity.options import DirectoryOptions
from rl_clarity.sampling.advantages import advantages_of
from rl_clarity.sampling.samples import Observations, Trajectories
from rl_clarity.stages.assembly import attribution_task, features_task, trajectory_task
from rl_clarity.stages.attribution import attribute_trajectory
from rl_clarity.stages.features import find_features
from rl_clarity.stages.plan import Plan, PlannedLayer
from rl_clarity.stages.trajectories import write_trajectory

FEATURE_OPTIONS = ("nmf_", "vis_", "optimized_features", "feature_images", "seed", "batch_size", "attr_quadrature")
ATTRIBUTION_OPTIONS = ("attr_", "nmf_", "seed", "scrub_range")
TRAJECTORY_OPTIONS = ("scrub_range",)


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

    @functools.cached_property
    def advantages(self) -> np.ndarray:
        """(N, T)."""
        return advantages_of(self.trajectories, self.plan.gamma, self.plan.lam)


def first_tasks(job: Explanation) -> list[Task]:
    """Features of each layer and frames of each trajectory: they depend on nothing but the samples."""
    tasks = []
    for layer in job.plan.layers:
        if not layer.is_input:
            work = functools.partial(find_features, job.files, job.agent, job.plan, layer, job.observations)
            inputs = _inputs(job, layer, FEATURE_OPTIONS)
            tasks.append(
                Task(features_task(layer), work, inputs, cost=_cost(layer, len(job.observations.observations)))
            )
    count, steps = job.trajectories.actions.shape
    for trajectory in range(count):
        work = functools.partial(write_trajectory, job.files, job.plan, job.trajectories, job.advantages, trajectory)
        inputs = _inputs(job, None, TRAJECTORY_OPTIONS, [trajectory, job.plan.gamma, job.plan.lam])
        tasks.append(Task(trajectory_task(trajectory), work, inputs, cost=10 * steps))
    return tasks


def attribution_tasks(job: Explanation) -> list[Task]:
    """Attribution of each trajectory to each layer: it needs the layer's reduction."""
    count, steps = job.trajectories.actions.shape
    tasks = []
    for layer in job.plan.layers:
        for trajectory in range(count):
            work = functools.partial(
                attribute_trajectory, job.files, job.agent, job.plan, layer, job.trajectories, trajectory
            )
            inputs = _inputs(job, layer, ATTRIBUTION_OPTIONS, trajectory)
            cost = _cost(layer, steps) * len(job.plan.outputs)
            tasks.append(Task(attribution_task(layer, trajectory), work, inputs, cost))
    return tasks


def _inputs(job: Explanation, layer: PlannedLayer | None, options: Sequence[str], more: Any = None) -> Any:
    """What decides a task's result: agent, samples and code, its part of the plan, options by (the start of) name."""
    plan = job.plan
    chosen = {
        field.name: getattr(plan.options, field.name)
        for field in fields(plan.options)
        if any(field.name.startswith(part) for part in options)
    }
    chosen["nmf_attr_opts"] = asdict(plan.options.nmf_attr_opts)
    directories = [getattr(plan.options, field.name) for field in fields(DirectoryOptions)]
    shared = [asdict(plan.observation), [asdict(group) for group in plan.groups], [o.id for o in plan.outputs]]
    return [job.key, None if layer is None else asdict(layer), chosen, directories, shared, more]


def _cost(layer: PlannedLayer, frames: int) -> float:
    height, width, depth = layer.shape
    return frames * (300 + height * width * depth / 64)
