"""The learning step of PPO, as compiled functions: the network, the loss and the optimizer.

Observations stay uint8 until they are inside a compiled function. A minibatch is split into chunks of one fixed shape
whose gradients are added, so that memory does not grow with the minibatch and each function is compiled once. The last
chunk is padded with steps of weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rl_clarity.agents.network import Network
from rl_clarity.base.adam import Adam
from rl_clarity.formats.architectures import INITIAL_STATE, observed_gates

Tensor = Any
Arrays = tuple[np.ndarray, ...]

CHUNK = 128
"""Number of steps per compiled gradient computation. With more steps, convolutions are not faster."""
SEQUENCES_CHUNK = 512
"""`CHUNK` for recurrent networks. It is larger because a step of many sequences takes little longer than one of few."""
STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@dataclass(frozen=True)
class LossOptions:
    clip_range: float
    clip_vf: bool
    entropy_coeff: float
    value_loss_coeff: float


@dataclass(frozen=True)
class Minibatch:
    """B steps to learn from: NumPy arrays outside compiled functions, tensors inside."""

    observations: Tensor  # (B, H, W, C) uint8
    actions: Tensor  # (B,) int32
    values: Tensor  # (B,) float32, when acting
    log_probs: Tensor  # (B,) float32, of the actions when acting
    advantages: Tensor  # (B,) float32, normalized
    returns: Tensor  # (B,) float32
    weights: Tensor  # (B,) float32: the weight of each step in the mean; 0 for padding
    firsts: Tensor  # (B,) bool: the observation begins an episode, where recurrent state is reset
    states: tuple[Tensor, ...] = ()  # (S, n) each: recurrent state before each of the S sequences that make up B


def normalize(advantages: np.ndarray) -> np.ndarray:
    """Return the advantages of a minibatch, normalized to mean 0 and standard deviation 1."""
    return ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).astype(np.float32)


def ppo_loss(logits: Tensor, values: Tensor, batch: Minibatch, options: LossOptions) -> tuple[Tensor, Tensor]:
    """Return the loss and the `STATISTICS` (5,) for logits (B, actions) and values (B,), as weighted sums over steps.

    The policy loss is max(-A r, -A clip(r)) for the advantage A and r = pi / pi_old. The value loss is
    1/2 max((v - R)^2, (v_clipped - R)^2) for the return R. Both are defined as in PPO2 of OpenAI Baselines (Schulman
    et al. 2017, https://arxiv.org/abs/1707.06347).
    """
    from keras import ops

    log_policy = ops.log_softmax(logits)  # (B, A)
    log_probs = ops.take_along_axis(log_policy, batch.actions[:, None], axis=1)[:, 0]
    entropies = -ops.sum(ops.exp(log_policy) * log_policy, axis=1)
    clip = options.clip_range
    ratios = ops.exp(log_probs - batch.log_probs)
    policy_losses = ops.maximum(-batch.advantages * ratios, -batch.advantages * ops.clip(ratios, 1 - clip, 1 + clip))
    squares = ops.square(values - batch.returns)
    if options.clip_vf:
        clipped = batch.values + ops.clip(values - batch.values, -clip, clip)
        squares = ops.maximum(squares, ops.square(clipped - batch.returns))
    terms = [
        policy_losses,
        0.5 * squares,
        entropies,
        0.5 * ops.square(log_probs - batch.log_probs),
        ops.cast(ops.abs(ratios - 1) > clip, "float32"),
    ]
    statistics = ops.stack([ops.sum(batch.weights * term) for term in terms])
    loss = statistics[0] + options.value_loss_coeff * statistics[1] - options.entropy_coeff * statistics[2]
    return loss, statistics


class Learner:
    """A network, its optimizer, and the functions that are compiled for them.

    Args:
        network: a network with the heads `policy_logits` and `values`
        sequence: number of steps over which a recurrent network is unrolled; a minibatch consists of such sequences
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
        average: Callable[[np.ndarray], np.ndarray] = lambda gradient: gradient,
    ) -> None:
        import tensorflow as tf

        self.network = network
        self._recurrence = Recurrence(network, sequence) if network.initial_state else None
        self._sequence = sequence if network.initial_state else 1
        self._loss = loss
        self._max_grad_norm = max_grad_norm
        self._average = average
        self._variables = [tensor.variable.value for tensor in network.tensors.values()]
        sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        self._ends = np.cumsum(sizes)
        self._total = tf.Variable(tf.zeros(sum(sizes)), trainable=False)
        # epsilon of Baselines
        self.optimizer = Adam((sum(sizes),), learning_rate, epsilon=1e-5, epsilon_hat=True, dtype=np.float32)
        self._act = tf.function(self._trace_act)
        self._add_gradient = tf.function(self._trace_gradient)

    def initial_state(self, n: int) -> Arrays:
        """Return the recurrent state before the first step of n environments, or () for networks without a state."""
        parts = () if self._recurrence is None else self._recurrence.initial
        return tuple(np.repeat(np.asarray(part)[None], n, axis=0) for part in parts)

    def act(self, observations: np.ndarray, firsts: np.ndarray, state: Arrays) -> tuple[np.ndarray, np.ndarray, Arrays]:
        """Return policy logits (N, A) and values (N,) for observations (N, H, W, C) uint8, and the next state.

        The state is reset where `firsts` (N,) is true.
        """
        logits, values, after = self._act(observations, firsts, state)
        return logits.numpy(), values.numpy(), tuple(part.numpy() for part in after)

    def learn(self, batch: Minibatch) -> tuple[np.ndarray, float]:
        """Take an optimizer step. Return the means of `STATISTICS` and the norm of the gradient before clipping."""
        self._total.assign(np.zeros(self._ends[-1], np.float32))
        statistics = np.zeros(len(STATISTICS), np.float64)
        for chunk in chunks(batch, self._sequence):
            statistics += self._add_gradient(*(getattr(chunk, field.name) for field in fields(chunk))).numpy()
        gradient = self._average(self._total.numpy())
        norm = float(np.linalg.norm(gradient))
        step = self.optimizer.step(gradient * (self._max_grad_norm / max(norm, self._max_grad_norm)))
        for variable, part in zip(self._variables, np.split(step, self._ends[:-1]), strict=True):
            variable.assign_sub(part.reshape(variable.shape))
        return statistics, norm

    def state(self) -> dict[str, np.ndarray]:
        """Return the parameters and the optimizer's moments."""
        parameters = {f"parameters/{name}": array for name, array in self.network.parameters().items()}
        return parameters | {f"adam/{name}": array for name, array in self.optimizer.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.network.assign({name: state[f"parameters/{name}"] for name in self.network.tensors})
        self.optimizer.restore({name: state[f"adam/{name}"] for name in self.optimizer.state()})

    def _trace_act(self, observations: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if self._recurrence is not None:
            return self._recurrence.step(_scaled(observations), firsts, state)
        logits, values = self.network.model(_scaled(observations), training=False)
        return logits, values[:, 0], ()

    def _trace_gradient(self, *arrays: Tensor) -> Tensor:
        import tensorflow as tf

        batch = Minibatch(*arrays)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            if self._recurrence is None:
                logits, values, _ = self._trace_act(batch.observations, batch.firsts, ())
            else:
                logits, values = self._recurrence.unroll(_scaled(batch.observations), batch.firsts, batch.states)
            loss, statistics = ppo_loss(logits, values, batch, self._loss)
        gradients = tape.gradient(loss, self._variables)
        self._total.assign_add(tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0))
        return statistics


class Recurrence:
    """The compiled steps of a recurrent network: a single step for acting, whole sequences for learning.

    For learning, the network's body and heads process all steps at once, and only the LSTM or GRU goes through a
    sequence step by step. The state is reset where an episode begins; there, gradients reach a learned initial state.
    """

    def __init__(self, network: Network, sequence: int) -> None:
        import keras

        self._sequence = sequence
        learned = network.tensors.get(INITIAL_STATE)
        self.initial = network.initial_state if learned is None else (learned.variable.value,)
        self._model = network.model
        gates, state = observed_gates(network.model), network.model.inputs[1:]
        heads, after = network.model.outputs[:2], network.model.outputs[2:]
        self._body = keras.Model(network.model.inputs[0], gates)
        self._cell = keras.Model([gates, *state], after)
        self._heads = keras.Model(after[-1], heads)  # the heads read the last part of the state, which is the output

    def step(self, observations: Tensor, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return logits (N, A), values (N,) and the next state for scaled observations (N, H, W, C)."""
        logits, values, *after = self._model([observations, *self._reset(firsts, state)], training=False)
        return logits, values[:, 0], tuple(after)

    def unroll(self, observations: Tensor, firsts: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return logits (S * T, A) and values (S * T,) for S sequences of T steps, which start from `states`."""
        import tensorflow as tf

        def step(before: tuple[Tensor, ...], inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
            gates, begins = inputs
            after = self._cell([gates, *self._reset(begins, before)], training=False)
            return tuple(tf.nest.flatten(after))  # Keras returns a single output without a list

        by_step = self._by_step(self._body(observations, training=False)), self._by_step(firsts)  # (T, S, ...)
        output = tf.scan(step, by_step, initializer=tuple(states))[-1]  # (T, S, n)
        logits, values = self._heads(tf.reshape(tf.transpose(output, (1, 0, 2)), (-1, output.shape[-1])))
        return logits, values[:, 0]

    def _reset(self, firsts: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import tensorflow as tf

        return tuple(tf.where(firsts[:, None], first, part) for first, part in zip(self.initial, state, strict=True))

    def _by_step(self, steps: Tensor) -> Tensor:
        """Transpose consecutive sequences (S * T, ...) to (T, S, ...)."""
        import tensorflow as tf

        parts = tf.reshape(steps, (-1, self._sequence, *steps.shape[1:]))
        return tf.transpose(parts, (1, 0, *range(2, len(parts.shape))))


def chunks(batch: Minibatch, sequence: int) -> Iterator[Minibatch]:
    """Split a batch into chunks of equal size that consist of whole sequences. The last chunk is padded with zeros,
    which have weight 0.
    """
    largest = CHUNK if sequence == 1 else min(SEQUENCES_CHUNK, len(batch.actions))
    count = max(1, largest // sequence)  # sequences per chunk
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
