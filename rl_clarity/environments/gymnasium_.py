"""Any Gymnasium environment with image observations and discrete actions (https://gymnasium.farama.org)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from rl_clarity.environments.checks import check_options
from rl_clarity.environments.combos import combos_of_meanings, numbered_combos
from rl_clarity.environments.images import image_layout
from rl_clarity.environments.protocol import Combo, Step
from rl_clarity.errors import EnvironmentSetupError

OPTIONS: Mapping[str, str] = {
    "factory": "called with `make_kwargs` for each environment, instead of `gymnasium.make(name)`",
    "make_kwargs": "arguments for `gymnasium.make` or the factory",
    "channels_first": "where the colours are, if it cannot be told from the shape",
    "value_range": "(black, white), if the observation space has no bounds",
}


def make(
    name: str, num_envs: int, seed: int, options: Mapping[str, Any], *, full_resolution: bool = False
) -> GymnasiumEnvironment:
    """Environments by Gymnasium id (`CarRacing-v3`, `module:Id-v0`), or by the option `factory`."""
    given = {key: value for key, value in options.items() if value is not None}
    check_options("Gymnasium environments", given, OPTIONS)
    factory = given.pop("factory", None)
    arguments = dict(given.pop("make_kwargs", {}))
    if factory is None:
        if full_resolution:
            arguments.setdefault("render_mode", "rgb_array")
        environments = [_make(name, arguments) for _ in range(num_envs)]
    else:
        environments = [factory(**arguments) for _ in range(num_envs)]
    return GymnasiumEnvironment(environments, seed, full_resolution=full_resolution, **given)


class GymnasiumEnvironment:
    """N Gymnasium environments of one kind, stepped one after another."""

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Any, Any]],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        first = environments[0]
        self._environments = environments
        self._layout = image_layout(first.observation_space, channels_first=channels_first, value_range=value_range)
        self._first_action, self.num_actions = _discrete(first.action_space)
        self._seeds: list[int | None] = [*_seeds(seed, len(environments))]
        self._full_resolution = full_resolution
        self.num_envs = len(environments)
        self.observation_shape = self._layout.shape
        self.action_combos = _action_combos(first, self.num_actions)
        if full_resolution and first.render_mode != "rgb_array":
            raise EnvironmentSetupError(
                f"full_resolution needs environments with render_mode='rgb_array', not {first.render_mode!r}"
            )

    def reset(self) -> Step:
        observations = []
        for environment, seed in zip(self._environments, self._seeds, strict=True):
            observations.append(environment.reset(seed=seed)[0])
        # Seeds are for the first episode: the generators go on from there.
        self._seeds = [None] * self.num_envs
        nothing = np.zeros(self.num_envs, np.float32)
        ones, zeros = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return Step(self._layout.convert(np.stack(observations)), nothing, ones, zeros)

    def step(self, actions: np.ndarray) -> Step:
        rewards = np.zeros(self.num_envs, np.float32)
        firsts, truncated = np.zeros((2, self.num_envs), bool)
        observations, final = [], {}
        for i, environment in enumerate(self._environments):
            observation, rewards[i], ended, cut, _ = environment.step(self._first_action + int(actions[i]))
            firsts[i], truncated[i] = ended or cut, cut and not ended
            if truncated[i]:
                final[i] = self._layout.convert(np.asarray(observation)[None])[0]
            observations.append(environment.reset()[0] if firsts[i] else observation)
        return Step(self._layout.convert(np.stack(observations)), rewards, firsts, truncated, final)

    def render(self) -> np.ndarray:
        """Pictures (N, H', W', 3) uint8 of what is observed now, as the environments render them."""
        if not self._full_resolution:
            raise EnvironmentSetupError("the environment was made without full_resolution=True and has no pictures")
        return np.stack([_picture(environment) for environment in self._environments])

    def close(self) -> None:
        for environment in self._environments:
            environment.close()


class GymnasiumVectorEnvironment:
    """A Gymnasium vector environment that the user made.

    It must begin the next episode within the step that ends the last (`AutoresetMode.SAME_STEP`), or be told which
    environments to reset (`DISABLED`); in mode `NEXT_STEP` every episode would have a step that nobody took.
    """

    def __init__(
        self,
        environment: gymnasium.vector.VectorEnv[Any, Any, Any],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        modes = gymnasium.vector.AutoresetMode
        self._mode = environment.metadata.get("autoreset_mode")
        if self._mode not in (modes.SAME_STEP, modes.DISABLED):
            raise EnvironmentSetupError(
                f"autoreset_mode={self._mode} of the vector environment must be AutoresetMode.SAME_STEP: "
                "gymnasium.make_vec(id, vector_kwargs={'autoreset_mode': AutoresetMode.SAME_STEP})"
            )
        self._environment = environment
        self._layout = image_layout(
            environment.single_observation_space, channels_first=channels_first, value_range=value_range
        )
        self._first_action, self.num_actions = _discrete(environment.single_action_space)
        self._full_resolution = full_resolution
        self.num_envs = environment.num_envs
        self._seeds: list[int] | None = _seeds(seed, self.num_envs)
        self.observation_shape = self._layout.shape
        self.action_combos = numbered_combos(self.num_actions)

    def reset(self) -> Step:
        observations, _ = self._environment.reset(seed=self._seeds)  # type: ignore[arg-type]  # one each is allowed
        self._seeds = None
        nothing = np.zeros(self.num_envs, np.float32)
        ones, zeros = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return Step(self._layout.convert(observations), nothing, ones, zeros)

    def step(self, actions: np.ndarray) -> Step:
        observations, rewards, ended, cut, infos = self._environment.step(self._first_action + np.asarray(actions))
        firsts, truncated = ended | cut, cut & ~ended
        final = infos.get("final_obs")
        if self._mode == gymnasium.vector.AutoresetMode.DISABLED and firsts.any():
            final = np.array(observations)
            observations, _ = self._environment.reset(options={"reset_mask": firsts})
        cut_observations = {}
        if final is not None:
            for i in np.flatnonzero(truncated):
                cut_observations[int(i)] = self._layout.convert(np.asarray(final[i])[None])[0]
        converted = self._layout.convert(observations)
        return Step(converted, np.asarray(rewards, np.float32), firsts, truncated, cut_observations)

    def render(self) -> np.ndarray:
        """Pictures (N, H', W', 3) uint8 of what is observed now, as the environments render them."""
        frames = self._environment.render() if self._full_resolution else None
        if frames is None:
            raise EnvironmentSetupError("the vector environment was not made with render_mode='rgb_array'")
        return np.stack(frames)

    def close(self) -> None:
        self._environment.close()


def _make(name: str, arguments: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentSetupError(f"Gymnasium environment {name!r} lacks a package: {error}") from error
    except (gymnasium.error.Error, ImportError) as error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        if name.lower().startswith("ale/") or "noframeskip" in name.lower():
            hint = "; Atari games are kind='atari'"
        raise EnvironmentSetupError(
            f"no Gymnasium environment {name!r} ({error}){hint} An id registered by a module is written 'module:Id-v0'."
        ) from error


def _discrete(space: gymnasium.Space[Any]) -> tuple[int, int]:
    """First action and number of actions."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise EnvironmentSetupError(
            f"action space {space} is not supported: actions must be Discrete. Wrap the environment so that each "
            "action is one number, for example by listing the combinations of a MultiDiscrete space"
        )
    return int(space.start), int(space.n)


def _action_combos(environment: gymnasium.Env[Any, Any], num_actions: int) -> tuple[Combo, ...]:
    meanings: Callable[[], Sequence[str]] | None = getattr(environment.unwrapped, "get_action_meanings", None)
    words = meanings() if meanings is not None else ()
    return combos_of_meanings(words) if len(words) == num_actions else numbered_combos(num_actions)


def _seeds(seed: int, count: int) -> list[int]:
    """One seed an environment, so that they play different games."""
    return [int(word) for word in np.random.SeedSequence(seed % 2**63).generate_state(count)]


def _picture(environment: gymnasium.Env[Any, Any]) -> np.ndarray:
    frame = environment.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[-1] != 3:
        raise EnvironmentSetupError(f"{environment} renders {type(frame).__name__}, not an array (H, W, 3)")
    return frame
