"""The checkpoints of a recording. Each is stored as a complete file in any format (`agents/00000.zip`), or as the
difference from the previous file (`agents/00001.zip.diff`).

A difference reproduces a file exactly, or with rounded weights (`rounded_weights`). Its size depends on the format. For
files that are not compressed and have their parameters at the same positions (`torch.save`, safetensors, `.npz`), it is
about half the size of the file, or a quarter with rounded weights.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
import zstandard

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.layout import AGENTS
from rl_clarity.recordings.metadata import LARGEST_TOLERANCE
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.rounded_weights import EXPONENTS, RoundedWeights

if TYPE_CHECKING:
    from rl_clarity.recordings.recording_writer import AgentSource, RecordingWriter

DIFFERENCE = ".diff"
"""Suffix of a file that contains a checkpoint as the difference from the previous one."""
FULL_EVERY = 32
"""Largest number of files from which a checkpoint is rebuilt."""
LARGEST_SHARE = 0.9
"""Largest size of a difference that is stored, as a fraction of the size of the complete file."""
MAX_BYTES = 2**33
BUDGET = 200_000_000
KEPT = 4
"""Number of rebuilt checkpoints that are kept as files."""
WORD = 4
LEVEL = 3
_HEADER = struct.Struct("<4sQ32s")  # magic, size and SHA-256 of the file
_MAGIC = b"RLCD"
_ROUNDED_MAGIC = b"RLCW"
_COUNT = struct.Struct("<I")
_WEIGHTS = struct.Struct("<QQi")


def encode_difference(data: bytes, base: bytes, weights: Sequence[RoundedWeights] = ()) -> bytes:
    """Return the difference between a file and `base`, compressed with Zstandard. Rounded weights are stored as
    differences of their multiples, and all other bytes as their XOR. In words of 4 bytes, bytes of equal significance
    are grouped together, because they compress better.
    """
    new, old = np.frombuffer(data, np.uint8), _resized(base, len(data))
    changes = [_zigzag(one.multiples(new) - one.multiples(old)).view(np.uint8) for one in weights]
    changed = np.concatenate([*changes, (new ^ old)[_others(len(data), weights)]])
    whole = len(changed) // WORD * WORD
    planes = changed[:whole].reshape(-1, WORD).T
    body = zstandard.ZstdCompressor(level=LEVEL).compress(planes.tobytes() + changed[whole:].tobytes())
    listed = _COUNT.pack(len(weights)) + b"".join(_WEIGHTS.pack(*one) for one in weights) if weights else b""
    header = _HEADER.pack(_ROUNDED_MAGIC if weights else _MAGIC, len(data), hashlib.sha256(data).digest())
    return header + listed + body


def decode_difference(difference: bytes, base: bytes, file: str) -> bytes:
    """Rebuild a checkpoint file from `base` and a difference. Raises SamplesError if either is damaged."""
    size, digest = _read_header(difference, file)
    try:
        weights, start = _read_weights(difference, size)
        body = difference[start:]
        if zstandard.frame_content_size(body) != size:
            raise ValueError("it does not have the declared size")
        changed = np.frombuffer(zstandard.ZstdDecompressor().decompress(body), np.uint8)
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise SamplesError(f"{file} is damaged ({error})") from error
    whole = size // WORD * WORD
    changed = np.concatenate([changed[:whole].reshape(WORD, -1).T.ravel(), changed[whole:]])
    old = _resized(base, size)
    others = _others(size, weights)
    result = old.copy()
    result[others] ^= changed[size - np.count_nonzero(others) :]
    position = 0
    for one in weights:
        change = changed[position : position + WORD * one.size].view("<u4")
        result[one.place] = one.values(one.multiples(old) + _unzigzag(change))
        position += WORD * one.size
    data = result.tobytes()
    if hashlib.sha256(data).digest() != digest:
        raise SamplesError(f"{file} or a checkpoint before it is damaged: the rebuilt file has the wrong hash")
    return data


def check_options(every: int | None, tolerance: float | None) -> None:
    """Raise OptionError for invalid checkpoint options of a recorder."""
    if every is not None and every < 1:
        raise OptionError(f"checkpoint_every={every} must be at least 1, or None")
    if tolerance is not None and not 0 < tolerance <= LARGEST_TOLERANCE:
        raise OptionError(f"checkpoint_tolerance={tolerance} must be None, or above 0 and up to {LARGEST_TOLERANCE:g}")
    if tolerance is not None and every is None:
        raise OptionError(
            f"checkpoint_tolerance={tolerance} needs checkpoint_every, because only checkpoints that are stored as "
            "differences are rounded"
        )


class NewCheckpoints:
    """Stores the checkpoints that a training loop passes to a recorder.

    A checkpoint is stored when a recorded episode begins, and with `every` also at every n-th update while episodes are
    recorded. Once the stored checkpoints take `limit` bytes, a warning is issued, and only checkpoints with which
    episodes begin are stored.
    """

    def __init__(self, writer: RecordingWriter, every: int | None, limit: int, tolerance: float | None = None) -> None:
        self._writer, self._every, self._limit, self._tolerance = writer, every, limit, tolerance
        self._new: AgentSource | None = None
        self._number: int | None = None
        self._updates, self._due, self._warned = 0, False, False

    def update(self, checkpoint: AgentSource) -> None:
        """Set the checkpoint of the agent that acts from now on."""
        self._new = checkpoint
        self._due = self._due or (self._every is not None and self._updates % self._every == 0)
        self._updates += 1

    def begin(self) -> int | None:
        """Store the current checkpoint if it is not stored yet. Return its number, or None if no checkpoint was set."""
        if self._new is not None:
            self._number = self._writer.add_agent(
                self._new, differences=self._every is not None, tolerance=self._tolerance
            )
            self._new, self._due = None, False
        return self._number

    def step(self) -> int | None:
        """Store the current checkpoint if it is due. Return the number of the last stored checkpoint, or -1 if there is
        none. Without `every`, return None.
        """
        if self._every is None:
            return None
        if self._due and self._writer.agent_bytes < self._limit:
            self.begin()
        elif self._due and not self._warned:
            self._warned = True
            smaller = "" if self._tolerance else " rounded (checkpoint_tolerance=2e-5), or"
            warnings.warn(
                f"checkpoints take {self._writer.agent_bytes / 1e6:.0f} MB after {self._updates} updates, which is the "
                f"limit checkpoint_bytes={self._limit}. From now on, only checkpoints with which recorded episodes "
                "begin are stored, and the later steps of these episodes are explained with them. To avoid this, store "
                f"checkpoints{smaller} less often (checkpoint_every={2 * self._every}), or increase the limit",
                RuntimeWarning,
                stacklevel=3,
            )
        return -1 if self._number is None else self._number


class StoredCheckpoints:
    """Reads the checkpoints of a recording by number."""

    def __init__(self, files: RecordingFiles) -> None:
        self._files = files
        self._names: dict[int, str] = {}
        self._last: tuple[int, bytes] = (-1, b"")
        self._folder: Path | None = None

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints that are stored now, in the order of training."""
        self._names = {number: name for name in self._files.names(AGENTS) if (number := agent_number(name)) >= 0}
        return sorted(self._names)

    def path(self, number: int) -> str | None:
        """Return the path or address of a checkpoint, or None if it does not exist. A checkpoint that is stored as a
        difference is rebuilt in a temporary file, which is deleted after several others have been rebuilt.

        Raises SamplesError if a difference is damaged, or if a checkpoint from which it is rebuilt is missing.
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
        """Return the SHA-256 of a checkpoint that is stored as a difference, or None for other checkpoints."""
        name = self._name(number)
        if name is None or not name.endswith(DIFFERENCE):
            return None
        return _read_header(self._files.read(f"{AGENTS}/{name}", 0, _HEADER.size), self._files.path(name))[1].hex()

    def _read(self, number: int) -> bytes:
        """Return the content of a checkpoint. A difference is decoded from the checkpoints before it."""
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
    """Return the number of a checkpoint from the name of its file, or -1 for other files."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1


