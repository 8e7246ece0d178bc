"""Small PyTorch modules for tests; importing it needs PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tests import state_dicts

SHAPE = (44, 44, 4)


class Nature(nn.Module):
    """CleanRL's `ppo_atari`, with a `forward`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(inplace),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(inplace),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(inplace),
            nn.Flatten(),
            nn.Linear(256, 24),
            nn.ReLU(inplace),
        )
        self.actor = nn.Linear(24, 4)
        self.critic = nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.network(x)
        return self.actor(x), self.critic(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 6, 8, stride=8), nn.ELU(), nn.Flatten())
        self.cell = nn.GRUCell(6 * 25, 8)
        self.actor, self.critic = nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, x: Any, state: Any) -> Any:
        state = self.cell(self.body(x), state)
        return self.actor(state), self.critic(state), state


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu0, self.conv0, self.relu1, self.conv1 = (
            nn.ReLU(),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6, 6, 3, padding=1),
        )

    def forward(self, x: Any) -> Any:
        return x + self.conv1(self.relu1(self.conv0(self.relu0(x))))


class Impala(nn.Module):
    """Convolutions, max pooling and residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        parts: list[nn.Module] = []
        for before in (4, 6):
            parts += [nn.Conv2d(before, 6, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(), Residual()]
        self.body = nn.Sequential(*parts, nn.ReLU(), nn.Flatten(), nn.Linear(6 * 121, 24), nn.ReLU())
        self.actor, self.critic = nn.Linear(24, 4), nn.Linear(24, 1)

    def forward(self, x: Any) -> Any:
        x = self.body(x)
        return self.actor(x), self.critic(x)


class Towers(nn.Module):
    """Separate networks for policy and value, with one shared ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.pi, self.vf = nn.Conv2d(4, 3, 8, stride=8), nn.Conv2d(4, 3, 8, stride=8)
        self.actor, self.critic = nn.Linear(75, 4), nn.Linear(75, 1)

    def forward(self, x: Any) -> Any:
        policy, value = (self.relu(conv(x)).flatten(1) for conv in (self.pi, self.vf))
        return {"logits": self.actor(policy), "value": self.critic(value).squeeze(-1)}


class Color(nn.Module):
    """A single convolution, for observations of 64 x 64 x 3 and four actions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 8, stride=8), nn.ReLU())
        self.actor, self.critic = nn.Linear(8 * 64, 4), nn.Linear(8 * 64, 1)

    def forward(self, x: Any) -> Any:
        features = self.body(x).flatten(1)
        return self.actor(features), self.critic(features)


def random_observations(count: int = 3) -> np.ndarray:
    """Noise, because maxima in uniform regions are not unique, and neither are their gradients."""
    return np.random.default_rng(0).integers(0, 256, (count, *SHAPE), np.uint8)


def loaded(module: nn.Module, seed: int = 0) -> nn.Module:
    module.load_state_dict({k: torch.from_numpy(v) for k, v in state_dicts.ppo_atari(seed, side=44).items()})
    return module


class InPlace(nn.Module):
    """A ReLU that changes its input in place, and an input that is read after it, as residual blocks do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.relu, self.next = nn.Conv2d(4, 6, 8, stride=8), nn.ReLU(inplace=True), nn.Conv2d(6, 6, 1)
        self.actor, self.critic = nn.Linear(150, 4), nn.Linear(150, 1)

    def forward(self, x: Any) -> Any:
        x = self.conv(x)
        x = x + torch.tanh(self.next(self.relu(x)))
        return self.actor(x.flatten(1)), self.critic(x.flatten(1))
