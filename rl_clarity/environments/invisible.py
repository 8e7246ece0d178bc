"""Let an agent play without seeing objects of some types. The environment contains these objects, but observations do
not show them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from contextlib import closing

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.environments.kinds import EnvironmentSpec, make, make_world
from rl_clarity.environments.protocol import Step, VectorEnvironment
from rl_clarity.environments.worlds import World
from rl_clarity.environments.wrappers import Wrapper


class Invisible(Wrapper):
    """Removes all objects of the given types from each observation. The states of the environment, the rewards and the
    ends of episodes do not change.
    """

    def __init__(self, environment: VectorEnvironment, world: World, types: Collection[str]) -> None:
        super().__init__(environment)
        self._world, self._types = world, frozenset(types)

    def reset(self) -> Step:
        return self._without_objects(self.environment.reset())

    def step(self, actions: np.ndarray) -> Step:
        return self._without_objects(self.environment.step(actions))

    def _without_objects(self, step: Step) -> Step:
        edited = {}
        for i, state in enumerate(self._world.states(self.environment)):
            objects = [item for item in self._world.objects(state, terrain=False) if item.type in self._types]
            if objects:
                edited[i] = self._world.without(state, objects)
        if not edited:
            return step
        observations = step.observations.copy()
        observations[[*edited]] = self._world.draw([*edited.values()])
        return dataclasses.replace(step, observations=observations)


def check_types(spec: EnvironmentSpec, types: Collection[str], option: str) -> None:
    """Raise OptionError for types that cannot be made invisible, and WorldError for an environment without a world."""
    with closing(make_world(spec)) as world, closing(make(spec, 1, 0)) as environment:
        environment.reset()
        terrain = {item.type for state in world.states(environment) for item in world.objects(state) if item.terrain}
        known = [name for name in world.types if name not in terrain]
        unknown = [name for name in types if name not in known]
        if unknown:
            raise OptionError(
                f"{option}={unknown} is not available: {spec.name} has objects of the types {', '.join(known)}"
            )
