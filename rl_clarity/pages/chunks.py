"""Chunks: scripts that contain arrays and pass them to the page. docs/page-format.md describes the format.

A page that is opened from a file cannot fetch data, but can run scripts. Therefore, arrays are stored in scripts, as
base64 of a zlib stream.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from rl_clarity.base.errors import ClarityError
from rl_clarity.jobs.directory import is_name

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "float32")
_CALL = "rlClarityChunk"
_LEVEL, _QUICK, _STORED, _MEMORY = 6, 3, 0, 9  # level 9 takes seven times as long and saves a twentieth
_STRATEGIES = (zlib.Z_RLE, zlib.Z_FILTERED)
"""Strategies of zlib that are tried: run-length encoding, and no short matches, which suits differences."""
_SAMPLE = 1 << 16
_SAMPLE_ENTRIES = 9
_INCOMPRESSIBLE = 0.98
_FREE_BYTES = 256 << 20
_MAX_RATIO = 32
"""Largest compression ratio of a chunk that unpacks to more than `_FREE_BYTES`."""


class ArrayEntry(TypedDict):
    """The entry for an array in a chunk's header."""

    dtype: str
    shape: Sequence[int]
    filter: NotRequired[str]


@dataclass(frozen=True)
class Chunk:
    """An encoded chunk: a JSON header and a zlib stream."""

    name: str
    header: str
    payload: bytes

    def script(self) -> bytes:
        """Return the content of the chunk's file beside the page."""
        return f'{_CALL}({json.dumps(self.name)}, {self.header}, "{self._base64()}");\n'.encode("ascii")

    def embedded(self) -> str:
        """Return the HTML element that contains the chunk in a single-file page."""
        return f'<script type="text/plain" data-chunk="{self.name}">{self.header}\n{self._base64()}</script>'

    def _base64(self) -> str:
        return base64.b64encode(self.payload).decode("ascii")


def encode_chunk(
    name: str,
    arrays: Mapping[str, np.ndarray | bytes],
    meta: Mapping[str, object] | None = None,
    *,
    quick: bool = False,
) -> Chunk:
    """Encode arrays of the types in `DTYPES`, or bytes. The same arrays give the same bytes.

    Signed bytes, such as the codes of attribution, are stored channel by channel, because the distributions of channels
    differ. They are stored as differences along their first axis if that makes them smaller. Pixels of frames
    (n, H, W, C) are stored channel by channel if that makes them smaller.

    With `quick`, for servers that encode on request, arrays are not reordered and are compressed with less effort.
    Raises ClarityError for an invalid name and for arrays of unsupported types.
    """
    if not is_name(name):
        raise ClarityError(f"invalid chunk name {name!r}")
    entries: dict[str, ArrayEntry] = {}
    parts = []
    for key, array in arrays.items():
        entries[key], data = _encoded(key, array, quick)
        parts.append(data)
    header = {"arrays": entries} | ({"meta": dict(meta)} if meta else {})
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    stream = b"".join(parts)
    return Chunk(name, text, _compress(stream, _QUICK, zlib.Z_FILTERED) if quick else _deflate(stream))


def decode_chunk(chunk: Chunk) -> dict[str, np.ndarray]:
    """Return the arrays of a chunk. Bytes are returned as uint8.

    Raises ClarityError if the stream does not match the header, or would unpack to more bytes than allowed.
    """
    try:
        entries = json.loads(chunk.header)["arrays"]
        sizes = {key: _byte_count(entry) for key, entry in entries.items()}
        stream = _inflate(chunk.payload, sum(sizes.values()))
        arrays, offset = {}, 0
        for key, entry in entries.items():
            arrays[key] = _decoded(entry, stream[offset : offset + sizes[key]])
            offset += sizes[key]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise ClarityError(f"chunk {chunk.name} is damaged: {error}") from error
    return arrays


def parse_script(data: bytes, name: str = "a file") -> Chunk:
    """Parse a script that `Chunk.script` wrote. Raises ClarityError, with the file's `name`, for any other text."""
    match = re.fullmatch(rb'%s\(("[^"]*"), (.*), "([A-Za-z0-9+/=]*)"\);\s*' % _CALL.encode(), data, re.DOTALL)
    if match is None:
        raise ClarityError(f"{name} is not a chunk of a page: it starts with {data[:40]!r}")
    return _chunk(match[1].decode("ascii", "replace")[1:-1], match[2], match[3])


def parse_embedded(name: str, text: str) -> Chunk:
    """Parse the text of an HTML element that `Chunk.embedded` wrote."""
    header, _, payload = text.strip().partition("\n")
    return _chunk(name, header.encode(), payload.strip().encode())


