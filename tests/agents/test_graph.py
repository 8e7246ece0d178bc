"""Which layers are bottlenecks, in small networks with every kind of join."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.sites import default_layers, feature_maps

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


def test_every_layer_of_a_sequential_network_is_a_bottleneck(inputs: Any) -> None:
    x = relu("r2")(conv("c2")(relu("r1")(conv("c1")(inputs))))
    assert bottlenecks(make_agent(inputs, heads(x))) == {"r1": True, "r2": True}


def test_layers_inside_a_residual_block_are_bypassed(inputs: Any) -> None:
    x = relu("r1")(conv("c1")(inputs))
    y = relu("r2")(conv("c2")(x))
    x = relu("r3")(keras.layers.Add()([x, conv("c3")(y)]))
    assert bottlenecks(make_agent(inputs, heads(x))) == {"r1": True, "r2": False, "r3": True}


def test_convolutions_with_a_built_in_activation_count_as_layers(inputs: Any) -> None:
    x = conv("c1", activation="relu")(inputs)
    x = keras.layers.Add()([x, conv("c2", activation="relu")(x)])
    assert bottlenecks(make_agent(inputs, heads(x))) == {"c1": True, "c2": False}


def test_policy_and_value_branches_after_a_shared_body_bypass_each_other(inputs: Any) -> None:
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


def test_layer_names_do_not_depend_on_models_built_earlier() -> None:
    def names() -> list[str]:
        x = keras.Input(SHAPE)
        y = keras.layers.MaxPooling2D()(keras.layers.Conv2D(4, 3)(x))
        y = keras.ops.sqrt(keras.ops.square(keras.layers.ReLU()(keras.layers.Conv2D(4, 3)(y))))
        return [operation.name for operation in feature_maps(make_agent(x, heads(y)).sites)]

    first, second = names(), names()  # Keras numbers the layers of all models consecutively
    assert first == second == ["conv2d", "max_pooling2d", "conv2d_1", "re_lu", "square", "sqrt"]


def bypassed(agent: KerasAgent) -> list[str]:
    return [site.name for site in feature_maps(agent.sites) if site.bypassed]


def residual(x: Any, name: str, *, activation: bool = False) -> Any:
    inside = conv(f"{name}c2")(relu(f"{name}r2")(conv(f"{name}c1")(relu(f"{name}r1")(x))))
    x = keras.layers.Add(name=f"{name}add")([x, inside])
    return relu(f"{name}out")(x) if activation else x


def pool(x: Any) -> Any:
    return keras.layers.MaxPooling2D(2)(x)


def test_layers_that_skip_connections_avoid_are_bypassed(inputs: Any) -> None:
    agent = make_agent(inputs, heads(residual(conv("c")(inputs), "x")))
    assert bypassed(agent) == ["xr1", "xc1", "xr2", "xc2"]


def test_default_layers_of_a_residual_network_are_outputs_of_its_blocks(inputs: Any) -> None:
    x = residual(residual(pool(conv("c1")(inputs)), "a"), "b")
    x = residual(pool(conv("c2")(x)), "c")
    agent = make_agent(inputs, heads(x))
    layers = default_layers(agent.sites)
    assert [(layer.name, layer.site.name, layer.label) for layer in layers] == [
        ("block1", "badd", "block 1, 6 x 6 x 4"),
        ("block2", "cadd", "block 2, 3 x 3 x 4"),
    ]
    assert agent.layers == {"block1": (6, 6, 4), "block2": (3, 3, 4)}
    assert agent.site("block2").name == "cadd"


def test_an_activation_after_a_residual_sum_is_the_output_of_the_block(inputs: Any) -> None:
    x = residual(relu("stem")(conv("c")(inputs)), "a", activation=True)
    x = residual(x, "b", activation=True)
    agent = make_agent(inputs, heads(relu("last")(conv("end", strides=2)(x))))
    assert {layer.name: layer.site.name for layer in default_layers(agent.sites)} == {
        "stem": "stem",
        "block1": "bout",
        "last": "last",
    }


def test_default_layers_of_a_plain_network_are_its_activations(inputs: Any) -> None:
    x = relu("r2")(conv("c2")(pool(relu("r1")(conv("c1")(inputs)))))
    assert list(make_agent(inputs, heads(conv("c3", activation="relu")(x))).layers) == ["r1", "r2", "c3"]


def test_layers_of_the_policy_or_value_branch_are_no_default_layers(inputs: Any) -> None:
    x = relu("shared")(conv("c1")(inputs))
    policy = keras.layers.Dense(5)(keras.layers.Flatten()(relu("p")(conv("c2")(x))))
    value = keras.layers.Dense(1)(keras.layers.Flatten()(relu("v")(conv("c3")(x))))
    assert list(make_agent(inputs, [policy, value]).layers) == ["shared"]


def test_names_of_residual_blocks_avoid_existing_layer_names(inputs: Any) -> None:
    x = residual(conv("block1")(inputs), "a")
    agent = make_agent(inputs, heads(x))
    assert agent.site("block1").kind == "conv2d"
    assert {name: agent.site(name).name for name in agent.layers} == {"block_1": "aadd"}
