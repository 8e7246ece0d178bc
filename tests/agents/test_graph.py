"""Which layers are bottlenecks, in small networks with every kind of join."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.sites import feature_maps

SHAPE = (12, 12, 3)


def conv(name: str, **options: object) -> keras.layers.Layer:
    return keras.layers.Conv2D(4, 3, padding="same", name=name, **options)


def relu(name: str) -> keras.layers.Layer:
    return keras.layers.ReLU(name=name)


def heads(x: keras.KerasTensor) -> list[keras.KerasTensor]:
    x = keras.layers.Flatten()(x)
    return [keras.layers.Dense(5, name="policy")(x), keras.layers.Dense(1, name="value")(x)]


def make_agent(inputs: keras.KerasTensor, outputs: object) -> KerasAgent:
    return KerasAgent(keras.Model(inputs, outputs), gradient_batch_size=8)


def bottlenecks(agent: KerasAgent) -> dict[str, bool]:
    return {o.name: o.after_bottleneck for o in feature_maps(agent.sites) if o.kind == "relu"}


@pytest.fixture
def inputs() -> keras.KerasTensor:
    return keras.Input(SHAPE)


def test_every_layer_of_a_chain_is_a_bottleneck(inputs: Any) -> None:
    x = relu("r2")(conv("c2")(relu("r1")(conv("c1")(inputs))))
    assert bottlenecks(make_agent(inputs, heads(x))) == {"r1": True, "r2": True}


def test_layers_inside_a_residual_block_are_bypassed(inputs: Any) -> None:
    x = relu("r1")(conv("c1")(inputs))
    y = relu("r2")(conv("c2")(x))
    x = relu("r3")(keras.layers.Add()([x, conv("c3")(y)]))
    assert bottlenecks(make_agent(inputs, heads(x))) == {"r1": True, "r2": False, "r3": True}


def test_convolutions_with_an_activation_of_their_own(inputs: Any) -> None:
    x = conv("c1", activation="relu")(inputs)
    x = keras.layers.Add()([x, conv("c2", activation="relu")(x)])
    assert bottlenecks(make_agent(inputs, heads(x))) == {"c1": True, "c2": False}


def test_branches_of_the_heads_bypass_each_other_if_the_body_is_shared(inputs: Any) -> None:
    x = relu("shared")(conv("c1")(inputs))
    policy = keras.layers.Dense(5)(keras.layers.Flatten()(relu("p")(conv("c2")(x))))
    value = keras.layers.Dense(1)(keras.layers.Flatten()(relu("v")(conv("c3")(x))))
    assert bottlenecks(make_agent(inputs, [policy, value])) == {"shared": True, "p": False, "v": False}


def test_layers_of_separate_networks_for_each_head_are_bottlenecks(inputs: Any) -> None:
    policy = keras.layers.Dense(5)(keras.layers.Flatten()(relu("p")(conv("c2")(inputs))))
    value = keras.layers.Dense(1)(keras.layers.Flatten()(relu("v")(conv("c3")(inputs))))
    agent = make_agent(inputs, [policy, value])
    assert bottlenecks(agent) == {"p": True, "v": True}
    observations = np.random.default_rng(0).integers(0, 256, (2, *SHAPE), np.uint8)
    gradients = agent.gradients(observations, "p", ["value", 0])
    assert np.all(gradients[0] == 0)
    assert np.any(gradients[1] != 0)


def test_layer_names_do_not_depend_on_earlier_models() -> None:
    def names() -> list[str]:
        x = keras.Input(SHAPE)
        y = keras.layers.MaxPooling2D()(keras.layers.Conv2D(4, 3)(x))
        y = keras.ops.sqrt(keras.ops.square(keras.layers.ReLU()(keras.layers.Conv2D(4, 3)(y))))
        return [operation.name for operation in feature_maps(make_agent(x, heads(y)).sites)]

    first, second = names(), names()  # Keras numbers the layers of all models consecutively
    assert first == second == ["conv2d", "max_pooling2d", "conv2d_1", "re_lu", "square", "sqrt"]
