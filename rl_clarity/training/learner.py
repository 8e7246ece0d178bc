"""The compiled half of training: acting with a network, and improving it.

Observations stay uint8 until they are inside a compiled function. A minibatch is cut into chunks of one fixed shape
whose gradients are added up, so that memory does not grow with it and nothing is compiled twice; a chunk that is not
full is padded with steps of weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from rl_clarity.networks.network import Network
from rl_clarity.training.adam import Adam
from rl_clarity.training.loss import STATISTICS, LossOptions, Minibatch, ppo_loss
from rl_clarity.training.memory import Memory

Tensor = Any
Arrays = tuple[np.ndarray, ...]
CHUNK = 128
"""Steps a compiled gradient; more do not make convolutions faster."""
SEQUENCES_CHUNK = 512
"""The same where there is a memory: its step costs little more for several sequences than for one."""


class Learner:
    """A network, its optimiser, and what was compiled for them.

    Parameters
    ----------
    network: with the heads `policy_logits` and `values`
    sequence: steps that a network with a memory is unrolled over; a minibatch's steps are in such sequences
    average: called with each minibatch's gradient (n,), to average it over processes
    """

    def __init__(
        self,
        network: Network,
        loss: LossOptions,
        *,
        learning_rate: float,
        max_grad_norm: float,
        sequence: int = 1,
        average: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        import tensorflow as tf

        self.network = network
        self._memory = Memory(network, sequence) if network.initial_state else None
        self._sequence = sequence if network.initial_state else 1
        self._loss = loss
        self._max_grad_norm = max_grad_norm
        self._average = average
        self._variables = [tensor.variable.value for tensor in network.tensors.values()]
        self._sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        self._total = tf.Variable(tf.zeros(sum(self._sizes)), trainable=False)
        self.optimizer = Adam(sum(self._sizes), learning_rate)
        self._act = tf.function(self._trace_act)
        self._add_gradient = tf.function(self._trace_gradient)
        self._apply = tf.function(self._trace_apply)

    def initial_state(self, n: int) -> Arrays:
        """What n memories hold before their first step; () for a network that has none."""
        return tuple(np.repeat(part[None], n, axis=0) for part in self.network.initial_state)

    def act(self, observations: np.ndarray, firsts: np.ndarray, state: Arrays) -> tuple[np.ndarray, np.ndarray, Arrays]:
        """Policy logits (N, A), values (N,) of observations (N, H, W, C) uint8, and the state after.

        The state is reset where `firsts` (N,).
        """
        logits, values, after = self._act(observations, firsts, state)
        return logits.numpy(), values.numpy(), tuple(part.numpy() for part in after)

    def learn(self, batch: Minibatch) -> tuple[np.ndarray, float]:
        """One step of the optimiser: means of `STATISTICS` over the batch, and the gradient's norm before it is cut."""
        self._total.assign(np.zeros(sum(self._sizes), np.float32))
        statistics = np.zeros(len(STATISTICS), np.float64)
        for chunk in chunks(batch, self._sequence):
            statistics += self._add_gradient(*(getattr(chunk, field.name) for field in fields(chunk))).numpy()
        gradient = self._total.value()
        if self._average is not None:
            gradient = self._average(gradient.numpy())
        return statistics, float(self._apply(gradient))

    def state(self) -> dict[str, np.ndarray]:
        """Parameters and the optimiser's moments."""
        parameters = {f"parameters/{name}": array for name, array in self.network.parameters().items()}
        return parameters | {f"adam/{name}": array for name, array in self.optimizer.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.network.assign({name: state[f"parameters/{name}"] for name in self.network.tensors})
        self.optimizer.restore({name: state[f"adam/{name}"] for name in self.optimizer.state()})

    def _trace_act(self, observations: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if self._memory is not None:
            return self._memory.step(_scaled(observations), firsts, state)
        logits, values = self.network.model(_scaled(observations), training=False)
        return logits, values[:, 0], ()

    def _trace_gradient(self, *arrays: Tensor) -> Tensor:
        import tensorflow as tf

        batch = Minibatch(*arrays)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            if self._memory is None:
                logits, values, _ = self._trace_act(batch.observations, batch.firsts, ())
            else:
                logits, values = self._memory.unroll(_scaled(batch.observations), batch.firsts, batch.states)
            loss, statistics = ppo_loss(logits, values, batch, self._loss)
        gradients = tape.gradient(loss, self._variables)
        self._total.assign_add(tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0))
        return statistics

    def _trace_apply(self, gradient: Tensor) -> Tensor:
        import tensorflow as tf

        norm = tf.norm(gradient)
        change = self.optimizer.step(gradient * (self._max_grad_norm / tf.maximum(norm, self._max_grad_norm)))
        for variable, part in zip(self._variables, tf.split(change, self._sizes), strict=True):
            variable.assign_add(tf.reshape(part, variable.shape))
        return norm


def chunks(batch: Minibatch, sequence: int) -> Iterator[Minibatch]:
    """The batch in parts of equal size, of whole sequences; the last is padded with zeros, so with weight 0."""
    largest = CHUNK if sequence == 1 else min(SEQUENCES_CHUNK, len(batch.actions))
    count = max(1, largest // sequence)  # sequences a chunk
    size = count * sequence
    for i, start in enumerate(range(0, len(batch.actions), size)):
        steps = [field.name for field in fields(batch) if field.name != "states"]
        parts = {name: _padded(getattr(batch, name)[start : start + size], size) for name in steps}
        states = tuple(_padded(part[i * count : (i + 1) * count], count) for part in batch.states)
        yield Minibatch(**parts, states=states)


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) == size:
        return array
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])


def _scaled(observations: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.cast(observations, tf.float32) / 255
