"""Read and write safetensors: a header of JSON with each tensor's type, shape and place, then the numbers.

https://github.com/huggingface/safetensors; the header's `__metadata__` is a dict of strings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.checkpoints.bounded import BoundedReader, brief, check_size
from rl_clarity.checkpoints.safe_zip import parse_json
from rl_clarity.errors import CheckpointError
from rl_clarity.files import write_atomically

MAX_HEADER = 16 << 20
MAX_TENSORS = 10_000
METADATA = "__metadata__"
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
CODES = {np.dtype(code): name for name, code in DTYPES.items()}


def is_safetensors(head: bytes) -> bool:
    """Whether a file that begins so may be safetensors: the length of a header, and the header's first brace."""
    return len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER


def read_metadata(path: Path) -> Mapping[str, str]:
    """The strings in the header."""
    with path.open("rb") as file:
        return _header(BoundedReader(file, check_size(path)))[1]


def read(path: Path) -> tuple[dict[str, np.ndarray], Mapping[str, str]]:
    """Tensors by name, and the strings in the header. Raises CheckpointError for a file that is damaged."""
    with path.open("rb") as file:
        reader = BoundedReader(file, check_size(path))
        entries, metadata = _header(reader)
        data = reader.read_array(reader.left)
    places = sorted((entry["data_offsets"], name) for name, entry in entries.items())
    ends = [0, *(end for (_, end), _ in places)]
    if [start for (start, _), _ in places] != ends[:-1] or ends[-1] != len(data):
        raise CheckpointError(f"truncated or damaged: its tensors do not fill its {len(data)} bytes one after another")
    return {name: _array(name, entries[name], data) for name in entries}, metadata


def write(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write a file atomically; the same arguments give the same bytes."""
    header: dict[str, Any] = {METADATA: dict(metadata)}
    parts: list[np.ndarray] = []
    start = 0
    for name, array in arrays.items():
        little = np.asarray(array, np.asarray(array).dtype.newbyteorder("<"), order="C")
        if little.dtype not in CODES:
            raise CheckpointError(f"tensor {name!r} is of type {little.dtype}, which safetensors does not have")
        offsets = [start, start + little.nbytes]
        header[name] = {"dtype": CODES[little.dtype], "shape": list(little.shape), "data_offsets": offsets}
        parts.append(little)
        start += little.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_atomically(path, [len(text).to_bytes(8, "little") + text, *(little.tobytes() for little in parts)])


def _header(reader: BoundedReader) -> tuple[dict[str, Any], Mapping[str, str]]:
    header = parse_json(reader.read(int.from_bytes(reader.read(8), "little")), "its header")
    if not isinstance(header, dict):
        raise CheckpointError("its header is not a dict")
    if len(header) > MAX_TENSORS:
        raise CheckpointError(f"its header has {len(header)} tensors, more than any network's: refused")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise CheckpointError(f"its {METADATA} is not a dict of strings")
    for name, entry in header.items():
        _check_entry(name, entry)
    return header, metadata


def _check_entry(name: str, entry: Any) -> None:
    if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES:
        kind = entry.get("dtype") if isinstance(entry, dict) else entry
        raise CheckpointError(f"tensor {brief(name)} is of an unknown type {brief(kind)}")
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or len(shape) > 8 or not _are_sizes(shape):
        raise CheckpointError(f"tensor {brief(name)} has the shape {brief(shape)}")
    size = math.prod(shape) * np.dtype(DTYPES[entry["dtype"]]).itemsize
    if not isinstance(offsets, list) or len(offsets) != 2 or not _are_sizes(offsets) or offsets[1] - offsets[0] != size:
        raise CheckpointError(
            f"tensor {brief(name)} of shape {shape} lies at {brief(offsets)}, which are not {size} bytes"
        )


def _are_sizes(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value < 2**40 for value in values)


def _array(name: str, entry: Mapping[str, Any], data: bytearray) -> np.ndarray:
    start, end = entry["data_offsets"]
    if start == end:
        return np.zeros(entry["shape"], DTYPES[entry["dtype"]])
    return np.frombuffer(memoryview(data)[start:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
