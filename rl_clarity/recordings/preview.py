"""A few steps of an agent at play: enough to plan a page and to measure what it will cost, before all is played."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.recordings.named_arrays import from_arrays, to_arrays
from rl_clarity.recordings.rollouts import collect_observations, collect_trajectories
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.source import SamplingPlan, Source
from rl_clarity.recordings.storage import load_metadata, load_observations, load_trajectories

FRAMES = 64
"""Frames, and observations, of a preview, at most."""
STEPS = 4
"""Played of each kind, at least."""


@dataclass(frozen=True)
class Preview:
    """A little of the samples, and how much there will be of them."""

    trajectories: Trajectories  # (1, at most 64)
    observations: Observations  # at most 64
    count: int
    steps: int
    observation_count: int
    metadata: Mapping[str, Any]
    seconds: float = 0.0
    """That playing will take; 0 if the samples are there."""
    sample_bytes: int = 0
    """That the samples will take on disk; 0 if they are there."""

    def whole(self) -> tuple[Trajectories, Observations]:
        """Samples of the shapes they will have, taking no memory: each step is the first one."""
        arrays = {
            name: np.broadcast_to(array[:, :1], (self.count, self.steps, *array.shape[2:]))
            for name, array in to_arrays(self.trajectories).items()
        }
        varied = {
            name: np.broadcast_to(array[:1], (self.observation_count, *array.shape[1:]))
            for name, array in to_arrays(self.observations).items()
        }
        return from_arrays(Trajectories, arrays), from_arrays(Observations, varied)


def preview_of(trajectories: Trajectories, observations: Observations, metadata: Mapping[str, Any]) -> Preview:
    """Of samples that are there."""
    count, steps = trajectories.actions.shape
    found = len(observations.observations)
    return Preview(
        _cut(trajectories, lambda array: np.asarray(array[:1, :FRAMES])),
        _cut(observations, lambda array: np.asarray(array[np.linspace(0, found - 1, min(found, FRAMES)).astype(int)])),
        count,
        steps,
        found,
        metadata,
    )


def preview_source(source: Source) -> Preview:
    """Of a checkpoint's samples, or of a few steps if they are still to be made."""
    metadata = {"network": source.checkpoint.network, **source.checkpoint.metadata}
    if source.spec is None or source.samples_are_there:
        kept = load_metadata(source.paths.metadata)
        paths = source.paths
        return preview_of(
            load_trajectories(paths.trajectories), load_observations(paths.observations), {**metadata, **kept}
        )
    return _play(source.agent, source.spec, source.plan, metadata)


def _play(agent: Agent, spec: EnvironmentSpec, plan: SamplingPlan, metadata: Mapping[str, Any]) -> Preview:
    played, varied = plan.trajectories, plan.observations
    rng = np.random.default_rng(plan.seed)
    # Each kind in the number of environments it will have, since that decides what a step costs.
    with_envs = _Stopwatch()
    environment = make(spec, played.num_envs, plan.seed, full_resolution=plan.full_resolution)
    try:
        combos = [list(combo) for combo in environment.action_combos]
        steps = min(played.num_steps, max(STEPS, -(-FRAMES // played.num_envs)))
        found = collect_trajectories(
            agent, environment, steps, rng, full_resolution=plan.full_resolution, progress=with_envs
        )
    finally:
        environment.close()
    seconds = with_envs.step * played.num_steps
    start = time.perf_counter()
    environment = make(spec, varied.num_envs, plan.seed + played.num_envs, full_resolution=plan.full_resolution)
    seconds += 2 * (time.perf_counter() - start)  # each kind has its environments; the first ones also import
    with_envs = _Stopwatch()
    try:
        extra = collect_observations(
            agent, environment, STEPS, 1, rng, full_resolution=plan.full_resolution, progress=with_envs
        )
    finally:
        environment.close()
    seconds += with_envs.step * varied.num_obs * varied.obs_every
    frames, observation_count = played.num_envs * played.num_steps, varied.num_envs * varied.num_obs
    in_a_row = _cut(found, lambda array: array.reshape(1, -1, *array.shape[2:])[:, :FRAMES])
    kept = min(FRAMES, observation_count)
    size = frames * _bytes_each(in_a_row, 2) + observation_count * _bytes_each(extra, 1)
    return Preview(
        in_a_row,
        _cut(extra, lambda array: array[np.linspace(0, len(array) - 1, min(kept, len(array))).astype(int)]),
        played.num_envs,
        played.num_steps,
        observation_count,
        {**metadata, "action_combos": combos},
        seconds,
        size,
    )


class _Stopwatch:
    """Seconds of a step: the shortest of those that were reported, as the first ones also compile and set up."""

    def __init__(self) -> None:
        self._times = [time.perf_counter()]

    def __call__(self, done: int, total: int) -> None:
        self._times.append(time.perf_counter())

    @property
    def step(self) -> float:
        return float(np.median(np.diff(self._times)[1:] if len(self._times) > 2 else np.diff(self._times)))


def _cut(samples: Any, chosen: Callable[[np.ndarray], np.ndarray]) -> Any:
    arrays = {name: chosen(array) for name, array in to_arrays(samples).items()}
    return dataclasses.replace(samples, **_fields(from_arrays(type(samples), arrays)))


def _fields(samples: Any) -> dict[str, Any]:
    """Those that hold arrays, or tuples of them."""
    values = {field.name: getattr(samples, field.name) for field in dataclasses.fields(samples)}
    return {name: value for name, value in values.items() if value is not None}


def _bytes_each(samples: Any, axes: int) -> int:
    """Bytes of a step, or of an observation: of arrays less their first axes."""
    return sum(
        int(np.prod(array.shape[axes:], dtype=np.int64)) * array.itemsize for array in to_arrays(samples).values()
    )
