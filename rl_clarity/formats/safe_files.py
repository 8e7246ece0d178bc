"""Read files that may be malicious. One budget limits everything that a file unpacks to, including nested archives."""

from __future__ import annotations

import bz2
import json
import lzma
import reprlib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from rl_clarity.base.errors import CheckpointError

MAX_BYTES = 2 << 30
"""Largest size of a file in bytes. Checkpoints of image agents are smaller."""
FREE_BYTES = 64 << 20
MAX_RATIO = 6
"""Largest compression ratio of a file that unpacks to more than `FREE_BYTES`. Trained weights hardly compress, but the
same numbers may count three times: in a zip file, in a zip file within it, and in several tensors that share a
storage."""
MAX_ITEMS = 250_000
"""Largest number of objects and operations in pickles and JSON. Checkpoints have thousands."""
MAX_JSON = 8 << 20
MAX_DEPTH = 64
"""Largest depth of nested lists and dicts."""
MAX_LINE = 1 << 16
MAX_DIRECTORY = 1 << 20
"""Largest size in bytes of the directory of a zip file, enough for thousands of members."""
CHUNK = 1 << 20
LZMA_MEMORY = 128 << 20
ZIP_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1

_repr = reprlib.Repr()
_repr.maxlevel = 2
_repr.maxstring = _repr.maxother = 80


def brief(value: Any) -> str:
    """Return a `repr` of bounded length. The full `repr` of nested tuples that share items can be terabytes long."""
    if type(value) is int and value.bit_length() > 1024:  # Python refuses to print more than 4300 digits
        return f"an integer of {value.bit_length()} bits"
    return _repr.repr(value)