def needed_files(used: Callable[[int], bool], names: dict[int, str]) -> set[int]:
    """Return the numbers of the checkpoints that are used, and of those from which they are rebuilt."""
    needed = set()
    for number in sorted(names, reverse=True):
        following = names.get(number + 1, "")
        if used(number) or (number + 1 in needed and following.endswith(DIFFERENCE)):
            needed.add(number)
    return needed


def _read_header(data: bytes, file: str) -> tuple[int, bytes]:
    """Return the size and SHA-256 of the file that is rebuilt from a difference."""
    with suppress(struct.error):
        magic, size, digest = _HEADER.unpack_from(data)
        if magic in (_MAGIC, _ROUNDED_MAGIC) and size <= MAX_BYTES:
            return size, digest
    raise SamplesError(f"{file} is damaged: it is not the difference of a checkpoint")


def _read_weights(difference: bytes, size: int) -> tuple[list[RoundedWeights], int]:
    """Return the rounded weights that a difference lists, and the position of the data that follow. Raises ValueError
    if the weights overlap, or lie outside the file of `size` bytes.
    """
    start = _HEADER.size
    if not difference.startswith(_ROUNDED_MAGIC):
        return [], start
    (count,) = _COUNT.unpack_from(difference, start)
    start += _COUNT.size
    end = start + count * _WEIGHTS.size
    if end > len(difference):
        raise ValueError(f"it is too short to list {count} tensors")
    weights = [RoundedWeights(*numbers) for numbers in _WEIGHTS.iter_unpack(difference[start:end])]
    bounds = [0, *(bound for one in weights for bound in (one.place.start, one.place.stop)), size]
    if bounds != sorted(bounds) or any(one.exponent not in EXPONENTS for one in weights):
        raise ValueError("its tensors overlap, or are not in the file")
    return weights, end


def _others(size: int, weights: Sequence[RoundedWeights]) -> np.ndarray:
    """Return a mask (size,) that is True for the bytes of a file that do not belong to rounded weights."""
    others = np.ones(size, bool)
    for one in weights:
        others[one.place] = False
    return others


def _zigzag(changes: np.ndarray) -> np.ndarray:
    """Map signed numbers (n,) int32 to unsigned ones (n,) uint32, so that numbers of small magnitude stay small (zigzag
    encoding).
    """
    return ((changes << 1) ^ (changes >> 31)).view(np.uint32).astype("<u4")


def _unzigzag(numbers: np.ndarray) -> np.ndarray:
    return ((numbers >> 1) ^ -(numbers & 1)).astype(np.uint32).view(np.int32)


def _resized(data: bytes, size: int) -> np.ndarray:
    """Return the bytes (size,) uint8 of a file, truncated or padded with zeros."""
    array = np.zeros(size, np.uint8)
    known = np.frombuffer(data, np.uint8)[:size]
    array[: len(known)] = known
    return array
