"""Checkpoints of less than 10 MB that try to take much memory or time, generated: functions by what the file tries."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import h5py
import numpy as np

from tests import state_dicts
from tests.formats import hostile_files, hostile_pickles, torch_writer
from tests.formats.archive_writer import sb3_data, sb3_zip, zipped
from tests.formats.torch_writer import constant, name, ordered_dict, pickled, tensor

Make = Callable[[], bytes]
LIMIT = 10 << 20
"""Size of the largest file."""
LARGE = 9_000_000
UNPACKED = 60 << 20
MODULUS = 2**61 - 1
"""Python's hashes of integers are remainders of this number."""
ORDERED_DICT = name("collections", "OrderedDict")
PLACES = [struct.pack("<I", 1 << 31), struct.pack("<I", 1 << 30)]
"""Places in a pickle's memory that `constant` does not use."""
GET_FIRST, GET_SECOND = (pickle.LONG_BINGET + place for place in PLACES)


def in_list(items: bytes, before: bytes = b"") -> bytes:
    return pickled(before, pickle.MARK, items, pickle.LIST)


def memoized(*values: bytes) -> bytes:
    """Operations that put values where `GET_FIRST` and `GET_SECOND` find them."""
    return b"".join(
        value + pickle.LONG_BINPUT + place + pickle.POP for value, place in zip(values, PLACES, strict=False)
    )


def colliding(count: int) -> Iterator[int]:
    return (i * MODULUS for i in range(1, count))


