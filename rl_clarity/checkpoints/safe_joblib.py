"""Read a joblib file as data.

A joblib file is a pickle, in which arrays follow in place as raw bytes, maybe compressed as a whole. A pickle is a
program; this reader knows six names (`ALLOWED`), none of which is the real thing: each stands for a passive object that
collects numbers and checks them. Arrays of objects, which joblib stores as a pickle within the pickle, are refused before
they are read. Nothing is allocated that is larger than what is left of the file.

The layout of files is that of joblib's numpy_pickle module, versions 0.10 to 1.6.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rl_clarity.checkpoints.checkpoint import MAX_BYTES
from rl_clarity.errors import CheckpointError

PLAIN_DTYPE = re.compile(r"[<>=|]?[fiu][1248]|\|?b1|[<>=|]?f2|[?]")
MAX_DEPTH = 32
CHUNK = 1 << 20
ENDINGS = (pickle.UnpicklingError, EOFError, OSError, zlib.error, lzma.LZMAError)
MALFORMED = (IndexError, KeyError, AttributeError, TypeError, ValueError, OverflowError, RecursionError, MemoryError)


def load(path: Path) -> Any:
    """The object in a joblib file: dicts, lists, tuples, numbers, strings and NumPy arrays, or CheckpointError."""
    try:
        with _open(path) as stream:
            return _resolve(_Unpickler(stream).load())
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except ENDINGS as error:
        raise CheckpointError(f"{path} is truncated or damaged: {error or type(error).__name__}") from error
    except MALFORMED as error:
        raise CheckpointError(f"{path} is not a well-formed joblib file: {type(error).__name__}: {error}") from error


def is_joblib(head: bytes) -> bool:
    """Whether a file that begins so may be a joblib file: a pickle of protocol 2 or later, or a compressed stream."""
    return (head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05") or _opener(head) is not None


class _Stream(io.RawIOBase):
    """A stream that counts what it gives, and stops at a limit: a small file may unpack to any size."""

    def __init__(self, source: BinaryIO, limit: int) -> None:
        self._source = source
        self.left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise CheckpointError(f"unpacks to more than {MAX_BYTES} bytes: refused")
        buffer[: len(data)] = data
        return len(data)


class _ZlibReader(io.RawIOBase):
    """joblib's `zlib` compression: one zlib stream."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._inflate = zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        while not self._inflate.eof:
            compressed = self._inflate.unconsumed_tail or self._source.read(CHUNK)
            data = self._inflate.decompress(compressed, max(size, 1))
            if data or not compressed:
                return data
        return b""


OPENERS = (
    (b"\x78", _ZlibReader),
    (b"\x1f\x8b", lambda source: gzip.GzipFile(fileobj=source)),
    (b"BZ", bz2.BZ2File),
    (b"\xfd7zXZ", lzma.LZMAFile),
    (b"\x5d\x00", lzma.LZMAFile),
)


def _opener(head: bytes) -> Any:
    return next((opener for magic, opener in OPENERS if head.startswith(magic)), None)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        opener = _opener(file.peek(8)[:8])
        limit = MAX_BYTES if opener else path.stat().st_size
        source: BinaryIO = opener(file) if opener else file
        yield io.BufferedReader(_Stream(source, limit), CHUNK)