def check_size(path: Path) -> int:
    """Return a file's size in bytes. Raises CheckpointError if it exceeds MAX_BYTES."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise CheckpointError(f"{path} has {size} bytes; checkpoints may have at most {MAX_BYTES}")
    return size


@dataclass
class Budget:
    """The number of bytes and items that a file, including nested archives, may still unpack to."""

    file_size: int
    bytes: int
    items: int = MAX_ITEMS

    @classmethod
    def for_file(cls, size: int) -> Budget:
        return cls(size, min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * size)))

    def unpack(self, size: int) -> None:
        """Count the bytes of an archive's member before they are read. Raises CheckpointError if the budget is
        exceeded.
        """
        self.bytes -= size
        if self.bytes < 0:
            raise CheckpointError(
                f"a file of {self.file_size} bytes claims to unpack to {size} bytes or more, which is not allowed"
            )

    def spend(self, items: int = 1) -> None:
        """Count items before they are created. Raises CheckpointError if the budget is exceeded."""
        self.items -= items
        if self.items < 0:
            raise CheckpointError(f"contains more than {MAX_ITEMS} items")


class ByteStream(Protocol):
    """A source of bytes in order, such as a file or an unpacked stream."""

    def read(self, size: int, /) -> bytes: ...


class BoundedReader:
    """A reader of at most `limit` bytes of a source. It raises CheckpointError instead of returning fewer bytes than
    requested.
    """

    def __init__(self, source: ByteStream, limit: int, budget: Budget | None = None) -> None:
        self._source = source
        self._buffer = b""
        self._position = 0
        self.left = limit
        self.budget = budget or Budget.for_file(limit)

    def read(self, size: int) -> bytes:
        return bytes(self.read_array(size)) if size > CHUNK else self._take(size)

    def read_array(self, size: int) -> bytearray:
        """Read many bytes in chunks, so that no memory is allocated for bytes that do not exist."""
        self._check(size)
        data = bytearray()
        while len(data) < size:
            data += self._take(min(size - len(data), CHUNK))
        return data

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if len(line) > MAX_LINE:
                raise CheckpointError(f"truncated or damaged: has a line of more than {MAX_LINE} bytes")
            self._fill(1)
            end = self._buffer.find(b"\n", self._position) + 1 or len(self._buffer)
            line += self._take(end - self._position)
        return line

    def finish(self) -> None:
        """Raise CheckpointError unless the source ends here. A compressed source must end with a checksum."""
        if self._position < len(self._buffer) or self._source.read(CHUNK):
            raise CheckpointError("damaged: there are data after its end")
        if not getattr(self._source, "complete", True):
            raise CheckpointError("truncated: the checksum at the end is missing")

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
                raise CheckpointError(f"truncated or damaged: {missing} bytes are missing at its end")
            self._buffer = self._buffer[self._position :] + more
            self._position = 0

    def _check(self, size: int) -> None:
        if size > self.left:
            raise CheckpointError(
                f"truncated, damaged or hostile: claims {size} more bytes, but at most {self.left} can follow"
            )


class _Unpacked:
    """A compressed source that is unpacked in chunks."""

    def __init__(self, source: BinaryIO, decompressor: Any) -> None:
        self._source = source
        self._decompressor = decompressor

    def read(self, size: int, /) -> bytes:
        while not self._decompressor.eof:
            tail = getattr(self._decompressor, "unconsumed_tail", b"")
            needs_input = getattr(self._decompressor, "needs_input", not tail)
            compressed = self._source.read(CHUNK) if needs_input else tail
            data: bytes = self._decompressor.decompress(compressed, max(size, 1))
            if data or (needs_input and not compressed):
                return data
        return b""

    @property
    def complete(self) -> bool:
        """Whether the end of the stream, where the checksum is verified, was reached."""
        return bool(self._decompressor.eof)


Opener = Callable[[BinaryIO], ByteStream]
_EITHER_HEADER = 32 + zlib.MAX_WBITS  # errors of zlib or gzip

DECOMPRESSORS: tuple[tuple[bytes, Opener], ...] = (
    (b"\x78", lambda source: _Unpacked(source, zlib.decompressobj(_EITHER_HEADER))),
    (b"\x1f\x8b", lambda source: _Unpacked(source, zlib.decompressobj(_EITHER_HEADER))),
    (b"BZh", lambda source: _Unpacked(source, bz2.BZ2Decompressor())),
    (b"\xfd7zXZ", lambda source: _Unpacked(source, lzma.LZMADecompressor(memlimit=LZMA_MEMORY))),
    (b"\x5d\x00", lambda source: _Unpacked(source, lzma.LZMADecompressor(memlimit=LZMA_MEMORY))),
)


def decompressor(head: bytes) -> Opener | None:
    """Return the decompressor for a stream with these first bytes, or None if the stream is not compressed."""
    return next((opener for magic, opener in DECOMPRESSORS if head.startswith(magic)), None)


class SafeZip:
    """A zip file whose members count against the budget when they are read, and whose checksums are checked."""

    def __init__(self, file: BinaryIO, budget: Budget | None = None) -> None:
        self._size = file.seek(0, 2)
        self.budget = budget or Budget.for_file(self._size)
        _check_directory(file, self._size)
        self._zip = zipfile.ZipFile(file)
        self.members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            if info.filename in self.members:
                raise CheckpointError(f"has two members called {brief(info.filename)}")
            self.members[info.filename] = info

    def read(self, name: str) -> bytes:
        """Return a member's bytes. Raises CheckpointError if it is missing, encrypted, damaged or too large."""
        if name not in self.members:
            raise CheckpointError(f"has no member {brief(name)}; it has {brief(sorted(self.members))}")
        info = self.members[name]
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CheckpointError(f"member {brief(name)} is encrypted, or compressed by an unsupported method")
        if info.compress_type == zipfile.ZIP_STORED and info.file_size > self._size:
            raise CheckpointError(f"member {brief(name)} claims {info.file_size} bytes in a file of {self._size}")
        self.budget.unpack(info.file_size)
        with self._zip.open(info) as member:
            data = member.read(info.file_size)
            if len(data) != info.file_size or member.read(1):  # reading past the end verifies the checksum
                raise CheckpointError(f"member {brief(name)} does not have the {info.file_size} bytes it claims")
        return data

    def read_json(self, name: str) -> Any:
        """Return the JSON value of a member. Raises CheckpointError in the same cases as `read` and `parse_json`."""
        info = self.members.get(name)
        if info is not None and info.file_size > MAX_JSON:
            raise CheckpointError(f"{name} has {info.file_size} bytes of JSON; at most {MAX_JSON} are allowed")
        return parse_json(self.read(name), name, self.budget)


def parse_json(data: bytes, name: str, budget: Budget) -> Any:
    """Return a JSON value. Raises CheckpointError for JSON that is invalid, too large or too deeply nested."""
    if len(data) > MAX_JSON:
        raise CheckpointError(f"{name} has {len(data)} bytes of JSON; at most {MAX_JSON} are allowed")
    budget.spend(sum(data.count(character) for character in (b",", b"[", b"{")))
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name} is not valid JSON ({type(error).__name__}: {str(error)[:200]})") from None
    _check_depth(value, name)
    return value


def _check_depth(value: Any, name: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise CheckpointError(f"{name} is nested more than {MAX_DEPTH} levels deep")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(item, name, depth + 1)


def _check_directory(file: BinaryIO, size: int) -> None:
    """Check the size of the directory at the end of a zip file, because `zipfile` reads the whole directory at once.
    Raises CheckpointError if it is too large or missing.
    """
    file.seek(max(0, size - 66_000))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise CheckpointError("truncated or damaged: it is a zip file without a directory")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    at_64 = tail.rfind(b"PK\x06\x06", 0, at)
    if at_64 >= 0:  # torch writes this record, and may write 2**32 - 1 in the 32-bit record
        length = max(length % 0xFFFFFFFF, int.from_bytes(tail[at_64 + 40 : at_64 + 48], "little"))
    if length > MAX_DIRECTORY:
        raise CheckpointError(f"is a zip file with a directory of {length} bytes; at most {MAX_DIRECTORY} are allowed")
