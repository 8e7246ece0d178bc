"""Encode and decode blocks of steps, in which a recording stores arrays. `docs/recording-format.md` describes the
layout.

A block contains a few consecutive steps of one episode, and each field as one compressed array. Sizes are checked
before anything is decompressed, and nothing in a block is executed.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard

from rl_clarity.base.errors import SamplesError
from rl_clarity.base.keys import as_json

MAGIC = b"RLCB"
MAX_STEPS = 32
"""Largest number of steps in a block. At most two blocks of an episode are not yet on disk: the current one and the one
before."""
MAX_BYTES = 4 * 2**20
"""Largest size of a block's arrays before compression, unless a single step is larger. It limits the cost of reading
one step."""
MAX_ARRAY_BYTES = 2**28
MAX_HEADER_BYTES = 2**20
LEVEL = 3
"""Compression level of Zstandard. Higher levels are much slower and hardly smaller."""

PREFIX = struct.Struct("<4sII")  # magic, size of the header, CRC-32 of the header
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_TYPES = frozenset(np.dtype(code).newbyteorder("<").str for code in "?bBhHiIqQefd")


@dataclass(frozen=True)
class StoredArray:
    """An array of a block, as its header describes it."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    """Position of the compressed data in the file of blocks."""
    size: int
    """Compressed size in bytes."""
    differences: bool
    """Whether rows of images are stored as differences from the row above, as by the filter "Up" of PNG."""


def encode_block(
    episode: int, start: int, arrays: Mapping[str, np.ndarray], filters: dict[str, bool]
) -> tuple[bytes, bytes]:
    """Return the header and the data of a block.

    Args:
        episode: Index of the episode.
        start: The block's first step.
        arrays: Arrays by name.
        filters: Whether to store differences, by name. Entries for new names are added, with whichever is smaller.
    """
    entries, parts = [], []
    for name, array in arrays.items():
        data, differences = _compress(name, array, filters)
        entries.append([name, array.dtype.str, list(array.shape), len(data), differences])
        parts.append(data)
    header = as_json({"arrays": entries, "episode": episode, "start": start}).encode()
    return PREFIX.pack(MAGIC, len(header), zlib.crc32(header)) + header, b"".join(parts)


def decode_header(data: bytes, position: int, episode: int, start: int, file: str) -> dict[str, StoredArray]:
    """Return the arrays of a block by name, as its header describes them.

    Args:
        data: The header.
        position: Position of the block in its file.
        episode: Index of the episode that the block must belong to.
        start: The block's first step.
        file: Name of the file, for messages.

    Raises:
        SamplesError: The header is damaged, or declares arrays of invalid names, types or sizes.
    """
    try:
        magic, size, checksum = PREFIX.unpack_from(data)
        text = data[PREFIX.size :]
        if magic != MAGIC or len(text) != size or zlib.crc32(text) != checksum:
            raise ValueError("wrong checksum")
        header = json.loads(text)
        if header["episode"] != episode or header["start"] != start:
            raise ValueError("it belongs to another episode")
        arrays: dict[str, StoredArray] = {}
        next_array = position + len(data)
        for name, dtype, shape, length, differences in header["arrays"]:
            check_name(name)
            if dtype not in _TYPES or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
                raise ValueError(f"array {name} of type {dtype!r} and shape {shape}")
            array = StoredArray(name, np.dtype(dtype), tuple(shape), next_array, length, differences is True)
            if _byte_count(array) > MAX_ARRAY_BYTES or type(length) is not int or length < 0:
                raise ValueError(f"array {name} of shape {shape} is too large")
            arrays[name] = array
            next_array += length
    except (ValueError, TypeError, KeyError, RecursionError, struct.error, SamplesError) as error:
        raise SamplesError(f"{file} is damaged at byte {position} ({error})") from error
    return arrays


def decode_block(data: bytes, file: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file that is a single block, of episode 0 and step 0. Raises SamplesError if it is
    damaged.
    """
    size = PREFIX.unpack_from(data)[1] if len(data) >= PREFIX.size else 0
    stored = decode_header(data[: PREFIX.size + size], 0, 0, 0, file)
    return {name: decode_array(one, data[one.start : one.start + one.size], file) for name, one in stored.items()}


def decode_array(stored: StoredArray, data: bytes, file: str) -> np.ndarray:
    """Decompress an array. Raises SamplesError if the data are damaged or do not have the declared size."""
    expected = _byte_count(stored)
    try:
        # Check this first, because a decompressor allocates the size that the data declare.
        if zstandard.frame_content_size(data) != expected:
            raise ValueError(f"the data declare another size than {expected} bytes")
        raw = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False) if expected else b""
    except (ValueError, zstandard.ZstdError) as error:
        raise SamplesError(f"{file} is damaged at byte {stored.start}: {stored.name} ({error})") from error
    array = np.frombuffer(raw, stored.dtype).reshape(stored.shape)
    return np.cumsum(array, axis=1, dtype=np.uint8) if stored.differences else array


def check_name(name: Any) -> None:
    """Raise SamplesError for a name that no field can have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SamplesError(f"invalid field name {name!r}: use letters, digits, '_', '.' and '-'")


def check_type(name: str, array: np.ndarray) -> np.ndarray:
    """Return the array in little-endian order. Raises SamplesError for objects, texts and complex numbers."""
    if array.dtype.str in _TYPES:
        return array
    if array.dtype.kind in "biuf" and array.dtype.newbyteorder("<").str in _TYPES:
        return array.astype(array.dtype.newbyteorder("<"))
    raise SamplesError(f"{name} has type {array.dtype}; a recording holds booleans, integers and real numbers")


def _byte_count(stored: StoredArray) -> int:
    return math.prod(stored.shape) * stored.dtype.itemsize


def _compress(name: str, array: np.ndarray, filters: dict[str, bool]) -> tuple[bytes, bool]:
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    if array.dtype != np.uint8 or array.ndim < 3:
        return compressor.compress(np.ascontiguousarray(array).data), False
    if name in filters:
        array = _differences(array) if filters[name] else array
        return compressor.compress(np.ascontiguousarray(array).data), filters[name]
    # Exact repetitions compress better unfiltered, photographs and noise as differences.
    data = compressor.compress(np.ascontiguousarray(array).data)
    filtered = compressor.compress(_differences(array).data)
    filters[name] = len(filtered) < len(data)
    return (filtered, True) if filters[name] else (data, False)


def _differences(array: np.ndarray) -> np.ndarray:
    result = np.array(array)
    result[:, 1:] -= array[:, :-1]
    return result
