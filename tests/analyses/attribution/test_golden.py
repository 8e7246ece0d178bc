"""Attribution equals the results of the original implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.analyses.attribution import input_gradients, integrated_gradients, multi_path_attribution, select_layers
from rl_clarity.analyses.attribution.integrated_gradients import ORIGINAL_PATH
from rl_clarity.pages.options import ORIGINAL
from rl_clarity.reduction import ChannelReduction
from tests.golden_data import Golden


@pytest.fixture(scope="module")
def agent(golden: Golden) -> Any:
    return formats.load_agent(golden.checkpoint)


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-4) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def test_layer_names_equal_those_of_the_original_implementation(golden: Golden, agent: Any) -> None:
    assert select_layers(agent, **ORIGINAL["layer_kwargs"]) == golden.expected["layer_keys"].tolist()
    assert select_layers(agent, bottleneck_only=False) == golden.expected["all_layer_keys"].tolist()


def golden_layers(golden: Golden) -> list[str]:
    return [key.removesuffix(".ig_value_10") for key in golden.expected if key.endswith(".ig_value_10")]


@pytest.mark.parametrize(("key", "output"), [("ig_value_10", "value"), ("ig_logit2_10", 2)])
def test_integrated_gradients_equal_the_original_implementation(
    golden: Golden, agent: Any, key: str, output: Any
) -> None:
    for layer in golden_layers(golden):
        expected = golden.expected[f"{layer}.{key}"]
        observations = golden.expected["observations"][: len(expected)]
        assert_close(integrated_gradients(agent, observations, layer, output, **ORIGINAL_PATH), expected)


def test_integrated_gradients_of_one_step_equal_gradient_times_activation(golden: Golden, agent: Any) -> None:
    for layer in golden_layers(golden):
        expected = golden.expected[f"{layer}.grad_times_act_value"]
        observations = golden.expected["observations"][: len(expected)]
        assert_close(integrated_gradients(agent, observations, layer, **{**ORIGINAL_PATH, "steps": 1}), expected)


def test_layer_activations_equal_the_original_implementation(golden: Golden, agent: Any) -> None:
    for layer in golden_layers(golden):
        expected = golden.expected[f"{layer}.activations"]
        assert_close(agent.activations(golden.expected["observations"][: len(expected)], layer), expected)


def test_input_gradients_equal_the_original_implementation(golden: Golden, agent: Any) -> None:
    expected = golden.expected["input_gradient_of_value"]
    assert_close(input_gradients(agent, golden.expected["observations"][: len(expected)]), expected)


def test_policy_logits_and_values_equal_the_original_implementation(golden: Golden, agent: Any) -> None:
    outputs = agent.forward(golden.expected["observations"])
    assert_close(outputs.policy_logits, golden.expected["policy_logits"])
    assert_close(outputs.values, golden.expected["values"])


@pytest.mark.slow
def test_multi_path_attribution_equals_the_original_implementation(golden: Golden, agent: Any) -> None:
    expected = golden.expected["nmf.multi_path_value_10_all"]
    layer = str(golden.expected["nmf.layer"])
    reduction = ChannelReduction(golden.expected["nmf.components"])
    observations = golden.expected["observations"][: len(expected)]
    actual = multi_path_attribution(agent, observations, layer, reduction, baseline="zero-layer")
    assert_close(actual, expected, 1e-3)
