"""Convert a user's Keras model to a `Network`: flatten nested models, identify inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.graph import flatten, tensor_operation
from rl_clarity.agents.heads import check_heads, find_heads, head_output, head_width
from rl_clarity.agents.network import Layout, Network, Tensor
from rl_clarity.base.errors import OptionError

IMAGE_NAMES = r"obs.*|.*(image|frame|pixel|screen|picture).*"
MIN_SIDE = 8
"""Shortest side of an image, in pixels; a shorter axis is taken for channels."""


def network_from_model(
    model: Any,
    heads: Sequence[str | None] | None = None,
    initial_state: Sequence[np.ndarray] | None = None,
    channels_first: bool | None = None,
) -> Network:
    """Return the network of a functional or sequential model, which shares the model's variables.

    The model's inputs are the observations (see `observations_input`) and the arrays of a recurrent state. Its outputs
    are the heads, then the next state in the same order. In a dict of outputs, the next state has the names of the
    inputs. Raises OptionError for any other model.
    """
    import keras

    if not isinstance(model, keras.Model) or getattr(model, "inputs", None) is None:
        raise OptionError(
            f"a {type(model).__name__} has no graph: use a functional or sequential Keras model that has been called "
            "or has an Input, TorchAgent for a PyTorch module, or any object that implements rl_clarity.Agent"
        )
    at = observations_input(model)
    shape, arrange = _arrangement(tuple(model.inputs[at].shape[1:]), channels_first)
    observations = keras.Input(shape, dtype="float32", name=model.inputs[at].name)
    states = [
        keras.Input(tuple(t.shape[1:]), dtype="float32", name=t.name) for i, t in enumerate(model.inputs) if i != at
    ]
    outputs = flatten(model, [*states[:at], arrange(observations), *states[at:]])
    names, outputs = _state_last(_output_names(model, len(outputs)), outputs, _input_names(model, at))
    count = len(outputs) - len(states)
    state = _initial_state(states, outputs[max(count, 0) :], initial_state)
    if heads is None:
        chosen: Sequence[str | None] = find_heads(names[:count], [head_width(tensor) for tensor in outputs[:count]])
    else:
        chosen = check_heads(heads, count)
    tensors = {head: head_output(head, t) for head, t in zip(chosen, outputs, strict=False) if head is not None}
    try:
        flat = keras.Model([observations, *states], [*tensors.values(), *outputs[count:]])
    except ValueError as error:  # layers of several nested models have the same name
        raise OptionError(f"the model cannot be flattened: {error}") from error
    _check_layers(flat)
    variables = {variable.path: Tensor(variable, Layout(tuple(variable.shape))) for variable in model.variables}
    return Network(flat, tuple(tensors), variables, state)


def input_dtype(model: Any) -> str:
    """Return the data type that the model declares for observations."""
    return str(model.inputs[observations_input(model)].dtype)


def observations_input(model: Any) -> int:
    """Return the index of the observations: the only image, the only image with a name such as `obs`, or input 0."""
    for rank in (4, 3):  # (B, H, W, C) and gray (B, H, W)
        images = [i for i, tensor in enumerate(model.inputs) if len(tensor.shape) == rank]
        named = [i for i in images if re.fullmatch(IMAGE_NAMES, _names(model)[i].lower())]
        if len(images) == 1 or len(named) == 1:
            return (named if len(named) == 1 else images)[0]
        if images:
            break
    return 0


def _arrangement(
    shape: tuple[int | None, ...], channels_first: bool | None
) -> tuple[tuple[int, ...], Callable[..., Any]]:
    """Return the shape (H, W, C) of the observations, and a function that converts them to the model's input."""
    import keras

    sides = [int(n) for n in shape if n is not None]
    if len(sides) == len(shape) == 2 and min(sides) >= MIN_SIDE:
        return (*sides, 1), keras.layers.Reshape(tuple(sides))
    if len(sides) != 3 or len(shape) != 3:
        raise OptionError(
            f"the model's first input has the shape {shape}; observations must be (height, width, channels), or "
            "(height, width) if gray"
        )
    if channels_first is None and sides[0] < MIN_SIDE <= min(sides[1:]):
        raise OptionError(
            f"the model's input has the shape {shape}: pass channels_first=True if it is (channels, height, width), "
            "or channels_first=False if not"
        )
    if channels_first:
        return (sides[1], sides[2], sides[0]), keras.layers.Permute((3, 1, 2))
    return (sides[0], sides[1], sides[2]), lambda tensor: tensor


def _check_layers(model: Any) -> None:
    for layer in model.layers:
        if getattr(layer, "data_format", None) == "channels_first":
            raise OptionError(
                f"layer {layer.name!r} has data_format='channels_first'; 'channels_last' is needed: create the model "
                "with data_format='channels_last' and copy the weights (model.set_weights), or start it with a "
                "Permute((2, 3, 1))"
            )


def _names(model: Any) -> list[str]:
    """Return the names of the inputs: the keys of a dict, in the order in which Keras flattens it, or the names of the
    tensors.
    """
    import keras

    if not isinstance(model, keras.Sequential) and isinstance(model.input, dict):
        return [str(key) for key in sorted(model.input)]
    return [str(tensor.name) for tensor in model.inputs]


def _input_names(model: Any, observations: int) -> list[str]:
    return [name for i, name in enumerate(_names(model)) if i != observations]


def _output_names(model: Any, count: int) -> list[str | None]:
    """Return the keys of a dict of outputs, in the order in which Keras flattens it, or the names of the layers."""
    import keras

    if not isinstance(model, keras.Sequential) and isinstance(model.output, dict):
        return [str(key) for key in sorted(model.output)]
    names = [tensor_operation(tensor).name for tensor in model.outputs]
    return [*names, *[None] * count][:count]


def _state_last(
    names: list[str | None], outputs: list[Any], states: Sequence[str]
) -> tuple[list[str | None], list[Any]]:
    """Move the outputs with the names of states to the end, in the order of `states`, if every state has an output."""
    if not set(states) <= set(names):
        return names, outputs
    last = [names.index(name) for name in states]
    order = [i for i in range(len(names)) if i not in last] + last
    return [names[i] for i in order], [outputs[i] for i in order]


def _initial_state(
    inputs: Sequence[Any], outputs: Sequence[Any], values: Sequence[np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    shapes = [tuple(tensor.shape[1:]) for tensor in inputs]
    after = [tuple(tensor.shape[1:]) for tensor in outputs]
    if shapes != after:
        raise OptionError(
            f"the state has the shapes {shapes} before a step and {after} after it; they must be equal. Inputs besides "
            "the observations are the parts of a recurrent state. The model's last outputs, or the entries with the "
            "inputs' names in a dict of outputs, are the next state. If the model has other inputs, make a model of "
            "the observations alone, with the other inputs fixed"
        )
    state = (
        [np.zeros(shape, np.float32) for shape in shapes]
        if values is None
        else [np.asarray(part, np.float32) for part in values]
    )
    if [part.shape for part in state] != shapes:
        raise OptionError(
            f"initial_state has the shapes {[part.shape for part in state]}; the model's state has the shapes {shapes}"
        )
    return tuple(state)
