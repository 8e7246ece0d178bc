"""Games that are played at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.environments import EnvironmentSpec, Step, VectorEnvironment, make
from rl_clarity.environments.kinds import make_world


def play(environment: VectorEnvironment, num_steps: int, seed: int = 0) -> list[Step]:
    """Play, close the environment, and return what it showed."""
    rng = np.random.default_rng(seed)
    steps = [environment.reset()]
    for _ in range(num_steps):
        steps.append(environment.step(rng.integers(environment.num_actions, size=environment.num_envs)))
    environment.close()
    return steps


def play_states(
    spec: EnvironmentSpec, num_envs: int, seed: int, steps: int, num_actions: int | None = None
) -> tuple[Any, list[bytes], np.ndarray]:
    """Play with the first `num_actions` actions. Return the world, the states of the environments, step by step, and
    their observations.
    """
    environment, world = make(spec, num_envs, seed), make_world(spec)
    rng, step = np.random.default_rng(0), environment.reset()
    states, observations = [], []
    for _ in range(steps):
        states += world.states(environment)
        observations.append(step.observations)
        step = environment.step(rng.integers(num_actions or environment.num_actions, size=num_envs))
    return world, states, np.concatenate(observations)
