"""The checkpoints of a recording, of any format: `agents/00000.zip`, or the difference of a file from the one before,
`agents/00001.zip.diff`.

A difference is exact. Its size depends on the format: files that are not compressed, with the parameters at the same
places in each (`torch.save`, safetensors, `.npz`), take about half as much as the file itself.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
import zstandard

from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.layout import AGENTS
from rl_clarity.recordings.recording_files import RecordingFiles

if TYPE_CHECKING:
    from rl_clarity.recordings.recording_writer import AgentSource, RecordingWriter

DIFFERENCE = ".diff"
"""Suffix of a difference from the checkpoint of the number before."""
FULL_EVERY = 32
"""A checkpoint is rebuilt from at most so many files."""
LARGEST_SHARE = 0.9
"""A difference that is larger than this share of the file is not stored."""
MAX_BYTES = 2**33
BUDGET = 200_000_000
KEPT = 4
"""Number of rebuilt checkpoints that are kept as files."""
WORD = 4
LEVEL = 3
_HEADER = struct.Struct("<4sQ32s")  # magic, size and SHA-256 of the file
_MAGIC = b"RLCD"


def encode_difference(data: bytes, base: bytes) -> bytes:
    """Return the difference of a file from another one: the XOR of their bytes, those of equal significance in words of
    4 bytes together, by Zstandard.
    """
    changed = np.frombuffer(data, np.uint8) ^ _resized(base, len(data))
    whole = len(changed) // WORD * WORD
    planes = changed[:whole].reshape(-1, WORD).T
    body = zstandard.ZstdCompressor(level=LEVEL).compress(planes.tobytes() + changed[whole:].tobytes())
    return _HEADER.pack(_MAGIC, len(data), hashlib.sha256(data).digest()) + body


def decode_difference(difference: bytes, base: bytes, file: str) -> bytes:
    """Return the file of a difference from `base`. Raises SamplesError if it is damaged."""
    size, digest = _read_header(difference, file)
    try:
        body = difference[_HEADER.size :]
        if zstandard.frame_content_size(body) != size:
            raise ValueError("its size is another one")
        changed = np.frombuffer(zstandard.ZstdDecompressor().decompress(body), np.uint8)
    except (ValueError, zstandard.ZstdError) as error:
        raise SamplesError(f"{file} is damaged ({error})") from error
    whole = size // WORD * WORD
    words = changed[:whole].reshape(WORD, -1).T.ravel()
    data = (np.concatenate([words, changed[whole:]]) ^ _resized(base, size)).tobytes()
    if hashlib.sha256(data).digest() != digest:
        raise SamplesError(f"{file} is damaged, or a checkpoint before it is: the rebuilt file has another hash")
    return data


class NewCheckpoints:
    """The checkpoints that a training loop passes to a recorder: stored where an episode begins, and with `every` at
    every n-th update while episodes are recorded, until checkpoints take more than `limit` bytes.
    """

    def __init__(self, writer: RecordingWriter, every: int | None, limit: int) -> None:
        self._writer, self._every, self._limit = writer, every, limit
        self._new: AgentSource | None = None
        self._number: int | None = None
        self._updates, self._due = 0, False

    def update(self, checkpoint: AgentSource) -> None:
        """Set the checkpoint of the agent that acts from here on."""
        self._new = checkpoint
        self._due = self._due or (self._every is not None and self._updates % self._every == 0)
        self._updates += 1

    def begin(self) -> int | None:
        """Return the number of the checkpoint of an episode that begins."""
        if self._new is not None:
            self._number = self._writer.add_agent(self._new, differences=self._every is not None)
            self._new, self._due = None, False
        return self._number

    def step(self) -> int | None:
        """Return the number of the last stored checkpoint at a step of a recorded episode, None without `every`."""
        if self._every is None:
            return None
        if self._due and self._writer.agent_bytes < self._limit:
            self.begin()
        return -1 if self._number is None else self._number


class StoredCheckpoints:
    """Reads the checkpoints of a recording by number."""

    def __init__(self, files: RecordingFiles) -> None:
        self._files = files
        self._names: dict[int, str] = {}
        self._last: tuple[int, bytes] = (-1, b"")
        self._folder: Path | None = None

    def numbers(self) -> list[int]:
        """Return the numbers of those that are stored now, in the order of training."""
        self._names = {number: name for name in self._files.names(AGENTS) if (number := agent_number(name)) >= 0}
        return sorted(self._names)

    def path(self, number: int) -> str | None:
        """Return the path or address of a checkpoint; of one that is stored as a difference, that of a temporary file,
        which exists until several others were rebuilt.

        Raises SamplesError if a difference is damaged, or a file before it is missing.
        """
        name = self._name(number)
        if name is None or not name.endswith(DIFFERENCE):
            return name and self._files.path(f"{AGENTS}/{name}")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rl-clarity-checkpoints-"))
            finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / name.removesuffix(DIFFERENCE)
        if not path.exists():
            for other in sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)[: 1 - KEPT]:
                other.unlink()
            path.write_bytes(self._read(number))
        return str(path)

    def digest(self, number: int) -> str | None:
        """Return the SHA-256 of a checkpoint that is stored as a difference, None for others."""
        name = self._name(number)
        if name is None or not name.endswith(DIFFERENCE):
            return None
        return _read_header(self._files.read(f"{AGENTS}/{name}", 0, _HEADER.size), self._files.path(name))[1].hex()

    def _read(self, number: int) -> bytes:
        """Return a checkpoint, which is rebuilt from the file before it if it is a difference."""
        differences = []
        while number != self._last[0] and (name := self._name(number) or "").endswith(DIFFERENCE):
            differences.append((number, f"{AGENTS}/{name}"))
            number -= 1
        if number != self._last[0]:
            if not name:
                raise SamplesError(f"{self._files.location} is damaged: checkpoint {number} is missing")
            self._last = number, self._files.read_from(f"{AGENTS}/{name}", 0)
        for number, name in reversed(differences):
            difference = self._files.read_from(name, 0)
            self._last = number, decode_difference(difference, self._last[1], self._files.path(name))
        return self._last[1]

    def _name(self, number: int) -> str | None:
        if number not in self._names:
            self.numbers()
        return self._names.get(number)


def agent_number(name: str) -> int:
    """Return the number of a checkpoint from the name of its file, -1 for other files."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1


def needed_files(used: Callable[[int], bool], names: dict[int, str]) -> set[int]:
    """Return the numbers of the checkpoints that are used, and of those that differences among these build on."""
    needed = set()
    for number in sorted(names, reverse=True):
        following = names.get(number + 1, "")
        if used(number) or (number + 1 in needed and following.endswith(DIFFERENCE)):
            needed.add(number)
    return needed


def _read_header(data: bytes, file: str) -> tuple[int, bytes]:
    """Return size and SHA-256 of the file that a difference leads to."""
    with suppress(struct.error):
        magic, size, digest = _HEADER.unpack_from(data)
        if magic == _MAGIC and size <= MAX_BYTES:
            return size, digest
    raise SamplesError(f"{file} is damaged: it is no difference of checkpoints")


def _resized(data: bytes, size: int) -> np.ndarray:
    """Return the bytes of a file, cut or followed by zeros."""
    array = np.zeros(size, np.uint8)
    known = np.frombuffer(data, np.uint8)[:size]
    array[: len(known)] = known
    return array
