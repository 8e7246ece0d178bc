"""Make a Keras network from the configuration in a `.keras` file, layer by layer, without Keras's own loader.

Keras's `load_model` makes objects that the file names, and its safe mode has been broken more than once. Here a file's
JSON is only looked at: each layer is one of `keras_layers.LAYERS`, made from plain values. Nested models are laid flat:
a layer `b` in a model `a` is called `a/b`. Tensors are called as in the file: `layers/<class, numbered in
order>/vars/<i>`, nested in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.errors import CheckpointError, OptionError
from rl_clarity.networks.heads import check_heads, find_heads, head_output, head_width
from rl_clarity.networks.keras_layers import LAYERS, layer_options
from rl_clarity.networks.network import SEPARATOR, Network, NetworkBuilder, keras_name, snake_case

MODELS = ("Functional", "Model")
MAX_LAYERS = 4096
MAX_DEPTH = 8
MAX_SIDE = 8192
TENSOR = "__keras_tensor__"


def build(
    config: Mapping[str, Any], parameters: Mapping[str, np.ndarray], heads: Sequence[str | None] | None = None
) -> Network:
    """The network of a file's `config.json`; `heads` name its outputs, if their names and widths do not (None leaves
    one out).

    Raises CheckpointError, naming the layer, for what is not known.
    """
    builder = NetworkBuilder(parameters)
    try:
        shape, name = _input_of(config)
        observations = builder.input(shape, name)
        outputs = _Model(builder, "", "", config, depth=0).call([observations])
        if heads is None:
            chosen: Sequence[str | None] = find_heads(
                list(outputs), [head_width(tensor) for tensor in outputs.values()]
            )
        else:
            chosen = check_heads(heads, len(outputs))
        named = zip(chosen, outputs.values(), strict=True)
        tensors = {head: head_output(head, tensor) for head, tensor in named if head is not None}
    except OptionError as error:
        raise CheckpointError(str(error)) from None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"its config is not one that Keras 3 writes ({type(error).__name__}: {str(error)[:300]})"
        ) from error
    return builder.finish([observations], tensors)


def input_dtype(config: Mapping[str, Any]) -> str:
    """The type that the file declares for the observations."""
    return str(_inputs_of(config)[0]["config"].get("dtype"))


def _inputs_of(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [layer for layer in config["config"]["layers"] if layer["class_name"] == "InputLayer"]


def _input_of(config: Mapping[str, Any]) -> tuple[tuple[int, int, int], str]:
    """Shape (H, W, C) and name of the only input."""
    inputs = _inputs_of(config)
    if len(inputs) != 1:
        raise CheckpointError(f"has {len(inputs)} inputs; networks of one, the observations, are read from files")
    options = inputs[0]["config"]
    shape = (options.get("batch_shape") or options.get("batch_input_shape"))[1:]
    if len(shape) != 3 or not all(type(n) is int and 1 <= n <= MAX_SIDE for n in shape):
        raise CheckpointError(f"its input has the shape {shape}; (height, width, channels) is needed")
    height, width, channels = shape
    return (height, width, channels), keras_name(str(options.get("name") or "observations"))


class _Model:
    """A model in a file; called, it makes its layers anew or, called again, shares them."""

    def __init__(self, builder: NetworkBuilder, path: str, prefix: str, config: Mapping[str, Any], depth: int) -> None:
        self.builder = builder
        self.prefix = prefix
        self.sequential = config["class_name"] == "Sequential"
        self.config = config["config"]
        layers = self.config["layers"]
        if depth > MAX_DEPTH or len(layers) > MAX_LAYERS:
            raise CheckpointError(f"has {len(layers)} layers, nested {depth} deep: refused")
        self.layers: dict[str, Any] = {}
        used: dict[str, int] = {}
        for layer in layers:
            kind, name = layer["class_name"], layer["config"]["name"]
            snake = snake_case(kind)
            used[snake] = used.get(snake, -1) + 1
            at = f"{path}layers/{snake}" + (f"_{used[snake]}" if used[snake] else "")
            if kind == "Sequential" or kind in MODELS:
                self.layers[name] = _Model(builder, f"{at}/", f"{prefix}{name}{SEPARATOR}", layer, depth + 1)
            elif kind != "InputLayer":
                self.layers[name] = _Layer(builder, at, f"{prefix}{name}", layer)

    def call(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Outputs by name."""
        if self.sequential:
            (tensor,) = inputs
            name = ""
            for name, layer in self.layers.items():  # noqa: B007 (the last one names the output)
                tensor = _one(layer.call([tensor]))
            return {name: tensor}
        return self._call_graph(inputs)

    def _call_graph(self, inputs: Sequence[Any]) -> dict[str, Any]:
        done: dict[tuple[str, int], list[Any]] = {}
        for (name, node, _), tensor in zip(_places(self.config["input_layers"]).values(), inputs, strict=True):
            done[name, node] = [tensor]
        pending = [
            (layer["config"]["name"], i, node)
            for layer in self.config["layers"]
            for i, node in enumerate(layer["inbound_nodes"])
        ]
        while pending:
            waiting = []
            for name, i, node in pending:
                places = [tuple(place) for place in _tensors_in(node["args"])]
                if all((layer, j) in done for layer, j, _ in places):
                    _check_call(name, node)
                    done[name, i] = list(self.layers[name].call([done[layer, j][k] for layer, j, k in places]).values())
                else:
                    waiting.append((name, i, node))
            if len(waiting) == len(pending):
                raise CheckpointError(f"the inputs of layer {waiting[0][0]!r} come from nowhere, or from itself")
            pending = waiting
        return {name: done[layer, i][k] for name, (layer, i, k) in _places(self.config["output_layers"]).items()}


