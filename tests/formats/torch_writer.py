"""Write files as `torch.save` does, without torch: state dicts in an archive or in the legacy stream format.

Pickles are assembled operation by operation, so that damaged and hostile ones can be built from the same parts.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

STORAGES = {
    **{"float32": "FloatStorage", "float64": "DoubleStorage"},
    **{"int64": "LongStorage", "int32": "IntStorage", "uint8": "ByteStorage", "bool": "BoolStorage"},
}
STREAM_MAGIC = 0x1950A86A20F9469CFC6C


def name(module: str, attribute: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{attribute}\n".encode()


def constant(value: Any) -> bytes:
    """Operations that push a plain value."""
    return pickle.dumps(value, protocol=2)[2:-1]


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.REDUCE


def pickled(*operations: bytes) -> bytes:
    return pickle.PROTO + b"\x02" + b"".join(operations) + pickle.STOP


def storage(key: str, kind: str, length: int, *, stream: bool = False) -> bytes:
    """Operations that refer to a storage."""
    parts = [constant("storage"), name("torch", kind), constant(key), constant("cpu"), constant(length)]
    return pickle.MARK + b"".join(parts + [constant(None)] * stream) + pickle.TUPLE + pickle.BINPERSID


def tensor(
    key: str,
    shape: tuple[int, ...],
    *,
    kind: str = "FloatStorage",
    length: int | None = None,
    offset: int = 0,
    strides: tuple[int, ...] | None = None,
    stream: bool = False,
) -> bytes:
    """Operations that make a tensor of a storage."""
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    size = int(np.prod(shape)) if length is None else length
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        storage(key, kind, size, stream=stream),
        *map(constant, (offset, shape, strides, False)),
        call(name("collections", "OrderedDict")),
    )


def ordered_dict(items: Mapping[str, bytes]) -> bytes:
    pairs = b"".join(constant(key) + value for key, value in items.items())
    return call(name("collections", "OrderedDict")) + pickle.MARK + pairs + pickle.SETITEMS


def plain_dict(items: Mapping[str, bytes]) -> bytes:
    pairs = b"".join(constant(key) + value for key, value in items.items())
    return pickle.EMPTY_DICT + pickle.MARK + pairs + pickle.SETITEMS


def archive(data_pickle: bytes, storages: Mapping[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of a pickle and its storages."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("agent/data.pkl", data_pickle)
        file.writestr("agent/byteorder", "little")
        for key, data in storages.items():
            file.writestr(f"agent/data/{key}", data)
        file.writestr("agent/version", "3\n")
    return buffer.getvalue()


def save(arrays: Mapping[str, np.ndarray], root: str | None = None) -> bytes:
    """Return an archive with a state dict, at the root or under a key."""
    tensors = {
        key: tensor(str(i), array.shape, kind=STORAGES[str(array.dtype)])
        for i, (key, array) in enumerate(arrays.items())
    }
    content = ordered_dict(tensors)
    if root is not None:
        content = plain_dict({root: content})
    return archive(pickled(content), {str(i): array.tobytes() for i, array in enumerate(arrays.values())})


def save_stream(arrays: Mapping[str, np.ndarray], content: bytes | None = None) -> bytes:
    """Return a state dict in the legacy stream format."""
    tensors = {key: tensor(f"9{i}", array.shape, stream=True) for i, (key, array) in enumerate(arrays.items())}
    keys = [f"9{i}" for i in range(len(arrays))]
    head = [STREAM_MAGIC, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}]
    parts = [pickle.dumps(value, protocol=2) for value in head]
    parts += [pickled(ordered_dict(tensors)) if content is None else content, pickle.dumps(keys, protocol=2)]
    parts += [struct.pack("<q", array.size) + array.tobytes() for array in arrays.values()]
    return b"".join(parts)
