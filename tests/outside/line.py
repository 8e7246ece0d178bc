"""A kind of environment with a world: entry point `rl_clarity.environments: line = line:KIND`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.environments import EnvironmentKind, Step
from rl_clarity.environments.worlds import WorldObject


class Line:
    """Walk along a line of eight cells; each of its ends ends the episode, the right one with a reward."""

    observation_shape, num_actions = (16, 16, 3), 3
    action_combos = (("LEFT",), (), ("RIGHT",))

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs, self.places = num_envs, np.zeros(num_envs, int)
        self._rng = np.random.default_rng(seed)

    def reset(self) -> Step:
        return self._step(np.ones(len(self.places), bool), np.zeros(len(self.places), np.float32))

    def step(self, actions: np.ndarray) -> Step:
        self.places += actions - 1
        rewards = (self.places >= 7).astype(np.float32)
        return self._step((self.places <= 0) | (self.places >= 7), rewards)

    def _step(self, firsts: np.ndarray, rewards: np.ndarray) -> Step:
        self.places = np.where(firsts, self._rng.integers(2, 6, len(firsts)), self.places)
        frames = np.stack([draw(place, 7) for place in self.places])
        return Step(frames, rewards, firsts, truncated=np.zeros(len(firsts), bool))

    def close(self) -> None:
        pass


def make(name: str, num_envs: int, seed: int, options: Any, *, full_resolution: bool = False) -> Any:
    return Line(num_envs, seed)


def draw(place: int, coin: int) -> np.ndarray:
    frame = np.full((16, 16, 3), 40, np.uint8)
    frame[6:10, 2 * coin : 2 * coin + 2] = (60, 200, 250)
    frame[6:10, 2 * place : 2 * place + 2] = (250, 200, 60)
    return frame


class LineWorld:
    """States are two bytes: the places of the player and of the coin, which is out of view at 9."""

    exact = True
    types: tuple[str, ...] = ("coin",)

    def states(self, environment: Any) -> list[bytes]:
        return [bytes([place, 7]) for place in environment.places]

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        place, coin = state
        pixels = (coin / 8, 0.375, (coin + 1) / 8, 0.625)
        return [WorldObject("coin", 0, (coin, 0, coin + 1, 1), (coin - place, 0), pixels)] if coin < 8 else []

    def without(self, state: bytes, objects: Any) -> bytes:
        return bytes([state[0], 9 if objects else state[1]])

    def moved(self, state: bytes, item: Any, to: Any) -> bytes:
        return self.inserted(state, item.type, to)

    def replaced(self, state: bytes, item: Any, type: str) -> bytes:
        return self.inserted(state, type, item.center)

    def inserted(self, state: bytes, type: str, at: Any) -> bytes:
        return bytes([state[0], int(at[0])])

    def draw(self, states: Any) -> np.ndarray:
        return np.stack([draw(place, coin) for place, coin in states])

    def draw_full(self, states: Any) -> np.ndarray:
        return self.draw(states)

    def close(self) -> None:
        pass


KIND = EnvironmentKind(make, world=lambda name, options: LineWorld())
