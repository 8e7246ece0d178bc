"""A Keras model that the user made, as a `Network`: nested models laid flat, outputs named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import laid_flat, operation_of
from rl_clarity.networks.heads import check_heads, find_heads, head_output, head_width
from rl_clarity.networks.network import Layout, Network, Tensor


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
            "been called or has an Input; for a network of PyTorch there is TorchAgent, and any object that satisfies "
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
        heads = find_heads(names, [head_width(tensor) for tensor in outputs[:count]])
    else:
        heads = check_heads(heads, count)
    matrices = [head_output(head, tensor) for head, tensor in zip(heads, outputs, strict=False)]
    try:
        model = keras.Model(inputs, [*matrices, *outputs[count:]])
    except ValueError as error:  # layers of different models inside it have one name
        raise OptionError(f"the model cannot be laid flat: {error}") from error
    tensors = {variable.path: Tensor(variable, Layout(tuple(variable.shape))) for variable in model.variables}
    return Network(model, tuple(heads), tensors, _initial_state(inputs[1:], outputs[count:], initial_state))


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
