"""Models of Stable-Baselines3 and sb3-contrib with small networks, and their own outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from stable_baselines3 import A2C, DQN
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from torch import nn

SIDE = 36
"""Pixels; the smallest image that three convolutions of NatureCNN leave anything of."""
FRAMES: Space[Any] = Box(0, 255, (SIDE, SIDE, 3), np.uint8)
BATCH = 6


class NatureCNNWithELU(NatureCNN):
    """Tensors of the same names and shapes as NatureCNN's."""

    cnn: nn.Sequential

    def __init__(self, space: Box, features_dim: int = 16) -> None:
        super().__init__(space, features_dim)
        self.cnn = nn.Sequential(*(nn.ELU() if isinstance(layer, nn.ReLU) else layer for layer in self.cnn))


class CenteredNatureCNN(NatureCNN):
    """Scales its input from 0..1 to -1..1."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return super().forward(2 * observations - 1)


class MinigridFeaturesExtractor(BaseFeaturesExtractor):
    """A small network for the 7 x 7 cells that an agent of MiniGrid sees."""

    def __init__(self, space: Box, features_dim: int = 16) -> None:
        super().__init__(space, features_dim)
        self.cnn = nn.Sequential(nn.Conv2d(3, 8, 2), nn.ReLU(), nn.Conv2d(8, 8, 2), nn.ReLU(), nn.Flatten())
        self.linear = nn.Sequential(nn.Linear(8 * 5 * 5, features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor) -> Any:
        return self.linear(self.cnn(observations))


class Frames(gymnasium.Env[np.ndarray, Any]):
    """Random observations."""

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def action_masks(self) -> np.ndarray:
        """Allow the first two actions; asked for by MaskablePPO."""
        return np.array([True, True, False, False])


def make_model(
    algorithm: Any,
    policy: Any = "CnnPolicy",
    space: Space[Any] = FRAMES,
    actions: Space[Any] | None = None,
    **policy_kwargs: Any,
) -> Any:
    """Make an untrained model, with heads that are not almost zero."""
    if "Mlp" not in str(policy) and "MultiInput" not in str(policy):
        policy_kwargs.setdefault("features_extractor_kwargs", {"features_dim": 16})
    sizes = {"buffer_size": 4} if issubclass(algorithm, OffPolicyAlgorithm) else {"n_steps": 4, "batch_size": 4}
    if algorithm is A2C:
        del sizes["batch_size"]
    environment = Frames(space, Discrete(4) if actions is None else actions)
    model = algorithm(policy, environment, policy_kwargs=policy_kwargs, seed=0, device="cpu", **sizes)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return model


def save(model: Any, folder: Path) -> Path:
    path = folder / "model.zip"
    model.save(path)
    return path


def own_outputs(model: Any, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Log probabilities and values, or action values and None, as the model computes them.

    `observations` (B, C, H, W) are as the model's environment returns them, in the unit of its observation space.
    """
    policy, x = model.policy, torch.as_tensor(observations)
    with torch.no_grad():
        if isinstance(model, DQN):
            return policy.q_net(x).numpy(), None
        return policy.get_distribution(x).distribution.logits.numpy(), policy.predict_values(x)[:, 0].numpy()


def random_frames(channels: int = 3) -> np.ndarray:
    """Observations (B, H, W, C) uint8."""
    return np.random.default_rng(2).integers(0, 256, (BATCH, SIDE, SIDE, channels), np.uint8)


def deviation(agent: Any, frames: np.ndarray, expected: tuple[np.ndarray, np.ndarray | None]) -> float:
    """Return the largest difference between an agent's outputs and `own_outputs`."""
    outputs = agent.forward(frames)
    if expected[1] is None:
        return float(np.abs(outputs.q_values - expected[0]).max())
    logits = outputs.policy_logits - np.logaddexp.reduce(outputs.policy_logits, axis=1, keepdims=True)
    return float(max(np.abs(logits - expected[0]).max(), np.abs(outputs.values - expected[1]).max()))
