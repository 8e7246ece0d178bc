"""CoinRun's first environment (Cobbe et al. 2018, https://github.com/openai/coinrun), if the user has its package.

The package is not on PyPI and builds a C++ program when it is imported; nothing here can install it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.environments.checks import check_options
from rl_clarity.environments.protocol import Combo, Step
from rl_clarity.errors import EnvironmentSetupError

COMBOS: tuple[Combo, ...] = ((), ("RIGHT",), ("LEFT",), ("UP",), ("RIGHT", "UP"), ("LEFT", "UP"), ("DOWN",))

OPTIONS = (
    "num_levels",
    "set_seed",
    "high_difficulty",
    "paint_vel_info",
    "use_data_augmentation",
    "use_random_hps",
    "num_trials",
)
"""Options of the package, with its defaults: `num_levels` 0, `set_seed` -1, `paint_vel_info` 1, the others 0."""

_STEPS_UNTIL_TIME_IS_UP = 1002


def make(
    name: str, num_envs: int, seed: int, options: Mapping[str, Any], *, full_resolution: bool = False
) -> CoinRunOldEnvironment:
    """Environments of the game; the option `extra_actions` adds actions that do nothing."""
    given = {key: value for key, value in options.items() if value is not None}
    extra_actions = int(given.pop("extra_actions", 0))
    check_options("coinrun_old", given, OPTIONS)
    package = _coinrun()
    config = importlib.import_module("coinrun.config").Config
    config.initialize_args(use_cmd_line_args=False, is_high_res=full_resolution, **given)
    # The levels come from one generator for all threads: with more than one, their order would be chance.
    package.init_args_and_threads(cpu_count=1, monitor_csv_policy="off", rand_seed=seed % 2**31)
    return CoinRunOldEnvironment(package.make("standard", num_envs), extra_actions, full_resolution=full_resolution)


class CoinRunOldEnvironment:
    """N environments of the package.

    It has 7 actions; an agent whose policy is 9 wide was trained with 2 `extra_actions` that do nothing. An episode
    that lasts as long as the game allows is taken as cut by time, without a final observation, as with Procgen.
    """

    def __init__(self, environment: Any, extra_actions: int = 0, *, full_resolution: bool = False) -> None:
        if extra_actions < 0:
            raise EnvironmentSetupError(f"extra_actions={extra_actions} must not be negative")
        self._environment = environment
        self._full_resolution = full_resolution
        self._steps = np.zeros(environment.num_envs, np.int64)
        self.num_envs: int = environment.num_envs
        height, width, channels = environment.observation_space.shape
        self.observation_shape = (height, width, channels)
        self.action_combos = COMBOS + ((),) * extra_actions
        self.num_actions = len(self.action_combos)

    def reset(self) -> Step:
        # The package draws nothing before the first step, and ignores resets.
        step = self.step(np.zeros(self.num_envs, np.int32))
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(step.observations, nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self._environment.step_async(np.where(np.asarray(actions) < len(COMBOS), actions, 0).astype(np.int32))
        observations, rewards, firsts, _ = self._environment.step_wait()
        self._steps += 1
        firsts = np.array(firsts, bool)
        truncated = firsts & (self._steps >= _STEPS_UNTIL_TIME_IS_UP)
        self._steps[firsts] = 0
        # Copies: the package writes the next observations to the same place.
        return Step(np.array(observations), np.array(rewards, np.float32), firsts, truncated)

    def render(self) -> np.ndarray:
        """Pictures (N, 512, 512, 3) uint8 of what is observed now."""
        if not self._full_resolution:
            raise EnvironmentSetupError("the environment was made without full_resolution=True and has no pictures")
        return np.array(self._environment.get_images())

    def close(self) -> None:
        self._environment.close()


def _coinrun() -> Any:
    try:
        return importlib.import_module("coinrun")
    # Its import runs `make`, and needs Baselines: much can go wrong besides its absence.
    except (Exception, SystemExit) as error:
        raise EnvironmentSetupError(
            f"coinrun_old needs the package `coinrun`, which could not be imported ({type(error).__name__}: {error}). "
            "It is not on PyPI: get it from https://github.com/openai/coinrun and install it as its README says, or "
            "give trajectories and observations as arrays"
        ) from error
