"""A kind of environment: entry point `rl_clarity.environments: line = line:KIND`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.environments import EnvironmentKind, Step


class Line:
    """Walk along a line of eight cells; each of its ends ends the episode, the right one with a reward."""

    observation_shape, num_actions = (16, 16, 3), 3
    action_combos = (("LEFT",), (), ("RIGHT",))

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs, self._places = num_envs, np.zeros(num_envs, int)
        self._rng = np.random.default_rng(seed)

    def reset(self) -> Step:
        return self._step(np.ones(len(self._places), bool), np.zeros(len(self._places), np.float32))

    def step(self, actions: np.ndarray) -> Step:
        self._places += actions - 1
        rewards = (self._places >= 7).astype(np.float32)
        return self._step((self._places <= 0) | (self._places >= 7), rewards)

    def _step(self, firsts: np.ndarray, rewards: np.ndarray) -> Step:
        self._places = np.where(firsts, self._rng.integers(2, 6, len(firsts)), self._places)
        frames = np.full((len(firsts), 16, 16, 3), 40, np.uint8)
        for frame, place in zip(frames, self._places, strict=True):
            frame[6:10, 2 * place : 2 * place + 2] = (250, 200, 60)
        return Step(frames, rewards, firsts, truncated=np.zeros(len(firsts), bool))

    def close(self) -> None:
        pass


def make(name: str, num_envs: int, seed: int, options: Any, *, full_resolution: bool = False) -> Any:
    return Line(num_envs, seed)


KIND = EnvironmentKind(make)
