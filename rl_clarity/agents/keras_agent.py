"""`KerasAgent` is an agent whose network is a Keras model, on any backend of Keras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.agents.actions import Factor
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.capabilities import reset_state
from rl_clarity.agents.differentiation import Backend, Function, keras_backend
from rl_clarity.agents.graph import Graph, cut, evaluate, linear_prefix_end, model_graph, node_paths
from rl_clarity.agents.network import Network
from rl_clarity.agents.output_check import Check, check_outputs
from rl_clarity.agents.protocol import Site, State
from rl_clarity.agents.sites import INPUT
from rl_clarity.agents.value_range import input_scale, vector_scale
from rl_clarity.agents.weight_edits import edited_parameters
from rl_clarity.base.errors import OptionError

if TYPE_CHECKING:
    import keras


class KerasAgent(BatchedAgent):
    """The protocol `Agent` for a Keras model.

    Observations are (B, H, W, C), or the same with the channels first, from 0 to 255: uint8, or other numbers of that
    range. Floats that are all from 0 to 1 raise SamplesError, unless `input_divisor` is 1.

    Args:
        model: a functional or sequential model, or a `Network`. The inputs are the observations and, if the model is
            recurrent, the arrays of the state. The outputs are a policy's logits and a value, logits alone, or action
            values, followed by the next state. The observations must be the only image input, of shape (H, W, C) or, if
            gray, (H, W). If there are several image inputs, exactly one must have a name such as `obs`
        metadata: facts about the agent, such as `env_name` and `gamma`
        heads: names of the model's outputs before the state, in the model's order: `policy_logits` and `values`,
            `policy_logits` alone, or `q_values`, with None for each output to leave out. By default they are inferred
            from the outputs' names or widths. Required for a single output, unless it has a name for action values,
            such as `q_values`
        initial_state: arrays without the batch axis, one per state input; by default zeros
        input_divisor: observations are divided by this number, in float32, before the model gets them. By default 1 if
            the model takes integers, or scales its input before its first layer with weights (a `Rescaling`, a
            `Normalization`, or a multiplication or division by a constant), and otherwise 255
        value_range: alternative to `input_divisor`: the model's inputs for observations of 0 and 255, such as (-1, 1)
        channels_first: whether the model takes (C, H, W); needed only where the shape is ambiguous
        actions: the factors of an action, if it is not a single choice: a sequence of `Categorical`, `Binary` and
            `Gaussian`, whose outputs are the columns of the policy's output, in this order
        batch_size: observations per forward pass
        gradient_batch_size: observations per gradient computation
        check: expected outputs to compare with, as a dict of arrays or the path of an `.npz` file: `observations` from
            your own program, from 0 to 255 or as the model gets them, and the outputs for them: `logits` (B, A),
            `values` (B,) or `q_values` (B, A)

    Raises OptionError for a model without such inputs and outputs, for ambiguous inputs and outputs, and for outputs
    that differ from `check`.
    """

    def __init__(
        self,
        model: keras.Model | Network,
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str | None] | None = None,
        initial_state: Sequence[np.ndarray] | None = None,
        input_divisor: float | None = None,
        value_range: Sequence[float] | None = None,
        actions: Sequence[Factor] | None = None,
        channels_first: bool | None = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
        check: Check | None = None,
    ) -> None:
        is_vector = isinstance(model, Network) and tuple(model.model.inputs[0].shape[1:3]) == (1, 1)
        scale = (vector_scale if is_vector else input_scale)(input_divisor, value_range)
        if isinstance(model, Network):
            network = model
            scale = replace(scale, assumed=False)
        else:
            from rl_clarity.agents import keras_model
            from rl_clarity.agents.input_scale import input_divisor as find_divisor

            network = keras_model.network_from_model(model, heads, initial_state, channels_first)
            if scale.assumed:
                divisor = find_divisor(network, keras_model.input_dtype(model))
                scale = replace(scale, divisor=divisor, assumed=divisor == 255)
        height, width, channels = map(int, network.model.inputs[0].shape[1:])
        super().__init__(
            (height, width, channels),
            network.heads,
            int(network.model.outputs[0].shape[-1]),
            metadata,
            initial_state=network.initial_state,
            scale=scale,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
            actions=actions,
        )
        self.network, self._image = network, network.image
        held = self._initial_state[len(self._initial_state) - len(network.held_inputs) :]
        self.held_inputs = {name: part.shape for name, part in zip(network.held_inputs, held, strict=True)}
        if check is not None:
            check_outputs(self, check)

    @property
    def _backend(self) -> Backend:
        return self._cached("backend", keras_backend)

    @property
    def _operations(self) -> Sequence[Site]:
        return self._named[1]

    def reset(self, state: State, firsts: np.ndarray) -> State:
        """Return the state before a step, which is `state` except where an episode begins."""
        later, n = self.network.later_state, len(firsts)
        if later is None:
            return super().reset(state, firsts)
        return reset_state(
            state, self.initial_state(n), firsts, tuple(np.repeat(part[None], n, axis=0) for part in later)
        )

    def differentiable_step(self) -> Function:
        """Return the edited network as a differentiable function of tensors of the framework that Keras runs on.

        It takes frames (B, H, W, C) from 0 to 1 and the arrays of the state, and returns a list: the heads in the order
        of `heads`, then the arrays of the next state. The network's parameters are constants of this function.

        Raises OptionError for edits that choose replacement activations by a frame's pixels (`to="resample"`).
        """
        if self._edits.names:
            raise OptionError('an edit with to="resample" depends on exact pixels, so it has no differentiable step')
        inputs = (INPUT, *self._states)
        run = self._edited(inputs, (*self.heads, *(f"after/{i}" for i in range(len(self._states)))))
        edits = self._edits.functions({}, self._backend.operations)
        scale = float(np.float32(255) / self._divisor)

        def step(*tensors: Any) -> list[Any]:
            frames, *state = (edits[name](x) if name in edits else x for name, x in zip(inputs, tensors, strict=True))
            return list(run(frames * scale, *state))

        return step

    def _network_parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the network's parameters by their names in a checkpoint."""
        return self.network.parameters()

    def _assign_parameters(self, parameters: Mapping[str, np.ndarray]) -> None:
        self.network.assign(parameters)

    def _edited_parameters(self) -> dict[str, np.ndarray]:
        return edited_parameters(self.network, self._graph, self._named[0], self._edits)

    @property
    def _graph(self) -> Graph:
        return self._cached("graph", lambda: model_graph(self.network.model, len(self.heads)))

    @property
    def _named(self) -> tuple[dict[str, Any], list[Site]]:
        return self._cached("named", self._name_tensors)

    def _name_tensors(self) -> tuple[dict[str, Any], list[Site]]:
        """Return the symbolic tensors by name, and the sites that operations compute."""
        inputs, outputs = self.network.model.inputs, self.network.model.outputs
        after = [f"after/{i}" for i in range(len(self._states))]
        tensors = dict(zip((INPUT, *self._states, *self.heads, *after), (*inputs, *outputs), strict=True))
        operations = []
        for node, paths in zip(self._graph.nodes, node_paths(self._graph), strict=True):
            for i, tensor in enumerate(node.tensors):
                name = node.name if len(node.tensors) == 1 else f"{node.name}/{i}"
                if any(tensor is other for other in inputs) or tensors.get(name) is tensor:
                    continue  # an input, or a head with the name of its operation
                while name in tensors:
                    name += "_"
                tensors[name] = tensor
                if tensor.shape[0] is None and None not in tensor.shape[1:]:
                    operations.append(Site(name, node.kind, tuple(map(int, tensor.shape[1:])), *paths))
        return tensors, operations

    def _bypass(self, site: str) -> tuple[str, ...]:
        tensors = self._named[0]
        index = self._node(site)
        siblings = [t for t in self._graph.nodes[index].tensors if t is not tensors[site]]
        names = {id(tensor): name for name, tensor in tensors.items()}
        return tuple(names[id(tensor)] for tensor in (*siblings, *cut(self._graph, index)))

    def _repeats_rows(self, site: str) -> bool:
        tensors = [self._named[0][name] for name in self._bypass(site)]
        return self._backend.shares_batches and all(tensor.shape[:1] == (None,) for tensor in tensors)

    def _linear_prefix_end(self, site: str, from_zero: bool) -> str | None:
        # If black is not 0, the first operation does not get 0 for an input of 0.
        from_zero = from_zero and not (site == INPUT and self.input_scale.black)
        end = linear_prefix_end(self._graph, self._node(site), from_zero=from_zero)
        if end is None:
            return None
        (tensor,) = self._graph.nodes[end].tensors
        return next(name for name, other in self._named[0].items() if other is tensor)

    def _node(self, site: str) -> int:
        """Return the index of the node that computes a site."""
        tensor = self._named[0][site]
        return next(i for i, node in enumerate(self._graph.nodes) if any(t is tensor for t in node.tensors))

    def _section(self, given: tuple[str, ...], wanted: tuple[str, ...], edits: Mapping[str, Function]) -> Function:
        tensors, black = self._named[0], self.input_scale.black
        own = tuple(name for name in wanted if name != INPUT or INPUT not in given)
        sources, targets = ([tensors[name] for name in names] for names in (given, own))

        def edited(name: str) -> Function:
            import keras

            return lambda values: keras.ops.cast(edits[name](keras.ops.cast(values, "float32")), tensors[name].dtype)

        changes = {id(tensors[name]): edited(name) for name in edits}

        def run(*arrays: Any) -> list[Any]:
            import keras

            inputs = dict(zip(given, arrays, strict=True))
            shifted = {**inputs, INPUT: inputs[INPUT] + black} if black and INPUT in inputs else inputs
            values = {
                id(source): keras.ops.cast(array, source.dtype)
                for source, array in zip(sources, shifted.values(), strict=True)
            }
            # Gradients are in float32 even if layers compute in half precision.
            results = [keras.ops.cast(tensor, "float32") for tensor in evaluate(targets, values, changes)]
            named = {**dict(zip(own, results, strict=True)), **({INPUT: inputs[INPUT]} if INPUT in inputs else {})}
            return [named[name] for name in wanted]

        return run
