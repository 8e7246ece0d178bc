"""A small environment of images with actions of any kind, and a network for it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SIDE = 36
SPACES: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(4),
    "multidiscrete": spaces.MultiDiscrete([3, 2]),
    "multibinary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32)),
}


class PointWorld(gymnasium.Env[np.ndarray, Any]):
    """A bright point that actions move over a dark image; the reward is higher near the center.

    Every action that is taken is in `taken`, and must be one of the space.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(self, kind: str = "box", steps: int = 12) -> None:
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.kind, self.action_space = kind, SPACES[kind]
        self.taken: list[Any] = []
        self._length, self._steps = steps, 0
        self._place = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self._place, self._steps = self.np_random.uniform(4, SIDE - 4, 2), 0
        return self._image(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, Any]:
        assert self.action_space.contains(action), (action, self.action_space)
        self.taken.append(action)
        numbers = np.ravel(np.asarray(action, np.float64))
        move = np.array([numbers[0], numbers[-1]]) - 0.5
        self._place = np.clip(self._place + 3 * move, 2, SIDE - 3)
        self._steps += 1
        reward = -float(np.abs(self._place - SIDE / 2).mean()) / SIDE
        return self._image(), reward, False, self._steps >= self._length, {}

    def _image(self) -> np.ndarray:
        image = np.zeros((SIDE, SIDE, 3), np.uint8)
        y, x = self._place.astype(int)
        image[y - 2 : y + 3, x - 2 : x + 3] = (250, 180, 60)
        image[SIDE // 2 - 1 : SIDE // 2 + 1, SIDE // 2 - 1 : SIDE // 2 + 1, 2] = 255
        return image


class Masked(PointWorld):
    """Allows some actions, which depend on the step. The first choice of a factor is always allowed."""

    def action_masks(self) -> np.ndarray:
        sizes = {"discrete": [4], "multidiscrete": [3, 2], "multibinary": [2, 2, 2]}[self.kind]
        masks = [(np.arange(size) + self._steps) % 2 == 0 for size in sizes]
        for mask in masks:
            mask[0] = True
        return np.concatenate(masks)

    def step(self, action: Any) -> Any:
        allowed, chosen = self.action_masks(), np.ravel(action)
        starts = {"discrete": [0], "multidiscrete": [0, 3], "multibinary": [0, 2, 4]}[self.kind]
        assert allowed[chosen + starts].all(), (action, allowed)
        return super().step(action)
