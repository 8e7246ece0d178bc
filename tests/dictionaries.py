"""Small environments whose observations are images and numbers, and a network that takes both."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

SIDE, LENGTH = 36, 12
"""Pixels (the smallest image for the network of MultiInputPolicy), and steps of an episode that is not terminated."""
SHAPES: dict[str, tuple[int, ...]] = {"image": (SIDE, SIDE, 3), "direction": (), "speed": (2,)}


class Dictionary(gymnasium.Env[dict[str, Any], Any]):
    """A random image, the direction `step % 4`, and the speed (step, -step / 2). Episodes end at random."""

    observation_space = Dict(
        image=Box(0, 255, (SIDE, SIDE, 3), np.uint8), direction=Discrete(4), speed=Box(-99, 99, (2,), np.float32)
    )
    action_space = Discrete(3)
    time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self._observe(), float(action == 1), bool(self.np_random.random() < 0.05), self.time == LENGTH, {}

    def _observe(self) -> dict[str, Any]:
        image = self.np_random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
        return {
            "image": image,
            "direction": np.int64(self.time % 4),
            "speed": np.array([self.time, -self.time / 2], np.float32),
        }


def make_network() -> Any:
    """Return a module that takes a dictionary, whose value has the term speed[0] + 10 direction."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = nn.Conv2d(3, 4, 8, 4), nn.ReLU()
            self.policy, self.value = nn.LazyLinear(3), nn.LazyLinear(1)

        def forward(self, observed: dict[str, Any]) -> Any:
            seen = self.relu(self.conv(observed["image"])).flatten(1)
            numbers = observed["speed"][:, 0] + 10 * observed["direction"]
            return self.policy(torch.cat([seen, observed["speed"]], 1)), self.value(seen)[:, 0] + numbers

    torch.manual_seed(0)
    network = Network()
    network({name: torch.zeros(1, *shape) for name, shape in SHAPES.items()} | {"image": torch.zeros(1, 3, SIDE, SIDE)})
    return network


class Steered(Dictionary):
    """Observations with every kind of numbers, and continuous actions."""

    observation_space = Dict(
        {
            "where": Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32)),
            "camera": Box(0, 255, (SIDE, SIDE, 3), np.uint8),
            "tools": MultiDiscrete([3, 2]),
            "doors": MultiBinary(3),
            "grid": Box(0, 1, (2, 2), np.float32),
            "heading": Discrete(4),
        }
    )
    action_space = Box(-1, 1, (2,), np.float32)  # type: ignore[assignment]

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return super().step(int(action[0] > 0))

    def _observe(self) -> dict[str, Any]:
        self.observation_space.seed(int(self.np_random.integers(1000)))
        return self.observation_space.sample()
