"""Read the `.keras` files of Keras 3 as JSON and numbers. They are zip files that contain `config.json`,
`model.weights.h5` and `metadata.json`.

Keras's `load_model` creates objects that the file names, and its safe mode has been broken more than once. Here every
layer is one of `keras_layers.LAYERS` and is created from plain values; Lambda layers and custom classes are refused.
Nested models are flattened: the layer `b` of a model `a` is called `a/b`. Tensors keep their names in the file: the
first variable of the second `Conv2D` layer is `layers/conv2d_1/vars/0`, and a nested model's names begin with those of
the model.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.heads import check_heads, find_heads, head_output, head_width
from rl_clarity.agents.input_scale import input_divisor
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import SEPARATOR, Network, keras_name, snake_case
from rl_clarity.base.errors import CheckpointError, OptionError
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.keras_layers import LAYERS, layer_options
from rl_clarity.formats.layers import NetworkBuilder
from rl_clarity.formats.safe_files import Budget, SafeZip, brief

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
MODELS = ("Functional", "Sequential", "Model")
MAX_GROUP_DEPTH = 32
MAX_LAYERS = 1024
"""Largest number of layer calls in all models of a file. A call counts once for each of its inputs. Keras needs a
millisecond or two for each."""
MAX_DEPTH = 8
MAX_SIDE = 8192
MAX_NAME = 200
HDF5_ITEMS = 50
"""Number of items of the budget that an HDF5 group or dataset counts as. Reading one takes as long as reading many
objects of a pickle."""
TENSOR = "__keras_tensor__"
NOTE = "the file does not contain env_kind, gamma and lambda: pass them as metadata if they differ from the defaults"


def recognize(file: CheckpointFile) -> bool:
    return file.members.issuperset((CONFIG, WEIGHTS))


def read(file: CheckpointFile) -> Checkpoint:
    """Read a file. Raises CheckpointError if it is damaged, or does not contain a functional or sequential model."""
    with file.path.open("rb") as opened:
        archive = SafeZip(opened, file.budget)
        config = archive.read_json(CONFIG)
        weights = archive.read(WEIGHTS)
    kind = config.get("class_name") if isinstance(config, dict) else config
    if (
        kind not in MODELS
        or not isinstance(config.get("config"), dict)
        or not isinstance(config["config"].get("layers"), list)
    ):
        raise CheckpointError(
            f"is a model of the class {brief(kind)}, which only the program that defines it can create: load the model "
            "there, and use rl_clarity.KerasAgent(model)"
        )
    parameters = _read_weights(weights, file.budget)
    metadata = {"library": "keras"}
    return Checkpoint(file.path, "keras", kind, parameters, metadata, file.sha256, (NOTE,), {"config": config})


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError, with the name of the layer or tensor, if one does not fit."""
    config, metadata = checkpoint.architecture["config"], checkpoint.metadata
    network = build_network(config, checkpoint.parameters, metadata.get("heads"))
    divisor = metadata.get("input_divisor")
    if divisor is None:
        try:
            divisor = input_divisor(network, str(_input_layer(config)["config"].get("dtype")))
        except OptionError as error:
            raise CheckpointError(f"{error} (as metadata)") from None
    return KerasAgent(network, metadata, input_divisor=float(divisor))


FORMAT = Format("Keras 3 models (.keras)", recognize, read, build_agent)


