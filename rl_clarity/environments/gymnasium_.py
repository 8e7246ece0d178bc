"""Gymnasium environments with observations that are images, vectors, or dictionaries with an image
(https://gymnasium.farama.org).
"""

from __future__ import annotations

import difflib
import enum
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.base.errors import EnvironmentSetupError, SamplesError
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.environments.gymnasium_world import GymnasiumWorld
from rl_clarity.environments.images import image_layout, stacked
from rl_clarity.environments.kinds import CALLER_ONLY, CAN_RUN_CODE, EnvironmentKind
from rl_clarity.environments.painted_world import PaintedWorld
from rl_clarity.environments.protocol import Combo, Step, combo_from_meaning, numbered_combos
from rl_clarity.environments.worlds import World

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class GymnasiumOptions:
    """Options for making environments and for reading their observations."""

    make_kwargs: Mapping[str, Any] = field(default_factory=dict, metadata=CAN_RUN_CODE)
    """Keyword arguments for `gymnasium.make` or `factory`."""
    channels_first: bool | None = None
    """Whether the channels of an image come first, (C, H, W). By default, the shorter of the first and the last axis is
    taken as the channel axis."""
    value_range: tuple[float, float] | None = None
    """Values of black and white in images, if they differ from the bounds of the observation space."""
    action_masks: bool = False
    """Whether the agent chooses only among actions that the environment's method `action_masks` allows, like
    MaskablePPO of sb3-contrib."""
    factory: Callable[..., gymnasium.Env[Any, Any]] | None = field(default=None, metadata=CALLER_ONLY)
    """A function that makes an environment. It is called with `make_kwargs` instead of `gymnasium.make(name)`."""


def make(
    name: str, num_envs: int, seed: int, options: GymnasiumOptions, *, full_resolution: bool = False
) -> GymnasiumEnvironment:
    """Make environments from a Gymnasium id (`CarRacing-v3`, `module:Id-v0`), or with the option `factory`."""
    arguments = dict(options.make_kwargs)
    if options.factory is None:
        if full_resolution:
            arguments.setdefault("render_mode", "rgb_array")
        environments = [_make(name, arguments) for _ in range(num_envs)]
    else:
        environments = [options.factory(**arguments) for _ in range(num_envs)]
    return GymnasiumEnvironment(
        environments,
        seed,
        full_resolution=full_resolution,
        channels_first=options.channels_first,
        value_range=options.value_range,
        action_masks=options.action_masks,
    )


def check(name: str) -> None:
    """Raise EnvironmentSetupError for an id that no installed package registers. Ids that name a module are not
    checked, because the module would have to be imported.
    """
    import gymnasium

    if ":" in name:
        return
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise _unknown(name, error) from error


def make_world(name: str, options: GymnasiumOptions) -> World:
    """Make the world of a MiniGrid environment, or of an environment that has a `StateEditor`. Raises WorldError for
    any other environment.
    """
    world = GymnasiumWorld(name, lambda full: make(name, 1, 0, options, full_resolution=full))
    return world if world.removes else PaintedWorld(world)


KIND = EnvironmentKind(make, GymnasiumOptions, check=check, example="CarRacing-v3", world=make_world)


class GymnasiumEnvironment:
    """N Gymnasium environments with the same spaces. They are stepped one after another."""

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Any, Any]],
        seed: int,
        *,
        full_resolution: bool = False,
        channels_first: bool | None = None,
        value_range: tuple[float, float] | None = None,
        action_masks: bool = False,
    ) -> None:
        first = environments[0]
        self.environments = environments
        self.layout = image_layout(first.observation_space, channels_first=channels_first, value_range=value_range)
        self._actions = ActionSpace(first.action_space)
        self.num_actions, self.action_factors = self._actions.num_actions, self._actions.factors
        self._seeds: list[int | None] = [*environment_seeds(seed, len(environments))]
        self._masks = [_mask_method(environment) for environment in environments] if action_masks else None
        self._full_resolution = full_resolution
        self._infos: list[dict[str, Any]] = [{} for _ in environments]
        self.num_envs = len(environments)
        self.observation_shape = self.layout.shape
        self.action_combos = action_combos(first, self.num_actions) if is_single_choice(self.action_factors) else ()
        if full_resolution:
            prepare_rendering()
            if first.render_mode != "rgb_array":
                raise EnvironmentSetupError(
                    f"full_resolution needs environments with render_mode='rgb_array', not {first.render_mode!r}"
                )

    def reset(self) -> Step:
        pairs = zip(self.environments, self._seeds, strict=True)
        observations, self._infos = map(list, zip(*(one.reset(seed=seed) for one, seed in pairs), strict=True))
        # Later episodes continue with the random numbers of the first.
        self._seeds = [None] * self.num_envs
        nothing = np.zeros(self.num_envs, np.float32)
        ones, zeros = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        seen = stacked(observations)
        held = self.layout.held_inputs(seen)
        return Step(
            self.layout.convert(seen), nothing, ones, zeros, action_masks=self._action_masks(), held_inputs=held
        )

    def step(self, actions: np.ndarray) -> Step:
        rewards: list[Any] = [0.0] * self.num_envs
        firsts, truncated = np.zeros((2, self.num_envs), bool)
        observations, final, final_held, ends = [], {}, {}, {}
        converted = self._actions.convert(actions)
        for i, environment in enumerate(self.environments):
            action = converted[i] if converted.ndim > 1 else int(converted[i])
            observation, rewards[i], ended, cut, info = environment.step(action)
            firsts[i], truncated[i] = ended or cut, cut and not ended
            if firsts[i]:
                final[i], final_held[i] = self.layout.last(observation)
                ends[i] = info
            if firsts[i]:
                observation, info = environment.reset()
            observations.append(observation)
            self._infos[i] = info
        seen = stacked(observations)
        return Step(
            self.layout.convert(seen),
            to_rewards(rewards),
            firsts,
            truncated,
            final,
            action_masks=self._action_masks(),
            held_inputs=self.layout.held_inputs(seen),
            final_held_inputs=final_held,
            ends=ends,
        )

    def infos(self) -> list[dict[str, Any]]:
        """Return the `info` dict that came with the current observation of each environment."""
        return self._infos

    def render(self) -> np.ndarray:
        """Return images (N, H', W', 3) uint8 of the current states, as the environments render them."""
        if not self._full_resolution:
            raise EnvironmentSetupError("make the environment with full_resolution=True to render it")
        return np.stack([_render(environment) for environment in self.environments])

    def close(self) -> None:
        for environment in self.environments:
            environment.close()

    def _action_masks(self) -> np.ndarray | None:
        return None if self._masks is None else self._actions.masks([mask() for mask in self._masks])


