"""What a network is given for black and white."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.base.errors import OptionError

SHAPE = (12, 10, 3)
OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)
RANGES = [(-1, 1), (0, 255), (-0.5, 0.5), (0, 1)]
WEIGHTS = np.random.default_rng(1).normal(size=(int(np.prod(SHAPE)), 5)).astype(np.float32)


def torch_agent(**options: Any) -> BatchedAgent:
    torch = pytest.importorskip("torch")

    class Linear(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Linear(len(WEIGHTS), 5, bias=False)
            self.weights.weight = torch.nn.Parameter(torch.tensor(WEIGHTS.T))

        def forward(self, x: Any) -> Any:
            return {"q_values": self.weights(x.flatten(1))}

    return rl_clarity.TorchAgent(Linear(), SHAPE, channels_first=False, **options)


def keras_agent(**options: Any) -> BatchedAgent:
    keras = pytest.importorskip("keras")
    frames = keras.Input(SHAPE)
    layer = keras.layers.Dense(5, use_bias=False, name="q_values")
    model = keras.Model(frames, layer(keras.layers.Flatten()(frames)))
    layer.set_weights([WEIGHTS])
    return rl_clarity.KerasAgent(model, heads=["q_values"], **options)


def jax_agent(**options: Any) -> BatchedAgent:
    pytest.importorskip("jax")

    def apply(weights: Any, x: Any) -> Any:
        return {"q_values": x.reshape(len(x), -1) @ weights}

    return rl_clarity.JaxAgent(apply, WEIGHTS, SHAPE, **options)


@pytest.mark.parametrize("value_range", RANGES)
@pytest.mark.parametrize("make", [torch_agent, keras_agent, jax_agent])
def test_observations_are_scaled_to_the_networks_value_range(make: Any, value_range: tuple[float, float]) -> None:
    agent = make(value_range=value_range)
    low, high = value_range
    expected = (OBSERVATIONS / 255 * (high - low) + low).reshape(3, -1) @ WEIGHTS
    outputs = agent.forward(OBSERVATIONS, read=["input"])
    np.testing.assert_allclose(outputs.q_values, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(outputs.sites["input"], OBSERVATIONS / 255, atol=1e-6)
    written = agent.forward(OBSERVATIONS * 0, write={"input": OBSERVATIONS / 255})
    np.testing.assert_allclose(written.q_values, outputs.q_values, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    (gradient,) = agent.gradients(OBSERVATIONS, "input", [2])
    np.testing.assert_allclose(gradient.reshape(3, -1), np.tile(WEIGHTS[:, 2] * (high - low), (3, 1)), rtol=1e-4)
    (tail,) = agent.tails(OBSERVATIONS, "input", [2])
    np.testing.assert_allclose(tail.scores(scale=0), low * WEIGHTS[:, 2].sum(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("make", [torch_agent, keras_agent, jax_agent])
def test_an_invalid_value_range_is_refused(make: Any) -> None:
    for value_range in ((1, 0), (0, np.inf), 3):
        with pytest.raises(OptionError, match=r"value_range=.* must be \(low, high\)"):
            make(value_range=value_range)
    with pytest.raises(OptionError, match="pass only one of them"):
        make(value_range=(0, 1), input_divisor=255)


@pytest.mark.parametrize("make", [torch_agent, keras_agent, jax_agent])
def test_outputs_from_the_users_own_loop_are_checked_against_the_agent(make: Any) -> None:
    raw = np.random.default_rng(2).uniform(-1, 1, (4, *SHAPE)).astype(np.float32)
    check = {"observations": raw, "q_values": raw.reshape(4, -1) @ WEIGHTS}
    make(value_range=(-1, 1), check=check)
    with pytest.raises(
        OptionError, match=r"q_values deviate .* gets inputs from -2 to 2 for observations from 0 to 255"
    ):
        make(value_range=(-2, 2), check={**check, "q_values": check["q_values"] + 100})
    images = {"observations": OBSERVATIONS, "q_values": (OBSERVATIONS / 255).reshape(3, -1) @ WEIGHTS}
    make(check=images)
    with pytest.raises(OptionError, match="q_values deviate"):
        make(value_range=(0, 255), check=images)
