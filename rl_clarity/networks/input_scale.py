"""Whether a Keras network scales its input itself, which decides if it is given 0 to 255 or 0 to 1.

Only what happens to the observations before the first layer with weights counts: a normalisation further inside is
about features, not about pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import Node, constants_of, graph_of, operation_of
from rl_clarity.networks.network import Network

SMALL = 0.1
"""A factor below it brings 0..255 to about 1; one above it would leave hundreds."""
DIVISIONS = ("truedivide", "divide", "floordivide")
UNKNOWN = ("lambda",)
SCALING = ("rescaling", "normalization")


def input_divisor(network: Network, dtype: str) -> float:
    """What observations are divided by for a network whose input was declared of this type: 1 if it takes integers or
    scales them itself, else 255.

    Raises OptionError where that cannot be told.
    """
    return 1 if "int" in dtype or scales_itself(network) else 255


def scales_itself(network: Network) -> bool:
    """Whether the observations are brought from 0..255 to about 1 before the first layer with weights.

    A `Rescaling`, a `Normalization`, a product with a constant and a division by one can do it. Raises OptionError
    where that cannot be told.
    """
    graph = graph_of(network.model, len(network.heads))
    reached, found = {graph.source}, set()
    for i, node in enumerate(graph.nodes):
        if i == graph.source or not reached & set(node.inputs):
            continue
        scales = _scales(node)
        if scales is None:
            reached.add(i)
        else:
            found.add(scales)
    if len(found) == 2:
        raise _unclear("the model scales its input on one path to its layers and not on another")
    return True in found


def _scales(node: Node) -> bool | None:
    """True for an operation that scales 0..255, False for a layer with weights, None for one that does neither."""
    operation = operation_of(node.tensors[0])
    kind = type(operation).__name__.lower()
    shown = f"the model's part {node.name!r}, a {type(operation).__name__},"
    if kind in UNKNOWN:
        raise _unclear(f"{shown} may scale its input or not")
    if kind == "normalization":
        return _by_factor(1 / _spread(operation), f"{shown} divides by {_spread(operation):.3g}, which")
    factor = _factor(operation, kind, node)
    if factor is not None:
        return _by_factor(factor, f"{shown} multiplies by {factor:.3g}, which")
    own = type(operation).__module__.split(".")[0] not in ("keras", "rl_clarity")
    if getattr(operation, "weights", None):
        inner = operation._flatten_layers(include_self=False) if own else ()
        if any(type(layer).__name__.lower() in (*UNKNOWN, *SCALING) for layer in inner):
            raise _unclear(f"{shown} may scale its input or not")
        return False
    if own:
        raise _unclear(f"{shown} may scale its input or not")
    return None


def _factor(operation: Any, kind: str, node: Node) -> float | None:
    """The largest number that the operation multiplies its input with; None if it is no such operation."""
    if kind == "rescaling":
        return _largest(operation.scale)
    constants = constants_of(node.tensors[0])
    if len(node.inputs) != 1 or len(constants) != 1:
        return None
    if kind in DIVISIONS:
        return 1 / max(_largest(constants[0]), 1e-30)
    return _largest(constants[0]) if kind == "multiply" else None


def _by_factor(factor: float, shown: str) -> bool | None:
    if factor == 1:
        return None
    if factor > SMALL:
        raise _unclear(f"{shown} leaves open whether it takes 0 to 255 or 0 to 1")
    return True


def _spread(normalization: Any) -> float:
    """The standard deviation that a `Normalization` divides by, the smallest of its channels."""
    return float(np.sqrt(np.min(_array(normalization.variance)))) or 1e-30


def _largest(value: Any) -> float:
    return float(np.max(np.abs(_array(value))))


def _array(value: Any) -> np.ndarray:
    import keras

    return np.asarray(keras.ops.convert_to_numpy(value), np.float64)


def _unclear(what: str) -> OptionError:
    return OptionError(
        f"{what}: say what the model takes, input_divisor=1 for observations from 0 to 255, input_divisor=255 for "
        "observations from 0 to 1"
    )
