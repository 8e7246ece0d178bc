"""Wrappers for environments of any kind."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from rl_clarity.agents.actions import describe_factors, is_single_choice
from rl_clarity.agents.capabilities import action_factors
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.images import ImageLayout
from rl_clarity.environments.protocol import (
    Combo,
    HasImageLayout,
    HasLevels,
    Resumable,
    Step,
    VectorEnvironment,
    WatchesEnds,
    snapshot,
)

_INNER = "inside/"


class Wrapper:
    """A wrapper that delegates everything to another environment. Its state can be saved if the environment's state
    can.
    """

    def __init__(self, environment: VectorEnvironment) -> None:
        self.environment = environment
        self.num_envs: int = environment.num_envs
        self.observation_shape: tuple[int, int, int] = environment.observation_shape
        self.num_actions: int = environment.num_actions
        self.action_combos: tuple[Combo, ...] = environment.action_combos
        self.action_factors = action_factors(environment)

    def reset(self) -> Step:
        return self.environment.reset()

    def step(self, actions: np.ndarray) -> Step:
        return self.environment.step(actions)

    def render(self) -> np.ndarray:
        return self.environment.render()

    def close(self) -> None:
        self.environment.close()

    def snapshot(self) -> dict[str, np.ndarray] | None:
        inner = snapshot(self.environment)
        return None if inner is None else {_INNER + name: array for name, array in inner.items()} | self._state()

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        assert isinstance(self.environment, Resumable)
        inner = {name.removeprefix(_INNER): array for name, array in snapshot.items() if name.startswith(_INNER)}
        self.environment.restore(inner)
        self._restore_state(snapshot)

    def _state(self) -> dict[str, np.ndarray]:
        """Return the state of the wrapper itself, without the state of the environment."""
        return {}

    def _restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        pass


def level_seeds(environment: VectorEnvironment) -> np.ndarray | None:
    """Return the seeds (N,) of the levels that are being played, or None if the environment does not report them."""
    inner = unwrapped(environment)
    return inner.level_seeds() if isinstance(inner, HasLevels) else None


def image_layout_of(environment: VectorEnvironment) -> ImageLayout | None:
    """Return the layout with which an environment converts observations, or None for environments that return uint8
    images.
    """
    inner = unwrapped(environment)
    return inner.layout if isinstance(inner, HasImageLayout) else None


def check_observed(environment: VectorEnvironment) -> None:
    """Raise SamplesError if the environment's observations do not fit their declared range."""
    layout = image_layout_of(environment)
    if layout is not None:
        layout.check_observed()


def watch_ends(environment: VectorEnvironment, watched: np.ndarray) -> None:
    """Ask the environments for which `watched` (N,) bool is true to report why episodes end. Do nothing for
    environments that do not report this on request.
    """
    inner = unwrapped(environment)
    if isinstance(inner, WatchesEnds):
        inner.watch_ends(watched)


def unwrapped(environment: VectorEnvironment) -> VectorEnvironment:
    """Return the innermost environment."""
    while isinstance(environment, Wrapper):
        environment = environment.environment
    return environment


class EpsilonGreedy(Wrapper):
    """Replaces each action with a uniformly random one with probability `epsilon`."""

    def __init__(self, environment: VectorEnvironment, epsilon: float, seed: int) -> None:
        if not 0 <= epsilon <= 1:
            raise EnvironmentSetupError(f"epsilon_greedy={epsilon} must be a probability from 0 to 1")
        super().__init__(environment)
        if not is_single_choice(self.action_factors):
            raise EnvironmentSetupError(
                f"epsilon_greedy={epsilon} needs actions that are a single choice, but an action is "
                f"{describe_factors(self.action_factors)}: set epsilon_greedy to 0"
            )
        self.epsilon = epsilon
        # The second number distinguishes this generator from others with the same seed.
        self._rng = np.random.default_rng([seed % 2**63, 0x65707369])

    def step(self, actions: np.ndarray) -> Step:
        replaced = self._rng.random(self.num_envs) < self.epsilon
        random = self._rng.integers(self.num_actions, size=self.num_envs)
        return self.environment.step(np.where(replaced, random, actions))

    def _state(self) -> dict[str, np.ndarray]:
        return {"rng": generator_state(self._rng)}

    def _restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore_generator(self._rng, state["rng"])


class RewardScale(Wrapper):
    """Multiplies rewards by `scale`."""

    def __init__(self, environment: VectorEnvironment, scale: float) -> None:
        super().__init__(environment)
        self.scale = scale

    def step(self, actions: np.ndarray) -> Step:
        step = self.environment.step(actions)
        return dataclasses.replace(step, rewards=(step.rewards * self.scale).astype(np.float32))


class FrameStack(Wrapper):
    """Stacks the last `count` observations along the channels, with the newest observation last.

    Missing observations before the start of an episode are zeros (`padding="zeros"`, as in Baselines and
    Stable-Baselines3) or copies of the first observation (`"first"`, as in Gymnasium).
    """

    def __init__(self, environment: VectorEnvironment, count: int, padding: str = "zeros") -> None:
        if count < 1:
            raise EnvironmentSetupError(f"frame_stack={count} must be at least 1")
        if padding not in ("zeros", "first"):
            raise EnvironmentSetupError(f"frame_stack_padding={padding!r} must be 'zeros' or 'first'")
        super().__init__(environment)
        self.count = count
        self.padding = padding
        height, width, self._channels = environment.observation_shape
        self.observation_shape = (height, width, self._channels * count)
        self._stack = np.zeros((self.num_envs, *self.observation_shape), np.uint8)
        self.steps = 0
        """Number of steps since the reset."""
        self.ages = np.zeros(self.num_envs, np.int64)
        """Number of steps (N,) since the current episodes began."""

    def reset(self) -> Step:
        self.steps = -1
        return self._stacked(self.environment.reset())

    def step(self, actions: np.ndarray) -> Step:
        return self._stacked(self.environment.step(actions))

    def continue_from(self, stack: np.ndarray, ages: np.ndarray) -> None:
        """Continue from stacked observations (N, H, W, count * C). `ages` (N,) contains the number of steps since the
        episodes began.
        """
        self._stack, self.ages = np.array(stack), np.array(ages)

    def _state(self) -> dict[str, np.ndarray]:
        return {"stack": self._stack.copy()}

    def _restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        self._stack = np.array(state["stack"])

    def _stacked(self, step: Step) -> Step:
        self.steps += 1
        self.ages = np.where(step.firsts, 0, self.ages + 1)
        older = self._stack[..., self._channels :]
        final = {
            i: np.concatenate([older[i], observation], axis=-1) for i, observation in step.final_observations.items()
        }
        self._stack = np.concatenate([older, step.observations], axis=-1)  # (N, H, W, count * C)
        if self.padding == "zeros":
            self._stack[step.firsts, ..., : -self._channels] = 0
        else:
            self._stack[step.firsts] = np.tile(step.observations[step.firsts], self.count)
        # Copy, because the next step changes the stack.
        return dataclasses.replace(step, observations=self._stack.copy(), final_observations=final)


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a random generator, as an array of bytes."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8)


def restore_generator(rng: np.random.Generator, state: np.ndarray) -> None:
    """Restore the state of a random generator of the same type."""
    rng.bit_generator.state = json.loads(state.tobytes())
