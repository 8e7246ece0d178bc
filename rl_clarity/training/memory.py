"""Networks with a memory (`use_lstm`): one step when acting, whole sequences when learning.

When learning, the body of the network sees all observations at once, the heads all that was remembered, and only the
memory goes through a sequence step by step. In both the state is reset where an episode begins.
"""

from __future__ import annotations

from typing import Any

from rl_clarity.networks.lstm import observed_gates
from rl_clarity.networks.network import Network

Tensor = Any


class Memory:
    """The recurrent half of a network; its methods are called while TensorFlow traces."""

    def __init__(self, network: Network, sequence: int) -> None:
        import keras

        self._sequence = sequence
        self._initial = network.initial_state
        self._model = network.model
        gates, state = observed_gates(network.model), network.model.inputs[1:]
        heads, after = network.model.outputs[:2], network.model.outputs[2:]
        self._body = keras.Model(network.model.inputs[0], gates)
        self._cell = keras.Model([gates, *state], after)
        self._heads = keras.Model(after[-1], heads)  # they read the last part, the output

    def step(self, observations: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Logits (N, A), values (N,) and the state after, of scaled observations (N, H, W, C)."""
        logits, values, *after = self._model([observations, *self._reset(firsts, state)], training=False)
        return logits, values[:, 0], tuple(after)

    def unroll(self, observations: Tensor, firsts: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Logits (S * T, A) and values (S * T,) of S sequences of T steps, one after another, each from its state."""
        import tensorflow as tf

        def step(before: tuple[Tensor, ...], inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
            gates, begins = inputs
            return tuple(self._cell([gates, *self._reset(begins, before)], training=False))

        by_step = self._turned(self._body(observations, training=False)), self._turned(firsts)  # (T, S, ...)
        output = tf.scan(step, by_step, initializer=tuple(states))[-1]  # (T, S, n)
        logits, values = self._heads(tf.reshape(tf.transpose(output, (1, 0, 2)), (-1, output.shape[-1])))
        return logits, values[:, 0]

    def _reset(self, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import tensorflow as tf

        return tuple(tf.where(firsts[:, None], first, part) for first, part in zip(self._initial, state, strict=True))

    def _turned(self, steps: Tensor) -> Tensor:
        """Sequences one after another (S * T, ...) as (T, S, ...)."""
        import tensorflow as tf

        parts = tf.reshape(steps, (-1, self._sequence, *steps.shape[1:]))
        return tf.transpose(parts, (1, 0, *range(2, len(parts.shape))))