class _Wrapper:
    """Stands for joblib's NumpyArrayWrapper: says what array follows."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def read(self, stream: BinaryIO) -> np.ndarray:
        dtype = _plain_dtype(self.state.get("dtype"))
        shape = _shape(self.state.get("shape"))
        if self.state.get("numpy_array_alignment_bytes") is not None:
            stream.read(stream.read(1)[0])  # padding, after a byte with its length
        size = dtype.itemsize
        for length in shape:
            size *= length
        data = _read_exactly(stream, size)
        order = self.state.get("order")
        array = np.frombuffer(data, dtype)
        return array.reshape(shape[::-1]).T if order == "F" else array.reshape(shape)


class _PickledArray:
    """Stands for an array that was pickled whole; the numbers come with its state."""

    array: np.ndarray

    def set_state(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        dtype, shape = _plain_dtype(dtype), _shape(shape)
        if not isinstance(data, bytes):
            raise CheckpointError(f"an array of shape {shape} does not hold plain numbers: refused")
        self.array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Stands for numpy.dtype: the code and the byte order."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        self.order = "="

    def set_state(self, state: Any) -> None:
        self.order = state[1]


class _Names:
    """The names a file may use, and what each stands for."""

    @staticmethod
    def reconstruct(_kind: Any, shape: Any, _code: Any) -> _PickledArray:
        if tuple(shape) != (0,):
            raise CheckpointError(f"an array is reconstructed with the shape {shape!r}: refused")
        return _PickledArray()

    @staticmethod
    def scalar(dtype: Any, data: Any) -> Any:
        if not isinstance(data, bytes):
            raise CheckpointError("a number is not given as bytes: refused")
        return np.frombuffer(data, _plain_dtype(dtype), count=1)[0].item()

    @staticmethod
    def ordered(items: Any = ()) -> OrderedDict[Any, Any]:
        return OrderedDict(items)


class _Ndarray:
    """Stands for numpy.ndarray where a file names the class of an array."""


ALLOWED: dict[tuple[str, str], Any] = {
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): _Wrapper,
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("collections", "OrderedDict"): _Names.ordered,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    ALLOWED[_module, "_reconstruct"] = _Names.reconstruct
    ALLOWED[_module, "scalar"] = _Names.scalar


class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """The pickle machine in Python, since arrays follow in the same stream, less all that could reach outside."""

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._stream = stream

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise CheckpointError(
                f"names {module}.{name}, which is not data: refused, nothing was run. A checkpoint holds only numbers, "
                "strings and NumPy arrays in dicts; save its parameters and args again as such"
            )
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise CheckpointError(f"refers to an object outside the file ({pid!r}): refused")

    def get_extension(self, code: int) -> Any:
        raise CheckpointError(f"uses the extension code {code} of pickle: refused")

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        if not any(function is allowed for allowed in ALLOWED.values()):
            raise CheckpointError(f"calls {type(function).__name__}, which is not data: refused")
        self.stack[-1] = function(*arguments)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        kind = self.stack.pop()
        if kind is not _Wrapper or arguments:
            raise CheckpointError("makes an object that is not an array: refused")
        self.append(_Wrapper())

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Wrapper):
            target.state = dict(state)
            self.stack[-1] = target.read(self._stream)
        elif isinstance(target, _PickledArray | _Dtype):
            target.set_state(state)
        else:
            raise CheckpointError(f"sets the state of a {type(target).__name__}, which is not data: refused")

    dispatch[pickle.BUILD[0]] = load_build


def _refuse(opcode: str) -> Any:
    def refuse(self: _Unpickler) -> None:
        raise CheckpointError(f"uses the pickle operation {opcode}, which no checkpoint needs: refused")

    return refuse


for _name in ("INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER"):
    _Unpickler.dispatch[getattr(pickle, _name)[0]] = _refuse(_name)


def _plain_dtype(dtype: Any) -> np.dtype:
    if not isinstance(dtype, _Dtype) or not isinstance(dtype.code, str) or not PLAIN_DTYPE.fullmatch(dtype.code):
        code = getattr(dtype, "code", dtype)
        raise CheckpointError(f"an array of type {code!r} does not hold plain numbers: refused before it was read")
    order = dtype.order if dtype.order in ("<", ">") else "="
    return np.dtype(dtype.code).newbyteorder(order)


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape) or len(shape) > 8:
        raise CheckpointError(f"an array has the shape {shape!r}: refused")
    return shape


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    if size > MAX_BYTES:
        raise CheckpointError(f"an array claims {size} bytes: refused")
    parts = []
    while size:
        part = stream.read(min(size, CHUNK))  # in pieces: a size that the file does not hold is never allocated
        if not part:
            raise EOFError(f"{size} bytes of an array are missing")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _resolve(value: Any, depth: int = 0) -> Any:
    """The object with every stand-in replaced by what it stood for."""
    if depth > MAX_DEPTH:
        raise CheckpointError(f"is nested more than {MAX_DEPTH} deep: refused")
    if isinstance(value, _PickledArray):
        return value.array
    if isinstance(value, dict):
        return {key: _resolve(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_resolve(item, depth + 1) for item in value)
    if value is None or isinstance(value, str | bytes | bool | int | float | np.ndarray):
        return value
    raise CheckpointError(f"holds a {type(value).__name__}, which is not data: refused")
