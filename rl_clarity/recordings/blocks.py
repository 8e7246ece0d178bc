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
"""Largest number of steps in a block. At most two blocks of an episode are not yet on disk: the current block and the
previous one."""
MAX_BYTES = 4 * 2**20
"""Largest size of a block's arrays before compression, unless a single step is larger. It limits the cost of reading
one step."""
MAX_ARRAY_BYTES = 2**28
MAX_HEADER_BYTES = 2**20
COLORS = (1, 3)
"""Numbers of channels that a frame in a stack can have."""
WORDS = {4: "<u4", 8: "<u8"}
"""Integer types by number of channels. Each is as large as a pixel with that many channels. Comparing such integers is
several times as fast as comparing bytes."""
LEVEL = 3
"""Compression level of Zstandard. Higher levels are much slower, and their results are hardly smaller."""

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
    """Position of the compressed data in the data file."""
    size: int
    """Compressed size in bytes."""
    differences: bool
    """Whether rows of images are stored as differences from the row above, as in the filter "Up" of PNG."""
    newest: int = 0
    """Number of channels that each step adds to stacked frames (T, H, W, C). After the first step, only these channels
    are stored, because the previous step contains the others. It is 0 if all channels are stored."""

    @property
    def stored_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the arrays that are stored, one after the other."""
        if not self.newest:
            return [self.shape]
        steps, height, width, _ = self.shape
        return [(1, *self.shape[1:]), (steps - 1, height, width, self.newest)]


@dataclass
class Filter:
    """How an array of images is stored before compression. It is chosen for the first block of an episode."""

    differences: bool
    newest: int


def encode_block(
    episode: int, start: int, arrays: Mapping[str, np.ndarray], filters: dict[str, Filter]
) -> tuple[bytes, bytes]:
    """Return the header and the data of a block.

    Args:
        episode: Index of the episode.
        start: The block's first step.
        arrays: Arrays by name.
        filters: How images are stored, by array name. For a new name, the filter that takes less space is chosen and
            added to `filters`.
    """
    entries, parts = [], []
    for name, array in arrays.items():
        data, used = _compress(name, array, filters)
        newest = [used.newest] if used.newest else []
        entries.append([name, array.dtype.str, list(array.shape), len(data), used.differences, *newest])
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
        SamplesError: The header is damaged, or declares arrays with invalid names, types or sizes.
    """
    try:
        magic, size, checksum = PREFIX.unpack_from(data)
        text = data[PREFIX.size :]
        if magic != MAGIC or len(text) != size or zlib.crc32(text) != checksum:
            raise ValueError("wrong checksum")
        header = json.loads(text)
        if header["episode"] != episode or header["start"] != start:
            raise ValueError("it does not belong to the expected episode and step")
        arrays: dict[str, StoredArray] = {}
        next_array = position + len(data)
        for name, dtype, shape, length, differences, *others in header["arrays"]:
            check_name(name)
            if dtype not in _TYPES or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
                raise ValueError(f"array {name} has an invalid type or shape: {dtype!r}, {shape}")
            newest = _newest(others, np.dtype(dtype), shape)
            array = StoredArray(name, np.dtype(dtype), tuple(shape), next_array, length, differences is True, newest)
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
    expected = sum(map(math.prod, stored.stored_shapes)) * stored.dtype.itemsize
    try:
        # Check this first, because a decompressor allocates the size that the data declare.
        if zstandard.frame_content_size(data) != expected:
            raise ValueError(f"the data do not declare a size of {expected} bytes")
        raw = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False) if expected else b""
    except (ValueError, zstandard.ZstdError) as error:
        raise SamplesError(f"{file} is damaged at byte {stored.start}: {stored.name} ({error})") from error
    arrays, start = [], 0
    for shape in stored.stored_shapes:
        count = math.prod(shape)
        array = np.frombuffer(raw, stored.dtype, count, start * stored.dtype.itemsize).reshape(shape)
        arrays.append(np.cumsum(array, axis=1, dtype=np.uint8) if stored.differences else array)
        start += count
    return _with_stacks(stored, *arrays) if stored.newest else arrays[0]