PICKLES: dict[str, Make] = {
    "lists": lambda: in_list(pickle.EMPTY_LIST * LARGE),
    "dicts": lambda: in_list(pickle.EMPTY_DICT * LARGE),
    "one object again and again": lambda: in_list(pickle.EMPTY_DICT + pickle.DUP * LARGE),
    "protocols": lambda: pickled(b"\x80\x02" * (LARGE // 2), pickle.EMPTY_DICT),
    "marks": lambda: pickled(pickle.MARK * LARGE),
    "a large memory": lambda: pickled(
        pickle.EMPTY_DICT, *(pickle.LONG_BINPUT + struct.pack("<I", i) for i in range(LARGE // 5))
    ),
    "keys of the memory with one hash": lambda: pickled(pickle.EMPTY_DICT, *(b"p%d\n" % i for i in colliding(80_000))),
    "keys with one hash": lambda: pickled(
        pickle.EMPTY_DICT, pickle.MARK, *(constant(i) + b"N" for i in colliding(80_000)), pickle.SETITEMS
    ),
    "ordered dicts": lambda: in_list((GET_FIRST + b")R") * (LARGE // 7), memoized(ORDERED_DICT)),
    "ordered dicts of one list": lambda: in_list(
        (GET_FIRST + GET_SECOND + pickle.TUPLE1 + pickle.REDUCE) * 10_000,
        memoized(ORDERED_DICT, constant([(str(i), i) for i in range(2_000)])),
    ),
    "tuples that share tuples": lambda: pickled(
        pickle.EMPTY_TUPLE, *(pickle.LONG_BINPUT + PLACES[0] + GET_FIRST * 2 + pickle.TUPLE3 for _ in range(40))
    ),
    "lists that share lists": lambda: hostile_pickles.huge()["lists that hold one another"],
    "one long string again and again": lambda: in_list(GET_FIRST * 800_000, memoized(constant("x" * (LARGE // 3)))),
    "deep lists": lambda: pickled(pickle.EMPTY_LIST * 400_000, pickle.APPEND * 399_999),
    "deep tuples": lambda: pickled(pickle.EMPTY_TUPLE, pickle.TUPLE1 * LARGE),
    "a line of digits": lambda: pickled(b"F" + b"9" * LARGE + b"\n"),
    "a long string": lambda: pickled(constant("\U0001f600" + "x" * LARGE)),
    "a large number": lambda: pickled(constant(1 << (8 * LARGE))),
}
"""Pickles, for several containers."""
JOBLIB: dict[str, Make] = {
    "a call with many arguments, repeated": lambda: in_list(
        (GET_FIRST + GET_SECOND + pickle.REDUCE) * 100_000,
        memoized(name("numpy", "dtype"), constant(tuple("x" * 100_000))),
    ),
    "empty arrays": lambda: in_list(
        (GET_FIRST + b")\x81" + GET_SECOND + b"b") * 600_000,
        memoized(hostile_files.ARRAY_WRAPPER, hostile_files.wrapper_state((0, 1))),
    ),
    "many fields": lambda: hostile_files.policy_file({f"k{i}": i for i in range(100_000)}),
    "a long name": lambda: hostile_files.policy_file({"env_name": "x" * LARGE}),
    "large observations": lambda: hostile_files.policy_file(
        {"cnn": "nature", "observation_shape": [60_000, 60_000, 3]}
    ),
}
"""Joblib files."""

BOMBS: dict[str, Make] = {
    "lists": lambda: in_list(pickle.EMPTY_LIST * UNPACKED),
    "a line": lambda: pickled(b"F" + b"9" * UNPACKED + b"\n"),
    "a text": lambda: pickled(b"S'" + b"x" * UNPACKED + b"'\n"),
    "a wide string": lambda: pickled(
        pickle.BINUNICODE + struct.pack("<I", UNPACKED) + "\U0001f600".encode() + b"x" * (UNPACKED - 4)
    ),
    "a large number": lambda: pickled(pickle.LONG4 + struct.pack("<i", UNPACKED) + b"\x7f" * UNPACKED),
    "bytes": lambda: hostile_files.bytes_header(UNPACKED) + bytes(UNPACKED) + b".",
    "arrays": lambda: hostile_files.dumped(
        {"params": {f"w{i}": np.zeros(UNPACKED // 40) for i in range(5)}, "args": {}}
    ),
    "a network": lambda: hostile_files.dumped(
        {"params": wide_network(), "args": {"cnn": "nature", "observation_shape": [84, 84, 4]}}
    ),
}
"""Pickles that are small when they are compressed."""


def wide_network() -> dict[str, np.ndarray]:
    """A valid network with 58 MB of zeros."""
    scope, units = "ppo2_model", 512
    arrays: dict[str, np.ndarray] = {}
    for layer, kernel in {"c1": (8, 8, 4, 32), "c2": (4, 4, 32, 64), "c3": (3, 3, 64, 64)}.items():
        arrays[f"{scope}/pi/{layer}/w:0"] = np.zeros(kernel, np.float32)
        arrays[f"{scope}/pi/{layer}/b:0"] = np.zeros((1, kernel[-1], 1, 1), np.float32)
    actions = 24_000
    arrays |= {f"{scope}/pi/fc1/w:0": np.zeros((3136, units), np.float32), f"{scope}/pi/fc1/b:0": np.zeros(units, "f4")}
    for head, width in (("pi", actions), ("vf", 1)):
        arrays[f"{scope}/{head}/w:0"] = np.zeros((units, width), np.float32)
        arrays[f"{scope}/{head}/b:0"] = np.zeros(width, np.float32)
    return arrays


JSON: dict[str, Make] = {
    "a list of lists": lambda: b"[" + b"[]," * 2_600_000 + b"0]",
    "a list of dicts": lambda: b"[" + b'{"a":0},' * 1_000_000 + b"0]",
    "numbers": lambda: b"[" + b"0," * 3_900_000 + b"0]",
    "many keys": lambda: json.dumps({f"k{i}": i for i in range(400_000)}).encode(),
    "a deep list": lambda: b"[" * 900 + b"]" * 900,
    "a deeper list": lambda: b"[" * 3_000_000 + b"]" * 3_000_000,
    "a long string": lambda: json.dumps("\U0001f600" + "x" * 7_900_000).encode(),
    "more than 8 MB": lambda: b" " * UNPACKED + b"{}",
    "a number of many digits": lambda: b"9" * 8_000_000,
}
"""JSON, for several containers."""


def deflated(members: dict[str, bytes]) -> bytes:
    return zipped(members, zipfile.ZIP_DEFLATED)


def torch_archive(content: bytes, storages: dict[str, bytes] | None = None) -> bytes:
    return torch_writer.archive(content, storages or {}, compression=zipfile.ZIP_DEFLATED)


def shared_storage(count: int) -> bytes:
    """A state dict with many tensors in one storage of zeros."""
    size = UNPACKED // 8
    names = ["network.0.weight", "network.7.weight", "actor.weight", *(f"w{i}" for i in range(count))]
    return torch_archive(pickled(ordered_dict(dict.fromkeys(names, tensor("0", (size,))))), {"0": bytes(4 * size)})


def many_tensors(count: int) -> bytes:
    names = ["network.0.weight", "network.7.weight", "actor.weight", *(f"{i}" for i in range(count))]
    return torch_archive(pickled(ordered_dict(dict.fromkeys(names, tensor("0", (1,))))), {"0": bytes(4)})


def many_members(count: int) -> bytes:
    """A zip that says only in the 64-bit record of its directory how many members it has."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for i in range(count):
            file.writestr(zipfile.ZipInfo(f"{i:x}"), b"")
    return buffer.getvalue()[:-22] + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 1, 0xFFFFFFFF, 0)


def sb3(data: bytes | None = None, policy: bytes | None = None) -> bytes:
    """A compressed zip of Stable-Baselines3."""
    content = json.dumps(sb3_data()).encode() if data is None else data
    return deflated({"data": content, "policy.pth": torch_writer.save(state_dicts.sb3()) if policy is None else policy})


def layer(kind: str, called: str, sources: str | list[str], **config: Any) -> dict[str, Any]:
    """A layer of a Keras config that reads the output of another layer, or of several as a list."""
    names = [sources] if isinstance(sources, str) else sources
    places = [{"class_name": "__keras_tensor__", "config": {"keras_history": [other, 0, 0]}} for other in names]
    args = places if isinstance(sources, str) else [places]
    return {"class_name": kind, "config": {"name": called, **config}, "inbound_nodes": [{"args": args, "kwargs": {}}]}


def model(layers: list[dict[str, Any]], output: str, name: str = "m") -> dict[str, Any]:
    observations = {"name": "in", "batch_shape": [None, 8, 8, 3]}
    config = {
        "name": name,
        "layers": [{"class_name": "InputLayer", "config": observations, "inbound_nodes": []}, *layers],
        "input_layers": [["in", 0, 0]],
        "output_layers": [[output, 0, 0]],
    }
    return {"class_name": "Functional", "config": config, "inbound_nodes": []}


def agent(layers: list[dict[str, Any]], output: str, *, reverse: bool = False) -> dict[str, Any]:
    """A model that ends in action values."""
    heads = [layer("GlobalAveragePooling2D", "pool", output), layer("Dense", "q_values", "pool", units=2)]
    layers = [*layers, *heads]
    return model(layers[::-1] if reverse else layers, "q_values")


def chain(count: int, kind: str = "Identity", *, reverse: bool = False, **config: Any) -> dict[str, Any]:
    layers = [layer(kind, f"l{i}", f"l{i - 1}" if i else "in", **config) for i in range(count)]
    return agent(layers, f"l{count - 1}", reverse=reverse)


def nested_models(depth: int, calls: int) -> dict[str, Any]:
    """Models that each call the next one several times."""
    inner = model([layer("Identity", "l0", "in")], "l0", "m0")
    for level in range(depth):
        called = {**inner, "inbound_nodes": layer("", "", "in")["inbound_nodes"] * calls}
        called["config"]["name"] = f"m{level}"
        inner = model([called], f"m{level}", f"m{level + 1}")
    return agent(inner["config"]["layers"][1:], f"m{depth - 1}")


def keras_file(config: Any, *, groups: int = 0) -> bytes:
    """A `.keras` file with the weights of the head of `agent`, and empty groups."""
    weights = io.BytesIO()
    with h5py.File(weights, "w", libver="latest") as file:
        file["layers/dense/vars/0"], file["layers/dense/vars/1"] = np.zeros((3, 2), "f4"), np.zeros(2, "f4")
        for i in range(groups):
            file.create_group(f"g{i}")
    content = config if isinstance(config, bytes) else json.dumps(config).encode()
    return deflated({"config.json": content, "model.weights.h5": weights.getvalue()})


def native(tensors: int = 0, **changed: Any) -> bytes:
    description = {"version": 1, "format": "keras", "network": "Functional", "architecture": {}, "metadata": {}}
    header: dict[str, Any] = {"__metadata__": {"rl_clarity": json.dumps({**description, "notes": [], **changed})}}
    header |= {f"{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(tensors)}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


KERAS: dict[str, Make] = {
    "a chain of as many layers as Keras can build": lambda: keras_file(chain(850, "Activation", activation="relu")),
    "a long chain": lambda: keras_file(chain(4000)),
    "a long chain in reverse order": lambda: keras_file(chain(4000, reverse=True)),
    "models that call models": lambda: keras_file(nested_models(7, 10)),
    "models that call many models": lambda: keras_file(nested_models(2, 2000)),
    "a sum of many": lambda: keras_file(agent([layer("Add", "sum", ["in"] * 60_000)], "sum")),
    "a layer that enlarges": lambda: keras_file(chain(1, "UpSampling2D", size=[4096, 4096])),
    "layers that enlarge": lambda: keras_file(chain(9, "UpSampling2D", size=[1000, 1000])),
    "layers that pad": lambda: keras_file(chain(400, "ZeroPadding2D", padding=[100, 100])),
    "many groups": lambda: keras_file(chain(1), groups=50_000),
}
"""`.keras` files."""


def inside(container: Callable[[bytes], bytes], make: Make) -> Make:
    return lambda: container(make())


FILES: dict[str, Make] = {
    **{f"joblib: {what}": make for what, make in {**PICKLES, **JOBLIB}.items()},
    **{f"zlib: {what}": inside(zlib.compress, make) for what, make in BOMBS.items()},
    "bz2: bytes": inside(bz2.compress, BOMBS["bytes"]),
    "xz: arrays": inside(partial(lzma.compress, preset=0), BOMBS["arrays"]),
    **{f"torch: {what}": inside(torch_archive, PICKLES[what]) for what in ("lists", "ordered dicts", "a long string")},
    **{f"sb3: {what}": inside(sb3, make) for what, make in JSON.items()},
    **{f"keras: {what}": inside(keras_file, JSON[what]) for what in ("many keys", "numbers", "a long string")},
    **{f"keras: {what}": make for what, make in KERAS.items()},
    "sb3: a pickle": lambda: sb3(policy=torch_archive(PICKLES["ordered dicts"]())),
    "sb3: a zip in a zip": lambda: sb3(policy=shared_storage(3)),
    "sb3: large observations": lambda: sb3_zip(state_dicts.sb3(), data=sb3_data((4, 65536, 65536))),
    "torch: a shared storage": partial(shared_storage, 6),
    "torch: a storage that many share": partial(shared_storage, 10_000),
    "torch: many tensors": partial(many_tensors, 50_000),
    "zip: many members": partial(many_members, 70_000),
    "native: many tensors": partial(native, 100_000),
    "native: a long chain": lambda: native(architecture={"config": chain(4000)}),
    "native: a long text": lambda: native(metadata={"env_name": "x" * 8_000_000}),
}
"""Files by what they try."""
