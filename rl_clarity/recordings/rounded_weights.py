"""Round the large weights in a checkpoint file, so that its difference from another file becomes small.

A value is rounded to a multiple of a power of two, and changes by at most `tolerance` times the root mean square of its
tensor. Each file is rounded independently, so errors do not accumulate from one checkpoint to the next.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import torch_file
from rl_clarity.formats.safe_files import ZIP_MAGIC, Budget, SafeZip

SMALLEST = 2**16
"""Smallest number of values of a tensor that is rounded. Smaller tensors take little space."""
MOST_MULTIPLE = 2**30
EXPONENTS = range(-140, 128)
_WEIGHT = re.compile("weight|kernel", re.IGNORECASE)
_DESCRIBED = 8
"""Flag of a zip member whose checksum follows its data."""


class RoundedWeights(NamedTuple):
    """Consecutive float32 values in a file, which are multiples of a power of two."""

    offset: int
    """Position of the first byte."""
    size: int
    exponent: int
    """Exponent of the power of two."""

    @property
    def place(self) -> slice:
        return slice(self.offset, self.offset + 4 * self.size)

    def multiples(self, file: np.ndarray) -> np.ndarray:
        """Return the values in a file (n,) uint8 as integers (size,) int32: the nearest multiples of the power of two.
        Values that are too large or not finite become 0.
        """
        with np.errstate(invalid="ignore"):
            values = file[self.place].view("<f4").astype(np.float64) * 2.0**-self.exponent
        return np.rint(np.where(np.abs(values) < 2**31 - 1, values, 0)).astype(np.int32)

    def values(self, multiples: np.ndarray) -> np.ndarray:
        """Return the float32 values of multiples (size,) as bytes (4 * size,) uint8."""
        return (multiples * 2.0**self.exponent).astype("<f4").view(np.uint8)


def round_weights(data: bytes, tolerance: float) -> tuple[bytes, list[RoundedWeights]]:
    """Return the content of a file with rounded weights, and the positions of these weights.

    A float32 tensor is rounded if it has at least two axes and `SMALLEST` values, its name contains `weight` or
    `kernel`, and the file was written without compression by `torch.save`, Stable-Baselines3, safetensors or
    `np.savez`. Other tensors, tensors with values that are not finite, and files in other formats do not change.
    """
    rounded = np.array(np.frombuffer(data, np.uint8))
    found: list[RoundedWeights] = []
    with suppress(CheckpointError, SafetensorError, zipfile.BadZipFile, ValueError):
        for array in _large_weights(data):
            offset = data.find(array.tobytes())
            scale = math.sqrt(np.mean(np.square(array, dtype=np.float64)))
            overlaps = any(one.offset < offset + array.nbytes and offset < one.place.stop for one in found)
            if offset < 0 or overlaps or not 0 < scale < math.inf:
                continue
            exponent = math.floor(math.log2(2 * tolerance * scale))
            if exponent in EXPONENTS and float(np.abs(array).max()) < MOST_MULTIPLE * 2.0**exponent:
                weights = RoundedWeights(offset, array.size, exponent)
                rounded[weights.place] = weights.values(weights.multiples(rounded))
                found.append(weights)
        return _with_checksums(data, rounded.tobytes()), sorted(found)
    return data, []


def _large_weights(data: bytes) -> Iterator[np.ndarray]:
    """Yield the tensors of a file that are to be rounded."""
    if not data.startswith(ZIP_MAGIC):
        for name, array in load(data).items():
            if _is_rounded(name, array.dtype, array.shape):
                yield array
        return
    archive = SafeZip(io.BytesIO(data))
    if torch_file.is_torch_archive(archive.members):
        file = torch_file.read(io.BytesIO(data), Budget.for_file(len(data)))
        for name, tensor in _named(file.content):
            if tensor.storage.code == "f4" and _is_rounded(name, np.dtype("<f4"), tensor.shape):
                yield file.array(tensor)
        return
    for name, info in archive.members.items():
        if info.compress_type != zipfile.ZIP_STORED:
            continue
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            if _is_rounded(name, array.dtype, array.shape):
                yield array
        elif name.endswith((".pth", ".pt")):
            yield from _large_weights(archive.read(name))


def _named(content: Any, name: str = "") -> Iterator[tuple[str, torch_file.StoredTensor]]:
    if isinstance(content, torch_file.StoredTensor):
        yield name, content
    elif isinstance(content, dict):
        for key, item in content.items():
            yield from _named(item, str(key))


def _is_rounded(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> bool:
    large = len(shape) > 1 and math.prod(shape) >= SMALLEST
    return large and dtype == np.dtype("<f4") and _WEIGHT.search(name) is not None


def _with_checksums(before: bytes, after: bytes) -> bytes:
    """Return the changed content `after` of a file. If it is a zip file, the checksums of its members are corrected."""
    if before == after or not before.startswith(ZIP_MAGIC):
        return after
    data = bytearray(after)
    with zipfile.ZipFile(io.BytesIO(before)) as archive:
        entry = archive.start_dir
        for info in archive.infolist():
            local = info.header_offset
            begin = local + 30 + sum(struct.unpack_from("<HH", before, local + 26))
            end = begin + info.compress_size
            if before[begin:end] != after[begin:end]:
                data[begin:end] = _with_checksums(before[begin:end], after[begin:end])
                checksum = struct.pack("<I", zlib.crc32(data[begin:end]))
                other = end + 4 if info.flag_bits & _DESCRIBED else local + 14
                for position in (other, entry + 16):
                    data[position : position + 4] = checksum
            entry += 46 + sum(struct.unpack_from("<HHH", before, entry + 28))
    return bytes(data)
