"""Networks with a memory (`use_lstm`): one step when acting, whole sequences when learning.

When learning, the body of the network sees all observations at once, and only the memory goes through a sequence step
by step. In both the state is reset where an episode begins.
"""

from __future__ import annotations

from typing import Any

from rl_clarity.networks.lstm import memory_input
from rl_clarity.networks.network import Network

Tensor = Any


class Memory:
    """The recurrent half of a network; its methods are called while TensorFlow traces."""

    def __init__(self, network: Network, sequence: int) -> None:
        import keras

        self._sequence = sequence
        self._initial = network.initial_state
        features = memory_input(network.model)
        self._body = keras.Model(network.model.inputs[0], features)
        self._after = keras.Model([features, *network.model.inputs[1:]], network.model.outputs)

    def step(self, observations: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Logits (N, A), values (N,) and the state after, of scaled observations (N, H, W, C)."""
        return self._step(self._body(observations, training=False), firsts, state)

    def unroll(self, observations: Tensor, firsts: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Logits (S * T, A) and values (S * T,) of S sequences of T steps, one after another, each from its state."""
        import tensorflow as tf

        features = self._body(observations, training=False)
        by_step = (self._turned(features), self._turned(firsts))  # (T, S, ...)
        actions = int(self._after.outputs[0].shape[-1])
        count = tf.shape(states[0])[0]
        nothing = (tf.zeros((count, actions)), tf.zeros(count), tuple(states))

        def step(before: Any, inputs: tuple[Tensor, Tensor]) -> Any:
            return self._step(inputs[0], inputs[1], before[2])

        logits, values, _ = tf.scan(step, by_step, initializer=nothing)
        return tf.reshape(tf.transpose(logits, (1, 0, 2)), (-1, actions)), tf.reshape(tf.transpose(values), (-1,))

    def _step(self, features: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import tensorflow as tf

        state = tuple(tf.where(firsts[:, None], first, part) for first, part in zip(self._initial, state, strict=True))
        logits, values, *after = self._after([features, *state], training=False)
        return logits, values[:, 0], tuple(after)

    def _turned(self, steps: Tensor) -> Tensor:
        """Sequences one after another (S * T, ...) as (T, S, ...)."""
        import tensorflow as tf

        parts = tf.reshape(steps, (-1, self._sequence, *steps.shape[1:]))
        return tf.transpose(parts, (1, 0, *range(2, len(parts.shape))))
