"""Arrays that are filled while an agent acts, in memory or in memory-mapped files.

Trajectories with rendered frames exceed the memory of most machines (8 x 4096 frames of 512 x 512 take 26 GB).
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

_BUFFERED_BYTES = 32 * 2**20


class ArrayWriter(Protocol):
    """An array that is written block by block along one axis."""

    def write(self, block: np.ndarray) -> None:
        """Append a block. It has the array's shape except along that axis."""
        ...

    def finish(self) -> np.ndarray:
        """Return the array for reading. It must have been written completely."""
        ...


class ArrayStore(Protocol):
    """A store in which named arrays are created."""

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        """Create an array that is filled along `axis`, 0 or 1."""
        ...


class MemoryStore:
    """Arrays in memory."""

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        return _MemoryWriter(np.empty(shape, dtype), axis)


class FileStore:
    """Arrays as `.npy` files in an existing folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, axis: int) -> ArrayWriter:
        return _FileWriter(self.folder / f"{name}.npy", shape, dtype, axis)


class StepRecorder:
    """Combines the records of T steps, each of which has arrays (N, ...) by name, into arrays (N, T, ...), or (T * N,
    ...) with `time_first`.
    """

    def __init__(self, store: ArrayStore, num_envs: int, num_steps: int, *, time_first: bool = False) -> None:
        self._store = store
        self._axis = 0 if time_first else 1
        self._size = (num_steps * num_envs,) if time_first else (num_envs, num_steps)
        self._writers: dict[str, ArrayWriter] = {}
        self._buffers: dict[str, list[np.ndarray]] = {}
        self._bytes = 0

    def add(self, record: Mapping[str, np.ndarray]) -> None:
        """Append the next step."""
        for name, array in record.items():
            if name not in self._writers:
                self._writers[name] = self._store.create(name, (*self._size, *array.shape[1:]), array.dtype, self._axis)
            self._buffers.setdefault(name, []).append(array)
            self._bytes += array.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            self._flush()

    def finish(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        self._flush()
        return {name: writer.finish() for name, writer in self._writers.items()}

    def _flush(self) -> None:
        for name, arrays in self._buffers.items():
            self._writers[name].write(np.stack(arrays, axis=1) if self._axis else np.concatenate(arrays))
        self._buffers, self._bytes = {}, 0


class _MemoryWriter:
    def __init__(self, array: np.ndarray, axis: int) -> None:
        self._array, self._axis, self._filled = array, axis, 0

    def write(self, block: np.ndarray) -> None:
        end = self._filled + block.shape[self._axis]
        self._array[(slice(None),) * self._axis + (slice(self._filled, end),)] = block
        self._filled = end

    def finish(self) -> np.ndarray:
        _check_full(self._filled, self._array.shape[self._axis])
        return self._array


class _FileWriter:
    """Writes an array to a `.npy` file. It uses `pwrite` instead of a memory map, because the dirty pages of a map
    would count as this process's memory.
    """

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
        rows = block[None] if self._axis == 0 else block
        row_size = math.prod(self._shape[self._axis :])  # stride between rows, in elements
        step_size = math.prod(self._shape[self._axis + 1 :])
        for i, row in enumerate(rows):
            start = i * row_size + self._filled * step_size
            _write_all(self._file.fileno(), memoryview(row).cast("B"), self._offset + start * self._dtype.itemsize)
        self._filled += block.shape[self._axis]

    def finish(self) -> np.ndarray:
        _check_full(self._filled, self._shape[self._axis])
        os.fsync(self._file.fileno())
        self._file.close()
        return open_array(self._path)


def open_array(path: Path) -> np.ndarray:
    """Memory-map a `.npy` file for reading. Raises OSError or ValueError if it is damaged or holds objects."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def release(array: np.ndarray) -> None:
    """Return the pages of a memory-mapped array to the system. Other arrays are ignored.

    Pages are read again on access. Call this from time to time while reading an array that is larger than memory,
    because pages that were read count as memory of this process.
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