def prepare_rendering() -> None:
    """Prevent SDL, with which pygame draws, from catching SIGTERM, and from looking for a display where there
    is none.
    """
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def no_masks(environment: Any) -> EnvironmentSetupError:
    """Return the error for an environment without the method `action_masks`."""
    return EnvironmentSetupError(
        f"{environment} has no method action_masks(), but the agent chooses among valid actions: wrap the environment "
        "as in training (sb3_contrib.common.wrappers.ActionMasker(env, function)), or let the agent choose among all "
        "actions with the metadata action_masks=False (on the command line --metadata action_masks 0)"
    )


def _mask_method(environment: gymnasium.Env[Any, Any]) -> Callable[[], Any]:
    try:
        method: Callable[[], Any] = environment.get_wrapper_attr("action_masks")
    except AttributeError as error:
        raise no_masks(environment) from error
    return method


def _make(name: str, arguments: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    import gymnasium

    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentSetupError(
            f"Gymnasium environment {name!r} needs a package that is not installed: {error}"
        ) from error
    except (gymnasium.error.Error, ImportError) as error:
        raise _unknown(name, error) from error


def _unknown(name: str, error: Exception) -> EnvironmentSetupError:
    import gymnasium

    near = difflib.get_close_matches(name, gymnasium.registry, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if name.lower().startswith("ale/") or "noframeskip" in name.lower():
        hint = "; Atari games need env_kind='atari'"
    return EnvironmentSetupError(
        f"unknown Gymnasium environment {name!r} ({error}){hint}. An id that a module registers is written "
        "'module:Id-v0'"
    )


def action_combos(environment: gymnasium.Env[Any, Any] | None, num_actions: int) -> tuple[Combo, ...]:
    """Return the buttons that each action presses, according to the environment's `get_action_meanings` or `actions`.
    If the environment has neither, return the numbers of the actions.
    """
    unwrapped = getattr(environment, "unwrapped", None)
    meanings: Callable[[], Sequence[str]] | None = getattr(unwrapped, "get_action_meanings", None)
    return named_combos(getattr(unwrapped, "actions", None) if meanings is None else meanings(), num_actions)


def named_combos(names: Any, num_actions: int) -> tuple[Combo, ...]:
    """Return the buttons that each action presses, from the names of the actions or from an IntEnum of actions like
    that of MiniGrid. If `names` does not fit the number of actions, return the numbers of the actions.
    """
    if isinstance(names, type) and issubclass(names, enum.IntEnum):
        names = [action.name for action in sorted(names)] if set(names) == {*range(num_actions)} else ()
    is_complete = isinstance(names, Sequence) and len(names) == num_actions
    return tuple(map(combo_from_meaning, names)) if is_complete else numbered_combos(num_actions)


def to_rewards(values: Any) -> np.ndarray:
    """Return the rewards of N environments as an array (N,) float32. Raises SamplesError for values that are not real
    numbers.
    """
    rewards = np.asarray(values)
    if rewards.dtype.kind not in "biuf":
        raise SamplesError(f"the environment returned the rewards {rewards}; rewards must be real numbers")
    return rewards.astype(np.float32).reshape(len(rewards))


def environment_seeds(seed: int, count: int) -> list[int]:
    """Return a different seed for each environment."""
    return [int(word) for word in np.random.SeedSequence(seed % 2**63).generate_state(count)]


def _render(environment: gymnasium.Env[Any, Any]) -> np.ndarray:
    frame = environment.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[-1] != 3:
        raise EnvironmentSetupError(f"{environment} renders {type(frame).__name__}, not an array (H, W, 3)")
    return frame
