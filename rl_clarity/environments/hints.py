"""Paint hints into observations, to test whether saliency maps find them. The hints are bars that show an expert's
action.

An agent that was trained with the expert's hints can ignore the rest of the frame. If a saliency method explains the
agent, its maps highlight the hints. For an agent that was trained with random hints, the maps should not highlight
them. This is the overfitting test of Visualizing and Understanding Atari Agents (Greydanus, Koul, Dodge and Fern, 2018;
arXiv 1711.00138).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.protocol import Step, VectorEnvironment
from rl_clarity.environments.wrappers import Wrapper, generator_state, restore_generator

BRIGHT, DIM = 255, 64
HEIGHT_SHARE = 1 / 16
"""Height of the bars as a share of the observation's height."""

Expert = Callable[[np.ndarray], np.ndarray]
"""A function from observations (N, H, W, C) without hints to actions (N,)."""


class ActionHints(Wrapper):
    """Paints a bar for each action at the top of the observation. The bright bar is the expert's action.

    Attributes:
        region: (H, W) bool, true for the pixels of the bars
        expert_actions: (N,) the expert's actions for the current observations, which can be used to train or evaluate
            an agent
    """

    def __init__(self, environment: VectorEnvironment, expert: Expert, *, random: bool = False, seed: int = 0) -> None:
        """Wrap an environment.

        Args:
            environment: an environment of any kind, in which frames are not stacked yet. Bars are painted into all
                channels
            expert: a function from observations without hints (N, H, W, C) uint8 to actions (N,)
            random: brighten the bar of a random action, which carries no information
            seed: seed of the random actions

        Raises EnvironmentSetupError for observations that are narrower than the number of actions.
        """
        super().__init__(environment)
        height, width, _ = self.observation_shape
        if width < self.num_actions:
            raise EnvironmentSetupError(f"observations of {width} columns are too narrow for {self.num_actions} hints")
        self._expert, self._random = expert, random
        self._rng = np.random.default_rng([seed % 2**63, 0x68696E74])
        self._rows, self._columns = max(1, round(height * HEIGHT_SHARE)), width // self.num_actions
        self.region = np.zeros((height, width), bool)
        self.region[: self._rows, : self.num_actions * self._columns] = True
        self.expert_actions = np.zeros(self.num_envs, np.int64)

    def reset(self) -> Step:
        return self._with_hints(self.environment.reset())

    def step(self, actions: np.ndarray) -> Step:
        return self._with_hints(self.environment.step(actions))

    def _with_hints(self, step: Step) -> Step:
        self.expert_actions = self._actions(step.observations)
        final = {
            i: self._painted(final_observation[None], self._actions(final_observation[None]))[0]
            for i, final_observation in step.final_observations.items()
        }
        observations = self._painted(step.observations, self.expert_actions)
        return dataclasses.replace(step, observations=observations, final_observations=final)

    def _actions(self, observations: np.ndarray) -> np.ndarray:
        actions = np.asarray(self._expert(observations))
        if actions.shape != (len(observations),) or not np.isin(actions, np.arange(self.num_actions)).all():
            raise EnvironmentSetupError(
                f"the expert returned {actions!r}; for {len(observations)} observations, it must return as many "
                f"actions, each from 0 to {self.num_actions - 1}"
            )
        return actions.astype(np.int64)

    def _painted(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return observations (N, H, W, C) with a bar per action. The bright bar shows `actions`, or random actions."""
        if self._random:
            actions = self._rng.integers(self.num_actions, size=len(actions))
        painted = observations.copy()
        painted[:, self.region] = DIM
        for image, action in zip(painted, actions, strict=True):
            image[: self._rows, action * self._columns : (action + 1) * self._columns] = BRIGHT
        return painted

    def _state(self) -> dict[str, np.ndarray]:
        return {"rng": generator_state(self._rng), "expert_actions": self.expert_actions}

    def _restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore_generator(self._rng, state["rng"])
        self.expert_actions = np.array(state["expert_actions"])
