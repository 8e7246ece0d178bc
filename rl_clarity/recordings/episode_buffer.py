"""Buffer the steps of an episode that is being recorded until they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from rl_clarity.agents.actions import count_outputs, policy_entropy
from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.blocks import MAX_BYTES, MAX_STEPS, Filter, check_name, check_type, encode_block
from rl_clarity.recordings.recording_writer import RecordingWriter


class EpisodeBuffer:
    """Collects the steps of an episode in blocks, and passes these to the writing thread.

    It has two sets of arrays, of which one is filled while the other is written.
    """

    def __init__(self, writer: RecordingWriter, thread: ThreadPoolExecutor, facts: Mapping[str, Any]) -> None:
        self._writer, self._thread, self._facts = writer, thread, facts
        self._entropy = 0.0
        """Sum of the policy's entropy over the steps that have been written."""
        self._sets: list[dict[str, np.ndarray]] = []
        self._rows = self._count = self._start = 0
        self._pending: Future[None] | None = None
        self._filters: dict[str, Filter] = {}
        self._index = -1

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        """Copy the values of a step. Raises SamplesError if they do not match those of earlier steps."""
        if not self._sets:
            self._allocate(values)
        elif self._count == self._rows:
            self._hand_over(None, {})
        buffers, count = self._sets[0], self._count
        if len(values) != len(buffers):
            changed = sorted(values.keys() ^ buffers.keys())
            raise SamplesError(
                f"all steps of an episode must have the same fields; this one differs in {', '.join(changed)}"
            )
        for name, value in values.items():
            buffer = buffers.get(name)
            if buffer is None or value.shape != buffer.shape[1:] or value.dtype != buffer.dtype:
                _check_same(name, value, buffer)
            buffer[count] = value  # type: ignore[index]
        self._count += 1

    def last(self, name: str) -> Any:
        """Return the value of a field at the last step."""
        return self._sets[0][name][self._count - 1]

    def finish(self, result: Mapping[str, Any], final: Mapping[str, np.ndarray]) -> None:
        """Write the last block, and wait until it is written."""
        if self._count:
            self._hand_over(result, final)
        if self._pending is not None:
            self._pending.result()

    def _allocate(self, values: Mapping[str, np.ndarray]) -> None:
        step_bytes = sum(check_type(name, value).nbytes for name, value in values.items())
        self._rows = int(np.clip(MAX_BYTES // max(1, step_bytes), 1, MAX_STEPS))
        for name in values:
            check_name(name)
        self._sets = [
            {
                name: np.empty((self._rows, *value.shape), value.dtype.newbyteorder("<"))
                for name, value in values.items()
            }
            for _ in range(2)
        ]

    def _hand_over(self, result: Mapping[str, Any] | None, final: Mapping[str, np.ndarray]) -> None:
        if self._pending is not None:
            self._pending.result()
        arrays = {name: buffer[: self._count] for name, buffer in self._sets[0].items()} | dict(final)
        self._pending = self._thread.submit(self._write, arrays, self._start, self._count, result)
        self._sets.reverse()
        self._start, self._count = self._start + self._count, 0

    def _write(
        self, arrays: Mapping[str, np.ndarray], start: int, steps: int, result: Mapping[str, Any] | None
    ) -> None:
        if start == 0:
            self._index = self._writer.begin(self._facts)
        header, data = encode_block(self._index, start, arrays, self._filters)
        self._writer.append(self._index, start, steps, header, data)
        self._entropy += self._entropy_sum(arrays.get("policy_logits"))
        if result is not None:
            entropy = self._entropy / (start + steps)
            self._writer.end(self._index, {**self._facts, **result, "entropy": entropy})

    def _entropy_sum(self, logits: np.ndarray | None) -> float:
        """Return the sum of the policy's entropy over all steps, or NaN if it is unknown."""
        factors = self._writer.factors
        if logits is None or logits.ndim != 2 or (factors and count_outputs(factors) != logits.shape[1]):
            return math.nan
        with np.errstate(all="ignore"):  # values that are not finite are not stored
            return float(policy_entropy(logits, factors).sum())


def to_array(name: str, value: Any) -> np.ndarray:
    """Convert a number, array or tensor to a NumPy array. Python numbers become float64, except actions, which keep
    their type.

    Tensors of PyTorch, JAX and TensorFlow are copied from their device. bfloat16, which NumPy lacks, becomes float32.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bool | int | float) and name != "actions":
        return np.asarray(float(value))
    short = "bfloat16" in str(getattr(value, "dtype", ""))
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
        value = value.float() if short else value
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return array.astype(np.float32) if short else array


def _check_same(name: str, value: np.ndarray, buffer: np.ndarray | None) -> None:
    """Raise SamplesError unless a value can be stored in a buffer without changing its shape or kind of type."""
    if buffer is None:
        raise SamplesError(f"all steps of an episode must have the same fields; this one differs in {name}")
    if value.shape != buffer.shape[1:]:
        raise SamplesError(f"{name} has shape {value.shape}; it had {buffer.shape[1:]} earlier in the episode")
    if not np.can_cast(value.dtype, buffer.dtype, "same_kind"):
        raise SamplesError(f"{name} has type {value.dtype}; it had {buffer.dtype} earlier in the episode")
