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

    Observations are (B, H, W, C), or the same with the channels first, from 0 to 255: uint8, or other numbers of that
    range. Those that reach only from 0 to 1 are refused, except where `input_divisor` is 1.

    Parameters
    ----------
    model: a functional or sequential model that gives, of observations and maybe the parts of a recurrent state, a
        policy's logits and a value, or action values, and then the state after. The observations are the only
        pictures among its inputs, (H, W, C), or grey (H, W). Or a `Network`, which has names for its outputs already
    metadata: what is known of its origin: `env_name`, `gamma`, ...
    heads: what the model's outputs before the state are, `policy_logits` and `values`, or `q_values`, in its order,
        with None for those to leave out; found by the outputs' names or widths if not given
    initial_state: arrays without the batch axis, one a state input; zeros if not given
    input_divisor: the model's input is the observations divided by it, in float32. By default 1 if the model takes
        integers, or scales its input before its first layer with weights (a `Rescaling`, a `Normalization`, a product
        or quotient with a constant), else 255
    channels_first: whether the model takes (C, H, W); needed only where its shape looks so
    batch_size: observations a forward pass
    gradient_batch_size: observations a gradient

    Raises OptionError for a model that has no such inputs and outputs, or of which it is not clear how it takes them.
    """

    def __init__(
        self,
        model: keras.Model | Network,
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str | None] | None = None,
        initial_state: Sequence[np.ndarray] | None = None,
        input_divisor: float | None = None,
        channels_first: bool | None = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
    ) -> None:
        if isinstance(model, Network):
            network = model
        else:
            from rl_clarity.networks import input_scale, users_model

            network = users_model.network_of(model, heads, initial_state, channels_first)
            if input_divisor is None:
                input_divisor = input_scale.input_divisor(network, users_model.input_dtype(model))
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
        self._compiled_forward = self._backend.compile(
            lambda *inputs: _in_float32(network.model(list(inputs), training=False))
        )

    @functools.cached_property
    def _backend(self) -> differentiation.Backend:  # type: ignore[override]
        return differentiation.backend()

    @functools.cached_property
    def _graph(self) -> Graph:
        return graph_of(self.network.model, len(self.network.heads))

    @functools.cached_property
    def operations(self) -> tuple[Operation, ...]:  # type: ignore[override]
        """Every operation of the graph whose result is (B, h, w, c), in the order of computation."""
        found = []
        for node, narrow in zip(self._graph.nodes, after_bottleneck(self._graph), strict=True):
            if len(node.tensors) == 1 and len(node.tensors[0].shape) == 4 and node.inputs:
                height, width, channels = map(int, node.tensors[0].shape[1:])
                found.append(Operation(node.name, node.kind, (height, width, channels), narrow))
        return tuple(found)

    def initial_state(self, n: int) -> State:
        """State of n environments before their first step, a tuple of arrays (n, ...); None of an agent without one."""
        return _repeated(self.network.initial_state, n)

    def reset(self, state: State, firsts: np.ndarray) -> State:
        """The state before a step: what `step` makes of the state after the last one, where episodes begin."""
        n = len(firsts)
        later = None if self.network.later_state is None else _repeated(self.network.later_state, n)
        return reset_state(state, self.initial_state(n), firsts, later)

    def _forward(self, observations: np.ndarray, *state: np.ndarray) -> Sequence[Any]:
        tensors: Sequence[Any] = self._compiled_forward(observations, *state)
        return tensors

    def _mean_activations(self, layer: str) -> Any:
        import keras

        names = [node.name for node in self._graph.nodes]
        (at,) = self._graph.nodes[names.index(find_operation(self.operations, layer).name)].tensors
        model = keras.Model(self.network.model.inputs, [at])

        def mean_activations(images: Any, *state: Any) -> Any:
            (activations,) = _in_float32(model([images, *state], training=False))
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
            return _in_float32(before(list(inputs), training=False))

        def run_after(activations: Any, *others: Any) -> Any:
            read = [other for i, other in enumerate(others) if i not in direct.values()]
            computed = iter(_in_float32(after([activations, *read], training=False)))
            scores = [others[direct[id(head)]] if id(head) in direct else next(computed) for head in heads]
            return keras.ops.concatenate(scores, axis=-1)

        compiled = self._backend.compile
        return Cut(compiled(run_before), compiled(run_after), self._backend.gradient_step(run_after))


def _in_float32(tensors: Any) -> list[Any]:
    """A model's results, in float32 also where its layers compute in half precision."""
    import keras

    return [keras.ops.cast(tensor, "float32") for tensor in keras.tree.flatten(tensors)]


def _repeated(state: tuple[np.ndarray, ...], n: int) -> State:
    return tuple(np.repeat(part[None], n, axis=0) for part in state) or None
