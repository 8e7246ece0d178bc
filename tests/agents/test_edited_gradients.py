"""Gradients, tails and attribution of edited agents: those of the edited network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity import Ablate, Steer
from rl_clarity.formats import cleanrl_networks as cleanrl
from rl_clarity.formats.included import load_agent
from tests import state_dicts
from tests.agents.test_editing import SHAPE, heads, keras_agent, observations_for, torch_agent

SMOOTH_SHAPE = (16, 16, 3)


def smooth_torch_agent() -> Any:
    """Two layers and a connection around the second; without kinks, so that finite differences are exact."""
    torch = pytest.importorskip("torch")

    class Smooth(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = torch.nn.Conv2d(3, 6, 4, stride=4), torch.nn.Conv2d(6, 6, 3, padding=1)
            self.act, self.skip, self.last = torch.nn.Tanh(), torch.nn.Tanh(), torch.nn.Softplus()
            self.actor, self.critic = torch.nn.Linear(96, 4), torch.nn.Linear(96, 1)

        def forward(self, x: Any) -> Any:
            x = self.act(self.one(x))
            x = self.last(x + 2 * self.skip(self.two(x))).flatten(1)
            return self.actor(x), self.critic(x)

    return rl_clarity.TorchAgent(Smooth().double(), SMOOTH_SHAPE)


def smooth_keras_agent() -> Any:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    layers = keras.layers
    observations = x = keras.Input(SMOOTH_SHAPE, name="observations")
    x = layers.Activation("tanh", name="act")(layers.Conv2D(6, 4, strides=4)(x))
    y = layers.Activation("tanh", name="skip")(layers.Conv2D(6, 3, padding="same")(x))
    x = layers.Flatten()(layers.Activation("softplus", name="last")(x + 2 * y))
    return rl_clarity.KerasAgent(keras.Model(observations, [layers.Dense(4)(x), layers.Dense(1)(x)]))


def smooth_jax_agent() -> Any:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    kernels = [rng.normal(size=size).astype(np.float32) / 5 for size in ((48, 6), (6, 6), (96, 5))]

    def apply(weights: Any, x: Any) -> Any:
        x = x.reshape(-1, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, 48)
        x = jax.nn.softplus(x @ weights[0])
        y = jax.numpy.tanh(x @ weights[1])
        x = jax.nn.silu(x + 2 * y).reshape(-1, 96) @ weights[2]
        return x[:, :4], x[:, 4]

    return rl_clarity.JaxAgent(apply, kernels, SMOOTH_SHAPE, input_divisor=255)


def lstm_network() -> Any:
    return cleanrl.ppo_atari(state_dicts.ppo_atari(side=44, lstm=True), SHAPE)


AGENTS = {
    "torch": (smooth_torch_agent, ("act", "skip", "last")),
    "keras": (smooth_keras_agent, ("act", "skip", "last")),
    "jax": (smooth_jax_agent, ("dense", "tanh", "silu")),
}


@pytest.fixture(
    scope="module", params=["torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("keras", "jax"))]
)
def case(request: pytest.FixtureRequest) -> tuple[Any, tuple[str, ...]]:
    make, layers = AGENTS[request.param]
    agent = make()
    return agent, tuple(agent.site(layer).name for layer in layers)


def edits_of(agent: Any, layer: str) -> list[Any]:
    """An ablation of overlapping components, one of a resampled unit, and a steered component."""
    data = agent.activations(observations_for(agent, 4, seed=3), layer)
    components = np.random.default_rng(2).random((2, data.shape[-1])) * np.abs(data).mean()
    return [
        Ablate(layer, component=components, strength=0.7),
        Ablate(layer, unit=1, to="resample", data=data),
        Steer(layer, components[0], amount=0.5, data=data),
    ]


@pytest.mark.parametrize("place", ["before", "at", "after"])
def test_gradients_of_edited_agents_equal_finite_differences(case: tuple[Any, tuple[str, ...]], place: str) -> None:
    agent, layers = case
    observations = observations_for(agent, 2)
    site = layers[1]
    edited = rl_clarity.edit(agent, *edits_of(agent, layers[("before", "at", "after").index(place)]))
    values = edited.activations(observations, site)
    gradients = edited.gradients(observations, site, [0])[0]
    rng = np.random.default_rng(5)
    for _ in range(3):
        step = rng.normal(size=values.shape).astype(np.float32) * np.abs(values).mean() * np.float32(0.02)
        after, before = (heads(edited, observations, write={site: values + sign * step})[:, 0] for sign in (1, -1))
        expected = (after - before) / 2
        assert np.allclose((gradients * step).sum(axis=(1, 2, 3)), expected, rtol=0.01, atol=2e-5)
    unedited = agent.gradients(observations, site, [0])[0]
    assert not np.allclose(gradients, unedited, rtol=1e-3, atol=1e-3 * np.abs(unedited).max())


def test_tails_of_edited_agents_use_edited_activations_and_scores(case: tuple[Any, tuple[str, ...]]) -> None:
    agent, layers = case
    observations = observations_for(agent, 3)
    edited = rl_clarity.edit(agent, *(edit for layer in layers for edit in edits_of(agent, layer)))
    expected = heads(edited, observations)[:, 1]
    for site in ("input", layers[1]):
        (tail,) = edited.tails(observations, site, [1])
        assert np.allclose(tail.values, edited.activations(observations, site), atol=1e-5)
        assert np.allclose(tail.scores()[0], expected, rtol=1e-4, atol=1e-5)
        at_zero = heads(edited, observations, write={site: np.zeros_like(tail.values)})[:, 1]
        assert np.allclose(tail.scores(scale=0)[0], at_zero, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["torch", "keras recurrent"])
def test_attribution_of_an_edited_agent_is_complete(name: str) -> None:
    agent = torch_agent("Nature") if name == "torch" else keras_agent(lstm_network())
    first, _, last = (agent.site(layer).name for layer in agent.layers)
    observations = observations_for(agent, 2)
    edited = rl_clarity.edit(agent, *edits_of(agent, first), *edits_of(agent, last))
    (tail,) = edited.tails(observations, first, [0])
    points = (np.arange(64) + 0.5) / 64
    attribution = tail.values * tail.path_gradients(points, np.full(64, 1 / 64))[0]
    difference = (tail.scores() - tail.scores(scale=0))[0]
    assert np.allclose(attribution.sum(axis=(1, 2, 3)), difference, atol=0.02 * np.abs(difference).max() + 1e-4)


def test_an_ablated_layer_blocks_gradients_to_earlier_layers() -> None:
    agent = smooth_torch_agent()
    edited = rl_clarity.edit(agent, Ablate("act"))
    observations = observations_for(agent, 2)
    assert np.all(edited.gradients(observations, "input", [0, "value"]) == 0)
    assert np.any(agent.gradients(observations, "input", [0]) != 0)


def test_gradients_of_directions_are_those_of_the_edited_network() -> None:
    agent = smooth_torch_agent()
    images = np.random.default_rng(0).random((2, 16, 16, 3))
    edited = rl_clarity.edit(agent, Ablate("act", unit=[0, 1, 2]))
    values, gradients = edited.gradient_of_direction(images, "act", np.stack([np.eye(6)[0], np.eye(6)[4]]))
    assert values[0] == 0
    assert not np.any(gradients[0])
    expected, _ = agent.gradient_of_direction(images, "act", np.eye(6)[[4, 4]])
    assert values[1] == pytest.approx(expected[1])


@pytest.mark.slow
def test_an_included_recurrent_agent_can_be_edited() -> None:
    agent: Any = load_agent("models:starpilot-lstm")
    observations = observations_for(agent, 2)
    layer = next(iter(agent.layers))
    edited: Any = rl_clarity.edit(agent, Ablate(layer))
    state = tuple(np.full_like(part, 0.1) for part in agent.initial_state(2))
    zeros = np.zeros_like(agent.activations(observations, layer))
    expected = heads(agent, observations, state=state, write={layer: zeros})
    outputs, after = edited.step(observations, state, np.zeros(2, bool))
    assert np.array_equal(outputs.values, expected[:, -1])
    assert np.array_equal(after[0], agent.forward(observations, state, write={layer: zeros}).state[0])
