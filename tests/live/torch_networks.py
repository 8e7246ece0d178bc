"""Agents that PyTorch computes, for pages with their networks beside them; importing it needs PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import rl_clarity
from tests.live.pages import SHAPE

STACKED = (96, 96, 4)
"""Observations that are too large to be stored as pixels."""


class Policy(nn.Module):
    def __init__(self, activation: Any = torch.tanh) -> None:
        super().__init__()
        self.activation = activation
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, 8)
        )
        self.actor, self.critic = nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        x = self.activation(self.body(x))
        return self.actor(x), self.critic(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 6, 8, stride=8), nn.ReLU(), nn.Flatten(), nn.Linear(864, 12), nn.Tanh())
        self.cell = nn.GRUCell(12, 6)
        self.actor, self.critic = nn.Linear(6, 4), nn.Linear(6, 1)

    def forward(self, x: Any, state: Any) -> Any:
        state = self.cell(self.body(x), state)
        return self.actor(state), self.critic(state), state


def policy_agent(seed: int = 0, activation: Any = torch.tanh) -> Any:
    torch.manual_seed(seed)
    return rl_clarity.TorchAgent(Policy(activation), SHAPE, heads=("policy_logits", "values"))


def recurrent_agent() -> Any:
    torch.manual_seed(0)
    return with_state(Recurrent(), STACKED, np.zeros(6, np.float32), metadata={"frame_stack": 4})


def with_state(module: nn.Module, shape: tuple[int, ...], initial: np.ndarray, **options: Any) -> Any:
    """Return the agent of a module that takes and returns a state of one part, with a policy and a value."""

    def forward(module: Any, observations: Any, state: Any) -> Any:
        logits, values, after = module(observations, state[0])
        return logits, values, (after,)

    heads = ("policy_logits", "values")
    return rl_clarity.TorchAgent(module, shape, forward=forward, initial_state=[initial], heads=heads, **options)
