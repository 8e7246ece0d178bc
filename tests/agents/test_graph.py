"""Which layers can be by-passed, in small networks of every kind of join."""

from __future__ import annotations

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


def agent_of(inputs: keras.KerasTensor, outputs: object) -> KerasAgent:
    return KerasAgent(keras.Model(inputs, outputs), gradient_batch_size=8)


def narrow(agent: KerasAgent) -> dict[str, bool]:
    return {o.name: o.after_bottleneck for o in feature_maps(agent.sites) if o.kind == "relu"}


@pytest.fixture
def inputs() -> keras.KerasTensor:
    return keras.Input(SHAPE)


def test_a_chain_has_no_by_pass(inputs):
    x = relu("r2")(conv("c2")(relu("r1")(conv("c1")(inputs))))
    assert narrow(agent_of(inputs, heads(x))) == {"r1": True, "r2": True}


def test_inside_a_residual_block_a_layer_is_by_passed(inputs):
    x = relu("r1")(conv("c1")(inputs))
    y = relu("r2")(conv("c2")(x))
    x = relu("r3")(keras.layers.Add()([x, conv("c3")(y)]))
    assert narrow(agent_of(inputs, heads(x))) == {"r1": True, "r2": False, "r3": True}


def test_a_convolution_with_its_activation_is_as_one_without(inputs):
    x = conv("c1", activation="relu")(inputs)
    x = keras.layers.Add()([x, conv("c2", activation="relu")(x)])
    assert narrow(agent_of(inputs, heads(x))) == {"c1": True, "c2": False}


def test_branches_of_the_heads_are_by_passed_where_a_body_is_shared(inputs):
    x = relu("shared")(conv("c1")(inputs))
    policy = keras.layers.Dense(5)(keras.layers.Flatten()(relu("p")(conv("c2")(x))))
    value = keras.layers.Dense(1)(keras.layers.Flatten()(relu("v")(conv("c3")(x))))
    assert narrow(agent_of(inputs, [policy, value])) == {"shared": True, "p": False, "v": False}


def test_heads_that_share_nothing_have_each_their_own_layers(inputs):
    policy = keras.layers.Dense(5)(keras.layers.Flatten()(relu("p")(conv("c2")(inputs))))
    value = keras.layers.Dense(1)(keras.layers.Flatten()(relu("v")(conv("c3")(inputs))))
    agent = agent_of(inputs, [policy, value])
    assert narrow(agent) == {"p": True, "v": True}
    observations = np.random.default_rng(0).integers(0, 256, (2, *SHAPE), np.uint8)
    gradients = agent.gradients(observations, "p", ["value", 0])
    assert np.all(gradients[0] == 0)
    assert np.any(gradients[1] != 0)


def test_names_do_not_depend_on_what_was_made_before():
    def names() -> list[str]:
        x = keras.Input(SHAPE)
        y = keras.layers.MaxPooling2D()(keras.layers.Conv2D(4, 3)(x))
        y = keras.ops.sqrt(keras.ops.square(keras.layers.ReLU()(keras.layers.Conv2D(4, 3)(y))))
        return [operation.name for operation in feature_maps(agent_of(x, heads(y)).sites)]

    first, second = names(), names()  # Keras numbers on
    assert first == second == ["conv2d", "max_pooling2d", "conv2d_1", "re_lu", "square", "sqrt"]
