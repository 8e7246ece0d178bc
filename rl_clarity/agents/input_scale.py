"""Decide whether a Keras network takes observations from 0 to 255, which it scales itself, or from 0 to 1.

Only operations before the first layer with weights count: later normalizations scale features, not pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.agents.graph import Node, constant_arguments, model_graph, tensor_operation
from rl_clarity.agents.network import Network
from rl_clarity.base.errors import OptionError

MAX_FACTOR = 0.1
"""Largest factor that counts as scaling 0..255 to about 1."""
DIVISIONS = ("truedivide", "divide", "floordivide")
UNKNOWN = ("lambda",)
SCALING = ("rescaling", "normalization")


def input_divisor(network: Network, dtype: str) -> float:
    """Return the divisor of observations: 1 if the network takes integers or scales its input, else 255.

    Raises OptionError if the graph does not show whether the network scales its input.
    """
    return 1 if "int" in dtype or scales_input(network) else 255


def scales_input(network: Network) -> bool:
    """Return whether the network scales observations from 0..255 to about 1 before its first layer with weights.

    A `Rescaling`, a `Normalization`, or a multiplication or division by a constant can scale them. Raises OptionError
    if the graph does not show whether the network scales its input.
    """
    graph = model_graph(network.model, len(network.heads))
    reached, results = {graph.source}, set()
    for i, node in enumerate(graph.nodes):
        if i == graph.source or not reached & set(node.inputs):
            continue
        scales = _scales(node)
        if scales is None:
            reached.add(i)
        else:
            results.add(scales)
    if len(results) == 2:
        raise _ambiguous("the model scales its input on one path to its layers but not on another")
    return True in results


def _scales(node: Node) -> bool | None:
    """Return True for an operation that scales 0..255 to about 1, False for a layer with weights, None for other
    operations.
    """
    operation = tensor_operation(node.tensors[0])
    kind = type(operation).__name__.lower()
    label = f"the model's operation {node.name!r}, a {type(operation).__name__},"
    if kind in UNKNOWN:
        raise _ambiguous(f"{label} may or may not scale its input")
    if kind == "normalization":
        return _by_factor(1 / _spread(operation), f"{label} divides by {_spread(operation):.3g}, which")
    factor = _factor(operation, kind, node)
    if factor is not None:
        return _by_factor(factor, f"{label} multiplies by {factor:.3g}, which")
    custom = type(operation).__module__.split(".")[0] not in ("keras", "rl_clarity")
    if getattr(operation, "weights", None):
        inner = operation._flatten_layers(include_self=False) if custom else ()
        if any(type(layer).__name__.lower() in (*UNKNOWN, *SCALING) for layer in inner):
            raise _ambiguous(f"{label} may or may not scale its input")
        return False
    if custom:
        raise _ambiguous(f"{label} may or may not scale its input")
    return None


def _factor(operation: Any, kind: str, node: Node) -> float | None:
    """Return the largest factor by which the operation multiplies its input, or None for other operations."""
    if kind == "rescaling":
        return _largest(operation.scale)
    constants = constant_arguments(node.tensors[0])
    if len(node.inputs) != 1 or len(constants) != 1:
        return None
    if kind in DIVISIONS:
        return 1 / max(_largest(constants[0]), 1e-30)
    return _largest(constants[0]) if kind == "multiply" else None


def _by_factor(factor: float, label: str) -> bool | None:
    if factor == 1:
        return None
    if factor > MAX_FACTOR:
        raise _ambiguous(f"{label} does not show whether its inputs are from 0 to 255 or from 0 to 1")
    return True


def _spread(normalization: Any) -> float:
    """Return the smallest standard deviation by which a `Normalization` divides a channel."""
    return float(np.sqrt(np.min(_array(normalization.variance)))) or 1e-30


def _largest(value: Any) -> float:
    return float(np.max(np.abs(_array(value))))


def _array(value: Any) -> np.ndarray:
    import keras

    return np.asarray(keras.ops.convert_to_numpy(value), np.float64)


def _ambiguous(what: str) -> OptionError:
    return OptionError(
        f"{what}. Pass input_divisor=1 if the model takes observations from 0 to 255, or input_divisor=255 if it "
        "takes observations from 0 to 1"
    )
