"""Read a joblib file as data.

A joblib file is a pickle in which the raw bytes of arrays are interspersed. The whole file may be compressed. It may
refer only to the classes and functions in `NAMES`, and each of them is replaced by a passive object that collects and
checks numbers. Arrays of objects, which joblib stores as a pickle within the pickle, are refused before they are read.

The layout is that of joblib's numpy_pickle module, versions 0.10 to 1.6.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import safe_pickle
from rl_clarity.formats.safe_files import BoundedReader, Budget, brief, decompressor
from rl_clarity.formats.safe_pickle import Name, Names, StandIn

PLAIN_DTYPE = re.compile(r"[<>=|]?[fiu][1248]|\|?b1|[?]")


def load(path: Path, budget: Budget) -> Any:
    """Return the object in a joblib file, made of dicts, lists, tuples, numbers, strings and NumPy arrays.

    Raises CheckpointError for a file that is damaged or contains anything else.
    """
    with path.open("rb") as file:
        opener = decompressor(file.peek(8)[:8])
        limit = budget.bytes if opener else budget.file_size
        reader = BoundedReader(opener(file) if opener else file, limit, budget)
        content = safe_pickle.load(reader, NAMES)
        reader.finish()
    return safe_pickle.plain(content, (np.ndarray,), budget)


def is_joblib(head: bytes) -> bool:
    """Return whether a file with these first bytes may be a joblib file: a pickle of protocol 2 or later, or a
    compressed file.
    """
    return (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")) or decompressor(head) is not None


class _Dtype(StandIn):
    """Replaces numpy.dtype. It contains the code and the byte order of a type."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        self.order = "="

    def build(self, state: Any, reader: BoundedReader) -> None:
        self.order = state[1]


class _ArrayWrapper(StandIn):
    """Replaces joblib's NumpyArrayWrapper, which describes the array that follows in the stream."""

    def build(self, state: Any, reader: BoundedReader) -> None:
        if type(state) is not dict:
            raise CheckpointError(f"the description of an array is a {type(state).__name__}, not a dict")
        dtype, shape = _plain_dtype(state.get("dtype")), _shape(state.get("shape"))
        if state.get("numpy_array_alignment_bytes") is not None:
            reader.read(reader.read(1)[0])  # padding follows a byte with its length
        data = reader.read_array(math.prod(shape) * dtype.itemsize)
        self.value = _array(data, dtype, shape, fortran=state.get("order") == "F")


class _PickledArray(StandIn):
    """Replaces an array that NumPy itself pickled. The numbers of the array are in its pickled state."""

    def build(self, state: Any, reader: BoundedReader) -> None:
        _, shape, dtype, fortran, data = state
        dtype, shape = _plain_dtype(dtype), _shape(shape)
        if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
            raise CheckpointError(f"an array of shape {shape} does not contain that many plain numbers")
        self.value = _array(data, dtype, shape, fortran=bool(fortran))


def _reconstruct(_kind: Any, shape: Any, _code: Any) -> _PickledArray:
    if shape != (0,):
        raise CheckpointError(f"an array is created with the shape {brief(shape)} instead of (0,)")
    return _PickledArray()


def _scalar(dtype: Any, data: Any) -> Any:
    if not isinstance(data, bytes):
        raise CheckpointError(f"a number is stored as a {type(data).__name__}, not as bytes")
    return np.frombuffer(data, _plain_dtype(dtype), count=1)[0].item()


NAMES: Names = {
    **safe_pickle.ORDERED_DICT,
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): Name(new=_ArrayWrapper),
    ("numpy", "ndarray"): Name(),
    ("numpy", "dtype"): Name(call=_Dtype),
    **{
        (f"numpy.{core}.multiarray", name): Name(call=call)
        for core in ("core", "_core")
        for name, call in (("_reconstruct", _reconstruct), ("scalar", _scalar))
    },
}


def _plain_dtype(dtype: Any) -> np.dtype:
    code = dtype.code if isinstance(dtype, _Dtype) else dtype
    if not isinstance(dtype, _Dtype) or not isinstance(code, str) or not PLAIN_DTYPE.fullmatch(code):
        raise CheckpointError(f"an array of type {brief(code)} does not contain plain numbers, so it was not read")
    order = dtype.order if dtype.order in ("<", ">") else "="
    return np.dtype(order + np.dtype(code).str[1:])


def _shape(shape: Any) -> tuple[int, ...]:
    if type(shape) is not tuple or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise CheckpointError(f"an array has the invalid shape {brief(shape)}")
    return shape


def _array(data: bytes | bytearray, dtype: np.dtype, shape: tuple[int, ...], *, fortran: bool) -> np.ndarray:
    array = np.frombuffer(data, dtype) if data else np.zeros(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")
