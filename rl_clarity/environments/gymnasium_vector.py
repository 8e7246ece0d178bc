"""Gymnasium vector environments that the user made, whichever way they begin the next episode.

Gymnasium has three (https://farama.org/Vector-Autoreset-Mode). `SAME_STEP`: within the step that ends an episode, as
here. `DISABLED`: the caller resets, which is done here. `NEXT_STEP`: the step after the last one ignores its action and
gives the first observation; that step is marked `Step.idle`, and those who record leave it out.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rl_clarity.environments.gymnasium_ import action_combos_of, discrete_actions, seeds_of
from rl_clarity.environments.images import image_layout
from rl_clarity.environments.protocol import Step
from rl_clarity.errors import EnvironmentSetupError

MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")


class GymnasiumVectorEnvironment:
    """A vector environment by our protocol; its images in any layout, its actions discrete."""

    def __init__(
        self,
        environment: gymnasium.vector.VectorEnv[Any, Any, Any],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        self._mode = _mode_of(environment)
        self.idles = self._mode == "NEXT_STEP"
        self._environment = environment
        self._layout = image_layout(
            environment.single_observation_space, channels_first=channels_first, value_range=value_range
        )
        self._first_action, self.num_actions = discrete_actions(environment.single_action_space)
        self._full_resolution = full_resolution
        self.num_envs = environment.num_envs
        self._seeds: list[int] | None = seeds_of(seed, self.num_envs)
        self._pending = np.zeros(self.num_envs, bool)  # the next step only resets them
        self.observation_shape = self._layout.shape
        one = (getattr(environment.unwrapped, "envs", None) or [None])[0]
        self.action_combos = action_combos_of(one, self.num_actions)

    def reset(self) -> Step:
        observations, _ = self._environment.reset(seed=self._seeds)  # type: ignore[arg-type]  # one each is allowed
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
        rewards = np.array(rewards, np.float32)
        ended, cut = terminated | truncated, truncated & ~terminated
        if self._mode == "NEXT_STEP":
            idle, self._pending = self._pending, ended
            shown = self._converted(observations)  # of an episode that ended the last observation, not the next first
            final = {int(i): shown[i] for i in np.flatnonzero(cut)}
            return Step(shown, rewards, ended | idle, cut, final, idle=idle if idle.any() else None)
        last = infos.get("final_obs")
        if self._mode == "DISABLED" and ended.any():
            last = np.array(observations)
            observations, _ = self._environment.reset(options={"reset_mask": ended})
        final = {}
        if last is not None:
            final = {int(i): self._converted(np.asarray(last[i])[None])[0] for i in np.flatnonzero(cut)}
        return Step(self._converted(observations), rewards, ended, cut, final)

    def render(self) -> np.ndarray:
        """Pictures (N, H', W', 3) uint8 of what is observed now, as the environments render them."""
        frames = self._environment.render() if self._full_resolution else None
        if frames is None:
            raise EnvironmentSetupError("the vector environment was not made with render_mode='rgb_array'")
        return np.stack(frames)

    def close(self) -> None:
        self._environment.close()

    def _converted(self, observations: Any) -> np.ndarray:
        # A copy: some environments show everything in one array.
        return np.array(self._layout.convert(observations))


def _mode_of(environment: gymnasium.vector.VectorEnv[Any, Any, Any]) -> str:
    """Name of the way in which the next episode begins, which Gymnasium's vector environments tell."""
    mode = environment.metadata.get("autoreset_mode")
    name = str(getattr(mode, "name", mode))
    if name not in MODES:
        raise EnvironmentSetupError(
            f"the vector environment does not say how its episodes begin (metadata['autoreset_mode'] is {mode!r}): set "
            "environment.metadata['autoreset_mode'] to one of gymnasium.vector.AutoresetMode, "
            f"{', '.join(MODES)}"
        )
    return name
