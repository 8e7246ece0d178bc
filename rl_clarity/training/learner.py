"""The compiled half of training: acting with a network, and improving it.

Observations stay uint8 until they are inside a compiled function. A minibatch is cut into chunks of one fixed shape
whose gradients are added up, so that memory does not grow with it and nothing is compiled twice; a chunk that is not
full is padded with steps of weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from rl_clarity.networks.network import Network
from rl_clarity.training.adam import Adam
from rl_clarity.training.loss import STATISTICS, LossOptions, Minibatch, ppo_loss

Tensor = Any
CHUNK = 128
"""Steps a compiled gradient; more do not make convolutions faster."""


class Learner:
    """A network, its optimiser, and what was compiled for them.

    Parameters
    ----------
    network: with the heads `policy_logits` and `values`
    average: called with each minibatch's gradient (n,), to average it over processes
    """

    def __init__(
        self,
        network: Network,
        loss: LossOptions,
        *,
        learning_rate: float,
        max_grad_norm: float,
        average: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        import tensorflow as tf

        self.network = network
        self._loss = loss
        self._max_grad_norm = max_grad_norm
        self._average = average
        self._variables = [tensor.variable.value for tensor in network.tensors.values()]
        sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        self._total = tf.Variable(tf.zeros(sum(sizes)), trainable=False)
        self._sizes = sizes
        self.optimizer = Adam(sum(sizes), learning_rate)
        self._act = tf.function(self._outputs)
        self._add_gradient = tf.function(self._trace_gradient)
        self._apply = tf.function(self._trace_apply)

    def act(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (N, A) and values (N,) of observations (N, H, W, C) uint8."""
        logits, values = self._act(observations)
        return logits.numpy(), values.numpy()

    def learn(self, batch: Minibatch) -> tuple[np.ndarray, float]:
        """One step of the optimiser: means of `STATISTICS` over the batch, and the gradient's norm before it is cut."""
        self._total.assign(np.zeros(sum(self._sizes), np.float32))
        statistics = np.zeros(len(STATISTICS), np.float64)
        for start in range(0, len(batch.actions), CHUNK):
            statistics += self._add_gradient(*_chunk(batch, start)).numpy()
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

    def _outputs(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        import tensorflow as tf

        logits, values = self.network.model(tf.cast(observations, tf.float32) / 255, training=False)
        return logits, values[:, 0]

    def _trace_gradient(self, *arrays: Tensor) -> Tensor:
        import tensorflow as tf

        batch = Minibatch(*arrays)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            logits, values = self._outputs(batch.observations)
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


def _chunk(batch: Minibatch, start: int) -> list[np.ndarray]:
    """Arrays of CHUNK steps from `start`, padded with zeros (so with weight 0)."""
    arrays = []
    for field in fields(batch):
        part = getattr(batch, field.name)[start : start + CHUNK]
        if len(part) < CHUNK:
            part = np.concatenate([part, np.zeros((CHUNK - len(part), *part.shape[1:]), part.dtype)])
        arrays.append(part)
    return arrays
