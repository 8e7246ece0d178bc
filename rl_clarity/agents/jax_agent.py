"""`JaxAgent` is an agent whose network is a JAX function, from Flax, Haiku, Equinox, or your own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents import network_outputs
from rl_clarity.agents.actions import Factor
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.behavior import check_behavior
from rl_clarity.agents.differentiation import Backend, Function, JaxBackend
from rl_clarity.agents.graph import Graph, cut, node_paths
from rl_clarity.agents.jax_graph import Program, trace
from rl_clarity.agents.once import MadeOnce
from rl_clarity.agents.output_check import Check, check_outputs
from rl_clarity.agents.protocol import Site
from rl_clarity.agents.sites import INPUT
from rl_clarity.agents.value_range import input_scale
from rl_clarity.base.errors import ClarityError, OptionError

Apply = Callable[..., Any]
TRIAL_BATCH = 2


class JaxAgent(BatchedAgent):
    """The protocol `Agent` for a JAX function `apply(parameters, observations)`, such as a Flax module's `apply`.

    Sites are the results of the function's operations, read from its jaxpr. The name of a site consists of JAX's name
    stack, to which Flax adds the names of its modules, and the kind of operation: `Network/Conv_0/conv2d`.

    The function is called with observations (B, H, W, C) in float32 and must be traceable by `jax.jit`. Pass a function
    in evaluation mode: with `train=False`, without dropout.

    Args:
        apply: `apply(parameters, observations)` returns a policy's logits (B, A) and a value (B,) or (B, 1), logits
            alone, or action values (B, A). Several outputs are returned as a tuple or a dict. A categorical
            distribution may replace the logits
        parameters: first argument of `apply`, any pytree of arrays
        observation_shape: (H, W, C) of one observation
        metadata: facts about the agent, such as `env_name` and `gamma`
        heads: names of the function's outputs, in the order in which it returns them: `policy_logits` and `values`,
            `policy_logits` alone, or `q_values`, with None for each output to leave out. By default they are inferred
            from the outputs' names or widths. Required for a single output, unless it has a name for action values,
            such as `q_values`
        initial_state: initial state of a recurrent function, without the batch axis, as an array or a tuple of arrays.
            The function is then called with `(parameters, observations, state)`, where the state is an array or a tuple
            of arrays like this argument, and must return the next state as the last of its results
        channels_first: whether the function takes (B, C, H, W)
        input_divisor: observations are divided by this number, in float32, before the function gets them; 1 for a
            function that scales them itself. By default 255. Required if the function also scales its input before its
            first weights
        value_range: alternative to `input_divisor`: the function's inputs for observations of 0 and 255, such as
            (-1, 1)
        actions: the factors of an action, if it is not a single choice: a sequence of `Categorical`, `Binary` and
            `Gaussian`, whose outputs are the columns of the policy's output, in this order
        batch_size: observations per forward pass
        gradient_batch_size: observations per gradient computation
        check: whether to run the function on a few images of noise, and raise OptionError if its outputs are random,
            depend on the rest of the batch, or have no gradient. To compare its outputs with expected ones as well,
            pass a dict of arrays, or the path of an `.npz` file, in place of True: `observations` from your own
            program, from 0 to 255 or as the function gets them, and the outputs for them: `logits` (B, A), `values`
            (B,) or `q_values` (B, A)

    Raises:
        OptionError: The function does not return such outputs, cannot be traced, or fails the check.
    """

    def __init__(
        self,
        apply: Apply,
        parameters: Any,
        observation_shape: Sequence[int],
        metadata: Mapping[str, Any] | None = None,
        *,
        heads: Sequence[str | None] | None = None,
        initial_state: Any = None,
        channels_first: bool = False,
        input_divisor: float | None = None,
        value_range: Sequence[float] | None = None,
        actions: Sequence[Factor] | None = None,
        batch_size: int = 256,
        gradient_batch_size: int = 64,
        check: bool | Check = True,
    ) -> None:
        if not callable(apply):
            raise OptionError(f"apply is a {type(apply).__name__}; it must be a function, such as module.apply")
        self._apply, self._parameters = apply, parameters
        self._channels_first = channels_first
        self._single_state = initial_state is not None and not isinstance(initial_state, list | tuple)
        parts = network_outputs.state_parts(initial_state)
        self._initial_state = tuple(np.asarray(part, np.float32) for part in parts)
        self.observation_shape = network_outputs.checked_shape(observation_shape)
        self._given_heads = heads
        self._programs = MadeOnce()
        scale = input_scale(input_divisor, value_range)
        self._black = scale.black
        names, num_actions = self._trial(check_scale=scale.assumed)
        self._given_heads = names if heads is None else heads
        super().__init__(
            self.observation_shape,
            names,
            num_actions,
            metadata,
            initial_state=self._initial_state,
            scale=scale,
            batch_size=batch_size,
            gradient_batch_size=gradient_batch_size,
            actions=actions,
        )
        if check:
            check_behavior(self, float(np.finfo(np.float32).eps))
        if not isinstance(check, bool):
            check_outputs(self, check)

    def _network_parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters by their paths in the pytree."""
        import jax

        leaves, _ = jax.tree_util.tree_flatten_with_path(self._parameters)
        return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}

    def _assign_parameters(self, parameters: Mapping[str, np.ndarray]) -> None:
        import jax

        def new(path: Any, leaf: Any) -> Any:
            array = np.asarray(parameters[jax.tree_util.keystr(path)], np.asarray(leaf).dtype)
            return array if isinstance(leaf, np.ndarray) else jax.numpy.asarray(array)

        self._parameters = jax.tree_util.tree_map_with_path(new, self._parameters)
        self._programs = MadeOnce()  # compiled functions contain the parameters as constants

    def _trial(self, *, check_scale: bool) -> tuple[tuple[str, ...], int]:
        """Run the function once, trace it, and return the names of its heads and the number of actions."""
        observations = np.random.default_rng(0).random((TRIAL_BATCH, *self.observation_shape), np.float32)
        state = [np.repeat(part[None], TRIAL_BATCH, axis=0) for part in self._initial_state]
        try:
            heads, tensors, after = self._run(observations, *state)
            num_actions = network_outputs.check_trial(heads, tensors, state, after)
            program = self._program(TRIAL_BATCH)
        except ClarityError:
            raise
        except Exception as error:  # user code may raise anything
            called = "apply(parameters, observations, state)" if state else "apply(parameters, observations)"
            raise OptionError(
                f"{called} cannot be traced for two observations of shape {self.observation_shape} "
                f"({type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}). observation_shape is "
                "(height, width, channels); channels_first=True is for functions that take (batch, channels, height, "
                "width), initial_state for recurrent ones. The function must work under jax.jit, so use jax.numpy"
            ) from error
        if len(program.graph(len(heads)).sinks) < len(heads):
            raise OptionError(f"an output of apply ({', '.join(heads)}) does not depend on the observations")
        if check_scale:
            weighted = next((op for op in program.operations if op.kind in ("conv2d", "dense")), None)
            if weighted is not None:
                inputs = dict(zip(program.inputs, (observations, *state), strict=True))
                (first,) = program.evaluate(weighted.arguments[:1], inputs)
                network_outputs.check_scale(first, observations)
        return heads, num_actions

    def _run(self, observations: Any, *states: Any) -> tuple[tuple[str, ...], list[Any], list[Any]]:
        """Return the names of the heads, the heads (B, n), and the next state, for observations (B, H, W, C)."""
        import jax.numpy as jnp

        x = jnp.moveaxis(observations, -1, 1) if self._channels_first else jnp.asarray(observations)
        x = x + self._black if self._black else x
        state = (states[0] if self._single_state else states,) if states else ()
        outputs, after = network_outputs.split_state(self._apply(self._parameters, x, *state), recurrent=bool(states))
        heads, tensors = network_outputs.named_heads(outputs, self._given_heads)
        return heads, [jnp.float32(tensor) for tensor in tensors], [jnp.float32(part) for part in after]

    def _program(self, batch: int) -> Program:
        """Return the function's operations for one batch size. Each size has its own, because a jaxpr has fixed
        shapes.
        """
        program: Program = self._programs.get(batch, lambda: self._trace_program(batch))
        return program

    def _trace_program(self, batch: int) -> Program:
        shapes = [self.observation_shape, *(part.shape for part in self._initial_state)]
        arguments = [np.zeros((batch, *shape), np.float32) for shape in shapes]
        program = trace(lambda *arrays: [x for part in self._run(*arrays)[1:] for x in part], arguments)
        first = program if batch == TRIAL_BATCH else self._program(TRIAL_BATCH)  # whose tensors have the names
        if [op.name for op in program.operations] != [op.name for op in first.operations]:
            raise OptionError("the function's operations depend on the batch size; they must be the same for all sizes")
        return program

    @property
    def _backend(self) -> Backend:
        return self._cached("backend", JaxBackend)

    @property
    def _graph(self) -> Graph:
        return self._cached("graph", lambda: self._program(TRIAL_BATCH).graph(len(self.heads)))

    @property
    def _operations(self) -> Sequence[Site]:
        return self._named[1]

    @property
    def _named(self) -> tuple[dict[str, Any], list[Site]]:
        return self._cached("named", self._name_tensors)

    def _name_tensors(self) -> tuple[dict[str, Any], list[Site]]:
        """Return the numbers of the program's tensors by tensor name, and the sites of its operations."""
        program = self._program(TRIAL_BATCH)
        after = [f"after/{i}" for i in range(len(self._states))]
        tensors = dict(
            zip((INPUT, *self._states, *self.heads, *after), (*program.inputs, *program.outputs), strict=True)
        )
        operations = []
        nodes = zip(self._graph.nodes, node_paths(self._graph), strict=True)
        for node, paths in list(nodes)[len(program.inputs) :]:
            for i, tensor in enumerate(node.tensors):
                name = node.name if len(node.tensors) == 1 else f"{node.name}/{i}"
                while name in tensors:
                    name += "_"
                tensors[name] = tensor
                shape = tuple(map(int, program.types[tensor].shape))
                if len(shape) > 1 and shape[0] == TRIAL_BATCH:
                    shape = (*shape[2:], shape[1]) if self._transposed(len(shape)) else shape[1:]
                    operations.append(Site(name, node.kind, shape, *paths))
        return tensors, operations

    def _transposed(self, rank: int) -> bool:
        """Return whether tensors of this rank are feature maps with the channels first, (B, c, h, w)."""
        return rank == 4 and self._cached("channels_first", lambda: self._program(TRIAL_BATCH).channels_first)

    def _bypass(self, site: str) -> tuple[str, ...]:
        tensors = self._named[0]
        (index,) = (i for i, node in enumerate(self._graph.nodes) if tensors[site] in node.tensors)
        siblings = [tensor for tensor in self._graph.nodes[index].tensors if tensor != tensors[site]]
        names = {tensor: name for name, tensor in reversed(tensors.items()) if isinstance(tensor, int)}
        return tuple(names[tensor] for tensor in (*siblings, *cut(self._graph, index)))

    def _linear_prefix_end(self, site: str, from_zero: bool) -> str | None:
        tensors = self._named[0]
        end = self._program(TRIAL_BATCH).linear_prefix_end(tensors[site], from_zero=from_zero)
        return next((operation.name for operation in self._operations if tensors[operation.name] == end), None)

    def _section(self, given: tuple[str, ...], wanted: tuple[str, ...], edits: Mapping[str, Function]) -> Function:
        numbers = self._named[0]
        inputs = (INPUT, *self._states)

        def run(*arrays: Any) -> list[Any]:
            import jax.numpy as jnp

            program = self._program(len(arrays[0]))

            def to_network(name: str, array: Any) -> Any:
                array = jnp.asarray(array)
                if name not in inputs and self._transposed(array.ndim):
                    array = jnp.moveaxis(array, -1, 1)
                return array.astype(program.types[numbers[name]].dtype)

            def from_network(name: str, array: Any) -> Any:
                array = jnp.asarray(array)
                return jnp.float32(
                    jnp.moveaxis(array, 1, -1) if name not in inputs and self._transposed(array.ndim) else array
                )

            def edited(name: str) -> Function:
                return lambda array: to_network(name, edits[name](from_network(name, array)))

            values = {numbers[name]: to_network(name, array) for name, array in zip(given, arrays, strict=True)}
            changes = {numbers[name]: edited(name) for name in edits}
            results = program.evaluate([numbers[name] for name in wanted], values, changes)
            return [from_network(name, array) for name, array in zip(wanted, results, strict=True)]

        return run
