"""The graph of a Keras functional model: its operations, its bottlenecks, and how to cut it at a layer.

Only this module accesses private attributes of Keras's graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl_clarity.agents.network import full_name, snake_case
from rl_clarity.base.errors import OptionError

KINDS = {
    "conv2d": "conv2d",
    "depthwiseconv2d": "conv2d",
    "separableconv2d": "conv2d",
    "maxpooling2d": "maxpool",
    "maxpool": "maxpool",
    "averagepooling2d": "avgpool",
    "averagepool": "avgpool",
}
REARRANGING = ("reshape", "flatten", "squeeze", "expanddims", "identity", "cast", "dropout")
WEIGHTED = ("conv2d", "dense", "batchnormalization")
AVERAGING = ("avgpool", "globalaveragepooling2d", "zeropadding2d", "cropping2d", "permute", "transpose")
HOMOGENEOUS = ("relu", "leakyrelu", "maxpool", "globalmaxpooling2d")
NEGLIGIBLE = 1e-6
"""Largest constant that is ignored if it is added under a square root, where it keeps the gradient finite."""


@dataclass(frozen=True)
class Node:
    """One call of an operation."""

    name: str
    kind: str
    tensors: tuple[Any, ...]  # symbolic results
    inputs: tuple[int, ...]  # indices of the nodes it reads
    convolves: bool = False  # a convolution, possibly with an activation


@dataclass(frozen=True)
class Graph:
    """The operations between the observations of a model and its heads, in the order of computation."""

    nodes: tuple[Node, ...]
    source: int
    """Index of the node for the observations."""
    sinks: tuple[int, ...]
    """Indices of the nodes for the heads."""


def model_graph(model: Any, heads: int) -> Graph:
    """Return the graph of a model whose first input is the observations, and whose first `heads` outputs are
    the heads.
    """
    order: list[Node] = []
    index: dict[int, int] = {}  # id of a Keras node -> position
    used: dict[str, int] = {}
    pending = list(reversed([*model.inputs, *model.outputs[:heads]]))
    while pending:  # depth first, without recursion: networks can be hundreds of operations deep
        keras_node = _node(pending[-1])
        missing = [tensor for tensor in keras_node.input_tensors if id(_node(tensor)) not in index]
        if id(keras_node) not in index and missing:
            pending.extend(reversed(missing))
            continue
        pending.pop()
        if id(keras_node) not in index:
            operation = keras_node.operation
            inputs = tuple(index[id(_node(tensor))] for tensor in keras_node.input_tensors)
            index[id(keras_node)] = len(order)
            name = _unique(_name(operation), used)
            order.append(Node(name, _kind(operation), tuple(keras_node.output_tensors), inputs, _convolves(operation)))
    sinks = tuple(index[id(_node(tensor))] for tensor in model.outputs[:heads])
    return Graph(tuple(order), index[id(_node(model.inputs[0]))], sinks)


def _node(tensor: Any) -> Any:
    operation, node_index, _ = tensor._keras_history
    return operation._inbound_nodes[node_index]


def _name(operation: Any) -> str:
    """Return the operation's name, without the counter that Keras appends to default names."""
    default = snake_case(type(operation).__name__)
    return default if re.fullmatch(rf"{re.escape(default)}(_\d+)?", operation.name) else full_name(operation.name)


def _unique(name: str, used: dict[str, int]) -> str:
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}_{used[name] - 1}"


def _convolves(operation: Any) -> bool:
    return KINDS.get(type(operation).__name__.lower()) == "conv2d"


def _kind(operation: Any) -> str:
    name = type(operation).__name__.lower()
    activation = getattr(operation, "activation", None)
    if activation is not None and getattr(activation, "__name__", "linear") != "linear":
        return str(activation.__name__).replace("_", "")  # an activation, or a layer that contains an activation
    return KINDS.get(name, name)


def bottlenecks(graph: Graph) -> set[int]:
    """Return the indices of the nodes that are on every path from the observations to the heads.

    If the heads have only the observations in common, return the nodes that are on every path to one of the heads.
    """
    narrow = _bottlenecks(graph, graph.sinks)
    if narrow <= {graph.source}:
        narrow = set.union(*(_bottlenecks(graph, [sink]) for sink in graph.sinks))
    return narrow


def _bottlenecks(graph: Graph, sinks: Sequence[int]) -> set[int]:
    return {
        i
        for i in range(len(graph.nodes))
        if not any(sink in _reachable(graph, {graph.source} - {i}, without={i}) for sink in sinks)
    }


def node_paths(graph: Graph) -> list[tuple[bool, bool]]:
    """Return `after_bottleneck` and `bypassed` for each node, as defined in `Site`."""
    narrow = bottlenecks(graph)
    wide = {i for i, node in enumerate(graph.nodes) if node.convolves} - narrow
    before_bottleneck: set[int] = set()
    for i, node in enumerate(graph.nodes):
        separate = i in wide and node.kind != "conv2d"  # an activation right after its convolution
        if i not in narrow and (separate or (wide | before_bottleneck) & set(node.inputs)):
            before_bottleneck.add(i)
    return [  # if there are several results, none of them is a bottleneck
        (i not in before_bottleneck, i not in narrow or len(node.tensors) > 1) for i, node in enumerate(graph.nodes)
    ]


def _reachable(graph: Graph, sources: set[int], without: set[int]) -> set[int]:
    reached = set(sources) - without
    for i, node in enumerate(graph.nodes):
        if i not in without and any(source in reached for source in node.inputs):
            reached.add(i)
    return reached


