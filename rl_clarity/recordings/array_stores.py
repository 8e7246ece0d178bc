"""Where arrays grow while an agent plays: in memory, or in files that are mapped into memory when they are read.

Trajectories in human-scale pictures are larger than most machines' memory (8 x 4096 frames of 512 x 512 are 26 GB).
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy


class ArrayWriter(Protocol):
    """An array that is filled block by block along one axis."""

    def write(self, block: np.ndarray) -> None:
        """Append a block, of the array's shape but along the axis."""
        ...

    def finish(self) -> np.ndarray:
        """Return the array, which must be full, to be read."""
        ...


class ArrayStore(Protocol):
    """A place for arrays by name."""

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        """Begin an array that is to be filled along `axis`, which is 0 or 1."""
        ...


class MemoryStore:
    """Arrays in this process's memory."""

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        return _MemoryWriter(np.empty(shape, dtype), axis)


class FileStore:
    """Arrays as `.npy` files in a folder that exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        return _FileWriter(self.folder / f"{name}.npy", shape, dtype, axis)


class _MemoryWriter:
    def __init__(self, array: np.ndarray, axis: int) -> None:
        self._array, self._axis, self._filled = array, axis, 0

    def write(self, block: np.ndarray) -> None:
        end = self._filled + block.shape[self._axis]
        where = (slice(None),) * self._axis + (slice(self._filled, end),)
        self._array[where] = block
        self._filled = end

    def finish(self) -> np.ndarray:
        _check_full(self._filled, self._array.shape[self._axis])
        return self._array


class _FileWriter:
    """Writes with `pwrite` rather than through a mapping, whose dirty pages would count as this process's memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> None:
        self._path, self._shape, self._dtype, self._axis = path, shape, np.dtype(dtype), axis
        self._filled = 0
        with path.open("wb") as file:
            header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
            npy.write_array_header_1_0(file, header)
            self._offset = file.tell()
            file.truncate(self._offset + math.prod(shape) * self._dtype.itemsize)
        self._file = path.open("r+b", buffering=0)

    def write(self, block: np.ndarray) -> None:
        block = np.ascontiguousarray(block, self._dtype)
        rows, at = (block[None], 0) if self._axis == 0 else (block, 1)
        row_size = math.prod(self._shape[at:])  # elements from one row to the next
        item_size = math.prod(self._shape[at + 1 :])
        for i, row in enumerate(rows):
            start = i * row_size + self._filled * item_size
            _write_all(self._file.fileno(), memoryview(row).cast("B"), self._offset + start * self._dtype.itemsize)
        self._filled += block.shape[self._axis]

    def finish(self) -> np.ndarray:
        _check_full(self._filled, self._shape[self._axis])
        os.fsync(self._file.fileno())
        self._file.close()
        return open_array(self._path)


def open_array(path: Path) -> np.ndarray:
    """Map a `.npy` file into memory, to be read. Raises OSError or ValueError if it is damaged or holds objects."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def release(array: np.ndarray) -> None:
    """Let the system have the memory back that reading a mapped array took; nothing happens to other arrays.

    The pages are read again when they are looked at again. A program that works through an array larger than its
    memory is to call this from time to time, since what it has read counts as its memory until then.
    """
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _write_all(file: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(file, data, position)
        data, position = data[written:], position + written


def _check_full(filled: int, size: int) -> None:
    if filled != size:
        raise ValueError(f"{filled} of {size} steps of an array were written")
