"""Networks that users bring: Keras models and PyTorch modules of many shapes, and one network in three guises."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.errors import OptionError

L = keras.layers
SHAPE = (20, 16, 3)


def pictures(count: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def body(inputs: Any) -> Any:
    x = L.Conv2D(4, 3, strides=2, activation="relu", name="c1")(inputs)
    return L.Flatten()(L.Conv2D(4, 3, activation="relu", name="c2")(x))


def two(inputs: Any, first: Any, second: Any) -> list[Any]:
    x = body(inputs)
    return [first(x), second(x)]


def twins(inputs: Any) -> Any:
    """Two models whose layers have the same name."""
    towers = [keras.Sequential([L.Conv2D(2, 3, name="conv"), L.Flatten()], name=name) for name in "ab"]
    return L.Dense(4)(L.Concatenate()([tower(inputs) for tower in towers]))


class TestKerasModels:
    def test_outputs_are_found_in_any_order(self):
        inputs = keras.Input(SHAPE)
        x = body(inputs)
        logits, value = L.Dense(5)(x), L.Dense(1)(x)
        for outputs in ([logits, value], [value, logits], {"value": value, "policy": logits}):
            model = keras.Model(inputs, outputs)
            found = KerasAgent(model).forward(pictures(2))
            wanted = keras.Model(inputs, [logits, value]).predict(pictures(2) / np.float32(255), verbose=0)
            assert np.allclose(found.policy_logits, wanted[0], atol=1e-6)
            assert np.allclose(found.values, wanted[1][:, 0], atol=1e-6)

    def test_the_model_itself_is_not_changed(self):
        model = keras.Sequential([keras.Input(SHAPE), L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(6)])
        names, before = [layer.name for layer in model.layers], model.predict(pictures(1), verbose=0)
        agent = KerasAgent(model)
        agent.forward(pictures(1))
        assert [layer.name for layer in model.layers] == names
        assert np.array_equal(model.predict(pictures(1), verbose=0), before)
        model.layers[-1].bias.assign(model.layers[-1].bias + 1)  # the variables are the model's own
        assert np.allclose(agent.forward(pictures(1)).q_values, model.predict(pictures(1) / np.float32(255), verbose=0))

    def test_models_that_scale_their_input_are_given_whole_numbers(self):
        for options, first in (
            ({"dtype": "uint8"}, L.Rescaling(1 / 255)),
            ({}, L.Rescaling(1 / 255)),
            ({}, keras.Sequential([L.Rescaling(1 / 255)])),
            ({"dtype": "uint8"}, L.Rescaling(1.0)),
        ):
            inputs = keras.Input(SHAPE, **options)
            model = keras.Model(inputs, L.Dense(4)(body(first(inputs))))
            wanted = model.predict(pictures(2), verbose=0)
            assert np.allclose(KerasAgent(model).forward(pictures(2)).q_values, wanted, atol=1e-5)
        model = keras.Model(inputs, L.Dense(4)(body(inputs)))
        assert not np.allclose(KerasAgent(model, input_divisor=255).forward(pictures(2)).q_values, wanted)

    def test_models_within_models_are_laid_flat(self):
        block_input = keras.Input((9, 7, 4))
        y = L.ReLU(name="inner_relu")(L.Conv2D(4, 3, padding="same", name="inner")(block_input))
        block = keras.Model(block_input, L.Add()([block_input, y]), name="block")
        inputs = keras.Input(SHAPE)
        x = block(L.Conv2D(4, 3, strides=2, activation="relu", name="c1")(inputs))
        model = keras.Model(inputs, L.Dense(5)(L.Flatten()(x)))
        agent = KerasAgent(model)
        assert list(agent.layers) == ["c1", "inner_relu"]
        assert {o.name: o.after_bottleneck for o in agent.operations}["inner_relu"] is False
        assert np.allclose(agent.forward(pictures(2)).q_values, model.predict(pictures(2) / np.float32(255), verbose=0))

    def test_a_recurrent_model_has_its_state_as_further_inputs_and_outputs(self):
        inputs, h = keras.Input(SHAPE), keras.Input((6,), name="h")
        after = L.Dense(6, activation="tanh")(L.Concatenate()([body(inputs), h]))
        model = keras.Model([inputs, h], [L.Dense(5, name="policy")(after), L.Dense(1, name="value")(after), after])
        agent = KerasAgent(model, initial_state=[np.full(6, 0.5)])
        state = agent.initial_state(2)
        assert np.array_equal(state[0], np.full((2, 6), 0.5, np.float32))
        outputs, state = agent.step(pictures(2), state, np.array([True, True]))
        wanted = model.predict([pictures(2) / np.float32(255), np.full((2, 6), 0.5)], verbose=0)
        assert np.allclose(outputs.policy_logits, wanted[0], atol=1e-5)
        assert np.allclose(state[0], wanted[2], atol=1e-5)
        again, _ = agent.step(pictures(2), state, np.array([True, False]))
        assert np.allclose(again.policy_logits[0], outputs.policy_logits[0], atol=1e-5)
        assert not np.allclose(again.policy_logits[1], outputs.policy_logits[1], atol=1e-3)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda x: keras.Model(x, two(x, L.Dense(5), L.Dense(5))), r"heads=\('policy_logits', 'values'\)"),
            (lambda x: keras.Model(x, L.Conv2D(2, 3)(x)), r"\(None, 18, 14, 2\)"),
            (
                lambda x: keras.Model(x, two(x, L.Dense(4, activation="softmax"), L.Dense(1))),
                "probabilities.*logits before",
            ),
            (lambda x: keras.Model(x, twins(x)), '"conv" is used 2 times'),
            (lambda _: keras.Sequential([L.Dense(3)]), "no graph"),
            (lambda _: L.Dense(3), "Dense has no graph.*TorchAgent"),
            (lambda _: keras.Sequential([keras.Input((7,)), L.Dense(3)]), r"\(7,\).*height, width, channels"),
        ],
    )
    def test_what_is_no_agent_is_told_what_is_needed(self, make, words):
        with pytest.raises(OptionError, match=words):
            KerasAgent(make(keras.Input(SHAPE)))

    def test_a_state_that_does_not_fit(self):
        inputs, h = keras.Input(SHAPE), keras.Input((6,))
        x = L.Concatenate()([body(inputs), h])
        model = keras.Model([inputs, h], [L.Dense(5)(x), L.Dense(1)(x), L.Dense(7)(x)])
        with pytest.raises(OptionError, match=r"\(6,\).*\(7,\)"):
            KerasAgent(model)
        model = keras.Model([inputs, h], [L.Dense(5)(x), L.Dense(1)(x), L.Dense(6)(x)])
        with pytest.raises(OptionError, match=r"initial_state.*\(5,\).*\(6,\)"):
            KerasAgent(model, initial_state=[np.zeros(5)])
