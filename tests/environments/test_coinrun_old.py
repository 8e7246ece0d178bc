"""The first version of CoinRun, with a fake of its package."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, make


class FakeVecEnv:
    """Behaves as `coinrun.coinrunenv.CoinRunVecEnv`: buffers are reused, nothing is rendered before the first step."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.observation_space = types.SimpleNamespace(shape=(64, 64, 3))
        self.observations = np.zeros((num_envs, 64, 64, 3), np.uint8)
        self.time = 0
        self.actions: np.ndarray | None = None

    def step_async(self, actions: np.ndarray) -> None:
        assert actions.dtype == np.int32
        assert (actions < 7).all()
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        self.time += 1
        self.observations += 1
        dones = np.array([self.time % 1002 == 0, self.time % 500 == 0])
        return self.observations, np.ones(self.num_envs, np.float32), dones, [{}] * self.num_envs

    def get_images(self) -> np.ndarray:
        return np.zeros((self.num_envs, 512, 512, 3), np.uint8)

    def close(self) -> None:
        pass


@pytest.fixture
def coinrun(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Install a fake package, and return the arguments it is called with."""
    calls: dict[str, Any] = {}
    package: Any = types.ModuleType("coinrun")
    config: Any = types.ModuleType("coinrun.config")
    config.Config = types.SimpleNamespace(initialize_args=lambda **kwargs: calls.update(config=kwargs))
    package.init_args_and_threads = lambda **kwargs: calls.update(init=kwargs)
    package.make = lambda env_id, num_envs: calls.setdefault("environment", FakeVecEnv(num_envs))
    monkeypatch.setitem(sys.modules, "coinrun", package)
    monkeypatch.setitem(sys.modules, "coinrun.config", config)
    return calls


def test_extra_actions_of_coinrun_old_are_no_ops(coinrun: dict[str, Any]) -> None:
    environment = make(EnvironmentSpec("coinrun_old", "coinrun_old", {"extra_actions": 2, "num_levels": 500}), 2, 9)
    assert environment.num_actions == 9
    assert environment.action_combos[3] == ("UP",)
    assert environment.action_combos[7:] == ((), ())
    environment.reset()
    environment.step(np.array([6, 8]))
    np.testing.assert_array_equal(coinrun["environment"].actions, [6, 0])
    assert coinrun["config"] == {"use_cmd_line_args": False, "is_high_res": False, "num_levels": 500}
    assert coinrun["init"]["rand_seed"] == 9


def test_coinrun_old_truncates_episodes_at_the_time_limit(coinrun: dict[str, Any]) -> None:
    environment = make(EnvironmentSpec("coinrun_old", "coinrun_old"), 2, 0, full_resolution=True)
    assert environment.num_actions == 7
    start = environment.reset()
    assert start.firsts.all()
    assert start.observations.any()
    steps = [environment.step(np.zeros(2, int)) for _ in range(1001)]
    assert (steps[0].observations != steps[1].observations).any()
    assert [i for i, step in enumerate(steps) if step.firsts[1]] == [498, 998]
    assert not any(step.truncated[1] for step in steps)
    assert steps[1000].truncated.tolist() == [True, False]
    assert environment.render().shape == (2, 512, 512, 3)


def test_the_error_for_a_missing_coinrun_package_gives_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coinrun", None)
    with pytest.raises(EnvironmentSetupError, match=r"https://github\.com/openai/coinrun"):
        make(EnvironmentSpec("coinrun_old", "coinrun_old"), 1, 0)
