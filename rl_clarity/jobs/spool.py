"""Store results that are computed in one order and read in another. They can be larger than memory."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence

import numpy as np

HELD_BYTES = 2**24
"""Bytes that are kept in memory. Larger spools use a temporary file."""


class Spool:
    """Rows, each of which consists of `length` float32 arrays of the same shape.

    The temporary file is removed with the object. It is not memory-mapped, because a mapping cannot report that the
    disk is full, and its pages count as memory of this process.
    """

    def __init__(self, length: int, shape: Sequence[int]) -> None:
        self._length, self._shape = length, tuple(shape)
        self._file = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115 (closed with the object)

    def put(self, row: int, start: int, values: np.ndarray) -> None:
        """Store values (n, *shape) of a row, beginning at the index `start`. Raises OSError if the disk is full."""
        try:
            self._file.seek(self._offset(row, start))
            self._file.write(np.ascontiguousarray(values, np.float32).tobytes())
        except OSError as error:  # the descriptor of an unnamed file
            raise OSError(
                error.errno, f"{error.strerror} (set TMPDIR to use a different folder)", tempfile.gettempdir()
            ) from error

    def get(self, row: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Return the values (stop - start, *shape) of a row. All of them must have been stored."""
        stop = self._length if stop is None else stop
        self._file.seek(self._offset(row, start))
        data = self._file.read(self._offset(row, stop) - self._offset(row, start))
        return np.frombuffer(data, np.float32).reshape(stop - start, *self._shape)

    def _offset(self, row: int, index: int) -> int:
        return (row * self._length + index) * 4 * math.prod(self._shape)
