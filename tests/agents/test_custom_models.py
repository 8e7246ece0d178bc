"""Custom Keras models: outputs, states, scale of the input, shapes of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from rl_clarity.agents import keras_agent
from rl_clarity.agents.sites import feature_maps
from rl_clarity.base.errors import OptionError
from tests.agents.paths import path_gradients

L: Any = keras.layers
KerasAgent: Any = keras_agent.KerasAgent
"""Not typed, because the network decides which outputs are None."""
SHAPE = (20, 16, 3)


def random_observations(count: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def body(inputs: Any) -> Any:
    x = L.Conv2D(4, 3, strides=2, activation="relu", name="c1")(inputs)
    return L.Flatten()(L.Conv2D(4, 3, activation="relu", name="c2")(x))


def two_heads(inputs: Any, first: Any, second: Any) -> list[Any]:
    x = body(inputs)
    return [first(x), second(x)]


def duplicate_names(inputs: Any) -> Any:
    """Two models whose layers have the same name."""
    towers = [keras.Sequential([L.Conv2D(2, 3, name="conv"), L.Flatten()], name=name) for name in "ab"]
    return L.Dense(4, name="q_values")(L.Concatenate()([tower(inputs) for tower in towers]))


class TestKerasModels:
    def test_policy_and_value_outputs_may_come_in_any_order(self) -> None:
        inputs = keras.Input(SHAPE)
        x = body(inputs)
        logits, value = L.Dense(5)(x), L.Dense(1)(x)
        for outputs in ([logits, value], [value, logits], {"value": value, "policy": logits}):
            model = keras.Model(inputs, outputs)
            actual = KerasAgent(model).forward(random_observations(2))
            expected = keras.Model(inputs, [logits, value]).predict(random_observations(2) / np.float32(255), verbose=0)
            assert np.allclose(actual.policy_logits, expected[0], atol=1e-6)
            assert np.allclose(actual.values, expected[1][:, 0], atol=1e-6)

    def test_wrapping_a_keras_model_does_not_change_it(self) -> None:
        model = keras.Sequential(
            [keras.Input(SHAPE), L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(6, name="q_values")]
        )
        names, before = [layer.name for layer in model.layers], model.predict(random_observations(1), verbose=0)
        agent = KerasAgent(model)
        agent.forward(random_observations(1))
        assert [layer.name for layer in model.layers] == names
        assert np.array_equal(model.predict(random_observations(1), verbose=0), before)
        model.layers[-1].bias.assign(model.layers[-1].bias + 1)  # the agent shares the model's variables
        assert np.allclose(
            agent.forward(random_observations(1)).q_values,
            model.predict(random_observations(1) / np.float32(255), verbose=0),
        )

    def test_models_that_scale_their_input_get_values_up_to_255(self) -> None:
        for options, first in (
            ({"dtype": "uint8"}, L.Rescaling(1 / 255)),
            ({}, L.Rescaling(1 / 255)),
            ({}, keras.Sequential([L.Rescaling(1 / 255)])),
            ({"dtype": "uint8"}, L.Rescaling(1.0)),
        ):
            inputs = keras.Input(SHAPE, **options)
            model = keras.Model(inputs, L.Dense(4, name="q_values")(body(first(inputs))))
            expected = model.predict(random_observations(2), verbose=0)
            assert np.allclose(KerasAgent(model).forward(random_observations(2)).q_values, expected, atol=1e-5)
        model = keras.Model(inputs, L.Dense(4, name="q_values")(body(inputs)))
        assert not np.allclose(KerasAgent(model, input_divisor=255).forward(random_observations(2)).q_values, expected)

    def test_nested_models_are_flattened(self) -> None:
        block_input = keras.Input((9, 7, 4))
        y = L.ReLU(name="inner_relu")(L.Conv2D(4, 3, padding="same", name="inner")(block_input))
        block = keras.Model(block_input, L.Add()([block_input, y]), name="block")
        inputs = keras.Input(SHAPE)
        x = block(L.Conv2D(4, 3, strides=2, activation="relu", name="c1")(inputs))
        model = keras.Model(inputs, L.Dense(5, name="q_values")(L.Flatten()(x)))
        agent = KerasAgent(model)
        assert list(agent.layers) == ["c1", "block1"]
        assert {o.name: o.after_bottleneck for o in feature_maps(agent.sites)}["inner_relu"] is False
        assert np.allclose(
            agent.forward(random_observations(2)).q_values,
            model.predict(random_observations(2) / np.float32(255), verbose=0),
        )

    def test_recurrent_models_have_states_as_inputs_and_outputs(self) -> None:
        inputs, h = keras.Input(SHAPE), keras.Input((6,), name="h")
        after = L.Dense(6, activation="tanh")(L.Concatenate()([body(inputs), h]))
        model = keras.Model([inputs, h], [L.Dense(5, name="policy")(after), L.Dense(1, name="value")(after), after])
        agent = KerasAgent(model, initial_state=[np.full(6, 0.5)])
        state = agent.initial_state(2)
        assert np.array_equal(state[0], np.full((2, 6), 0.5, np.float32))
        outputs, state = agent.step(random_observations(2), state, np.array([True, True]))
        expected = model.predict([random_observations(2) / np.float32(255), np.full((2, 6), 0.5)], verbose=0)
        assert np.allclose(outputs.policy_logits, expected[0], atol=1e-5)
        assert np.allclose(state[0], expected[2], atol=1e-5)
        again, _ = agent.step(random_observations(2), state, np.array([True, False]))
        assert np.allclose(again.policy_logits[0], outputs.policy_logits[0], atol=1e-5)
        assert not np.allclose(again.policy_logits[1], outputs.policy_logits[1], atol=1e-3)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda x: keras.Model(x, two_heads(x, L.Dense(5), L.Dense(5))), r"heads=\('policy_logits', 'values'\)"),
            (lambda x: keras.Model(x, L.Conv2D(2, 3)(x)), r"\(None, 18, 14, 2\)"),
            (
                lambda x: keras.Model(x, two_heads(x, L.Dense(4, activation="softmax"), L.Dense(1))),
                "probabilities.*returns the logits",
            ),
            (
                lambda x: keras.Model(
                    x, two_heads(x, keras.Sequential([L.Dense(4), L.Softmax(), L.Reshape((4,))]), L.Dense(1))
                ),
                "probabilities.*returns the logits",
            ),
            (
                lambda x: keras.Model(x, L.Dense(4, activation="softmax", name="q")(body(x))),
                "probabilities.*returns the logits",
            ),
            (lambda x: keras.Model(x, duplicate_names(x)), '"conv" is used 2 times'),
            (lambda _: keras.Sequential([L.Dense(3)]), "no graph"),
            (lambda _: L.Dense(3), "Dense has no graph.*TorchAgent"),
            (lambda _: keras.Sequential([keras.Input((7,)), L.Dense(3)]), r"\(7,\).*height, width, channels"),
        ],
    )
    def test_errors_for_unusable_models_explain_the_fix(self, make: Callable[..., Any], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            KerasAgent(make(keras.Input(SHAPE)))

    def test_states_of_mismatched_shapes_are_rejected(self) -> None:
        inputs, h = keras.Input(SHAPE), keras.Input((6,))
        x = L.Concatenate()([body(inputs), h])
        model = keras.Model([inputs, h], [L.Dense(5)(x), L.Dense(1)(x), L.Dense(7)(x)])
        with pytest.raises(OptionError, match=r"\(6,\).*\(7,\)"):
            KerasAgent(model)
        model = keras.Model([inputs, h], [L.Dense(5)(x), L.Dense(1)(x), L.Dense(6)(x)])
        with pytest.raises(OptionError, match=r"initial_state.*\(5,\).*\(6,\)"):
            KerasAgent(model, initial_state=[np.zeros(5)])


def model_with_preprocessing(first: Any, shape: tuple[int, ...] = SHAPE, **options: Any) -> Any:
    inputs = keras.Input(shape, **options)
    return keras.Model(inputs, L.Dense(4, name="q_values")(body(first(inputs))))


class TestScaleOfTheInput:
    """Operations before a model's first weights decide whether its input ranges from 0 to 255 or from 0 to 1."""

    @pytest.mark.parametrize(
        "first",
        [
            lambda x: x / 255.0,
            lambda x: keras.ops.cast(x, "float32") * (1 / 255),
            lambda x: (x - 127.5) / 127.5,
            lambda x: keras.ops.divide(x, np.full(3, 255, np.float32)),
            lambda x: L.ZeroPadding2D(1)(L.Rescaling(2 / 255, -1)(x)),
            lambda x: L.Normalization(mean=[120.0, 110.0, 100.0], variance=[900.0, 900.0, 900.0])(x),
            lambda x: L.Rescaling(1 / 255)(x) * 2.0,
        ],
    )
    def test_input_scaling_before_the_first_weights_is_recognized(self, first: Any) -> None:
        model = model_with_preprocessing(first)
        expected = model.predict(random_observations(2).astype(np.float32), verbose=0)
        assert np.allclose(KerasAgent(model).forward(random_observations(2)).q_values, expected, atol=1e-4)

    def test_scaling_after_the_first_weights_is_ignored(self) -> None:
        inputs = keras.Input(SHAPE)
        x = L.Conv2D(4, 3, strides=2, activation="relu")(inputs)
        x = L.Rescaling(0.01)(L.Normalization(mean=[0.5] * 4, variance=[9.0] * 4)(x))
        model = keras.Model(inputs, L.Dense(4, name="q_values")(L.Flatten()(x / 30.0)))
        expected = model.predict(random_observations(2) / np.float32(255), verbose=0)
        assert np.allclose(KerasAgent(model).forward(random_observations(2)).q_values, expected, atol=1e-6)

    @pytest.mark.parametrize(
        "first",
        [
            lambda x: L.Lambda(lambda y: y / 255)(x),
            lambda x: L.Rescaling(2.0, -1)(x),
            lambda x: L.Normalization(mean=[0.5] * 3, variance=[0.05] * 3)(x),
            lambda x: L.Concatenate()([x, x / 255.0]),
        ],
    )
    def test_ambiguous_input_scaling_needs_input_divisor(self, first: Any) -> None:
        model = model_with_preprocessing(first)
        with pytest.raises(OptionError, match=r"input_divisor=1 if .* 0 to 255, or input_divisor=255 if .* 0 to 1"):
            KerasAgent(model)
        expected = model.predict(random_observations(2) / np.float32(255), verbose=0)
        assert np.allclose(
            KerasAgent(model, input_divisor=255).forward(random_observations(2)).q_values, expected, atol=1e-4
        )

    def test_input_scaling_inside_custom_layers_needs_input_divisor(self) -> None:
        class Encoder(keras.layers.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.scale, self.conv = L.Rescaling(1 / 255), L.Conv2D(4, 3)

            def call(self, x: Any) -> Any:
                return self.conv(self.scale(x))

        with pytest.raises(OptionError, match=r"Encoder.*input_divisor"):
            KerasAgent(model_with_preprocessing(Encoder()))


class TestInputsOfOtherShapes:
    def test_dictionaries_of_inputs_and_outputs_are_matched_by_name(self) -> None:
        """Keras sorts them by name."""
        obs, h, c = keras.Input(SHAPE, name="obs"), keras.Input((6,), name="h"), keras.Input((6,), name="c")
        x = L.Concatenate()([body(obs), h, c])
        states = {"h": L.Dense(6, activation="tanh")(x), "c": L.Dense(6)(x)}
        outputs = {"logits": L.Dense(5)(x), "value": L.Dense(1)(x), **states}
        model = keras.Model({"obs": obs, "h": h, "c": c}, outputs)
        agent = KerasAgent(model)
        assert agent.observation_shape == SHAPE
        state = np.random.default_rng(0).normal(size=(2, 2, 6)).astype(np.float32)
        actual, after = agent.step(random_observations(2), tuple(state), np.zeros(2, bool))
        named = {"obs": random_observations(2) / np.float32(255), "c": state[0], "h": state[1]}
        expected = model.predict(named, verbose=0)
        assert np.allclose(actual.policy_logits, expected["logits"], atol=1e-5)
        assert np.allclose(after[0], expected["c"], atol=1e-5)
        assert np.allclose(after[1], expected["h"], atol=1e-5)
        assert not np.allclose(after[0], after[1])

    def test_observations_may_be_the_second_input(self) -> None:
        h, inputs = keras.Input((6,)), keras.Input(SHAPE)
        after = L.Dense(6, activation="tanh")(L.Concatenate()([body(inputs), h]))
        agent = KerasAgent(keras.Model([h, inputs], [L.Dense(5)(after), L.Dense(1)(after), after]))
        assert agent.observation_shape == SHAPE
        assert agent.initial_state(2)[0].shape == (2, 6)

    def test_inputs_that_are_not_states_are_rejected(self) -> None:
        inputs, vector = keras.Input(SHAPE), keras.Input((7,))
        x = L.Concatenate()([body(inputs), vector])
        model = keras.Model([inputs, vector], [L.Dense(5)(x), L.Dense(1)(x)])
        with pytest.raises(OptionError, match=r"parts of a recurrent state.*If the model has other inputs"):
            KerasAgent(model)

    def test_models_accept_grayscale_observations_without_a_channel_axis(self) -> None:
        inputs = keras.Input((20, 16))
        model = keras.Model(inputs, L.Dense(4, name="q_values")(body(L.Reshape((20, 16, 1))(inputs))))
        agent = KerasAgent(model)
        assert agent.observation_shape == (20, 16, 1)
        expected = model.predict(random_observations(2, (20, 16)) / np.float32(255), verbose=0)
        assert np.allclose(agent.forward(random_observations(2, (20, 16))[..., None]).q_values, expected, atol=1e-6)

    def test_models_with_channels_first_inputs_are_supported(self) -> None:
        inputs = keras.Input((3, 20, 16))
        model = keras.Model(inputs, L.Dense(4, name="q_values")(body(L.Permute((2, 3, 1))(inputs))))
        with pytest.raises(OptionError, match=r"\(3, 20, 16\).*channels_first=True"):
            KerasAgent(model)
        agent = KerasAgent(model, channels_first=True)
        assert agent.observation_shape == SHAPE
        expected = model.predict(random_observations(2).transpose(0, 3, 1, 2) / np.float32(255), verbose=0)
        for observations in (random_observations(2), random_observations(2).transpose(0, 3, 1, 2)):
            assert np.allclose(agent.forward(observations).q_values, expected, atol=1e-6)
        assert agent.gradients(random_observations(2), "input", [1]).shape == (1, 2, *SHAPE)

    def test_layers_with_channels_first_are_rejected(self) -> None:
        inputs = keras.Input((3, 20, 16))
        x = L.Flatten()(L.Conv2D(4, 3, data_format="channels_first")(inputs))
        model = keras.Model(inputs, L.Dense(4, name="q_values")(x))
        with pytest.raises(OptionError, match=r"data_format='channels_first'.*channels_last"):
            KerasAgent(model, channels_first=True)


class TestOutputs:
    def test_outputs_marked_none_in_heads_are_ignored(self) -> None:
        inputs = keras.Input(SHAPE)
        x = body(inputs)
        embedding, logits, value = L.Dense(7)(x), L.Dense(5)(x), L.Dense(1)(x)
        model = keras.Model(inputs, [embedding, logits, L.Conv2D(2, 3)(inputs), value])
        with pytest.raises(OptionError):
            KerasAgent(model)
        actual = KerasAgent(model, heads=(None, "policy_logits", None, "values")).forward(random_observations(2))
        expected = model.predict(random_observations(2) / np.float32(255), verbose=0)
        assert np.allclose(actual.policy_logits, expected[1], atol=1e-6)
        assert np.allclose(actual.values, expected[3][:, 0], atol=1e-6)
        assert KerasAgent(model, heads=(None, "policy_logits", None, None)).heads == ("policy_logits",)
        with pytest.raises(OptionError, match="None for every output to ignore"):
            KerasAgent(model, heads=(None, None, None, "values"))

    def test_a_model_with_a_single_output_is_refused_without_heads(self) -> None:
        inputs = keras.Input(SHAPE)
        model = keras.Model(inputs, L.Dense(5)(body(inputs)))
        with pytest.raises(OptionError, match=r"heads=\('policy_logits',\) for the logits of a policy") as caught:
            KerasAgent(model)
        assert "forward=" not in str(caught.value), "KerasAgent has no such argument"
        expected = model.predict(random_observations(2) / np.float32(255), verbose=0)
        outputs = KerasAgent(model, heads=("policy_logits",)).forward(random_observations(2))
        assert np.allclose(outputs.policy_logits, expected, atol=1e-6)
        assert (outputs.values, outputs.q_values) == (None, None)

    def test_outputs_named_probabilities_are_rejected(self) -> None:
        inputs = keras.Input(SHAPE)
        x = body(inputs)
        probabilities = L.Identity(name="action_probs")(L.Softmax()(L.Dense(5)(x)))
        with pytest.raises(OptionError, match=r"'action_probs' contains probabilities.*returns the logits"):
            KerasAgent(keras.Model(inputs, [probabilities, L.Dense(1)(x)]))

    def test_half_precision_models_return_float32_results(self) -> None:
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            inputs = keras.Input(SHAPE)
            model = keras.Model(inputs, two_heads(inputs, L.Dense(5), L.Dense(1)))
        finally:
            keras.mixed_precision.set_global_policy("float32")
        agent = KerasAgent(model)
        assert agent.forward(random_observations(2)).policy_logits.dtype == np.float32
        path = path_gradients(agent, random_observations(2), "c1", np.ones(1), np.ones(1), ["value", 2])
        assert path.gradients.dtype == path.activations.dtype == np.float32
        assert np.any(path.gradients[1] != 0)
        assert np.allclose(path.scores[0], agent.forward(random_observations(2)).values, atol=1e-2)
        assert np.any(agent.gradients(random_observations(2), "input", ["value"]) != 0)
