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

    def gradient_of_direction(
        self, images: np.ndarray, layer: str, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How strongly images (N, H, W, C) in 0..1 excite directions (N, c) of a layer's channels, and the gradient.

        The value (N,) is the mean over positions of the activations times the image's direction, from the initial
        state; the gradient (N, H, W, C) is with respect to the images. Feature visualisation climbs it.
        """
        step = self._direction_step(layer)
        values, gradients = [], []
        for start in range(0, len(images), self.gradient_batch_size):
            part = np.asarray(images[start : start + self.gradient_batch_size], np.float32)
            selection = np.asarray(directions[start : start + len(part)], np.float32)[:, None]  # (n, 1, c)
            state = self.initial_state(len(part)) or ()
            gradient, value = differentiation.path_integral(step, part, [1.0], [1.0], selection, state)
            values.append(self._backend.array(value)[0])
            gradients.append(self._backend.array(gradient)[0])
        return np.concatenate(values), np.concatenate(gradients)

    @functools.cache  # noqa: B019 (as below)
    def _direction_step(self, layer: str) -> Any:
        """The compiled gradient step from images to the mean of each of a layer's channels over its positions."""
        import keras

        names = [node.name for node in self._graph.nodes]
        (at,) = self._graph.nodes[names.index(find_operation(self.operations, layer).name)].tensors
        model = keras.Model(self.network.model.inputs, [at])
        scale = float(np.float32(255) / self._divisor)

        def mean_activations(images: Any, *state: Any) -> Any:
            (activations,) = keras.tree.flatten(model([images * scale, *state], training=False))
            return keras.ops.mean(activations, axis=(1, 2))

        return self._backend.gradient_step(mean_activations)

    @functools.cache  # noqa: B019 (an agent lives as long as the program needs it)
    def _cut(self, layer: str) -> Cut:
        import keras

        model = self.network.model
        names = [node.name for node in self._graph.nodes]
        index = self._graph.source if layer == INPUT else names.index(find_operation(self.operations, layer).name)
        (at,) = self._graph.nodes[index].tensors
        bypass = list(cut(self._graph, index))
        before = keras.Model(model.inputs, [at, *bypass])
        after = keras.Model([at, *bypass], list(model.outputs[: len(self.heads)]))

        def run_before(*inputs: Any) -> Any:
            return keras.tree.flatten(before(list(inputs), training=False))

        def run_after(*inputs: Any) -> Any:
            return keras.ops.concatenate(keras.tree.flatten(after(list(inputs), training=False)), axis=-1)

        compiled = self._backend.compile
        return Cut(compiled(run_before), compiled(run_after), self._backend.gradient_step(run_after))


def _repeated(state: tuple[np.ndarray, ...], n: int) -> State:
    return tuple(np.repeat(part[None], n, axis=0) for part in state) or None
