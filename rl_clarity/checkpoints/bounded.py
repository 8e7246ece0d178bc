"""Reading files that may be hostile: nothing is allocated that the file, or a multiple of it, does not hold."""

from __future__ import annotations

import bz2
import lzma
import reprlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from rl_clarity.errors import CheckpointError

MAX_BYTES = 2 << 30
"""No checkpoint of an image agent comes near; what claims to be larger is damaged or hostile."""
FREE_BYTES = 64 << 20
MAX_RATIO = 32
"""Trained weights hardly compress: what unpacks to more than `FREE_BYTES` and to this many times its size is a bomb."""
CHUNK = 1 << 20
LZMA_MEMORY = 128 << 20

_repr = reprlib.Repr()
_repr.maxlevel = 2
_repr.maxstring = _repr.maxother = 80


def brief(value: Any) -> str:
    """`repr` of bounded length: a few shared, nested tuples can have one of terabytes."""
    return _repr.repr(value)


def unpacked_limit(size: int) -> int:
    """Bytes that a compressed file of `size` bytes may unpack to."""
    return min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * size))


def check_size(path: Path) -> int:
    """Size of a file; raises CheckpointError if it is larger than any checkpoint."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise CheckpointError(f"{path} has {size} bytes, more than the {MAX_BYTES} of the largest checkpoint: refused")
    return size


class Source(Protocol):
    """What gives bytes in order: a file, or something unpacked."""

    def read(self, size: int, /) -> bytes: ...


class BoundedReader:
    """A source that counts what it gives, and stops at a limit.

    Raises CheckpointError rather than giving less than was asked for.
    """

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._buffer = b""
        self._position = 0
        self.left = limit

    def read(self, size: int) -> bytes:
        return bytes(self.read_array(size)) if size > CHUNK else self._take(size)

    def read_array(self, size: int) -> bytearray:
        """As `read`, for many bytes: in pieces, so that a size which is not there is never allocated."""
        self._check(size)
        data = bytearray()
        while len(data) < size:
            data += self._take(min(size - len(data), CHUNK))
        return data

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            self._fill(1)
            end = self._buffer.find(b"\n", self._position) + 1 or len(self._buffer)
            line += self._take(end - self._position)
        return line

    def finish(self) -> None:
        """Raise CheckpointError unless the source ends here; what is packed has a checksum at its end."""
        if self._position < len(self._buffer) or self._source.read(CHUNK):
            raise CheckpointError("damaged: more follows where it should end")
        if not getattr(self._source, "complete", True):
            raise CheckpointError("truncated: its end, with the checksum, is missing")

    def _take(self, size: int) -> bytes:
        self._fill(size)
        taken = self._buffer[self._position : self._position + size]
        self._position += size
        self.left -= size
        return taken

    def _fill(self, size: int) -> None:
        self._check(size)
        while len(self._buffer) - self._position < size:
            more = self._source.read(CHUNK)
            if not more:
                missing = size - (len(self._buffer) - self._position)
                raise CheckpointError(f"truncated or damaged: ends {missing} bytes before it should")
            self._buffer = self._buffer[self._position :] + more
            self._position = 0

    def _check(self, size: int) -> None:
        if size > self.left:
            raise CheckpointError(
                f"truncated, damaged or hostile: claims {size} bytes more where at most {self.left} can follow"
            )


class _Unpacked:
    """What a compressed source unpacks to, a piece at a time."""

    def __init__(self, source: BinaryIO, decompress: Any) -> None:
        self._source = source
        self._machine = decompress

    def read(self, size: int, /) -> bytes:
        while not self._machine.eof:
            left_over = getattr(self._machine, "unconsumed_tail", b"")
            hungry = getattr(self._machine, "needs_input", not left_over)
            compressed = self._source.read(CHUNK) if hungry else left_over
            data: bytes = self._machine.decompress(compressed, max(size, 1))
            if data or (hungry and not compressed):
                return data
        return b""

    @property
    def complete(self) -> bool:
        """Whether the end was reached, where the checksum is."""
        return bool(self._machine.eof)


Opener = Callable[[BinaryIO], Source]
_EITHER_HEADER = 32 + zlib.MAX_WBITS  # zlib's or gzip's

DECOMPRESSORS: tuple[tuple[bytes, Opener], ...] = (
    (b"\x78", lambda source: _Unpacked(source, zlib.decompressobj(_EITHER_HEADER))),
    (b"\x1f\x8b", lambda source: _Unpacked(source, zlib.decompressobj(_EITHER_HEADER))),
    (b"BZh", lambda source: _Unpacked(source, bz2.BZ2Decompressor())),
    (b"\xfd7zXZ", lambda source: _Unpacked(source, lzma.LZMADecompressor(memlimit=LZMA_MEMORY))),
    (b"\x5d\x00", lambda source: _Unpacked(source, lzma.LZMADecompressor(memlimit=LZMA_MEMORY))),
)


def decompressor(head: bytes) -> Opener | None:
    """What unpacks a stream that begins so; None if it is not compressed, as far as its first bytes tell."""
    return next((opener for magic, opener in DECOMPRESSORS if head.startswith(magic)), None)
