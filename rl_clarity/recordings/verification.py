"""Verify that a recording can be read, and rebuild its lists of episodes and blocks from its data files."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.files import local_path, lock_file, open_regular, sync_folder, write_atomically
from rl_clarity.recordings.blocks import MAGIC, MAX_HEADER_BYTES, PREFIX
from rl_clarity.recordings.layout import (
    BLOCK,
    BLOCKS,
    ENDS,
    EPISODE,
    EPISODES,
    GOING,
    REMOVED,
    STOPPED,
    complete_records,
    decode_episodes,
    encode_episode,
    episode_rows,
    latest_blocks,
)
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.step_arrays import Block

MAX_EPISODES = 10**6
"""Upper limit for the indices of episodes that are rebuilt. It is needed because a damaged block can contain any
index."""


@dataclass(frozen=True)
class RecordingVerification:
    """The result of verifying a recording."""

    location: str
    episodes: int = 0
    """Number of listed episodes."""
    damaged: dict[int, str] = field(default_factory=dict)
    """Reasons why episodes cannot be read, by index."""
    error: str | None = None
    """Reason why no episode can be read."""
    replaced: str | None = None
    """Folder with copies of the files that a repair replaced."""

    @property
    def is_intact(self) -> bool:
        return self.error is None and not self.damaged

    def __str__(self) -> str:
        lines = [f"{self.location}: {self.error}"] if self.error else []
        lines += [f"{self.location}: episode {index}: {reason}" for index, reason in sorted(self.damaged.items())]
        if self.is_intact:
            lines.append(f"{self.location}: all {self.episodes} episodes can be read")
        if self.replaced:
            lines.append(f"The files that were replaced are in {self.replaced}")
        return "\n".join(lines)


def verify_recording(location: str | os.PathLike[str]) -> RecordingVerification:
    """Read all of a recording, and return which episodes are damaged and why."""
    place = os.fspath(location)
    try:
        recording = StoredRecording(location)
    except SamplesError as error:
        return RecordingVerification(place, error=error.message)
    rows, damaged = recording.listing(), _unlisted(RecordingFiles(location))
    for row, problem in rows:
        index = row["episode"]
        if problem is not None:
            damaged[index] = problem
            continue
        try:
            for array in recording.episode(index).fields.values():
                for start in range(0, len(array), 256):
                    np.asarray(array[start : start + 256])
        except SamplesError as error:
            damaged[index] = error.message
    return RecordingVerification(place, len(rows), damaged)


def _unlisted(files: RecordingFiles) -> dict[int, str]:
    """Return the indices of episodes that have blocks but are not listed, with the reason why they are damaged."""
    count = len(decode_episodes(files.read_from(EPISODES, 0), files.path(EPISODES)))
    blocks = np.frombuffer(complete_records(files.read_from(BLOCKS, 0), BLOCK), BLOCK)
    unlisted = np.unique(blocks["episode"][blocks["episode"] >= count]).tolist()
    return dict.fromkeys(unlisted, f"{files.path(EPISODES)} is damaged: it does not list the episode")


def repair_recording(location: str | os.PathLike[str]) -> RecordingVerification:
    """Rebuild `episodes.bin` and `blocks.bin` of a damaged recording from its data files, and verify it.

    Unreadable blocks are omitted, and an episode ends as stopped before the first of them. If the record of an
    episode's beginning is lost, its index is used as its number. Data files are not changed. Copies of replaced files
    are kept in a folder `before-repair-1`, `before-repair-2`, ...

    Raises:
        OptionError: The recording is at an address, not at a path.
        SamplesError: `recording.json` is damaged, another process is writing to the recording, or it cannot be written.
    """
    folder = local_path(os.fspath(location))
    if folder is None:
        raise OptionError(f"{location} is an address; copy the recording to a local disk and repair it there")
    before = verify_recording(folder)
    if before.is_intact:
        return before
    files = RecordingFiles(folder)
    begun = float(files.metadata().get("begun") or 0)
    try:
        with lock_file(folder / EPISODES):
            episodes = _find_episodes(files.read_from(EPISODES, 0))
            blocks = _find_blocks(files, folder)
            replaced = _copy(folder)
            blocks, contents = _rebuild(episodes, blocks, begun)
            write_atomically(folder / BLOCKS, blocks.tobytes())
            write_atomically(folder / EPISODES, contents)
    except BlockingIOError as error:
        raise SamplesError(f"another process is writing to {location}; wait until it has finished") from error
    except OSError as error:
        raise SamplesError(f"cannot repair {location} ({error.strerror or error})") from error
    after = verify_recording(folder)
    return RecordingVerification(after.location, after.episodes, after.damaged, after.error, str(replaced))


def _find_episodes(data: bytes) -> np.ndarray:
    """Return the records of `episodes.bin` that have a correct checksum, at any position in the file."""
    size, position, found = EPISODE.itemsize, 0, []
    while position + size <= len(data):
        record = data[position : position + size]
        is_intact = zlib.crc32(record[:-4]).to_bytes(4, "little") == record[-4:]
        if is_intact:
            found.append(record)
        position += size if is_intact else 1
    records = np.frombuffer(b"".join(found), EPISODE)
    return records[(records["episode"] < MAX_EPISODES) & (records["end"] < len(ENDS))]


def _find_blocks(files: RecordingFiles, folder: Path) -> np.ndarray:
    """Return the records of all readable blocks, in the order of writing."""
    found = []
    for path in sorted(folder.glob("data-*.bin")):
        number = path.stem.partition("-")[2]
        if number.isdecimal() and path.stat().st_size:
            with open_regular(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for record in _scan(data, int(number)):
                    try:
                        is_intact = Block(files, record[0]).is_intact()
                    except SamplesError:
                        is_intact = False
                    if is_intact:
                        found.append(record)
    return np.concatenate(found) if found else np.zeros(0, BLOCK)


def _scan(data: mmap.mmap, number: int) -> Iterator[np.ndarray]:
    """Yield a record (1,) for each range of bytes in a data file that looks like a block."""
    position = data.find(MAGIC)
    while position >= 0:
        _, size, checksum = PREFIX.unpack(data[position : position + PREFIX.size].ljust(PREFIX.size, b"\0"))
        start = position + PREFIX.size
        text = data[start : start + min(size, MAX_HEADER_BYTES)]
        following = position + 1
        if zlib.crc32(text) == checksum:
            try:
                header: dict[str, Any] = json.loads(text)
                steps = next(shape[0] for name, _, shape, _, _ in header["arrays"] if not name.startswith("final_"))
                length = sum(array[3] for array in header["arrays"])
                values = (header["episode"], header["start"], steps, number, position, PREFIX.size + size, length)
                if header["episode"] < MAX_EPISODES:
                    yield np.array([values], BLOCK)
                following = start + size + length
            except (ValueError, TypeError, LookupError, AttributeError, StopIteration, OverflowError, RecursionError):
                pass  # written by another program
        position = data.find(MAGIC, following)


def _rebuild(records: np.ndarray, blocks: np.ndarray, begun: float) -> tuple[np.ndarray, bytes]:
    """Return the blocks to keep, and the content of `episodes.bin`."""
    removed = set(records["episode"][records["end"] == ENDS.index(REMOVED)].tolist())
    latest = latest_blocks(blocks[~np.isin(blocks["episode"], [*removed])])
    known: dict[int, list[dict[str, Any]]] = {}
    for row in episode_rows(records):
        known.setdefault(row["episode"], []).append(row)
    count = 1 + max([-1, *known, *latest["episode"].tolist()])
    bounds = np.searchsorted(latest["episode"], np.arange(count + 1))
    kept, contents = [latest[:0]], []
    for index in range(count):
        own = latest[bounds[index] : bounds[index + 1]]
        starts = np.cumsum(own["steps"], dtype=np.int64) - own["steps"]
        own = own[np.cumprod(own["start"] == starts, dtype=bool)]
        kept.append(own)
        steps, rows = int(own["steps"].sum()), known.get(index, [])
        begin = {"number": index, "environment": 0, "start_time": begun, **(rows[0] if rows else {}), "episode": index}
        ends = [row for row in rows if row["end"] not in (GOING, REMOVED) and row["steps"] == steps]
        stopped = {**begin, "end": STOPPED if steps else REMOVED, "steps": steps, "return": None}
        contents += [{**begin, "end": GOING, "steps": 0, "return": None}, ends[-1] if steps and ends else stopped]
    return np.concatenate(kept), b"".join(map(encode_episode, contents))


def _copy(folder: Path) -> Path:
    """Copy the files that will be replaced to a new folder, and return it."""
    target = next(path for i in itertools.count(1) if not os.path.lexists(path := folder / f"before-repair-{i}"))
    target.mkdir()
    for name in (EPISODES, BLOCKS):
        if (folder / name).exists():
            shutil.copyfile(folder / name, target / name)
            with open_regular(target / name, "r+b") as file:
                os.fsync(file.fileno())
    sync_folder(target)
    return target
