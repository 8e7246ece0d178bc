"""The operations of a JAX function, from its flattened jaxpr, as a graph whose tensors can be read and replaced.

Calls of jitted functions are inlined, except activations, which keep their custom derivative rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.graph import Graph, Node
from rl_clarity.agents.sites import ACTIVATIONS

KINDS = {
    "conv_general_dilated": "conv2d",
    "dot_general": "dense",
    "reduce_window_max": "maxpool",
    "reduce_window_sum": "avgpool",
}
WEIGHTED = ("conv2d", "dense")
AVERAGING = ("avgpool", "reduce_sum", "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "copy")
INLINED = ("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint")


@dataclass(frozen=True)
class Constant:
    """A value that depends neither on the observations nor on the state."""

    value: Any


@dataclass(frozen=True)
class Operation:
    """An equation of the jaxpr; tensors are numbered in the order of computation."""

    equation: Any
    name: str
    kind: str
    arguments: tuple[int | Constant, ...]
    results: tuple[int, ...]

    @property
    def reads(self) -> list[int]:
        return [argument for argument in self.arguments if isinstance(argument, int)]


@dataclass(frozen=True)
class Program:
    """The operations of a function of arrays with a fixed batch size."""

    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int | Constant, ...]
    types: Mapping[int, Any]
    """The shape and type of each tensor."""

    def evaluate(
        self,
        tensors: Sequence[int | Constant],
        values: Mapping[int, Any],
        edits: Mapping[int, Callable[[Any], Any]] | None = None,
    ) -> list[Any]:
        """Return the values of tensors, computed from `values` of other tensors. Only operations between them are
        computed.

        `edits` maps tensors to functions that change their computed values.
        """
        values = dict(values)
        needed = {tensor for tensor in tensors if isinstance(tensor, int)}
        pending = []
        for operation in reversed(self.operations):
            if (needed - values.keys()) & set(operation.results):
                pending.append(operation)
                needed |= {argument for argument in operation.arguments if isinstance(argument, int)}
        for operation in reversed(pending):
            primitive = operation.equation.primitive
            arguments = [_value(argument, values) for argument in operation.arguments]
            results = bind(primitive, operation.equation.params, arguments)
            for tensor, result in zip(
                operation.results, results if primitive.multiple_results else [results], strict=True
            ):
                if tensor not in values:
                    values[tensor] = edits[tensor](result) if edits and tensor in edits else result
        return [_value(tensor, values) for tensor in tensors]

    def graph(self, heads: int) -> Graph:
        """Return the operations that depend on the inputs as a graph with `heads` outputs. The first input is the
        observations.
        """
        nodes = [Node("input", "input", (tensor,), ()) for tensor in self.inputs]
        position = {tensor: i for i, tensor in enumerate(self.inputs)}
        for operation in self.operations:
            arguments = [position[a] for a in operation.arguments if isinstance(a, int) and a in position]
            if arguments:
                position |= dict.fromkeys(operation.results, len(nodes))
                convolves = operation.kind == "conv2d"
                nodes.append(Node(operation.name, operation.kind, operation.results, tuple(arguments), convolves))
        sinks = [position[tensor] for tensor in self.outputs[:heads] if isinstance(tensor, int) and tensor in position]
        return Graph(tuple(nodes), 0, tuple(sinks))

    def linear_prefix_end(self, start: int, *, from_zero: bool) -> int | None:
        """Return the tensor at the end of the linear prefix after `start` (see `LinearPrefix`), or None if the prefix
        has no weights.

        Each operation of the prefix is the only one that reads the previous tensor, and its other inputs are constants.
        With `from_zero`, ReLUs and max pooling before the first weights and the first added constant belong to the
        prefix, too.
        """
        varying = set(self.inputs)
        for operation in self.operations:
            if not varying.isdisjoint(operation.reads):
                varying.update(operation.results)
        end, tensor, homogeneous = None, start, from_zero
        while tensor not in self.outputs:
            readers = [operation for operation in self.operations if tensor in operation.reads]
            if len(readers) != 1 or len(readers[0].results) != 1:
                break
            (operation,) = readers
            (result,) = operation.results
            same_type = self.types[result].dtype == self.types[tensor].dtype
            if not same_type or [argument for argument in operation.reads if argument in varying] != [tensor]:
                break
            if operation.kind in ("add", "sub", *WEIGHTED):
                homogeneous = False
            elif not (
                operation.kind in ("mul", *AVERAGING)
                or (operation.kind == "div" and operation.arguments[0] == tensor)
                or (homogeneous and (operation.kind == "maxpool" or _is_relu(operation.equation)))
            ):
                break
            tensor = result
            if operation.kind in WEIGHTED or end is not None:
                end = tensor
        return end

    @property
    def channels_first(self) -> bool:
        """Whether convolutions return (B, c, h, w)."""
        convolutions = [op.equation.params["dimension_numbers"] for op in self.operations if op.kind == "conv2d"]
        return bool(convolutions) and all(numbers.out_spec[1] == 1 for numbers in convolutions)


def trace(function: Callable[..., Any], arguments: Sequence[Any]) -> Program:
    """Return the operations of a function that returns a list of arrays, for arguments with these shapes and types."""
    import jax

    closed = jax.make_jaxpr(function)(*arguments)
    numbers = itertools.count()
    operations: list[Operation] = []
    types: dict[int, Any] = {}
    used: dict[str, int] = {}

    def new(variables: Sequence[Any]) -> list[int]:
        tensors = [next(numbers) for _ in variables]
        types.update((tensor, variable.aval) for tensor, variable in zip(tensors, variables, strict=True))
        return tensors

    def inline(jaxpr: Any, constants: Sequence[Any], inputs: Sequence[int | Constant], scope: str) -> list[Any]:
        known: dict[Any, int | Constant] = dict(zip(jaxpr.constvars, map(Constant, constants), strict=True))
        known |= dict(zip(jaxpr.invars, inputs, strict=True))

        def argument(atom: Any) -> int | Constant:
            return Constant(atom.val) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            arguments = [argument(atom) for atom in equation.invars]
            scopes = "/".join(filter(None, (scope, str(equation.source_info.name_stack))))
            inner, kind = equation.params.get("jaxpr"), _kind(equation)
            if equation.primitive.name in INLINED and inner is not None and kind not in ACTIVATIONS:
                results: Sequence[Any] = inline(
                    getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), arguments, scopes
                )
            else:
                results = new(equation.outvars)
                name = "/".join(filter(None, (scopes, kind)))
                used[name] = used.get(name, 0) + 1
                name = name if used[name] == 1 else f"{name}_{used[name] - 1}"
                operations.append(Operation(equation, name, kind, tuple(arguments), tuple(results)))
            known |= dict(zip(equation.outvars, results, strict=True))
        return [argument(atom) for atom in jaxpr.outvars]

    inputs = new(closed.jaxpr.invars)
    outputs = inline(closed.jaxpr, closed.consts, inputs, "")
    return Program(tuple(operations), tuple(inputs), tuple(outputs), types)


def _kind(equation: Any) -> str:
    """Return the kind of an operation: the activation if it calls a function with an activation's name, "relu" for a
    maximum with 0, and otherwise the kind of the primitive.
    """
    name = equation.primitive.name
    if name == "max" and any(hasattr(atom, "val") and np.all(atom.val == 0) for atom in equation.invars):
        return "relu"
    called = equation
    while (
        "call_jaxpr" in called.params and len(called.params["call_jaxpr"].eqns) == 1
    ):  # functions of a custom derivative
        called = called.params["call_jaxpr"].eqns[0]
    function = str(called.params.get("name", "")).replace("_", "")
    return function if function in ACTIVATIONS else KINDS.get(name, name)


def _is_relu(equation: Any) -> bool:
    """Return whether an equation computes only max(x, 0), possibly inside a function."""
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    if inner is not None:
        inner = getattr(inner, "jaxpr", inner)
        return len(inner.eqns) == 1 and _is_relu(inner.eqns[0])
    return equation.primitive.name == "max" and _kind(equation) == "relu"


def _value(tensor: int | Constant, values: Mapping[int, Any]) -> Any:
    return tensor.value if isinstance(tensor, Constant) else values[tensor]


def bind(primitive: Any, parameters: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
    """Apply a primitive. Functions that the primitive calls are parameters since JAX 0.10; in earlier versions, they
    were arguments.
    """
    bound = primitive.get_bind_params(parameters)
    if isinstance(bound, dict):
        return primitive.bind(*arguments, **bound)
    functions, bound = bound
    return primitive.bind(*functions, *arguments, **bound)
