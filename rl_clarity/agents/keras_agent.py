"""An agent whose network is a functional Keras model, on any backend of Keras."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents import differentiation
from rl_clarity.agents.layer_names import find_operation, short_names
from rl_clarity.agents.protocol import Operation, Output, Outputs, PathGradients, State
from rl_clarity.agents.scores import select_scores
from rl_clarity.networks.graph import Graph, after_bottleneck, cut, graph_of

if TYPE_CHECKING:
    from rl_clarity.networks.network import Network

INPUT = "the input"


@dataclass(frozen=True)
class _Cut:
    """The network in two parts: up to a layer, and from it to the scores."""

    before: Any  # (observations, *state) -> [activations, *tensors that by-pass the layer]
    after: Any  # the same -> scores (B, n)
    step: Any  # the compiled gradient step of `after`


class KerasAgent:
    """The protocol `Agent` for a `Network`.

    Batches have few shapes (the last is padded), so that a function is compiled once or twice, and the numbers of an
    observation do not depend on which others it is computed with.

    Parameters
    ----------
    network: a Keras model with heads `policy_logits` and `values`, or `q_values`
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    input_divisor: the network's input is the observations divided by it, in float32 (a product with its reciprocal rounds
        differently, which is enough to cross a kink)
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient
    """

    def __init__(
        self,
        network: Network,
        metadata: Mapping[str, Any] | None = None,
        *,
        input_divisor: float = 255,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        self.network = network
        self.metadata: Mapping[str, Any] = dict(metadata or {})
        self.batch_size = batch_size
        self.gradient_batch_size = gradient_batch_size
        self._divisor = np.float32(input_divisor)
        self._backend = differentiation.backend()
        self._forward = self._backend.compile(lambda *inputs: self.network.model(list(inputs), training=False))

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        height, width, channels = self.network.model.inputs[0].shape[1:]
        return int(height), int(width), int(channels)

    @property
    def num_actions(self) -> int:
        return int(self.network.model.outputs[0].shape[-1])

    @property
    def _score_count(self) -> int:
        return sum(int(head.shape[-1]) for head in self.network.model.outputs[: len(self.network.heads)])

    @functools.cached_property
    def _graph(self) -> Graph:
        return graph_of(self.network.model, len(self.network.heads))

    @functools.cached_property
    def operations(self) -> tuple[Operation, ...]:
        found = []
        for node, narrow in zip(self._graph.nodes, after_bottleneck(self._graph), strict=True):
            if len(node.tensors) == 1 and len(node.tensors[0].shape) == 4 and node.inputs:
                found.append(Operation(node.name, node.kind, tuple(map(int, node.tensors[0].shape[1:])), narrow))
        return tuple(found)

    @functools.cached_property
    def layers(self) -> dict[str, tuple[int, int, int]]:
        relus = [operation for operation in self.operations if operation.kind == "relu"]
        names = short_names([operation.name for operation in relus])
        return {name: operation.shape for name, operation in zip(names, relus, strict=True)}

    def initial_state(self, n: int) -> State:
        if not self.network.initial_state:
            return None
        return tuple(np.repeat(part[None], n, axis=0) for part in self.network.initial_state)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        state = self._reset(state, firsts)
        results: list[list[np.ndarray]] = []
        for observation_batch, state_batch, count in self._batches(observations, state, self.batch_size):
            tensors = self._forward(observation_batch, *state_batch)
            results.append([self._backend.array(tensor)[:count] for tensor in tensors])
        tensors = [np.concatenate(parts) for parts in zip(*results, strict=True)]
        heads = dict(zip(self.network.heads, tensors, strict=False))
        values = heads.get("values")
        outputs = Outputs(heads.get("policy_logits"), None if values is None else values[:, 0], heads.get("q_values"))
        return outputs, tuple(tensors[len(self.network.heads) :]) or None

    def forward(self, observations: np.ndarray) -> Outputs:
        return self.step(observations, None, np.ones(len(observations), bool))[0]

    def preprocess(self, frames: np.ndarray) -> np.ndarray:
        return frames

    def activations(self, observations: np.ndarray, layer: str, state: State = None) -> np.ndarray:
        before = self._cut(layer).before
        parts = []
        for observation_batch, state_batch, count in self._batches(observations, state, self.batch_size):
            parts.append(self._backend.array(before(observation_batch, *state_batch)[0])[:count])
        return np.concatenate(parts)

    def path_gradients(
        self,
        observations: np.ndarray,
        layer: str,
        points: np.ndarray,
        weights: np.ndarray,
        outputs: Sequence[Output],
        state: State = None,
    ) -> PathGradients:
        cut_at = self._cut(layer)
        parts = []
        for observation_batch, state_batch, count in self._batches(observations, state, self.gradient_batch_size):
            activations, *bypass = cut_at.before(observation_batch, *state_batch)
            all_scores = self._backend.array(cut_at.after(activations, *bypass))
            all_scores_at_zero = self._backend.array(cut_at.after(activations * 0, *bypass))
            selection = select_scores(outputs, self.network.heads, self.num_actions, all_scores)
            gradients, _ = differentiation.path_integral(cut_at.step, activations, points, weights, selection, bypass)
            parts.append(
                PathGradients(
                    self._backend.array(activations)[:count],
                    self._backend.array(gradients)[:, :count],
                    np.einsum("bsn,bn->sb", selection, all_scores)[:, :count],
                    np.einsum("bsn,bn->sb", selection, all_scores_at_zero)[:, :count],
                )
            )
        return PathGradients(
            np.concatenate([part.activations for part in parts]),
            np.concatenate([part.gradients for part in parts], axis=1),
            np.concatenate([part.scores for part in parts], axis=1),
            np.concatenate([part.scores_at_zero for part in parts], axis=1),
        )

    def gradients(
        self,
        observations: np.ndarray,
        layer: str | None,
        activations: np.ndarray | None,
        outputs: Sequence[Output],
        state: State = None,
    ) -> np.ndarray:
        cut_at = self._cut(INPUT if layer is None else layer)
        parts = []
        start = 0
        for observation_batch, state_batch, count in self._batches(observations, state, self.gradient_batch_size):
            actual, *bypass = cut_at.before(observation_batch, *state_batch)
            given = actual
            if activations is not None:
                given = _pad(np.asarray(activations[start : start + count], np.float32), len(observation_batch))
            if "greedy" in outputs:  # the one output that depends on the scores
                scores = self._backend.array(cut_at.after(actual, *bypass))
            else:
                scores = np.zeros((len(given), self._score_count), np.float32)
            selection = select_scores(outputs, self.network.heads, self.num_actions, scores)
            gradients, _ = differentiation.path_integral(cut_at.step, given, [1.0], [1.0], selection, bypass)
            parts.append(self._backend.array(gradients)[:, :count])
            start += count
        result = np.concatenate(parts, axis=1)
        # The input is `observations / 255` whatever the network divides by.
        return result * np.float32(255) / self._divisor if layer is None else result

    @functools.cache  # noqa: B019 (an agent lives as long as the program needs it)
    def _cut(self, layer: str) -> _Cut:
        import keras

        model = self.network.model
        names = [node.name for node in self._graph.nodes]
        index = self._graph.source if layer == INPUT else names.index(find_operation(self.operations, layer).name)
        inside = self._graph.nodes[index].tensors[0]
        bypass = cut(self._graph, index)
        before = keras.Model(model.inputs, [inside, *bypass])
        after = keras.Model([inside, *bypass], model.outputs[: len(self.network.heads)])

        def run_before(*inputs: Any) -> Any:
            return keras.tree.flatten(before(list(inputs), training=False))

        def run_after(*inputs: Any) -> Any:
            return keras.ops.concatenate(keras.tree.flatten(after(list(inputs), training=False)), axis=-1)

        compiled = self._backend.compile
        return _Cut(compiled(run_before), compiled(run_after), self._backend.gradient_step(run_after))

    def _reset(self, state: State, firsts: np.ndarray) -> State:
        initial = self.initial_state(len(firsts))
        if initial is None or state is None:
            return initial
        return tuple(
            np.where(np.reshape(firsts, (-1,) + (1,) * (part.ndim - 1)), first, part)
            for first, part in zip(initial, state, strict=True)
        )

    def _batches(
        self, observations: np.ndarray, state: State, size: int
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray], int]]:
        """Pairs of inputs and state, each padded to `size`, and how many of them count."""
        observations = np.asarray(observations)
        if observations.ndim != 4 or observations.shape[1:] != self.observation_shape:
            raise ValueError(
                f"observations have the shape {observations.shape}; the network takes (B, "
                + ", ".join(map(str, self.observation_shape))
                + ")"
            )
        if state is None:
            state = self.initial_state(len(observations)) or ()
        for start in range(0, max(len(observations), 1), size):
            part = np.asarray(observations[start : start + size], np.float32) / self._divisor
            padded = _padded_size(len(part), size)
            yield _pad(part, padded), [_pad(s[start : start + size], padded) for s in state], len(part)


def _padded_size(count: int, size: int) -> int:
    """A power of two from 8 on, at most `size`: few shapes to compile for, little waste on a few observations."""
    return min(size, max(8, 1 << max(count - 1, 0).bit_length()))


def _pad(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) == size:
        return array
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])
