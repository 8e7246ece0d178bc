"""Gymnasium vector environments in any autoreset mode (https://farama.org/Vector-Autoreset-Mode).

In `SAME_STEP` mode an environment resets within the step that ends an episode, as in the protocol. In `DISABLED` mode
this module resets it. In `NEXT_STEP` mode it resets in the step after the last one and ignores that step's action; the
step is marked `Step.idle` and is not recorded.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.gymnasium_ import action_combos, discrete_actions, environment_seeds, to_rewards
from rl_clarity.environments.images import image_layout
from rl_clarity.environments.protocol import Step

MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")


class GymnasiumVectorEnvironment:
    """A vector environment with image observations of any layout and discrete actions."""

    def __init__(
        self,
        environment: gymnasium.vector.VectorEnv[Any, Any, Any],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        self._mode = _autoreset_mode(environment)
        self.idles = self._mode == "NEXT_STEP"
        self._environment = environment
        self.layout = image_layout(
            environment.single_observation_space, channels_first=channels_first, value_range=value_range
        )
        self._first_action, self.num_actions = discrete_actions(environment.single_action_space)
        self._full_resolution = full_resolution
        self.num_envs = environment.num_envs
        self._seeds: list[int] | None = environment_seeds(seed, self.num_envs)
        self._pending = np.zeros(self.num_envs, bool)  # environments that reset in the next step
        self.observation_shape = self.layout.shape
        first = (getattr(environment.unwrapped, "envs", None) or [None])[0]
        self.action_combos = action_combos(first, self.num_actions)

    def reset(self) -> Step:
        observations, _ = self._environment.reset(seed=self._seeds)  # type: ignore[arg-type]  # one seed per environment
        self._seeds = None
        self._pending = np.zeros(self.num_envs, bool)
        nothing = np.zeros(self.num_envs, np.float32)
        ones, zeros = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return Step(self._converted(observations), nothing, ones, zeros)

    def step(self, actions: np.ndarray) -> Step:
        observations, rewards, terminated, truncated, infos = self._environment.step(
            self._first_action + np.asarray(actions)
        )
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        rewards = to_rewards(rewards)
        ended, cut = terminated | truncated, truncated & ~terminated
        if self._mode == "NEXT_STEP":
            idle, self._pending = self._pending, ended
            shown = self._converted(observations)  # last observations of episodes that ended
            final = {int(i): shown[i] for i in np.flatnonzero(ended)}
            return Step(shown, rewards, ended | idle, cut, final, idle=idle if idle.any() else None)
        last = infos.get("final_obs")
        if self._mode == "DISABLED" and ended.any():
            last = np.array(observations)
            observations, _ = self._environment.reset(options={"reset_mask": ended})
        final = {}
        if last is not None:
            final = {int(i): self._converted(np.asarray(last[i])[None])[0] for i in np.flatnonzero(ended)}
        return Step(self._converted(observations), rewards, ended, cut, final)

    def render(self) -> np.ndarray:
        """Return images (N, H', W', 3) uint8 of the current states, as the environments render them."""
        frames = self._environment.render() if self._full_resolution else None
        if frames is None:
            raise EnvironmentSetupError("make the vector environment with render_mode='rgb_array' to render it")
        return np.stack(frames)

    def close(self) -> None:
        self._environment.close()

    def _converted(self, observations: Any) -> np.ndarray:
        # Copy, because some environments reuse their array.
        return np.array(self.layout.convert(observations))


def _autoreset_mode(environment: gymnasium.vector.VectorEnv[Any, Any, Any]) -> str:
    """Return the name of the environment's autoreset mode."""
    mode = environment.metadata.get("autoreset_mode")
    name = str(getattr(mode, "name", mode))
    if name not in MODES:
        raise EnvironmentSetupError(
            f"the vector environment does not say when it resets (metadata['autoreset_mode'] is {mode!r}): set "
            "environment.metadata['autoreset_mode'] to one of gymnasium.vector.AutoresetMode, "
            f"{', '.join(MODES)}"
        )
    return name
