"""`.keras` files: saved models are read exactly; unknown layers are rejected and never run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from rl_clarity import formats
from rl_clarity.agents.sites import feature_maps
from rl_clarity.base.errors import CheckpointError
from tests.formats.archive_writer import keras_bytes, keras_config, with_members

L: Any = keras.layers
SHAPE = (20, 16, 3)
OBSERVATIONS = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)


def heads(x: Any) -> list[Any]:
    return [L.Dense(5, name="policy")(x), L.Dense(1, name="value")(x)]


def plain() -> Any:
    inputs = keras.Input(SHAPE, dtype="uint8", name="frames")
    x = L.Conv2D(4, 3, strides=2, activation="relu", name="c1")(L.Rescaling(1 / 255)(inputs))
    x = L.ReLU(name="r2")(L.Conv2D(4, 3, padding="same", use_bias=False)(x))
    return keras.Model(inputs, heads(L.Dense(8, activation="tanh")(L.Flatten()(x))))


def many_layers() -> Any:
    inputs = keras.Input(SHAPE)
    x = L.ZeroPadding2D(1)(inputs)
    x = L.BatchNormalization()(L.SeparableConv2D(6, 3)(x))
    y = L.LeakyReLU(negative_slope=0.2)(L.DepthwiseConv2D(3, padding="same")(x))
    x = L.PReLU(shared_axes=(1, 2))(L.Add()([x, y]))
    x = L.Concatenate()([L.MaxPooling2D(2, padding="same")(x), L.AveragePooling2D(2, padding="same")(x)])
    x = L.GroupNormalization(groups=3)(L.ELU()(x))
    x = L.LayerNormalization()(L.Dropout(0.5)(L.Conv2D(6, (3, 2), groups=2, dilation_rate=2)(x)))
    x = L.SpatialDropout2D(0.2)(L.UpSampling2D(2)(L.Cropping2D(1)(x)))
    x = L.Activation("gelu")(L.Permute((2, 1, 3))(x))
    return keras.Model(inputs, heads(L.GlobalAveragePooling2D()(x)))


def nested() -> Any:
    block_input = keras.Input((9, 7, 4))
    y = L.Conv2D(4, 3, padding="same", name="conv")(block_input)
    block = keras.Model(block_input, L.Add()([block_input, L.ReLU(name="relu")(y)]), name="block")
    stem = keras.Sequential([L.Conv2D(4, 3, strides=2, name="conv"), L.ReLU(name="relu")], name="stem")
    inputs = keras.Input(SHAPE)
    x = block(block(stem(inputs)))  # the same weights twice
    return keras.Model(inputs, heads(L.Flatten()(x)))


def sequential() -> Any:
    layers = [L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(6, name="q_values")]
    return keras.Sequential([keras.Input(SHAPE), *layers])


def outputs_by_name() -> Any:
    inputs = keras.Input(SHAPE)
    x = L.Flatten()(L.Conv2D(4, 5, strides=3, activation="relu")(inputs))
    return keras.Model(inputs, {"v": L.Reshape(())(L.Dense(1)(x)), "logits": L.Dense(1)(x)})


MODELS: dict[str, Callable[[], Any]] = {
    "plain": plain,
    "many layers": many_layers,
    "nested": nested,
    "sequential": sequential,
    "outputs by name": outputs_by_name,
}


def randomize(model: Any, seed: int = 0) -> Any:
    """Change every variable from its initial value, so that a wrong one shows."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        if "seed" not in variable.path:
            value = (
                rng.uniform(0.5, 1.5, variable.shape)
                if "variance" in variable.path
                else rng.normal(0, 0.3, variable.shape)
            )
            variable.assign(value.astype(np.float32))
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_outputs_of_a_keras_file_equal_those_of_the_model(kind: str, tmp_path: Path) -> None:
    model = randomize(MODELS[kind]())
    path = tmp_path / "file"
    path.write_bytes(keras_bytes(model, tmp_path))
    agent: Any = formats.load_agent(path)
    frames = OBSERVATIONS if kind == "plain" else OBSERVATIONS / np.float32(255)
    expected = model.predict(frames, verbose=0)
    outputs = agent.forward(OBSERVATIONS)
    if kind == "sequential":
        assert np.array_equal(outputs.q_values, expected)
        return
    logits, value = (expected["logits"], expected["v"]) if isinstance(expected, dict) else expected
    assert np.abs(outputs.policy_logits - logits).max() < 1e-5
    assert np.abs(outputs.values - np.reshape(value, -1)).max() < 1e-5
    copy = tmp_path / "native.safetensors"
    formats.convert(path, copy)
    converted: Any = formats.load_agent(copy)
    assert np.array_equal(converted.forward(OBSERVATIONS).values, outputs.values)


