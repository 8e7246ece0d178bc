"""Hostile and damaged checkpoints, generated: for each format, bytes by what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from tests import state_dicts
from tests.formats import hostile_pickles, torch_writer
from tests.formats.archive_writer import sb3_class, sb3_data, sb3_zip, zipped
from tests.formats.hostile_pickles import Payload
from tests.formats.torch_writer import call, constant, name, ordered_dict, pickled, tensor

Corpus = dict[str, bytes]
BOMB = 65 << 20
ARRAY_WRAPPER = name("joblib.numpy_pickle", "NumpyArrayWrapper")
EMPTY = {
    "sb3": "actor_critic", "keras": "Functional", "cleanrl": "dqn_atari", "procgen_pytorch": "impala",
    "baby_a3c": "gru", "baselines": "clear",
}  # fmt: skip


def joblib_files(marker: Path) -> Corpus:
    """Files that look like Baselines' checkpoints."""
    objects = np.empty(1, object)
    objects[0] = Payload(marker)
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "zlib": zlib.compress,
        "gzip": lambda data: gzip.compress(data, 1),
        "bz2": lambda data: bz2.compress(data, 1),
        "xz": lambda data: lzma.compress(data, preset=0),
    }
    valid = dumped({"params": {"ppo2_model/pi/w:0": np.ones((3, 4), np.float32)}, "args": {"cnn": "clear"}})
    bomb = bytes_header(BOMB) + bytes(BOMB)
    return {
        **hostile_pickles.running(marker),
        **hostile_pickles.huge(),
        **hostile_pickles.broken(),
        "an array of objects": dumped({"params": {"w": objects}}),
        "an array of objects, pickled by NumPy": pickle.dumps({"params": {"w": objects}}, protocol=4),
        "an array of objects, compressed": dumped({"params": {"w": objects}}, compress=("zlib", 3)),
        "a scalar of objects": pickled(call(name("numpy.core.multiarray", "scalar"), dtype("O8"), constant("x"))),
        "an array of records": dumped({"params": {"w": np.zeros(2, [("a", "f4"), ("b", object)])}}),
        "an array of text": dumped({"params": {"w": np.array(["a", "b"])}}),
        "an array larger than the file": joblib_array((1 << 30, 1 << 8)),
        "an array of negative size": joblib_array((-4, 2)),
        "an array whose shape is not a tuple": joblib_array("(4,)"),
        "an array that is reconstructed large": pickled(
            call(
                name("numpy.core.multiarray", "_reconstruct"),
                name("numpy", "ndarray"),
                constant((1 << 40,)),
                constant("b"),
            )
        ),
        "a wrapper without a state": pickled(call(ARRAY_WRAPPER)),
        "not a dict": dumped([1, 2, 3]),
        "params that are not a dict": dumped({"params": [np.zeros(3)]}),
        "a parameter that is not an array": dumped({"params": {"w": "text"}}),
        "args that are not a dict": dumped({"params": {}, "args": [1]}),
        "observations of negative size": policy_file({"cnn": "clear", "observation_shape": [-4, 64, 3]}),
        "a kind of environment that is a list": policy_file({"cnn": "clear", "env_kind": ["procgen"]}),
        "a network that is a dict": policy_file({"cnn": {"name": "clear"}}),
        "an endless frame stack": policy_file({"cnn": "clear", "frame_stack": 10**12}),
        "args that hold an array": dumped({"params": {}, "args": {"x": np.zeros(1000)}}),
        "another library": dumped({"params": {}, "args": {"library": "rllib"}}),
        **{f"a bomb of {name}": compress(bomb) for name, compress in compressors.items()},
        **{f"{name} that runs code": compress(pickle.dumps(Payload(marker))) for name, compress in compressors.items()},
        **{f"truncated {name}": compress(valid)[:-9] for name, compress in compressors.items()},
        "a dictionary of 3 GB": xz_with_large_dictionary(valid),
        "truncated": valid[: len(valid) // 2],
    }


def torch_files(marker: Path) -> Corpus:
    """Archives and streams that look like CleanRL's and baby-a3c's checkpoints."""
    arrays = {"network.0.weight": np.ones((2, 3, 1, 1), np.float32)}
    arrays |= {name: np.zeros((1, 1), np.float32) for name in ("network.7.weight", "actor.weight")}
    ones = {"0": np.ones(6, np.float32).tobytes()}
    valid, stream = torch_writer.save(arrays), torch_writer.save_stream(arrays)

    def with_tensor(
        operations: bytes, storages: dict[str, bytes] = ones, compression: int = zipfile.ZIP_STORED
    ) -> bytes:
        others = {name: tensor("1", (1, 1)) for name in ("network.7.weight", "actor.weight")}
        content = ordered_dict({"network.0.weight": operations, **others})
        return torch_writer.archive(pickled(content), {"1": bytes(4), **storages}, compression=compression)

    pickles = {**hostile_pickles.running(marker), **hostile_pickles.huge(), **hostile_pickles.broken()}
    return {
        **{f"archive: {what}": torch_writer.archive(data, ones) for what, data in pickles.items()},
        **{f"stream: {what}": torch_writer.save_stream(arrays, data) for what, data in pickles.items()},
        "a whole module": torch_writer.archive(pickled(name("__main__", "Agent") + b")\x81"), {}),
        "a storage of an unknown type": with_tensor(tensor("0", (6,), kind="VoidStorage")),
        "a tensor without a storage": with_tensor(
            call(name("torch._utils", "_rebuild_tensor_v2"), *map(constant, (1, 0, (), ())))
        ),
        "a tensor beyond its storage": with_tensor(tensor("0", (6,), offset=1, length=6)),
        "a tensor that repeats its storage": with_tensor(tensor("0", (1 << 20, 1 << 20), strides=(0, 0), length=6)),
        "a negative stride": with_tensor(tensor("0", (6,), strides=(-1,))),
        "a negative offset": with_tensor(tensor("0", (6,), offset=-1)),
        "a shape that is text": with_tensor(
            call(
                name("torch._utils", "_rebuild_tensor_v2"),
                torch_writer.storage("0", "FloatStorage", 6),
                *map(constant, (0, "ab", "cd")),
            )
        ),
        "a missing storage": with_tensor(tensor("7", (6,))),
        "a storage that is too short": with_tensor(tensor("0", (600,))),
        "a storage of a path": with_tensor(tensor("../../etc/passwd", (6,))),
        "another persistent id": with_tensor(constant(("module", "os", "system")) + pickle.BINPERSID),
        "a parameter that is not a tensor": with_tensor(
            call(name("torch._utils", "_rebuild_parameter"), constant(3), constant(True))
        ),
        "no state dict": torch_writer.archive(pickled(constant({"epoch": 3})), {}),
        "two pickles": zipped({"a/data.pkl": pickled(constant({})), "b/data.pkl": pickled(constant({}))}),
        "an unknown byte order": zipped({"a/data.pkl": pickled(constant({})), "a/byteorder": b"middle"}),
        "a bomb": with_tensor(tensor("0", (BOMB // 4,)), {"0": bytes(BOMB)}, zipfile.ZIP_DEFLATED),
        "a member twice": duplicated(valid),
        "a damaged storage": valid.replace(
            np.ones(6, np.float32).tobytes(), np.ones(6, np.float32).tobytes()[:-1] + b"\x40"
        ),
        "encrypted": marked_as_encrypted(valid),
        "no directory": valid[:-30],
        "truncated": valid[: len(valid) // 2],
        "a truncated stream": stream[:-3],
        "a stream of another version": torch_writer.save_stream(arrays).replace(b"M\xe9\x03.", b"M\xe8\x03.", 1),
        "a stream whose keys are not a list": stream.replace(
            pickle.dumps(["90", "91", "92"], protocol=2), pickle.dumps({}, protocol=2)
        ),
    }


def sb3_files(marker: Path) -> Corpus:
    arrays = state_dicts.sb3()
    payload = pickle.dumps(Payload(marker), protocol=2)
    return {
        "code in the policy": sb3_zip(arrays, members={"policy.pth": torch_writer.archive(payload, {})}),
        "data that is not JSON": sb3_zip(arrays, members={"data": b"{"}),
        "data that is deep": sb3_zip(arrays, members={"data": b"[" * 100_000}),
        "data that is a list": sb3_zip(arrays, data=[1]),
        "data that is a pickle": sb3_zip(arrays, members={"data": pickle.dumps(Payload(marker))}),
        "a shape with one dimension": sb3_zip(arrays, data={**sb3_data(), "observation_space": {"_shape": [4]}}),
        "a discount that is not a number": sb3_zip(arrays, data=sb3_data(gamma=float("nan"))),
        "a discount of many digits": sb3_zip(arrays, data=sb3_data(gamma=10**4000)),
        "a shape that is text": sb3_zip(arrays, data={**sb3_data(), "observation_space": {"_shape": "4"}}),
        "an MLP": sb3_zip({"mlp_extractor.policy_net.0.weight": np.zeros((2, 2), np.float32)}),
        "a policy class that is text": sb3_zip(arrays, data=sb3_data(policy_class="not base64 \u2603")),
        "code in the policy class": sb3_zip(arrays, data=sb3_data(policy_class=sb3_class("a", "b", payload))),
        "continuous actions": sb3_zip({**arrays, "log_std": np.zeros(3, np.float32)}),
        "an unknown non-linearity": sb3_zip(
            arrays, data=sb3_data(policy_kwargs={"activation_fn": "<class 'os.system'>"})
        ),
        "a bomb": zipped({"data": b" " * (3 * BOMB), "policy.pth": b""}, zipfile.ZIP_DEFLATED),
    }


def native_files(_marker: Path) -> Corpus:
    description = {
        "version": 1,
        "format": "cleanrl",
        "network": "ppo_atari",
        "architecture": {},
        "metadata": {},
        "notes": [],
    }

    def file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def with_entry(**entry: Any) -> bytes:
        full = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}
        return file({"__metadata__": {"rl_clarity": json.dumps(description)}, "w": full}, bytes(8))

    def with_description(**changed: Any) -> bytes:
        return file({"__metadata__": {"rl_clarity": json.dumps({**description, **changed})}})

    return {
        "a header longer than the file": file({"__metadata__": {"rl_clarity": "{}"}}, length=1 << 25),
        "a header that is not JSON": file(b"{rl_clarity"),
        "a header that is deep": file(b'{"a":' * 100_000),
        "metadata that is not text": file({"__metadata__": {"rl_clarity": 3}}),
        "an unknown type": with_entry(dtype="O"),
        "a shape that does not fit": with_entry(shape=[3]),
        "a negative shape": with_entry(shape=[-2]),
        "a shape that is huge": with_entry(shape=[1 << 39, 1 << 39]),
        "a tensor beyond the file": with_entry(shape=[4], data_offsets=[0, 16]),
        "a gap": with_entry(shape=[1], data_offsets=[4, 8]),
        "more tensors than any network has": file(
            {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(20_000)}
            | {"__metadata__": {"rl_clarity": json.dumps(description)}}
        ),
        **{
            f"{name} without tensors": with_description(format=name, network=network) for name, network in EMPTY.items()
        },
        "a Keras model that is a number": with_description(format="keras", architecture={"config": 3}),
        "observations of text": with_description(metadata={"observation_shape": ["x", 1, 2]}),
        "an unknown version": with_description(version=2),
        "an unknown format": with_description(format="os"),
        "native as its own format": with_description(format="native"),
        "an unknown network": with_description(network="system"),
        "metadata that is a list": with_description(metadata=[]),
        "a description that is not JSON": file({"__metadata__": {"rl_clarity": "{"}}),
        "a description that is a list": file({"__metadata__": {"rl_clarity": "[]"}}),
    }


def policy_file(args: dict[str, Any]) -> bytes:
    return dumped({"params": {"ppo2_model/pi/w:0": np.zeros((256, 15), np.float32)}, "args": args})


def dumped(content: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    joblib.dump(content, buffer, **options)
    return buffer.getvalue()


def dtype(code: str) -> bytes:
    return call(name("numpy", "dtype"), constant(code), constant(False), constant(True))


def joblib_array(shape: Any) -> bytes:
    """An array's header, as joblib writes it, without the array."""
    return pickled(ARRAY_WRAPPER + pickle.EMPTY_TUPLE + pickle.NEWOBJ + wrapper_state(shape) + pickle.BUILD)


def wrapper_state(shape: Any) -> bytes:
    return torch_writer.plain_dict(
        {
            "subclass": name("numpy", "ndarray"),
            "shape": constant(shape),
            "order": constant("C"),
            "dtype": dtype("f4"),
            "allow_mmap": constant(True),
        }
    )


def bytes_header(size: int) -> bytes:
    return b"\x80\x04" + pickle.BINBYTES8 + struct.pack("<Q", size)


def xz_with_large_dictionary(data: bytes) -> bytes:
    """The header declares the size of the dictionary, whatever the data's size; the checksum is valid."""
    packed = bytearray(lzma.compress(data, format=lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    length = (packed[12] + 1) * 4
    at = packed.index(b"\x21\x01", 12) + 2
    packed[at] = 39  # 3 GB
    packed[12 + length - 4 : 12 + length] = struct.pack("<I", zlib.crc32(bytes(packed[12 : 12 + length - 4])))
    return bytes(packed)


def duplicated(data: bytes) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.writestr("agent/version", "4\n")
    return buffer.getvalue()


def marked_as_encrypted(data: bytes) -> bytes:
    """Mark every member as encrypted in the directory."""
    changed = bytearray(data)
    at = -1
    while (at := changed.find(b"PK\x01\x02", at + 1)) >= 0:
        changed[at + 8] |= 1
    return bytes(changed)