class _Layer:
    """A layer in a file."""

    def __init__(self, builder: NetworkBuilder, path: str, name: str, layer: Mapping[str, Any]) -> None:
        if layer.get("module") not in (None, "keras.layers") and not str(layer["module"]).startswith(
            "keras.src.layers"
        ):
            raise CheckpointError(
                f"layer {name!r} is of {str(layer['module'])[:80]!r}, not of Keras: refused, nothing was run"
            )
        self.builder = builder
        self.path = path
        self.name = name
        self.kind = layer["class_name"]
        self.options = layer_options(self.kind, name, layer["config"])
        self.layer: Any = None

    def call(self, inputs: Sequence[Any]) -> dict[str, Any]:
        argument = inputs[0] if len(inputs) == 1 else list(inputs)
        if self.layer is None:
            return {self.name: self._make(argument)}
        return {self.name: self.layer(argument)}

    def _make(self, argument: Any) -> Any:
        import keras

        first = argument[0] if isinstance(argument, list) else argument
        shapes = LAYERS[self.kind].variables(self.options, tuple(map(int, first.shape[1:])))
        names = [f"{self.path}/vars/{i}" for i in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            self.builder.expect(name, shape)
        self.layer = getattr(keras.layers, self.kind)(**self.options, name=keras_name(self.name))
        result = self.layer(argument)
        variables = [*self.layer.trainable_variables, *self.layer.non_trainable_variables]
        for name, variable in zip(names, variables, strict=False):  # further ones are seeds of noise, which is off
            self.builder.store(name, variable)
        return result


def _one(outputs: Mapping[str, Any]) -> Any:
    (tensor,) = outputs.values()
    return tensor


def _tensors_in(arguments: Any) -> list[Any]:
    """Places (layer, call, output) of the tensors in a call's arguments."""
    if isinstance(arguments, dict):
        if arguments.get("class_name") == TENSOR:
            return [arguments["config"]["keras_history"]]
        return []
    return [place for item in arguments for place in _tensors_in(item)] if isinstance(arguments, list) else []


def _check_call(name: str, node: Mapping[str, Any]) -> None:
    others = {key: value for key, value in node.get("kwargs", {}).items() if value not in (None, False)}
    plain = [value for value in node["args"] if not isinstance(value, list | dict) and value is not None]
    if others or plain:
        raise CheckpointError(f"layer {name!r} is called with {str(others or plain)[:80]}, which is not known")


def _places(described: Any) -> dict[str, tuple[str, int, int]]:
    """Tensors by name, from what a config says of its inputs or outputs: one place, or a list or a dict of them."""
    if isinstance(described, dict):
        return {key: tuple(place) for key, place in described.items()}
    places = [described] if isinstance(described[0], str) else described
    result = {place[0]: tuple(place) for place in places}
    if len(result) != len(places):
        raise CheckpointError(f"has two outputs of one layer: {str(places)[:80]}")
    return result
