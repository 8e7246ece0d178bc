"""Small environments and networks for tests of training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from rl_clarity.agents.network import Network
from rl_clarity.environments import EnvironmentKind, Step
from rl_clarity.formats.layers import NetworkBuilder

SIDE = 16
ACTIONS = 3


def bright_column(column: int, rng: np.random.Generator) -> np.ndarray:
    """Dim noise (16, 16, 3) with one of three columns bright: the action that is rewarded."""
    image = rng.integers(0, 60, (SIDE, SIDE, 3), np.uint8)
    width = SIDE // ACTIONS
    image[:, column * width : (column + 1) * width] += 150
    return image


class Columns:
    """N environments in which the index of the bright column is the right action; episodes have four steps."""

    observation_shape = (SIDE, SIDE, 3)
    num_actions = ACTIONS
    action_combos: tuple[tuple[str, ...], ...] = (("0",), ("1",), ("2",))

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self._rng = np.random.default_rng(seed)
        self._steps = np.arange(num_envs) % 4
        self._columns = np.zeros(num_envs, np.int64)

    def reset(self) -> Step:
        zeros = np.zeros(self.num_envs, bool)
        return Step(self._draw(), np.zeros(self.num_envs, np.float32), ~zeros, zeros)

    def step(self, actions: np.ndarray) -> Step:
        rewards = (actions == self._columns).astype(np.float32)
        self._steps += 1
        firsts = self._steps % 4 == 0
        return Step(self._draw(), rewards, firsts, np.zeros(self.num_envs, bool))

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _draw(self) -> np.ndarray:
        self._columns = self._rng.integers(ACTIONS, size=self.num_envs)
        return np.stack([bright_column(int(column), self._rng) for column in self._columns])


class ResumableColumns(Columns):
    """Columns with snapshots."""

    def snapshot(self) -> dict[str, np.ndarray]:
        state = np.frombuffer(json.dumps(self._rng.bit_generator.state).encode(), np.uint8)
        return {"rng": state, "steps": self._steps.copy(), "columns": self._columns.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self._rng.bit_generator.state = json.loads(snapshot["rng"].tobytes())
        self._steps, self._columns = snapshot["steps"].copy(), snapshot["columns"].copy()


def make(name: str, num_envs: int, seed: int, options: object, *, full_resolution: bool = False) -> ResumableColumns:
    """Make environments of the kind `KIND`."""
    return ResumableColumns(num_envs, seed)


KIND = EnvironmentKind(make)


class ColumnsGymnasium(gymnasium.Env[np.ndarray, Any]):
    """A single environment for Gymnasium, whose rewards are NaN after `nan_after` steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def __init__(self, nan_after: int | None = None) -> None:
        self._nan_after = nan_after
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        reward = float(action == self._column)
        if self._nan_after is not None and self._steps > self._nan_after:
            reward = float("nan")
        return self._draw(), reward, self._steps % 4 == 0, False, {}

    def _draw(self) -> np.ndarray:
        self._column = int(self.np_random.integers(ACTIONS))
        return bright_column(self._column, self.np_random)


def _make_gymnasium(**options: Any) -> ColumnsGymnasium:
    return ColumnsGymnasium(**options)


gymnasium.register("RlClarityColumns-v0", _make_gymnasium)
gymnasium.register("RlClarityColumnsNan-v0", _make_gymnasium, kwargs={"nan_after": 40})


def linear_network(shape: tuple[int, int, int] = (2, 2, 1), num_actions: int = 3, seed: int = 0) -> Network:
    """A network with logits and values that are linear in the pixels, so that its gradients are simple formulas."""
    import keras

    builder = NetworkBuilder(seed=seed)
    observations = builder.input(shape, "observations")
    flat = keras.layers.Flatten()(observations)
    heads = {
        "policy_logits": builder.dense(flat, num_actions, "pi", kernel="pi/w:0", bias="pi/b:0"),
        "values": builder.dense(flat, 1, "vf", kernel="vf/w:0", bias="vf/b:0"),
    }
    return builder.finish([observations], heads)
