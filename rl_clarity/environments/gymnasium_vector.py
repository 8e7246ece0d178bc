"""Gymnasium vector environments in any autoreset mode (https://farama.org/Vector-Autoreset-Mode).

In `SAME_STEP` mode an environment resets within the step that ends an episode, as in the protocol. In `DISABLED` mode
this module resets it. In `NEXT_STEP` mode it resets in the step after the last step of an episode, and ignores the
action. This step is marked `Step.idle`, and is not recorded.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.environments.gymnasium_ import action_combos, environment_seeds, no_masks, prepare_rendering, to_rewards
from rl_clarity.environments.images import image_layout, rows
from rl_clarity.environments.protocol import Step

MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")


class GymnasiumVectorEnvironment:
    """A Gymnasium vector environment, whose observations are converted like those of `GymnasiumEnvironment`."""

    def __init__(
        self,
        environment: gymnasium.vector.VectorEnv[Any, Any, Any],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
        action_masks: bool = False,
    ) -> None:
        self._mode = _autoreset_mode(environment)
        self.idles = self._mode == "NEXT_STEP"
        self._environment = environment
        self.layout = image_layout(
            environment.single_observation_space, channels_first=channels_first, value_range=value_range
        )
        self._actions = ActionSpace(environment.single_action_space)
        self.num_actions, self.action_factors = self._actions.num_actions, self._actions.factors
        self._masked, self._full_resolution = action_masks, full_resolution
        if full_resolution:
            prepare_rendering()
        self.num_envs = environment.num_envs
        self._seeds: list[int] | None = environment_seeds(seed, self.num_envs)
        self._pending = np.zeros(self.num_envs, bool)  # environments that reset in the next step
        self.observation_shape = self.layout.shape
        first = (getattr(environment.unwrapped, "envs", None) or [None])[0]
        self.action_combos = action_combos(first, self.num_actions) if is_single_choice(self.action_factors) else ()

    def reset(self) -> Step:
        observations, _ = self._environment.reset(seed=self._seeds)  # type: ignore[arg-type]  # one seed per environment
        self._seeds = None
        self._pending = np.zeros(self.num_envs, bool)
        nothing = np.zeros(self.num_envs, np.float32)
        ones, zeros = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return Step(
            self._converted(observations),
            *(nothing, ones, zeros),
            action_masks=self._action_masks(),
            held_inputs=self.layout.held_inputs(observations),
        )

    def step(self, actions: np.ndarray) -> Step:
        observations, rewards, terminated, truncated, infos = self._environment.step(self._actions.convert(actions))
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        rewards = to_rewards(rewards)
        ended, cut = terminated | truncated, truncated & ~terminated
        if self._mode == "NEXT_STEP":
            idle, self._pending = self._pending, ended
            shown, held = self._converted(observations), self.layout.held_inputs(observations)
            final = {int(i): shown[i] for i in np.flatnonzero(ended)}  # last observations of episodes that ended
            final_held = {i: {name: array[i] for name, array in held.items()} for i in final}
            idle_now = idle if idle.any() else None
            return Step(
                *(shown, rewards, ended | idle, cut, final),
                idle=idle_now,
                action_masks=self._action_masks(),
                held_inputs=held,
                final_held_inputs=final_held,
            )
        last = infos.get("final_obs")
        if self._mode == "DISABLED" and ended.any():
            last = [copy.deepcopy(row) for row in rows(observations, self.num_envs)]
            observations, _ = self._environment.reset(options={"reset_mask": ended})
        final, final_held = {}, {}
        if last is not None:
            for i in np.flatnonzero(ended).tolist():
                final[i], final_held[i] = self.layout.last(last[i])
        return Step(
            *(self._converted(observations), rewards, ended, cut, final),
            action_masks=self._action_masks(),
            held_inputs=self.layout.held_inputs(observations),
            final_held_inputs=final_held,
        )

    def render(self) -> np.ndarray:
        """Return images (N, H', W', 3) uint8 of the current states, as the environments render them."""
        frames = self._environment.render() if self._full_resolution else None
        if frames is None:
            raise EnvironmentSetupError("make the vector environment with render_mode='rgb_array' to render it")
        return np.stack(frames)

    def close(self) -> None:
        self._environment.close()

    def _action_masks(self) -> np.ndarray | None:
        if not self._masked:
            return None
        try:
            masks = self._environment.call("action_masks")  # type: ignore[attr-defined]  # of SyncVectorEnv and others
        except AttributeError as error:
            raise no_masks(self._environment) from error
        # Environments that reset in the next step ignore the action.
        pairs = zip(masks, self._pending, strict=True)
        return self._actions.masks([np.ones_like(mask) if pending else mask for mask, pending in pairs])

    def _converted(self, observations: Any) -> np.ndarray:
        # Copy, because some environments reuse their array.
        return np.array(self.layout.convert(observations))


def _autoreset_mode(environment: gymnasium.vector.VectorEnv[Any, Any, Any]) -> str:
    """Return the name of the environment's autoreset mode. Raises EnvironmentSetupError if its metadata do not contain
    it.
    """
    mode = environment.metadata.get("autoreset_mode")
    name = str(getattr(mode, "name", mode))
    if name not in MODES:
        raise EnvironmentSetupError(
            f"the vector environment does not declare when it resets (metadata['autoreset_mode'] is {mode!r}): set "
            "environment.metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode "
            f"({', '.join(MODES)})"
        )
    return name
