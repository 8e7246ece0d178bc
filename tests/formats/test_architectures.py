"""Networks of Baselines: golden results, names, mismatched parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.agents import keras_agent
from rl_clarity.agents.network import Network
from rl_clarity.analyses.attribution.layers import choose_layers
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.architectures import ARCHITECTURES, build
from tests.formats.test_torch_networks import random_observations
from tests.golden_data import Golden

KerasAgent: Any = keras_agent.KerasAgent
"""Not typed, because the network decides which outputs are None."""


def is_close(actual: np.ndarray | None, expected: np.ndarray) -> bool:
    return actual is not None and bool(np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max())


def test_outputs_of_baselines_networks_equal_the_original(golden: Golden) -> None:
    outputs = formats.load_agent(golden.checkpoint).forward(golden.expected["observations"])
    assert is_close(outputs.policy_logits, golden.expected["policy_logits"])
    assert is_close(outputs.values, golden.expected["values"])


def test_layer_names_and_activations_equal_the_original(golden: Golden) -> None:
    agent = formats.load_agent(golden.checkpoint)
    relus = {layer.name: layer for layer in choose_layers(agent, op_is_one_of=["relu"], bottleneck_only=False)}
    assert list(relus) == [str(name) for name in golden.expected["all_layer_keys"]]
    for layer in golden.layers:
        expected = golden.expected[f"{layer}.activations"]
        assert relus[layer].shape == expected.shape[1:]
        assert is_close(agent.activations(golden.frames(f"{layer}.activations"), layer), expected)


@pytest.mark.parametrize("name", ARCHITECTURES.names())
def test_the_same_seed_gives_the_same_network(name: str) -> None:
    shape = (44, 44, 4)
    first, same, other = (build(name, shape, 5, seed=seed).parameters() for seed in (3, 3, 4))
    assert all(np.array_equal(first[key], same[key]) for key in first)
    assert any(not np.array_equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", ARCHITECTURES.names())
def test_a_network_rebuilt_from_its_parameters_has_equal_outputs(name: str) -> None:
    shape = (44, 44, 4)
    network = build(name, shape, 5, seed=1)
    copy = build(name, shape, 5, parameters=network.parameters())
    observations = random_observations((3, *shape))
    assert np.array_equal(
        KerasAgent(network).forward(observations).values, KerasAgent(copy).forward(observations).values
    )


def test_impala_options_set_channels_and_embedding_size() -> None:
    network = build("impala", (64, 64, 3), 5, {"stack_channels": "8_12", "emb_size": "32", "gamma": 0.9})
    agent = KerasAgent(network)
    assert agent.layers == {"block1": (32, 32, 8), "block2": (16, 16, 12)}
    assert choose_layers(agent, op_is_one_of=["relu"])[0].shape == (32, 32, 8)
    assert network.parameters()["ppo2_model/pi/layer_10/kernel:0"].shape == (16 * 16 * 12, 32)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stack_channels": ""}, "stack_channels"),
        ({"stack_channels": "16_x"}, "'x'"),
        ({"stack_channels": [16] * 17}, "blocks"),
        ({"emb_size": 10**9}, "1000000000"),
        ({"emb_size": None}, "emb_size"),
    ],
)
def test_invalid_options_of_impala_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        build("impala", (64, 64, 3), 5, options)


def test_unknown_networks_suggest_the_nearest() -> None:
    with pytest.raises(CheckpointError, match=r"'claer'; did you mean 'clear'.*clear, impala, nature"):
        build("claer", (64, 64, 3), 5)


class TestMismatchedParameters:
    SHAPE = (44, 44, 4)
    NAME = "ppo2_model/pi/c2/w:0"

    def load(self, **changed: Any) -> Network:
        parameters = {**build("nature", self.SHAPE, 5).parameters(), **changed}
        return build("nature", self.SHAPE, 5, parameters={k: v for k, v in parameters.items() if v is not None})

    def test_a_parameter_of_the_wrong_shape_is_refused(self) -> None:
        with pytest.raises(CheckpointError, match=rf"{self.NAME}.*\(4, 4, 32, 63\).*needs \(4, 4, 32, 64\)"):
            self.load(**{self.NAME: np.zeros((4, 4, 32, 63), np.float32)})

    def test_a_missing_parameter_is_refused(self) -> None:
        with pytest.raises(CheckpointError, match=rf"{self.NAME}.*\(4, 4, 32, 64\) is missing.*ppo2_model/pi/c1/w:0"):
            self.load(**{self.NAME: None})

    def test_an_unexpected_parameter_is_refused(self) -> None:
        with pytest.raises(CheckpointError, match=r"does not have.*'ppo2_model/pi/c4/w:0' \(7,\)"):
            self.load(**{"ppo2_model/pi/c4/w:0": np.zeros(7, np.float32)})

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_parameters_with_nan_or_infinity_are_refused(self, value: float) -> None:
        with pytest.raises(CheckpointError, match=rf"{self.NAME}.*32768 values that are NaN or infinite"):
            self.load(**{self.NAME: np.full((4, 4, 32, 64), value, np.float32)})
