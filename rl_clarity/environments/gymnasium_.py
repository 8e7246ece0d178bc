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
        self._first_action, self.num_actions = discrete_actions(first.action_space)
        self._seeds: list[int | None] = [*seeds_of(seed, len(environments))]
        self._full_resolution = full_resolution
        self.num_envs = len(environments)
        self.observation_shape = self._layout.shape
        self.action_combos = action_combos_of(first, self.num_actions)
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


def discrete_actions(space: gymnasium.Space[Any]) -> tuple[int, int]:
    """First action and number of actions."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise EnvironmentSetupError(
            f"action space {space} is not supported: actions must be Discrete. Wrap the environment so that each "
            "action is one number, for example by listing the combinations of a MultiDiscrete space"
        )
    return int(space.start), int(space.n)


def action_combos_of(environment: gymnasium.Env[Any, Any] | None, num_actions: int) -> tuple[Combo, ...]:
    """Names of the actions, from the environment's `get_action_meanings` if it has one; else their numbers."""
    meanings: Callable[[], Sequence[str]] | None = getattr(
        getattr(environment, "unwrapped", None), "get_action_meanings", None
    )
    words = meanings() if meanings is not None else ()
    return combos_of_meanings(words) if len(words) == num_actions else numbered_combos(num_actions)


def seeds_of(seed: int, count: int) -> list[int]:
    """One seed an environment, so that they play different games."""
    return [int(word) for word in np.random.SeedSequence(seed % 2**63).generate_state(count)]


def _picture(environment: gymnasium.Env[Any, Any]) -> np.ndarray:
    frame = environment.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[-1] != 3:
        raise EnvironmentSetupError(f"{environment} renders {type(frame).__name__}, not an array (H, W, 3)")
    return frame
