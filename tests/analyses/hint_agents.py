"""A small environment with an expert, and agents that are trained with the expert's hints or with random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.environments.protocol import Combo, Step

SIDE, PATCH = 32, 5
ACTIONS = 4
TRAINING_STEPS, BATCH = 200, 64


class Patches:
    """N environments with a red or a green patch in one of four quadrants, in noise; every step is another image."""

    observation_shape = (SIDE, SIDE, 3)
    num_actions = ACTIONS
    action_combos: tuple[Combo, ...] = tuple((str(action),) for action in range(ACTIONS))

    def __init__(self, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self._rng = np.random.default_rng(seed)

    def reset(self) -> Step:
        return self._step()

    def step(self, actions: np.ndarray) -> Step:
        return self._step()

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _step(self) -> Step:
        images = self._rng.integers(0, 60, (self.num_envs, SIDE, SIDE, 3), np.uint8)
        half = SIDE // 2
        for image in images:
            top, left = self._rng.integers(half - PATCH - 2, size=2) + 2 + half * self._rng.integers(2, size=2)
            image[top : top + PATCH, left : left + PATCH, self._rng.integers(2)] += 150
        zeros = np.zeros(self.num_envs, bool)
        return Step(images, np.zeros(self.num_envs, np.float32), ~zeros, zeros)


def expert(observations: np.ndarray) -> np.ndarray:
    """The quadrant of the patch if it is red, and the next one if it is green."""
    patches = observations[..., :2] > 100  # (N, H, W, 2)
    numbers, rows, columns, colors = np.nonzero(patches)
    first = np.searchsorted(numbers, np.arange(len(observations)))
    quadrants = 2 * (rows[first] >= SIDE // 2) + (columns[first] >= SIDE // 2)
    return np.asarray((quadrants + colors[first]) % ACTIONS)


def hinted(random: bool, num_envs: int = BATCH, seed: int = 0) -> rl_clarity.ActionHints:
    return rl_clarity.ActionHints(Patches(num_envs, seed), expert, random=random, seed=seed)


def train(random: bool) -> tuple[Any, float]:
    """An agent that is trained to take the expert's actions, and the share of them that it takes on new frames."""
    import torch

    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Conv2d(3, 12, 5, stride=2),
                torch.nn.ReLU(),
                torch.nn.Conv2d(12, 16, 3, stride=2),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(16 * 6 * 6, 64),
                torch.nn.ReLU(),
            )
            self.policy, self.value = torch.nn.Linear(64, ACTIONS), torch.nn.Linear(64, 1)

        def forward(self, images: torch.Tensor) -> Any:
            x = self.body(images)
            return self.policy(x), self.value(x)

    network, environment = Network(), hinted(random)
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    step = environment.reset()
    for _ in range(TRAINING_STEPS):
        images = torch.from_numpy(step.observations).permute(0, 3, 1, 2) / 255
        loss = torch.nn.functional.cross_entropy(network(images)[0], torch.from_numpy(environment.expert_actions))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step = environment.step(environment.expert_actions)
    agent = rl_clarity.TorchAgent(network, (SIDE, SIDE, 3))
    test = hinted(random, 256, seed=1)
    logits = agent.forward(test.reset().observations).policy_logits
    assert logits is not None
    return agent, float((logits.argmax(axis=1) == test.expert_actions).mean())
