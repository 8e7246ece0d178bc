"""From one record a step to arrays over all steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rl_clarity.recordings.array_stores import ArrayStore, ArrayWriter

_BUFFERED_BYTES = 32 * 2**20


class Recorder:
    """Puts records together: N environments' arrays by name, T times, always with the same names and shapes.

    The arrays have the shapes (N, T, ...), or with `time_first` (T x N, ...).
    """

    def __init__(self, store: ArrayStore, num_envs: int, num_steps: int, *, time_first: bool = False) -> None:
        self._store = store
        self._time_first = time_first
        self._size = (num_steps * num_envs,) if time_first else (num_envs, num_steps)
        self._writers: dict[str, ArrayWriter] = {}
        self._buffers: dict[str, list[np.ndarray]] = {}
        self._bytes = 0

    def add(self, record: Mapping[str, np.ndarray]) -> None:
        """Add what N environments' arrays (N, ...) are at the next step."""
        for name, array in record.items():
            if name not in self._writers:
                shape, axis = (*self._size, *array.shape[1:]), 0 if self._time_first else 1
                self._writers[name] = self._store.create(name, shape, array.dtype, axis)
            self._buffers.setdefault(name, []).append(array)
            self._bytes += array.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            self._flush()

    def finish(self) -> dict[str, np.ndarray]:
        """Return the arrays."""
        self._flush()
        return {name: writer.finish() for name, writer in self._writers.items()}

    def _flush(self) -> None:
        join = np.concatenate if self._time_first else _stack_steps
        for name, arrays in self._buffers.items():
            if arrays:
                self._writers[name].write(join(arrays))
        self._buffers, self._bytes = {}, 0


def _stack_steps(arrays: list[np.ndarray]) -> np.ndarray:
    return np.stack(arrays, axis=1)
