"""A Keras model that the user made, as a `Network`: nested models laid flat, outputs named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import laid_flat, operation_of
from rl_clarity.networks.heads import check_heads, find_heads
from rl_clarity.networks.keras_config import as_matrix
from rl_clarity.networks.network import Layout, Network, Tensor

PROBABILITIES = ("softmax", "log_softmax")


def network_of(
    model: Any, heads: Sequence[str] | None = None, initial_state: Sequence[np.ndarray] | None = None
) -> Network:
    """The network of a functional or sequential model, on the model's own variables.

    Inputs are observations, then the parts of a state; outputs are the heads, then the state after, in the same order.
    Raises OptionError for models that are neither, or whose inputs or outputs are not these.
    """
    import keras

    if not isinstance(model, keras.Model) or getattr(model, "inputs", None) is None:
        raise OptionError(
            f"a {type(model).__name__} has no graph to look into: give a functional or sequential Keras model that has "
            f"been "
            "called or has an Input; for a network of PyTorch there is TorchAgent, and any object that satisfies "
            "rl_clarity.agents.Agent will do"
        )
    shape = tuple(model.inputs[0].shape[1:])
    if len(shape) != 3 or None in shape:
        raise OptionError(f"the model's first input has the shape {shape}; observations have (height, width, channels)")
    inputs = [keras.Input(tuple(t.shape[1:]), dtype="float32", name=t.name) for t in model.inputs]
    outputs = laid_flat(model, inputs)
    states = len(inputs) - 1
    count = len(outputs) - states
    if heads is None:
        names = _output_names(model, len(outputs))[:count]
        heads = find_heads(names, [_width(tensor) for tensor in outputs[:count]])
    elif len(check_heads(heads)) != count:
        raise OptionError(
            f"heads={tuple(heads)!r} are {len(heads)} of the model's outputs; it has {count} besides its state"
        )
    for head, tensor in zip(heads, outputs, strict=False):
        _check_head(head, tensor)
    model = keras.Model(inputs, [*map(as_matrix, outputs[:count]), *outputs[count:]])
    tensors = {variable.path: Tensor(variable, Layout(tuple(variable.shape))) for variable in model.variables}
    return Network(model, check_heads(heads), tensors, _initial_state(inputs[1:], outputs[count:], initial_state))


def scales_itself(model: Any) -> bool:
    """Whether the model takes integers, or begins with a layer that scales them."""
    if "int" in str(model.inputs[0].dtype):
        return True
    return any(type(layer).__name__ in ("Rescaling", "Normalization") for layer in _all_layers(model))


def _all_layers(model: Any) -> list[Any]:
    return [inner for layer in model.layers for inner in (_all_layers(layer) if hasattr(layer, "layers") else [layer])]


def _output_names(model: Any, count: int) -> list[str | None]:
    """Keys of a dict of outputs, in the order in which Keras flattens it, or names of the layers they come from."""
    import keras

    if not isinstance(model, keras.Sequential) and isinstance(model.output, dict):
        return [str(key) for key in sorted(model.output)]
    names = [operation_of(tensor).name for tensor in model.outputs]
    return [*names, *[None] * count][:count]


def _width(tensor: Any) -> int | None:
    if len(tensor.shape) > 2:
        raise OptionError(
            f"an output of the model has the shape {tuple(tensor.shape)}; (batch, n) or (batch,) is needed"
        )
    return int(tensor.shape[-1]) if len(tensor.shape) == 2 else None


def _check_head(head: str, tensor: Any) -> None:
    width = _width(tensor)
    if head == "values" and width not in (None, 1):
        raise OptionError(f"the output for the value has {width} columns; it has one")
    operation = operation_of(tensor)
    activation = getattr(getattr(operation, "activation", None), "__name__", "")
    if head == "policy_logits" and activation in PROBABILITIES:
        raise OptionError(
            f"the policy's output {operation.name!r} gives probabilities ({activation}); give a "
            "model whose output is the logits before it: keras.Model(model.input, [logits, value])"
        )


def _initial_state(
    inputs: Sequence[Any], outputs: Sequence[Any], given: Sequence[np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    shapes = [tuple(tensor.shape[1:]) for tensor in inputs]
    after = [tuple(tensor.shape[1:]) for tensor in outputs]
    if shapes != after:
        raise OptionError(
            f"the state has the shapes {shapes} before a step and {after} after it; they must be the same"
        )
    state = (
        [np.zeros(shape, np.float32) for shape in shapes]
        if given is None
        else [np.asarray(p, np.float32) for p in given]
    )
    if [part.shape for part in state] != shapes:
        raise OptionError(
            f"initial_state has the shapes {[part.shape for part in state]}; the model's state has {shapes}"
        )
    return tuple(state)
