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
def test_gradients_predict_changes_for_normalization_attention_and_lstm(
    make: Callable[[], Any], options: dict[str, Any]
) -> None:
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


def test_states_that_are_not_batch_first_need_a_forward_function() -> None:
    with pytest.raises(OptionError, match=r"cannot be run.*forward=lambda module, observations, state"):
        TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros(6), np.zeros(6)))
    with pytest.raises(OptionError, match="cannot be run"):
        TorchAgent(Lstm(), SHAPE, initial_state=(np.zeros((1, 6)), np.zeros((1, 6))))


class VisionBlock(nn.Module):
    """A block of a vision transformer, in separate operations."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.dense(x)


class VisionTransformer(nn.Module):
    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.patches, self.blocks = nn.Conv2d(4, 8, 8, stride=8), blocks
        self.actor, self.critic = nn.Linear(8, 4), nn.Linear(8, 1)

    def tokens(self, x: Any) -> Any:
        return self.patches(x).flatten(2).transpose(1, 2)

    def outputs(self, tokens: Any) -> Any:
        x = tokens.mean(dim=1)
        return self.actor(x), self.critic(x)

    def forward(self, x: Any) -> Any:
        return self.outputs(self.blocks(self.tokens(x)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(VisionBlock(), VisionBlock()),
        lambda: nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2))),
    ],
)
def test_transformer_blocks_are_layers_with_the_grid_of_tokens_as_axes(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module = VisionTransformer(make()).eval()
    agent, observations = TorchAgent(module, SHAPE), random_observations(3)
    height, width = SHAPE[0] // 8, SHAPE[1] // 8
    assert agent.layers["block1"] == (height, width, 8)
    assert agent.site("block1").name == "blocks.1"
    x = torch.from_numpy(observations).permute(0, 3, 1, 2).float() / 255
    tokens = module.blocks(module.tokens(x)).detach().requires_grad_(True)
    values = agent.forward(observations, read=["block1"]).sites["block1"]
    assert np.allclose(values, tokens.detach().reshape(3, height, width, 8), atol=1e-5)
    (expected,) = torch.autograd.grad(module.outputs(2 * tokens)[1].sum(), tokens)
    gradients = agent.gradients(observations, "block1", ["value"], values=2 * values)[0]
    assert np.allclose(gradients, expected.reshape(values.shape) / 2, atol=1e-5)
    written = agent.forward(observations, write={"block1": np.zeros_like(values)})
    assert np.allclose(written.values, module.outputs(torch.zeros_like(tokens))[1].detach()[:, 0], atol=1e-6)


class FunctionalBlock(nn.Module):
    """A residual block whose activations are functions."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(before, channels, 1, stride)

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(self.shortcut(x) + self.conv2(nn.functional.relu(self.conv1(x))))


def test_residual_blocks_with_functional_activations_are_layers() -> None:
    blocks = nn.Sequential(FunctionalBlock(8, 8, 1), FunctionalBlock(8, 16, 1), nn.Conv2d(16, 8, 1))
    agent = TorchAgent(Net(blocks), SHAPE)
    assert [agent.site(name).name for name in agent.layers if name.startswith("block")] == ["layer.0", "layer.1"]
