"""An agent whose network is a Keras model, on any backend of Keras."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents import differentiation
from rl_clarity.agents.batched import INPUT, BatchedAgent, Cut
from rl_clarity.agents.layer_names import find_operation
from rl_clarity.agents.protocol import Operation, State
from rl_clarity.agents.states import reset_state
from rl_clarity.networks.graph import Graph, after_bottleneck, cut, graph_of
from rl_clarity.networks.network import Network

if TYPE_CHECKING:
    import keras


class KerasAgent(BatchedAgent):
    """The protocol `Agent` for a Keras model.

    Parameters
    ----------
    model: a functional or sequential model from observations, then the parts of a recurrent state, to a policy's logits
    and a
        value (or to action values), then the state after; or a `Network`, which has names for its outputs already
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    heads: names of the model's first outputs, `policy_logits` and `values`, or `q_values`, in its order; found by the
    outputs'
        names or widths if not given
    initial_state: arrays without the batch axis, one a state input; zeros if not given
    input_divisor: the model's input is the observations divided by it, in float32; by default 1 if the model takes
    integers or
        begins with a layer that scales them, else 255
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient

    Raises OptionError for a model that has no such outputs.
    """

    def __init__(
        self,
        model: keras.Model | Network,
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str] | None = None,
        initial_state: Sequence[np.ndarray] | None = None,
        input_divisor: float | None = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        if isinstance(model, Network):
            network = model
        else:
            from rl_clarity.networks.users_model import network_of, scales_itself

            network = network_of(model, heads, initial_state)
            if input_divisor is None and scales_itself(model):
                input_divisor = 1
        height, width, channels = map(int, network.model.inputs[0].shape[1:])
        super().__init__(
            (height, width, channels),
            network.heads,
            int(network.model.outputs[0].shape[-1]),
            metadata,
            input_divisor=255 if input_divisor is None else input_divisor,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
        )
        self.network = network
        self._compiled_forward = self._backend.compile(lambda *inputs: network.model(list(inputs), training=False))

    @functools.cached_property
    def _backend(self) -> differentiation.Backend:  # type: ignore[override]
        return differentiation.backend()

    @functools.cached_property
    def _graph(self) -> Graph:
        return graph_of(self.network.model, len(self.network.heads))

    @functools.cached_property
    def operations(self) -> tuple[Operation, ...]:  # type: ignore[override]
        found = []
        for node, narrow in zip(self._graph.nodes, after_bottleneck(self._graph), strict=True):
            if len(node.tensors) == 1 and len(node.tensors[0].shape) == 4 and node.inputs:
                height, width, channels = map(int, node.tensors[0].shape[1:])
                found.append(Operation(node.name, node.kind, (height, width, channels), narrow))
        return tuple(found)

    def initial_state(self, n: int) -> State:
        return _repeated(self.network.initial_state, n)

    def reset(self, state: State, firsts: np.ndarray) -> State:
        n = len(firsts)
        later = None if self.network.later_state is None else _repeated(self.network.later_state, n)
        return reset_state(state, self.initial_state(n), firsts, later)

    def _forward(self, observations: np.ndarray, *state: np.ndarray) -> Sequence[Any]:
        tensors = self._compiled_forward(observations, *state)
        return tensors if isinstance(tensors, list | tuple) else [tensors]

    def _mean_activations(self, layer: str) -> Any:
        import keras

        names = [node.name for node in self._graph.nodes]
        (at,) = self._graph.nodes[names.index(find_operation(self.operations, layer).name)].tensors
        model = keras.Model(self.network.model.inputs, [at])

        def mean_activations(images: Any, *state: Any) -> Any:
            (activations,) = keras.tree.flatten(model([images, *state], training=False))
            return keras.ops.mean(activations, axis=(1, 2))

        return mean_activations

    @functools.cache  # noqa: B019 (an agent lives as long as the program needs it)
    def _cut(self, layer: str) -> Cut:
        import keras

        model = self.network.model
        names = [node.name for node in self._graph.nodes]
        index = self._graph.source if layer == INPUT else names.index(find_operation(self.operations, layer).name)
        (at,) = self._graph.nodes[index].tensors
        bypass = list(cut(self._graph, index))
        heads = list(model.outputs[: len(self.heads)])
        before = keras.Model(model.inputs, [at, *bypass])
        # A head that does not depend on the layer by-passes it; Keras has no models whose inputs are outputs.
        direct = {id(tensor): i for i, tensor in enumerate(bypass) if any(tensor is head for head in heads)}
        inner = [tensor for tensor in bypass if id(tensor) not in direct]
        after = keras.Model([at, *inner], [head for head in heads if id(head) not in direct])

        def run_before(*inputs: Any) -> Any:
            return keras.tree.flatten(before(list(inputs), training=False))

        def run_after(activations: Any, *others: Any) -> Any:
            read = [other for i, other in enumerate(others) if i not in direct.values()]
            computed = iter(keras.tree.flatten(after([activations, *read], training=False)))
            scores = [others[direct[id(head)]] if id(head) in direct else next(computed) for head in heads]
            return keras.ops.concatenate(scores, axis=-1)

        compiled = self._backend.compile
        return Cut(compiled(run_before), compiled(run_after), self._backend.gradient_step(run_after))


def _repeated(state: tuple[np.ndarray, ...], n: int) -> State:
    return tuple(np.repeat(part[None], n, axis=0) for part in state) or None
