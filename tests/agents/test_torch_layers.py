"""Layers other than convolutions and ReLUs: normalization, attention, recurrent cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rl_clarity.agents import torch_agent  # noqa: E402
from rl_clarity.base.errors import OptionError  # noqa: E402
from tests.agents.torch_modules import SHAPE, random_observations  # noqa: E402

pytestmark = pytest.mark.usefixtures("single_thread")

TorchAgent: Any = torch_agent.TorchAgent
"""Not typed, because the network decides which outputs are None."""


class Attention(nn.Module):
    """Attention over the positions of feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        tokens = x.flatten(2).transpose(1, 2)
        return self.attention(tokens, tokens, tokens)[0].transpose(1, 2).reshape(x.shape)


class Encoder(nn.Module):
    """A Transformer over the positions of feature maps; it has a fused path without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.encoder(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)


def trained_batch_norm() -> nn.Module:
    norm = nn.BatchNorm2d(8)
    norm.running_mean, norm.running_var = torch.linspace(-0.2, 0.2, 8), torch.linspace(0.05, 0.3, 8)
    return norm


class Net(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.stem, self.layer, self.act = nn.Conv2d(4, 8, 8, stride=8), layer, nn.SiLU()
        self.actor, self.critic = nn.Linear(200, 4), nn.Linear(200, 1)

    def forward(self, x: Any) -> Any:
        x = self.act(self.layer(self.stem(x))).flatten(1)
        return self.actor(x), self.critic(x)


class Lstm(nn.Module):
    """An LSTM over one step, whose state has the layers as its first axis."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act = nn.Conv2d(4, 8, 8, stride=8), nn.Tanh()
        self.lstm, self.actor, self.critic = nn.LSTM(200, 6), nn.Linear(6, 4), nn.Linear(6, 1)

    def forward(self, x: Any, state: Any) -> Any:
        x, state = self.lstm(self.act(self.stem(x)).flatten(1)[None], state)
        return self.actor(x[0]), self.critic(x[0]), state


def batch_first(module: Any, x: Any, state: Any) -> Any:
    logits, value, after = module(x, tuple(part[None] for part in state))
    return logits, value, tuple(part[0] for part in after)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda: Net(trained_batch_norm()), {}),
        (lambda: Net(nn.GroupNorm(2, 8)), {}),
        (lambda: Net(Attention()), {}),
        (lambda: Net(Encoder()), {}),
        (Lstm, {"initial_state": (np.full(6, 0.1), np.full(6, -0.2)), "forward": batch_first}),
    ],
    ids=["batch norm", "group norm", "attention", "transformer", "LSTM"],
)
def test_gradients_predict_changes(make: Callable[[], Any], options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    agent = TorchAgent(make().double(), SHAPE, **options)
    observations = random_observations()
    assert list(agent.layers) == ["act"]
    for site in ("input", "stem", "act"):
        (tail,) = agent.tails(observations, site, ["value", 2])
        values = tail.values
        np.testing.assert_allclose(tail.scores()[0], agent.forward(observations).values, rtol=1e-5)
        direction = np.random.default_rng(0).normal(size=values.shape).astype(np.float32)
        after, before = (tail.scores(values + sign * 1e-2 * direction) for sign in (1, -1))
        predicted = 2e-2 * (tail.gradients() * direction).reshape(2, len(values), -1).sum(axis=-1)
        np.testing.assert_allclose(after - before, predicted, rtol=0.02, atol=0.01 * np.abs(predicted).max())


def test_states_with_another_first_axis_need_a_forward_function() -> None:
    with pytest.raises(OptionError, match=r"cannot be run.*forward=lambda module, observations, state"):
        TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros(6), np.zeros(6)))
    with pytest.raises(OptionError, match="cannot be run"):
        TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros((1, 6)), np.zeros((1, 6))))