def _read_weights(data: bytes, budget: Budget) -> dict[str, np.ndarray]:
    import h5py

    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            datasets = _datasets(file, "", 0, set(), budget)
            return {name: _numbers(name, dataset, len(data), budget) for name, dataset in datasets}
    except (KeyError, ValueError, TypeError, AttributeError, OSError, RuntimeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{WEIGHTS} is damaged ({type(error).__name__}: {str(error)[:200]})") from error


def _datasets(group: Any, path: str, depth: int, seen: set[int], budget: Budget) -> Iterator[tuple[str, Any]]:
    """Yield the path and the dataset of each tensor, except the seeds of noise layers.

    Soft and external links are refused. So is a second hard link to the same object, because with such links a few
    groups could have any number of paths.
    """
    import h5py

    if depth > MAX_GROUP_DEPTH:
        raise CheckpointError(f"{WEIGHTS} is nested more than {MAX_GROUP_DEPTH} levels deep")
    for name in group:
        budget.spend(HDF5_ITEMS)
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise CheckpointError(
                f"{WEIGHTS} has a soft or external link at {brief(path + name)}, which is not allowed"
            )
        item = group[name]
        place = h5py.h5o.get_info(item.id).addr
        if place in seen:
            raise CheckpointError(
                f"{WEIGHTS} has a second link to the same object at {brief(path + name)}, which is not allowed"
            )
        seen.add(place)
        if isinstance(item, h5py.Group):
            if name != "seed_generator":
                yield from _datasets(item, f"{path}{name}/", depth + 1, seen, budget)
        else:
            yield path + name, item


def _numbers(name: str, dataset: Any, limit: int, budget: Budget) -> np.ndarray:
    """Read a dataset. It must be stored uncompressed, so that it cannot be larger than the file. Its size counts
    against the budget, because several datasets can refer to the same bytes.
    """
    size = int(np.prod(dataset.shape, dtype=object)) * dataset.dtype.itemsize
    if dataset.dtype.kind not in "fiub" or dataset.external or dataset.is_virtual:
        raise CheckpointError(
            f"tensor {brief(name)} of type {dataset.dtype} is not numeric, or is not stored in this file"
        )
    if size > limit or dataset.id.get_storage_size() < size:
        raise CheckpointError(
            f"tensor {brief(name)} of shape {dataset.shape} claims more bytes than the file contains for it"
        )
    budget.unpack(size)
    return np.asarray(dataset[()])


def build_network(
    config: Mapping[str, Any], parameters: Mapping[str, np.ndarray], heads: Sequence[str | None] | None = None
) -> Network:
    """Build the network that a file's `config.json` describes.

    `heads` contains the name of the head for each output, or None for an output to ignore. By default, the names and
    widths of the outputs determine the heads. Raises CheckpointError for anything unsupported.
    """
    builder = NetworkBuilder(parameters)
    try:
        shape, name = _input(config)
        observations = builder.input(shape, name)
        outputs = _Model(builder, "", "", config, _LayerCount(), depth=0).call([observations])
        if heads is None:
            heads = find_heads(list(outputs), [head_width(tensor) for tensor in outputs.values()])
        named = zip(check_heads(heads, len(outputs)), outputs.values(), strict=True)
        tensors = {head: head_output(head, tensor) for head, tensor in named if head is not None}
    except OptionError as error:
        raise CheckpointError(str(error)) from None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"its config does not have the form that Keras 3 writes ({type(error).__name__}: {str(error)[:300]})"
        ) from error
    return builder.finish([observations], tensors)


