"""Apply an edit to weights: project an ablated component out of the weights that read it.

A layer's activations a (.., c) are read by convolutions and dense layers with kernels W (.., c, n). Let P (c, c) be the
orthogonal projection onto the span of the components. Ablating the part a P with a strength s gives the results a (I -
s P) W, which are those of the kernel (I - s P) W. Hilton et al. (Understanding RL Vision, 2020) edited their agents in
this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.applied_edits import AppliedEdits
from rl_clarity.agents.editing import Ablate, Edit, directions
from rl_clarity.agents.graph import Graph, tensor_operation
from rl_clarity.agents.network import Network
from rl_clarity.base.errors import OptionError

POOLING = ("maxpool", "avgpool", "globalmaxpooling2d", "globalaveragepooling2d")
L2_POOLING = ("square", "avgpool", "add", "sqrt")
"""Operations with one input that make up L2 pooling; `add` adds a constant."""
KEEPING_CHANNELS = (*POOLING, *L2_POOLING, "pad", "zeropadding2d", "cropping2d", "dropout", "identity", "cast")
WAY_OUT = "Use the edited agent itself in Python: generate, record, evaluate and collect accept it"


def edited_parameters(
    network: Network, graph: Graph, sites: Mapping[str, Any], edits: AppliedEdits
) -> dict[str, np.ndarray]:
    """Return the parameters that the edits change, by their names in a checkpoint.

    Args:
        sites: symbolic tensors by name
        edits: the edits, with the full names of their sites

    Raises OptionError, with the reason, for an edit that cannot be applied to weights.
    """
    changed: dict[str, np.ndarray] = {}
    for site, edit in reversed(list(edits)):  # a (M1 M2) W: the last edit of a site is next to the kernel
        tensor = sites[site]
        matrix = weight_matrix(edit, int(tensor.shape[-1]))
        for kernel in _kernels_that_read(graph, tensor, site):
            (name,) = (name for name, stored in network.tensors.items() if stored.variable is kernel)
            stored = network.tensors[name]
            shape, channels = tuple(map(int, kernel.shape)), len(matrix)
            before = changed.get(name, stored.read())
            weights = stored.layout.to_variable(before, shape).astype(np.float64).reshape(-1, channels, shape[-1])
            edited = (matrix @ weights).reshape(shape).astype(np.float32)
            changed[name] = stored.layout.to_stored(edited).astype(before.dtype)
    return changed


def weight_matrix(edit: Edit, channels: int) -> np.ndarray:
    """Return the matrix I - s P (c, c) of an ablation in float64. Raises OptionError for any other edit."""
    if not isinstance(edit, Ablate) or edit.to != "zero" or edit.positions is not None:
        raise OptionError(
            f"{type(edit).__name__}({edit.layer!r}) cannot be applied to weights: only an Ablate with to='zero' at all "
            f"positions can. {WAY_OUT}"
        )
    identity = np.eye(channels)
    if edit.unit is not None:
        projection = np.diag(np.isin(np.arange(channels), edit.unit).astype(float))
    elif edit.component is not None:
        components = directions(edit.component).astype(np.float64)
        projection = np.linalg.pinv(components) @ components
    else:
        projection = identity
    return np.asarray(identity - edit.strength * (identity - projection if edit.everything_but else projection))


def _kernels_that_read(graph: Graph, tensor: Any, site: str) -> list[Any]:
    """Return the kernels (.., c, n) of the convolutions and dense layers that read a tensor (.., c).

    Raises OptionError if something else reads it.
    """
    import keras

    (start,) = (i for i, node in enumerate(graph.nodes) if any(other is tensor for other in node.tensors))
    kernels, pending = [], [start]
    while pending:
        index = pending.pop()
        readers = [i for i, node in enumerate(graph.nodes) if index in node.inputs]
        if index in graph.sinks or not readers:
            raise OptionError(
                f"layer {site!r} has no convolution or dense layer after it whose weights could be edited. {WAY_OUT}"
            )
        for reader in readers:
            node = graph.nodes[reader]
            operation = tensor_operation(node.tensors[0])
            flattened = node.kind in ("flatten", "reshape") and len(node.tensors[0].shape) == 2
            if isinstance(operation, keras.layers.Dense) or (
                type(operation) is keras.layers.Conv2D and operation.groups == 1
            ):
                calls = [n for n in graph.nodes if tensor_operation(n.tensors[0]) is operation]
                if len(calls) > 1:
                    raise OptionError(
                        f"the weights of {node.name!r}, which follows layer {site!r}, are used {len(calls)} times in "
                        f"the network: an edit would change the other uses, too. {WAY_OUT}"
                    )
                kernels.append(operation.kernel)
            elif len(node.inputs) == 1 and (node.kind in KEEPING_CHANNELS or flattened):
                pending.append(reader)
            else:
                kind = "bypasses the next weights" if len(node.inputs) > 1 else "is not linear"
                raise OptionError(
                    f"layer {site!r} cannot be edited in the weights: {node.name!r} ({node.kind}) reads it and {kind}. "
                    f"{WAY_OUT}"
                )
    return kernels