def test_layers_of_nested_models_are_prefixed_with_the_models_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(keras_bytes(nested(), tmp_path))
    agent = formats.load_agent(tmp_path / "file")
    assert [o.name for o in feature_maps(agent.sites) if o.kind == "relu"] == [
        "stem/relu",
        "block/relu",
        "block/relu_1",
    ]


@pytest.fixture(scope="module")
def valid_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return keras_bytes(randomize(plain()), tmp_path_factory.mktemp("keras"))


def edited(data: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    config = keras_config(data)
    edit(config)
    return with_members(data, {"config.json": json.dumps(config).encode()})


def with_weights(data: bytes, edit: Callable[[h5py.File], Any]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        weights = io.BytesIO(file.read("model.weights.h5"))
    with h5py.File(weights, "a") as h5:
        edit(h5)
    return with_members(data, {"model.weights.h5": weights.getvalue()})


def layer(config: dict[str, Any], name: str) -> dict[str, Any]:
    return next(layer for layer in config["config"]["layers"] if layer["config"]["name"] == name)


def replace(h5: h5py.File, name: str, **options: Any) -> None:
    del h5[name]
    h5.create_dataset(name, **options)


def nested_links(group: h5py.Group, depth: int) -> None:
    """Link each group twice from the one before."""
    for _ in range(depth):
        group["a"] = group.create_group("b")
        group = group["a"]


def lambda_layer(config: dict[str, Any]) -> None:
    code = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None, "closure": None}}
    layer(config, "r2").update(class_name="Lambda", config={"name": "r2", "function": code})


def custom_class(config: dict[str, Any]) -> None:
    layer(config, "r2").update(module="os", class_name="system", registered_name="os>system")


KERNEL = "layers/conv2d/vars/0"
CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a Lambda": (lambda_layer, "'r2' is a Lambda.*no code was run.*KerasAgent"),
    "a class of another module": (custom_class, "'r2'.*'os'.*no code was run"),
    "an activation that is an object": (
        lambda c: layer(c, "c1")["config"].update(activation={"module": "os", "class_name": "system", "config": "ls"}),
        "'c1' has the unsupported activation",
    ),
    "an unknown activation": (lambda c: layer(c, "c1")["config"].update(activation="eval"), "'c1'.*'eval'"),
    "a name with control characters": (
        lambda c: layer(c, "r2")["config"].update(name="\x1b[2J"),
        r"a layer with the invalid name '\\x1b\[2J'",
    ),
    "an unknown option": (lambda c: layer(c, "c1")["config"].update(lora_rank=3), "lora_rank"),
    "half precision": (lambda c: layer(c, "c1")["config"].update(dtype="mixed_float16"), "mixed_float16"),
    "channels first": (lambda c: layer(c, "c1")["config"].update(data_format="channels_first"), "channels_first"),
    "no groups": (lambda c: layer(c, "c1")["config"].update(groups=0), "ZeroDivisionError"),
    "a huge layer": (lambda c: layer(c, "c1")["config"].update(filters=10**9), "1000000000"),
    "a layer larger than its tensor": (
        lambda c: layer(c, "c1")["config"].update(filters=400000),
        r"needs \(3, 3, 3, 400000\)",
    ),
    "a huge input": (lambda c: layer(c, "frames")["config"].update(batch_shape=[None, 10**6, 10**6, 3]), "1000000"),
    "an input that is not an image": (
        lambda c: layer(c, "frames")["config"].update(batch_shape=[None, 7]),
        "height, width",
    ),
    "a missing tensor": (lambda c: layer(c, "r2").update(inbound_nodes=[]), "inputs that do not exist|KeyError"),
    "a missing layer": (lambda c: c["config"]["layers"].pop(2), "inputs that do not exist|Error"),
    "a call with an argument": (
        lambda c: layer(c, "r2")["inbound_nodes"][0].update(kwargs={"mask": "x"}),
        "'r2' is called with",
    ),
    "three outputs": (lambda c: c["config"]["output_layers"].append(["r2", 0, 0]), r"\(None, 9, 7, 4\)"),
    "a class of models": (lambda c: c.update(class_name="MyModel"), "'MyModel'.*KerasAgent"),
    "no layers": (lambda c: c["config"].pop("layers"), "class"),
    "layers that are text": (lambda c: c["config"].update(layers=["x"]), "Error"),
}
WEIGHTS: dict[str, tuple[Callable[[h5py.File], Any], str]] = {
    "a wrong shape": (
        lambda h: replace(h, KERNEL, data=np.zeros((3, 3, 3, 5), "f4")),
        r"\(3, 3, 3, 5\).*needs \(3, 3, 3, 4\)",
    ),
    "missing": (lambda h: h.pop(KERNEL), f"{KERNEL}.* is missing"),
    "extra": (lambda h: h.create_dataset("layers/x", data=np.zeros(3, "f4")), "does not have.*layers/x"),
    "not finite": (lambda h: h[KERNEL].write_direct(np.full((3, 3, 3, 4), np.nan, "f4")), "108 values that are NaN"),
    "a link to another file": (
        lambda h: h.__setitem__("layers/x", h5py.ExternalLink("/etc/passwd", "/")),
        "link.*layers/x",
    ),
    "a link within": (lambda h: h.__setitem__("layers/x", h5py.SoftLink("/layers")), "link.*layers/x"),
    "a loop": (lambda h: h.__setitem__("layers/x", h["layers"]), "second link.*layers/x"),
    "a million paths to a few groups": (lambda h: nested_links(h, 22), "second link"),
    "more groups than networks have": (lambda h: [h.create_group(f"layers/{i}") for i in range(6000)], "items"),
    "deep": (lambda h: h.create_dataset("x/" * 40 + "y", data=np.zeros(3, "f4")), "nested"),
    "external data": (
        lambda h: replace(h, KERNEL, shape=(4,), dtype="u1", external=[("/etc/passwd", 0, 4)]),
        "is not stored in this file",
    ),
    "more data than the file holds": (
        lambda h: replace(h, KERNEL, shape=(10**6, 10**6), dtype="f4"),
        "more bytes than the file",
    ),
    "highly compressed data": (
        lambda h: replace(h, KERNEL, data=np.zeros((3000, 3000), "f4"), compression="gzip"),
        "more bytes than the file",
    ),
    "text": (lambda h: replace(h, KERNEL, data=np.array([b"a"], "S1")), "is not numeric"),
    "objects": (lambda h: replace(h, KERNEL, shape=(2,), dtype=h5py.string_dtype()), "is not numeric"),
}