def cut(graph: Graph, layer: int) -> Sequence[Any]:
    """Return the tensors that bypass a layer: those that the network after the layer reads besides the layer's
    results.
    """
    tail = _reachable(graph, {layer}, without=set())
    needed: set[int] = set()
    pending = list(graph.sinks)
    while pending:
        i = pending.pop()
        if i in needed:
            continue
        needed.add(i)
        if i in tail and i != layer:
            pending.extend(graph.nodes[i].inputs)
    return [tensor for i in sorted(needed - tail) for tensor in graph.nodes[i].tensors]


def linear_prefix_end(graph: Graph, start: int, *, from_zero: bool) -> int | None:
    """Return the last node of the linear prefix after `start` (see `LinearPrefix`), or None if the prefix has no
    weights.

    The prefix is a chain of operations with one result each. Convolutions, dense layers, averages and rearrangements
    map a straight line of activations to a straight line. If the line begins at 0, the same holds for positively
    homogeneous operations, f(r x) = r f(x) for r > 0, before the first weights: ReLUs, max pooling, and L2 pooling,
    whose small constant is neglected.
    """
    end, node = None, start
    degree = 1 if from_zero else 0  # values are proportional to r ** degree; 0 for a line with an offset
    while len(graph.nodes[node].tensors) == 1:
        readers = [i for i, other in enumerate(graph.nodes) if node in other.inputs]
        if len(readers) != 1 or readers[0] in graph.sinks or graph.nodes[readers[0]].inputs != (node,):
            break
        (node,) = readers
        kind, operation = graph.nodes[node].kind, tensor_operation(graph.nodes[node].tensors[0])
        if kind in WEIGHTED and degree < 2:
            degree, end = 0, node
        elif kind == "square" and degree == 1:
            degree = 2
        elif kind == "sqrt" and degree == 2:
            degree = 1
        elif kind in (*AVERAGING, *REARRANGING):
            end = None if end is None else node
        elif not degree or not (
            (kind in HOMOGENEOUS and _is_homogeneous(operation))
            or (kind == "add" and _adds_negligible(graph.nodes[node].tensors[0]))
        ):
            break
    return end


def _is_homogeneous(operation: Any) -> bool:
    """Return whether an operation whose kind is in `HOMOGENEOUS` is positively homogeneous: it has no weights, no upper
    limit, and no threshold other than 0.
    """
    limits = [getattr(operation, name, None) for name in ("weights", "max_value", "threshold")]
    return not any(limits)


def _adds_negligible(tensor: Any) -> bool:
    constants = constant_arguments(tensor)
    return len(constants) == 1 and isinstance(constants[0], int | float) and 0 <= constants[0] <= NEGLIGIBLE


def evaluate(
    tensors: Sequence[Any], values: Mapping[int, Any], edits: Mapping[int, Callable[[Any], Any]] | None = None
) -> list[Any]:
    """Return the values of symbolic tensors, computed from `values`, which maps the `id` of other tensors to their
    values. Only operations between them are computed.

    `edits` maps the `id` of tensors to functions that change their computed values.
    """
    import keras

    values = dict(values)
    pending = list(tensors)
    while pending:
        node = _node(pending[-1])
        missing = [tensor for tensor in node.input_tensors if id(tensor) not in values]
        if id(pending[-1]) in values:
            pending.pop()
        elif missing:
            pending.extend(missing)
        else:
            arguments, options = node.arguments.fill_in(values)
            if isinstance(node.operation, keras.layers.Layer):
                options = {**options, "training": False}
            results = keras.tree.flatten(node.operation(*arguments, **options))
            for tensor, result in zip(node.output_tensors, results, strict=True):
                if id(tensor) not in values:
                    values[id(tensor)] = edits[id(tensor)](result) if edits and id(tensor) in edits else result
    return [values[id(tensor)] for tensor in tensors]


def tensor_operation(tensor: Any) -> Any:
    """Return the operation that computes a symbolic tensor."""
    return _node(tensor).operation


def value_operation(tensor: Any) -> Any:
    """Return the operation that computes a symbolic tensor's values before they are rearranged."""
    node = _node(tensor)
    while type(node.operation).__name__.lower() in REARRANGING and len(node.input_tensors) == 1:
        node = _node(node.input_tensors[0])
    return node.operation


def constant_arguments(tensor: Any) -> list[Any]:
    """Return the arguments of the call that computes a symbolic tensor, without symbolic tensors and None."""
    import keras

    arguments = _node(tensor).arguments
    values = [*arguments.args, *arguments.kwargs.values()]
    return [item for item in values if item is not None and not isinstance(item, keras.KerasTensor)]


def flatten(model: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return a model's symbolic outputs for new symbolic inputs. Nested models are replaced by their layers, which keep
    their variables.
    """
    import keras

    if isinstance(model, keras.Sequential):
        tensor = inputs[0]
        for layer in model.layers:
            tensor = _call(layer, tensor)
        return keras.tree.flatten(tensor)
    arguments = keras.tree.pack_sequence_as(model.input, list(inputs))
    outputs = model._run_through_graph(arguments, operation_fn=lambda operation: operation, call_fn=_call)
    return keras.tree.flatten(outputs)


def _call(operation: Any, *arguments: Any, **options: Any) -> Any:
    import keras

    if not isinstance(operation, keras.Model):
        return operation(*arguments, **options)
    if getattr(operation, "inputs", None) is None:
        raise OptionError(f"the nested model {operation.name!r} has no graph; make it a functional model")
    outputs = flatten(operation, keras.tree.flatten(arguments))
    return outputs[0] if len(outputs) == 1 else keras.tree.pack_sequence_as(operation.output, outputs)