def _input_layer(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inputs = [layer for layer in config["config"]["layers"] if layer["class_name"] == "InputLayer"]
    if len(inputs) != 1:
        raise CheckpointError(f"has {len(inputs)} inputs; only one is supported (the observations)")
    layer: Mapping[str, Any] = inputs[0]
    return layer


def _input(config: Mapping[str, Any]) -> tuple[tuple[int, int, int], str]:
    """Return the shape (H, W, C) and the name of the input."""
    options = _input_layer(config)["config"]
    shape = (options.get("batch_shape") or options.get("batch_input_shape"))[1:]
    if len(shape) != 3 or not all(type(n) is int and 1 <= n <= MAX_SIDE for n in shape):
        raise CheckpointError(f"its input has the shape {brief(shape)}; it must be (height, width, channels)")
    height, width, channels = shape
    return (height, width, channels), keras_name(str(options.get("name") or "observations"))


class _LayerCount:
    """Counts the layer calls in all models of a file. The layers of a nested model count each time that the model is
    called.
    """

    def __init__(self) -> None:
        self.calls = 0

    def add(self, inputs: int = 1) -> None:
        self.calls += inputs
        if self.calls > MAX_LAYERS:
            raise CheckpointError(f"has more than {MAX_LAYERS} layer calls")


class _Model:
    """A model in a file. Its first call creates the layers, which later calls share."""

    def __init__(
        self,
        builder: NetworkBuilder,
        path: str,
        prefix: str,
        config: Mapping[str, Any],
        count: _LayerCount,
        depth: int,
    ) -> None:
        self.count = count
        self.sequential = config["class_name"] == "Sequential"
        self.config = config["config"]
        layers = self.config["layers"]
        if depth > MAX_DEPTH or len(layers) > MAX_LAYERS:
            raise CheckpointError(f"has {len(layers)} layers at the nesting depth {depth}, which exceeds the limits")
        self.layers: dict[str, _Layer | _Model] = {}
        used: dict[str, int] = {}
        for layer in layers:
            kind, name = layer["class_name"], layer["config"]["name"]
            if not isinstance(name, str) or not name.isprintable() or len(name) > MAX_NAME:
                raise CheckpointError(f"has a layer with the invalid name {brief(name)}")
            snake = snake_case(kind)
            used[snake] = used.get(snake, -1) + 1
            at = f"{path}layers/{snake}" + (f"_{used[snake]}" if used[snake] else "")
            if kind in MODELS:
                nested = f"{prefix}{name}{SEPARATOR}"
                self.layers[name] = _Model(builder, f"{at}/", nested, layer, count, depth + 1)
            elif kind != "InputLayer":
                self.layers[name] = _Layer(builder, at, f"{prefix}{name}", layer)

    def call(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Call the model and return its outputs by name."""
        if not self.sequential:
            return self._call_graph(inputs)
        (tensor,) = inputs
        name = ""
        for name, layer in self.layers.items():  # noqa: B007 (the last one names the output)
            self.count.add()
            (tensor,) = layer.call([tensor]).values()
        return {name: tensor}

    def _call_graph(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Call each node of the graph after the nodes whose outputs it reads."""
        done: dict[tuple[str, int], list[Any]] = {}
        nodes = {
            (layer["config"]["name"], i): node
            for layer in self.config["layers"]
            for i, node in enumerate(layer["inbound_nodes"])
        }
        places = {key: [tuple(place) for place in _tensors_in(node["args"])] for key, node in nodes.items()}
        readers: dict[tuple[str, int], list[tuple[str, int]]] = {}
        missing: dict[tuple[str, int], int] = {}
        for key, read in places.items():
            sources = {(layer, j) for layer, j, _ in read}
            missing[key] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(key)
        ready = deque(key for key, count in missing.items() if not count)

        def finish(key: tuple[str, int], tensors: list[Any]) -> None:
            done[key] = tensors
            for reader in readers.get(key, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)

        for (name, i, _), tensor in zip(_places(self.config["input_layers"]).values(), inputs, strict=True):
            nodes.pop((name, i), None)
            finish((name, i), [tensor])
        while ready:
            key = ready.popleft()
            if key not in nodes:
                continue
            self.count.add(max(1, len(places[key])))
            _check_call(key[0], nodes.pop(key))
            finish(key, list(self.layers[key[0]].call([done[layer, j][k] for layer, j, k in places[key]]).values()))
        if nodes:
            raise CheckpointError(f"layer {next(iter(nodes))[0]!r} has inputs that do not exist, or depends on itself")
        return {name: done[layer, i][k] for name, (layer, i, k) in _places(self.config["output_layers"]).items()}


class _Layer:
    """A layer in a file. Its first call creates the Keras layer."""

    def __init__(self, builder: NetworkBuilder, path: str, name: str, layer: Mapping[str, Any]) -> None:
        module = layer.get("module")
        if module not in (None, "keras.layers") and not str(module).startswith("keras.src.layers"):
            raise CheckpointError(f"layer {name!r} is from {str(module)[:80]!r}, not from Keras (no code was run)")
        self.builder = builder
        self.path = path
        self.name = name
        self.kind = layer["class_name"]
        self.options = layer_options(self.kind, name, layer["config"])
        self.layer: Any = None

    def call(self, inputs: Sequence[Any]) -> dict[str, Any]:
        argument = inputs[0] if len(inputs) == 1 else list(inputs)
        result = self._create(argument) if self.layer is None else self.layer(argument)
        return {self.name: self.builder.count(result, self.name)}

    def _create(self, argument: Any) -> Any:
        import keras

        first = argument[0] if isinstance(argument, list) else argument
        shapes = LAYERS[self.kind].variables(self.options, tuple(map(int, first.shape[1:])))
        names = [f"{self.path}/vars/{i}" for i in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            self.builder.expect(name, shape)
        self.layer = getattr(keras.layers, self.kind)(**self.options, name=keras_name(self.name))
        result = self.layer(argument)
        variables = [*self.layer.trainable_variables, *self.layer.non_trainable_variables]
        # the other variables are seeds of noise, which is off
        for name, variable in zip(names, variables, strict=False):
            self.builder.store(name, variable)
        return result


def _tensors_in(arguments: Any) -> list[Any]:
    """Return a reference (name of the layer, index of the node, index of the output) to each tensor in the arguments of
    a call.
    """
    if isinstance(arguments, dict):
        return [arguments["config"]["keras_history"]] if arguments.get("class_name") == TENSOR else []
    return [place for item in arguments for place in _tensors_in(item)] if isinstance(arguments, list) else []


def _check_call(name: str, node: Mapping[str, Any]) -> None:
    options = {key: value for key, value in node.get("kwargs", {}).items() if value not in (None, False)}
    plain = [value for value in node["args"] if not isinstance(value, list | dict) and value is not None]
    if options or plain:
        raise CheckpointError(f"layer {name!r} is called with {str(options or plain)[:80]}, which is not supported")


def _places(tensors: Any) -> dict[str, tuple[str, int, int]]:
    """Return references to tensors by name, from the inputs or outputs in a config: a single reference, or a list or
    dict of references.
    """
    if isinstance(tensors, dict):
        return {key: tuple(place) for key, place in tensors.items()}
    places = [tensors] if isinstance(tensors[0], str) else tensors
    result = {place[0]: tuple(place) for place in places}
    if len(result) != len(places):
        raise CheckpointError(f"uses two outputs of one layer, which is not supported: {str(places)[:80]}")
    return result