def assert_rejected(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "file.keras"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"(?s){words}") as error:
        formats.load_agent(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("what", CONFIGS)
def test_invalid_keras_configurations_are_rejected(valid_file: bytes, what: str, tmp_path: Path) -> None:
    edit, words = CONFIGS[what]
    assert_rejected(tmp_path, edited(valid_file, edit), words)


@pytest.mark.parametrize("what", WEIGHTS)
def test_invalid_keras_weights_are_rejected(valid_file: bytes, what: str, tmp_path: Path) -> None:
    edit, words = WEIGHTS[what]
    assert_rejected(tmp_path, with_weights(valid_file, edit), words)


def test_keras_files_with_damaged_archive_members_are_rejected(valid_file: bytes, tmp_path: Path) -> None:
    assert_rejected(tmp_path, with_members(valid_file, {"config.json": b"{"}), "not valid JSON")
    assert_rejected(tmp_path, with_members(valid_file, {"config.json": b'{"a":' * 100_000}), "not valid JSON")
    assert_rejected(tmp_path, with_members(valid_file, {"model.weights.h5": b"\x89HDF"}), "damaged")
    assert_rejected(tmp_path, with_members(valid_file, {"model.weights.h5": None}), "unknown format")
    assert_rejected(tmp_path, valid_file[: len(valid_file) // 2], "damaged")


def test_flipped_bits_in_keras_files_are_detected(valid_file: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "file.keras"
    path.write_bytes(valid_file)
    original = formats.read(path)
    for _ in range(60):
        data = bytearray(valid_file)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        try:
            damaged = formats.read(path)
        except CheckpointError:
            continue
        # Only names and dates in the zip directory have no checksum.
        assert damaged.architecture == original.architecture
        assert all(np.array_equal(damaged.parameters[name], array) for name, array in original.parameters.items())


def test_ambiguous_outputs_can_be_named_with_the_heads_metadata(tmp_path: Path) -> None:
    inputs = keras.Input(SHAPE)
    x = L.Flatten()(L.Conv2D(2, 3, activation="relu")(inputs))
    model = keras.Model(inputs, [L.Dense(1, name="a")(x), L.Dense(1, name="b")(x)])
    data = keras_bytes(randomize(model), tmp_path)
    assert_rejected(tmp_path, data, "a of width 1, b of width 1.*heads=")
    agent: Any = formats.load_agent(tmp_path / "file.keras", heads=("values", "policy_logits"))
    expected = model.predict(OBSERVATIONS / np.float32(255), verbose=0)
    assert np.abs(agent.forward(OBSERVATIONS).values - expected[0][:, 0]).max() < 1e-5


def test_models_that_output_action_probabilities_are_rejected(tmp_path: Path) -> None:
    inputs = keras.Input(SHAPE)
    x = L.Flatten()(L.Conv2D(2, 3, activation="relu")(inputs))
    model = keras.Model(inputs, [L.Dense(4, activation="softmax", name="policy")(x), L.Dense(1, name="value")(x)])
    assert_rejected(tmp_path, keras_bytes(model, tmp_path), "probabilities")
