"""A Keras model that the user made, as a `Network`: nested models laid flat, inputs and outputs told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.networks.graph import laid_flat, operation_of
from rl_clarity.networks.heads import check_heads, find_heads, head_output, head_width
from rl_clarity.networks.network import Layout, Network, Tensor

PICTURES = r"obs.*|.*(image|frame|pixel|screen|picture).*"
SMALLEST = 8
"""Pixels on a side, at least; axes that are shorter are channels."""


def network_of(
    model: Any,
    heads: Sequence[str | None] | None = None,
    initial_state: Sequence[np.ndarray] | None = None,
    channels_first: bool | None = None,
) -> Network:
    """The network of a functional or sequential model, on the model's own variables.

    Inputs are observations, the only pictures among the model's inputs, and the parts of a state. Outputs are the
    heads, then the state after, in the same order; in a dict of outputs, the state after has the inputs' names.
    Raises OptionError for models that are neither, or whose inputs or outputs are not these.
    """
    import keras

    if not isinstance(model, keras.Model) or getattr(model, "inputs", None) is None:
        raise OptionError(
            f"a {type(model).__name__} has no graph to look into: give a functional or sequential Keras model that has "
            "been called or has an Input; for a network of PyTorch there is TorchAgent, and any object that satisfies "
            "rl_clarity.agents.Agent will do"
        )
    at = observations_input(model)
    shape, arrange = _arrangement(tuple(model.inputs[at].shape[1:]), channels_first)
    observations = keras.Input(shape, dtype="float32", name=model.inputs[at].name)
    states = [
        keras.Input(tuple(t.shape[1:]), dtype="float32", name=t.name) for i, t in enumerate(model.inputs) if i != at
    ]
    outputs = laid_flat(model, [*states[:at], arrange(observations), *states[at:]])
    names, outputs = _state_last(_output_names(model, len(outputs)), outputs, _input_names(model, at))
    count = len(outputs) - len(states)
    state = _initial_state(states, outputs[max(count, 0) :], initial_state)
    if heads is None:
        chosen: Sequence[str | None] = find_heads(names[:count], [head_width(tensor) for tensor in outputs[:count]])
    else:
        chosen = check_heads(heads, count)
    found = {head: head_output(head, t) for head, t in zip(chosen, outputs, strict=False) if head is not None}
    try:
        flat = keras.Model([observations, *states], [*found.values(), *outputs[count:]])
    except ValueError as error:  # layers of different models inside it have one name
        raise OptionError(f"the model cannot be laid flat: {error}") from error
    _check_layers(flat)
    tensors = {variable.path: Tensor(variable, Layout(tuple(variable.shape))) for variable in model.variables}
    return Network(flat, tuple(found), tensors, state)


def input_dtype(model: Any) -> str:
    """The type that the model declares for the observations."""
    return str(model.inputs[observations_input(model)].dtype)


def observations_input(model: Any) -> int:
    """Which of a model's inputs the observations are: the only pictures, those that are called so, or the first."""
    for rank in (4, 3):  # (B, H, W, C) and grey (B, H, W)
        pictures = [i for i, tensor in enumerate(model.inputs) if len(tensor.shape) == rank]
        called = [i for i in pictures if re.fullmatch(PICTURES, _names(model)[i].lower())]
        if len(pictures) == 1 or len(called) == 1:
            return (called if len(called) == 1 else pictures)[0]
        if pictures:
            break
    return 0


def _arrangement(shape: tuple[int | None, ...], channels_first: bool | None) -> tuple[tuple[int, ...], Callable]:
    """Shape (H, W, C) of the observations, and what makes of them what the model takes."""
    import keras

    sides = [int(n) for n in shape if n is not None]
    if len(sides) == len(shape) == 2 and min(sides) >= SMALLEST:
        return (*sides, 1), keras.layers.Reshape(tuple(sides))
    if len(sides) != 3 or len(shape) != 3:
        raise OptionError(
            f"the model's first input has the shape {shape}; observations have (height, width, channels), or, grey, "
            "(height, width)"
        )
    if channels_first is None and sides[0] < SMALLEST <= min(sides[1:]):
        raise OptionError(
            f"the model's input has the shape {shape}: channels_first=True if these are (channels, height, width), "
            "channels_first=False if not"
        )
    if channels_first:
        return (sides[1], sides[2], sides[0]), keras.layers.Permute((3, 1, 2))
    return (sides[0], sides[1], sides[2]), lambda tensor: tensor


def _check_layers(model: Any) -> None:
    for layer in model.layers:
        if getattr(layer, "data_format", None) == "channels_first":
            raise OptionError(
                f"layer {layer.name!r} has data_format='channels_first'; only layers with the channels last are "
                "explained: make the same model with data_format='channels_last' and give it the weights "
                "(model.set_weights), or bring the channels to the end by a Permute((2, 3, 1)) at its beginning"
            )


def _names(model: Any) -> list[str]:
    """Names of the inputs: the keys of a dict, in the order in which Keras flattens it, or else the tensors' own."""
    import keras

    if not isinstance(model, keras.Sequential) and isinstance(model.input, dict):
        return [str(key) for key in sorted(model.input)]
    return [str(tensor.name) for tensor in model.inputs]


def _input_names(model: Any, observations: int) -> list[str]:
    return [name for i, name in enumerate(_names(model)) if i != observations]


def _output_names(model: Any, count: int) -> list[str | None]:
    """Keys of a dict of outputs, in the order in which Keras flattens it, or names of the layers they come from."""
    import keras

    if not isinstance(model, keras.Sequential) and isinstance(model.output, dict):
        return [str(key) for key in sorted(model.output)]
    names = [operation_of(tensor).name for tensor in model.outputs]
    return [*names, *[None] * count][:count]


def _state_last(
    names: list[str | None], outputs: list[Any], states: Sequence[str]
) -> tuple[list[str | None], list[Any]]:
    """Names and outputs with those that are called as the states are, if all are there, at the end in their order."""
    if not set(states) <= set(names):
        return names, outputs
    last = [names.index(name) for name in states]
    order = [i for i in range(len(names)) if i not in last] + last
    return [names[i] for i in order], [outputs[i] for i in order]


def _initial_state(
    inputs: Sequence[Any], outputs: Sequence[Any], given: Sequence[np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    shapes = [tuple(tensor.shape[1:]) for tensor in inputs]
    after = [tuple(tensor.shape[1:]) for tensor in outputs]
    if shapes != after:
        raise OptionError(
            f"the state has the shapes {shapes} before a step and {after} after it; they must be the same. Inputs "
            "besides the observations are the parts of a recurrent state, and the model's last outputs, or those with "
            "the inputs' names in a dict, the state after. Other inputs are not supported: make a model of the "
            "observations alone, with the rest held fixed"
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
