"""Preview samples: a few frames suffice to plan a page and to measure its cost before all samples are collected."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.base.keys import JsonObject
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.recordings.blocks import MAX_STEPS, encode_block
from rl_clarity.recordings.options import ObservationsOptions
from rl_clarity.recordings.rollouts import Player, collect_observations, collect_trajectories
from rl_clarity.recordings.samples import Observations, SamplesT, Trajectories, from_arrays, to_arrays
from rl_clarity.recordings.world_states import WorldStatesWriter

MAX_FRAMES = 64
MIN_STEPS = 4


@dataclass(frozen=True)
class Preview:
    """A few of the samples, and the number of all samples."""

    trajectories: Trajectories  # (1, at most 64)
    observations: Observations  # at most 64
    count: int
    """Number of trajectories."""
    steps: int
    """Number of steps of each trajectory."""
    observation_count: int
    metadata: Mapping[str, Any]
    seconds: float = 0.0
    """Estimated time in seconds to collect the samples, or 0 if they exist."""
    sample_bytes: int = 0
    """Estimated size of the samples on disk in bytes, or 0 if they exist."""
    shared: bool = False
    """Whether the ranks share the collection of all agents' samples."""

    def whole(self) -> tuple[Trajectories, Observations]:
        """Return samples with the shapes of all samples. They use almost no memory, because every step is a view of the
        first one.
        """
        trajectories = {
            name: np.broadcast_to(array[:, :1], (self.count, self.steps, *array.shape[2:]))
            for name, array in to_arrays(self.trajectories).items()
        }
        observations = {
            name: np.broadcast_to(array[:1], (self.observation_count, *array.shape[1:]))
            for name, array in to_arrays(self.observations).items()
        }
        played = dataclasses.replace(
            from_arrays(Trajectories, trajectories), world_states=self.trajectories.world_states
        )
        return played, from_arrays(Observations, observations)


def preview_samples(trajectories: Trajectories, observations: Observations, metadata: JsonObject) -> Preview:
    """Preview existing samples."""
    count, steps = trajectories.rewards.shape
    num_observations = len(observations.observations)
    return Preview(
        _map(trajectories, lambda array: np.asarray(array[:1, :MAX_FRAMES])),
        _map(observations, lambda array: np.asarray(array[_spread(num_observations, MAX_FRAMES)])),
        count,
        steps,
        num_observations,
        metadata,
    )


def preview_play(
    agent: Player,
    spec: EnvironmentSpec,
    num_envs: int,
    num_steps: int,
    seed: int,
    *,
    full_resolution: bool,
    world_states: bool = False,
) -> Preview:
    """Preview `num_steps` steps of each environment by collecting a few of them, without extra observations.

    With `world_states`, the states of the environment are also saved.
    """
    rng = np.random.default_rng(seed)
    # Use the final number of environments, because it determines the time of a step.
    stopwatch = _Stopwatch()
    environment = make(spec, num_envs, seed, full_resolution=full_resolution)
    try:
        combos = [list(combo) for combo in environment.action_combos]
        steps = min(num_steps, max(MIN_STEPS, -(-MAX_FRAMES // num_envs)))
        states = None if not world_states else WorldStatesWriter(spec, num_envs)
        trajectories = collect_trajectories(
            agent, environment, steps, rng, full_resolution=full_resolution, progress=stopwatch, states=states
        )
    finally:
        environment.close()
    one_trajectory = _map(trajectories, lambda array: array.reshape(1, -1, *array.shape[2:])[:, :MAX_FRAMES])
    state_bytes = 0
    if trajectories.world_states is not None:
        one_trajectory = dataclasses.replace(one_trajectory, world_states=trajectories.world_states.joined(steps))
        state_bytes = trajectories.world_states.data.nbytes * num_steps // steps
    return Preview(
        one_trajectory,
        Observations(one_trajectory.observations[0, :0]),
        num_envs,
        num_steps,
        0,
        {"action_combos": combos},
        stopwatch.step * num_steps,
        num_envs * num_steps * _item_bytes(one_trajectory, 2) + state_bytes,
    )


def add_observations(
    played: Preview,
    agent: Player,
    spec: EnvironmentSpec,
    options: ObservationsOptions,
    seed: int,
    full_resolution: bool,
) -> Preview:
    """Collect a few extra observations, and return the preview with them."""
    start = time.perf_counter()
    environment = make(spec, options.num_envs, seed + played.count, full_resolution=full_resolution)
    # environments are made twice, because the first time includes the import of packages
    seconds = 2 * (time.perf_counter() - start)
    rng, stopwatch = np.random.default_rng(seed), _Stopwatch()
    try:
        observations = collect_observations(
            agent, environment, MIN_STEPS, 1, rng, full_resolution=full_resolution, progress=stopwatch
        )
    finally:
        environment.close()
    count = options.num_envs * options.num_obs
    chosen = _spread(len(observations.observations), min(MAX_FRAMES, count))
    return dataclasses.replace(
        played,
        observations=_map(observations, lambda array: array[chosen]),
        observation_count=count,
        seconds=played.seconds + seconds + stopwatch.step * options.num_obs * options.obs_every,
        sample_bytes=played.sample_bytes + count * _item_bytes(observations, 1),
    )


def recorded_step_bytes(trajectories: Trajectories) -> float:
    """Return the size in bytes of a step in a recording, measured on a block of the first steps."""
    arrays = {name: np.asarray(array[0, :MAX_STEPS]) for name, array in to_arrays(trajectories).items()}
    header, data = encode_block(0, 0, arrays, {})
    return (len(header) + len(data)) / len(arrays["actions"])


class _Stopwatch:
    """A progress callback that measures the median time of a step, without the first step, which includes
    compilation.
    """

    def __init__(self) -> None:
        self._times = [time.perf_counter()]

    def __call__(self, done: int, total: int) -> None:
        self._times.append(time.perf_counter())

    @property
    def step(self) -> float:
        return float(np.median(np.diff(self._times)[1:] if len(self._times) > 2 else np.diff(self._times)))


def _spread(count: int, most: int) -> np.ndarray:
    return np.linspace(0, count - 1, min(most, count)).astype(int)


def _map(samples: SamplesT, function: Callable[[np.ndarray], np.ndarray]) -> SamplesT:
    """Apply a function to all arrays."""
    mapped = from_arrays(type(samples), {name: function(array) for name, array in to_arrays(samples).items()})
    changes: Any = {name: value for name, value in vars(mapped).items() if value is not None}
    return dataclasses.replace(samples, **changes)


def _item_bytes(samples: Trajectories | Observations, axes: int) -> int:
    """Return the size in bytes of one item of all arrays together. Items are indexed by the first `axes` axes."""
    return sum(
        int(np.prod(array.shape[axes:], dtype=np.int64)) * array.itemsize for array in to_arrays(samples).values()
    )
