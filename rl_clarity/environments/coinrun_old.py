"""The first CoinRun environment (Cobbe et al. 2018, https://github.com/openai/coinrun). Its package `coinrun` must be
installed.

The package is not on PyPI, and builds a C++ program when it is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.kinds import EnvironmentKind
from rl_clarity.environments.protocol import Combo, Step

COMBOS: tuple[Combo, ...] = ((), ("RIGHT",), ("LEFT",), ("UP",), ("RIGHT", "UP"), ("LEFT", "UP"), ("DOWN",))

TIMEOUT = 1002
"""Number of steps after which the game ends an episode."""


@dataclass(frozen=True)
class CoinRunOldOptions:
    """Options of the package `coinrun`. Options that are None get the package's defaults: `num_levels` 0, `set_seed`
    -1, `paint_vel_info` 1, and 0 for the others.
    """

    num_levels: int | None = None
    set_seed: int | None = None
    high_difficulty: int | None = None
    paint_vel_info: int | None = None
    use_data_augmentation: int | None = None
    use_random_hps: int | None = None
    num_trials: int | None = None
    extra_actions: int = 0
    """Number of additional actions without effect."""

    def __post_init__(self) -> None:
        if self.extra_actions < 0:
            raise EnvironmentSetupError(f"extra_actions={self.extra_actions} must not be negative")


def make(
    _name: str, num_envs: int, seed: int, options: CoinRunOldOptions, *, full_resolution: bool = False
) -> CoinRunOldEnvironment:
    """Make environments of CoinRun."""
    arguments = {key: value for key, value in asdict(options).items() if value is not None}
    extra_actions = arguments.pop("extra_actions")
    package = _coinrun()
    config = importlib.import_module("coinrun.config").Config
    config.initialize_args(use_cmd_line_args=False, is_high_res=full_resolution, **arguments)
    # All threads draw levels from one generator, so with several threads the order of levels would be random.
    package.init_args_and_threads(cpu_count=1, monitor_csv_policy="off", rand_seed=seed % 2**31)
    return CoinRunOldEnvironment(package.make("standard", num_envs), extra_actions, full_resolution=full_resolution)


def _infer(options: dict[str, Any], _metadata: Mapping[str, Any], num_actions: int | None) -> dict[str, Any]:
    if num_actions == len(COMBOS) + 2:  # agents with 9 actions were trained with 2 actions without effect
        options.setdefault("extra_actions", 2)
    return options


KIND = EnvironmentKind(make, CoinRunOldOptions, (64, 64, 3), _infer, example="coinrun_old")


class CoinRunOldEnvironment:
    """N environments of the package `coinrun`.

    As in Procgen, an episode that reaches the game's time limit counts as truncated, and its final observation is not
    known.
    """

    def __init__(self, environment: Any, extra_actions: int = 0, *, full_resolution: bool = False) -> None:
        self._environment = environment
        self._full_resolution = full_resolution
        self._steps = np.zeros(environment.num_envs, np.int64)
        self.num_envs: int = environment.num_envs
        height, width, channels = environment.observation_space.shape
        self.observation_shape = (height, width, channels)
        self.action_combos = COMBOS + ((),) * extra_actions
        self.num_actions = len(self.action_combos)

    def reset(self) -> Step:
        # The package renders nothing before the first step, and ignores resets.
        step = self.step(np.zeros(self.num_envs, np.int32))
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(step.observations, nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self._environment.step_async(np.where(np.asarray(actions) < len(COMBOS), actions, 0).astype(np.int32))
        observations, rewards, firsts, _ = self._environment.step_wait()
        self._steps += 1
        firsts = np.array(firsts, bool)
        truncated = firsts & (self._steps >= TIMEOUT)
        self._steps[firsts] = 0
        # Copy, because the package reuses its arrays.
        return Step(np.array(observations), np.array(rewards, np.float32), firsts, truncated)

    def render(self) -> np.ndarray:
        """Return images (N, 512, 512, 3) uint8 of the current states."""
        if not self._full_resolution:
            raise EnvironmentSetupError("make the environment with full_resolution=True to render it")
        return np.array(self._environment.get_images())

    def close(self) -> None:
        self._environment.close()


def _coinrun() -> Any:
    try:
        return importlib.import_module("coinrun")
    # Its import runs `make` and needs Baselines, so other errors than ImportError occur.
    except (Exception, SystemExit) as error:
        raise EnvironmentSetupError(
            f"coinrun_old needs the package `coinrun`, which could not be imported ({type(error).__name__}: {error}). "
            "It is not on PyPI: install it from https://github.com/openai/coinrun as its README says, or pass "
            "trajectories and observations as arrays"
        ) from error