def _chunk(name: str, header: bytes, payload: bytes) -> Chunk:
    try:
        return Chunk(name, header.decode("ascii"), base64.b64decode(payload, validate=True))
    except ValueError as error:
        raise ClarityError(f"chunk {name} is damaged: {error}") from error


def _encoded(key: str, array: np.ndarray | bytes, quick: bool) -> tuple[ArrayEntry, bytes]:
    if isinstance(array, bytes):
        return {"dtype": "bytes", "shape": [len(array)]}, array
    if array.dtype.name not in DTYPES:
        raise ClarityError(f"array {key!r} of a chunk has type {array.dtype}; supported: {', '.join(DTYPES)}")
    entry: ArrayEntry = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.dtype.itemsize > 1:
        return entry, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    if quick:
        return entry, array.tobytes()
    if array.dtype == np.uint8 and array.ndim == 4 and _planes_help(array):
        return {**entry, "filter": "planes"}, _planes(array)
    if array.dtype != np.int8 or array.ndim < 2:
        return entry, array.tobytes()
    filters = []
    if _delta_helps(array):
        filters.append("delta")
        array = _delta(array)
    if array.ndim > 2:
        filters.append("planes")
    if filters:
        entry["filter"] = " ".join(filters)
    return entry, _planes(array)


def _decoded(entry: ArrayEntry, data: bytes) -> np.ndarray:
    dtype = np.dtype("uint8" if entry["dtype"] == "bytes" else entry["dtype"]).newbyteorder("<")
    filters = entry.get("filter", "").split()
    if not {*filters} <= {"delta", "planes"}:
        raise ValueError(f"unknown filter {entry['filter']!r}")
    *rest, last = shape = entry["shape"]
    array = np.frombuffer(data, dtype)
    array = np.moveaxis(array.reshape(last, *rest), 0, -1) if "planes" in filters else array.reshape(shape)
    if "delta" in filters:
        array = np.cumsum(array.view(np.uint8), axis=0, dtype=np.uint8).view(dtype)
    return array.astype(dtype.newbyteorder("="))  # a copy, because the buffer is read-only


def _delta(array: np.ndarray) -> np.ndarray:
    delta = array.view(np.uint8).copy()
    delta[1:] -= array.view(np.uint8)[:-1]
    return delta


def _planes(array: np.ndarray) -> bytes:
    """Return the bytes of an array, ordered by the index of the last axis if it has more than two axes."""
    return (np.moveaxis(array, -1, 0) if array.ndim > 2 else array).tobytes()


def _delta_helps(array: np.ndarray) -> bool:
    """Return whether an array compresses better as differences, judged by a few entries from its middle."""
    few = _middle(array)
    return len(few) > 1 and len(_smallest(_planes(_delta(few)[1:]))) < len(_smallest(_planes(few[1:])))


def _planes_help(array: np.ndarray) -> bool:
    """Return whether an array compresses better channel by channel, judged by a few entries from its middle."""
    few = _middle(array)
    return few.shape[-1] > 1 and len(_smallest(_planes(few))) < len(_smallest(few.tobytes()))


def _middle(array: np.ndarray) -> np.ndarray:
    middle = max(0, len(array) - _SAMPLE_ENTRIES) // 2
    return np.ascontiguousarray(array[middle : middle + _SAMPLE_ENTRIES])


def _smallest(data: bytes) -> bytes:
    """Compress all data with each strategy, and return the smallest result. A sample of the data would not be enough to
    choose a strategy, because channels differ.
    """
    return min((_compress(data, _LEVEL, strategy) for strategy in _STRATEGIES), key=len)


def _deflate(data: bytes) -> bytes:
    middle = max(0, len(data) - _SAMPLE) // 2
    sample = data[middle : middle + _SAMPLE]
    if len(_smallest(sample)) >= _INCOMPRESSIBLE * len(sample):
        return _compress(data, _STORED, zlib.Z_DEFAULT_STRATEGY)
    return _smallest(data)


def _compress(data: bytes, level: int, strategy: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS, _MEMORY, strategy)
    return compressor.compress(data) + compressor.flush()


def _inflate(payload: bytes, size: int) -> bytes:
    """Decompress exactly `size` bytes, so that a stream cannot take more memory than its header says."""
    if size > max(_FREE_BYTES, _MAX_RATIO * len(payload)):
        raise ValueError(f"its {len(payload)} bytes claim to unpack to {size}")
    inflater = zlib.decompressobj()
    data = inflater.decompress(payload, size + 1)
    if len(data) != size or not inflater.eof:
        raise ValueError(f"it does not unpack to {size} bytes")
    return data


def _byte_count(entry: ArrayEntry) -> int:
    dtype, shape = entry["dtype"], entry["shape"]
    if dtype != "bytes" and dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}")
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError(f"invalid shape {shape!r}")
    return math.prod(shape) * (1 if dtype == "bytes" else np.dtype(dtype).itemsize)
