"""Read members of a zip file: checked against their checksum, and never more than the file can honestly hold."""

from __future__ import annotations

import json
import zipfile
from typing import Any, BinaryIO

from rl_clarity.checkpoints.bounded import brief, unpacked_limit
from rl_clarity.errors import CheckpointError

MAGIC = b"PK\x03\x04"
MAX_MEMBERS = 20_000
_ENCRYPTED = 0x1


class SafeZip:
    """A zip file whose members may be read, as long as their sizes add up to less than a bomb's."""

    def __init__(self, file: BinaryIO) -> None:
        self._size = file.seek(0, 2)
        self._left = unpacked_limit(self._size)
        _check_directory(file, self._size)
        self._zip = zipfile.ZipFile(file)
        self.members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            if info.filename in self.members:
                raise CheckpointError(f"has two members called {brief(info.filename)}: refused")
            self.members[info.filename] = info

    def read(self, name: str) -> bytes:
        """All bytes of a member. Raises CheckpointError if it is missing, encrypted, damaged or too large."""
        if name not in self.members:
            raise CheckpointError(f"has no member {brief(name)}; it has {brief(sorted(self.members))}")
        info = self.members[name]
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CheckpointError(f"member {brief(name)} is encrypted or compressed in a way that no program uses here")
        self._left -= info.file_size
        if self._left < 0:
            raise CheckpointError(f"{self._size} bytes that claim to unpack to {info.file_size} and more: refused")
        if info.compress_type == zipfile.ZIP_STORED and info.file_size > self._size:
            raise CheckpointError(f"member {brief(name)} claims {info.file_size} bytes of a file of {self._size}")
        with self._zip.open(info) as member:
            data = member.read(info.file_size)
            if len(data) != info.file_size or member.read(1):  # reading past the end checks the checksum
                raise CheckpointError(f"member {brief(name)} does not have the {info.file_size} bytes it claims")
        return data

    def read_json(self, name: str) -> Any:
        """The JSON value in a member."""
        return parse_json(self.read(name), name)


def parse_json(data: bytes, name: str) -> Any:
    """A JSON value; raises CheckpointError where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name} is not valid JSON ({type(error).__name__}: {str(error)[:200]})") from None


def _check_directory(file: BinaryIO, size: int) -> None:
    """The directory at the end is read as a whole, so its size is looked at first."""
    file.seek(max(0, size - 66_000))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise CheckpointError("truncated or damaged: a zip file without a directory")
    entries = int.from_bytes(tail[at + 10 : at + 12], "little")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    if entries > MAX_MEMBERS or (length != 0xFFFFFFFF and length > MAX_MEMBERS * 1024):
        raise CheckpointError(f"a zip file with {entries} members: refused")
