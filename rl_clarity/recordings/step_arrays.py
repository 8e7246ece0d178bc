"""Arrays of an episode's steps, which are read from data files when they are indexed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.blocks import MAX_HEADER_BYTES, MAX_STEPS, StoredArray, decode_array, decode_header
from rl_clarity.recordings.layout import BLOCKS, data_file
from rl_clarity.recordings.recording_files import RecordingFiles


class Block:
    """Consecutive steps of an episode in a data file."""

    def __init__(self, files: RecordingFiles, record: np.void) -> None:
        self._files = files
        self._episode, self.start, self.steps, number, self._offset, self._header_bytes, self._data_bytes = (
            int(value) for value in record.item()
        )
        self._name = data_file(number)
        self.file = files.path(self._name)
        if self._header_bytes > MAX_HEADER_BYTES or not 0 < self.steps <= MAX_STEPS:
            raise SamplesError(f"{files.path(BLOCKS)} is damaged at episode {self._episode}, step {self.start}")

    @cached_property
    def _stored(self) -> dict[str, StoredArray]:
        data = self._files.read(self._name, self._offset, self._offset + self._header_bytes)
        arrays = decode_header(data, self._offset, self._episode, self.start, self.file)
        end = self._offset + self._header_bytes + self._data_bytes
        for name, array in arrays.items():
            rows = 1 if name.startswith("final_") else self.steps
            if array.shape[:1] != (rows,) or array.start + array.size > end:
                raise SamplesError(f"{self.file} is damaged at byte {self._offset}: {name} has shape {array.shape}")
        return arrays

    @property
    def names(self) -> list[str]:
        return list(self._stored)

    def is_intact(self) -> bool:
        """Return whether all arrays can be read. After a crash, this can be false for the block written last."""
        try:
            for name in self.names:
                self.read(name)
        except SamplesError:
            return False
        return True

    def stored(self, name: str) -> StoredArray:
        """Return the header's description of an array. Raises SamplesError if the block has no array of this name."""
        if name not in self._stored:
            raise SamplesError(f"{self.file} is damaged at byte {self._offset}: {name} is missing")
        return self._stored[name]

    def read(self, name: str) -> np.ndarray:
        """Read and decompress an array (steps, ...)."""
        stored = self.stored(name)
        data = self._files.read(self._name, stored.start, stored.start + stored.size)
        return decode_array(stored, data, self.file)


def intact_blocks(files: RecordingFiles, records: np.ndarray) -> np.ndarray:
    """Return the records of blocks in the order of writing, without the last ones if their blocks did not reach the
    disk.

    Blocks at an address are uploaded before the records that list them, and are not checked.
    """
    if not len(records) or not files.is_local:
        return records
    last = int(records["file"][-1])
    if files.state(data_file(last)) is None:
        # If space was freed, there is a later file. Otherwise the creation of this file did not reach the disk.
        freed = files.state(data_file(last + 1)) is not None
        return records if freed else records[records["file"] != last]
    try:
        is_intact = Block(files, records[-1]).is_intact()
    except SamplesError:
        is_intact = False
    return records if is_intact else records[:-1]


class StepArray:
    """A field (T, ...) of an episode, which is read from its file when it is indexed."""

    def __init__(self, blocks: Sequence[Block], name: str) -> None:
        self._blocks, self._name = blocks, name
        self._starts = np.array([block.start for block in blocks])
        first = blocks[0].stored(name)
        self.dtype = first.dtype
        self.shape = (blocks[-1].start + blocks[-1].steps, *first.shape[1:])
        self._cached: tuple[int, np.ndarray] | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        first, *others = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis:
            first, others = slice(None), [Ellipsis, *others]
        rows = np.arange(len(self))[first]
        values = self._read(np.atleast_1d(rows))
        selected = values[0] if np.ndim(rows) == 0 else values
        if not others:
            return selected
        return selected[tuple(others)] if np.ndim(rows) == 0 else selected[(slice(None), *others)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._read(np.arange(len(self)))
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"<{self._name}: {self.dtype}{self.shape}, read when it is indexed>"

    def _read(self, rows: np.ndarray) -> np.ndarray:
        result = np.empty((len(rows), *self.shape[1:]), self.dtype)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(numbers, kind="stable")  # each block is read once
        for here in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(rows) else ():
            number = int(numbers[here[0]])
            result[here] = self._block(number)[rows[here] - self._starts[number]]
        return result

    def _block(self, number: int) -> np.ndarray:
        if self._cached is None or self._cached[0] != number:
            block = self._blocks[number]
            array = block.read(self._name)
            if array.shape[1:] != self.shape[1:] or array.dtype != self.dtype:
                raise SamplesError(f"{block.file} is damaged: {self._name} changes its shape or type in an episode")
            self._cached = number, array
        return self._cached[1]