def _with_stacks(stored: StoredArray, first: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Return stacked frames (T, H, W, C) from the first stack (1, H, W, C) and the frames that each step added."""
    result = np.empty(stored.shape, stored.dtype)
    result[0] = first[0]
    for step in range(1, len(result)):
        result[step, ..., : -stored.newest] = result[step - 1, ..., stored.newest :]
        result[step, ..., -stored.newest :] = newest[step - 1]
    return result


def check_name(name: Any) -> None:
    """Raise SamplesError if a name is not a valid field name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SamplesError(f"invalid field name {name!r}: use letters, digits, '_', '.' and '-'")


def check_type(name: str, array: np.ndarray) -> np.ndarray:
    """Return the array in little-endian order. Raises SamplesError for objects, strings and complex numbers."""
    if array.dtype.str in _TYPES:
        return array
    if array.dtype.kind in "biuf" and array.dtype.newbyteorder("<").str in _TYPES:
        return array.astype(array.dtype.newbyteorder("<"))
    raise SamplesError(f"{name} has type {array.dtype}; a recording can store booleans, integers and real numbers")


def _byte_count(stored: StoredArray) -> int:
    return math.prod(stored.shape) * stored.dtype.itemsize


def _newest(others: list[Any], dtype: np.dtype, shape: list[int]) -> int:
    """Return the number of channels that each step adds to stacked frames, or 0 if the header does not contain it.
    Raises ValueError for an invalid number.
    """
    if not others:
        return 0
    (newest,) = others
    if type(newest) is not int or dtype != np.uint8 or len(shape) != 4 or not shape[0] or not 0 < newest < shape[3]:
        raise ValueError(f"a step cannot add {newest!r} channels to frames of type {dtype} and shape {shape}")
    return newest


def _compress(name: str, array: np.ndarray, filters: dict[str, Filter]) -> tuple[bytes, Filter]:
    if array.dtype != np.uint8 or array.ndim < 3:
        return _compressed([array]), Filter(False, 0)
    known = filters.get(name)
    newest = _added_channels(array, known)
    parts = [array[:1], array[1:, ..., -newest:]] if newest else [array]
    if known is not None:
        parts = [_differences(part) for part in parts] if known.differences else parts
        return _compressed(parts), Filter(known.differences, newest)
    # Exact repetitions compress better unfiltered; photographs and noise compress better as differences.
    data, filtered = _compressed(parts), _compressed([_differences(part) for part in parts])
    filters[name] = Filter(len(filtered) < len(data), newest)
    return (filtered if filters[name].differences else data), filters[name]


def _compressed(parts: list[np.ndarray]) -> bytes:
    """Return the concatenated content of arrays as a Zstandard frame."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    if len(parts) == 1:
        return bytes(compressor.compress(np.ascontiguousarray(parts[0]).data))
    return bytes(compressor.compress(b"".join(np.ascontiguousarray(part).data for part in parts)))


def _added_channels(array: np.ndarray, known: Filter | None) -> int:
    """Return how many channels each step adds to stacked frames (T, H, W, C), or 0 for other arrays."""
    if array.ndim != 4 or len(array) < 2:
        return 0
    channels = array.shape[3]
    for added in COLORS if known is None else (known.newest,):
        if (
            0 < added < channels
            and channels % added == 0
            and _is_stacked(array[:2], added)
            and _is_stacked(array, added)
        ):
            return added
    return 0


def _is_stacked(array: np.ndarray, added: int) -> bool:
    """Return whether the stack at each step equals the previous stack without its oldest `added` channels, followed by
    as many new channels.
    """
    channels = array.shape[3]
    if channels not in WORDS or not array.flags.c_contiguous:
        return np.array_equal(array[1:, ..., :-added], array[:-1, ..., added:])
    words = array.view(WORDS[channels])  # a pixel of all frames as a number, whose lowest byte is of the oldest frame
    kept = np.array((1 << 8 * (channels - added)) - 1, words.dtype)
    return np.array_equal(words[1:] & kept, words[:-1] >> np.array(8 * added, words.dtype))


def _differences(array: np.ndarray) -> np.ndarray:
    result = np.array(array)
    result[:, 1:] -= array[:, :-1]
    return result
