"""Store labeled frames in compressed files, each of which is written once and never changed."""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.base.files import write_atomically

SHARD = 1024
"""Smallest number of frames in a file."""
NO_ACTION, NO_END = 255, 65535
"""Values for frames without an action of the searcher, and without a number of remaining steps."""
KINDS = {
    "frames": np.uint8,  # (n, 64, 64, 3)
    "actions": np.uint8,  # of the searcher, or NO_ACTION
    "critical": bool,  # the alternative (jumping or running on) would fail
    "won": bool,  # the network's episode completes its level
    "remaining": np.uint16,  # steps until it ends, or NO_END for episodes of the searcher
}
"""Arrays of a file, with one row per frame."""
FRAME = (64, 64, 3)
MOST_FRAMES = 1_000_000
"""Largest number of frames in memory. The oldest frames are dropped. Each takes about a kilobyte."""
VALUE_FILES = 80
"""Number of newest files from which the value is learned, because it should be the value of the current network."""


class Shard:
    """Collects the rows of a file before it is written."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in KINDS}

    def __len__(self) -> int:
        return len(self.rows["frames"])

    def add(self, **row: object) -> None:
        """Append a row, with a value for each of `KINDS`."""
        for name, values in self.rows.items():
            values.append(row[name])

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(values, KINDS[name]) for name, values in self.rows.items()}


@dataclass
class Part:
    """A file in memory, with each frame compressed."""

    frames: list[bytes]
    labels: dict[str, np.ndarray]

    @classmethod
    def read(cls, path: Path) -> Part:
        with np.load(path) as arrays:
            labels = {name: arrays[name] for name in KINDS if name != "frames"}
            frames = [zlib.compress(frame.tobytes(), 1) for frame in arrays["frames"]]
        return cls(frames, labels)


@dataclass
class Frames:
    """Labeled frames in memory, from which batches are drawn."""

    read: set[Path] = field(default_factory=set)
    parts: list[Part] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    """Part and row of each frame with a label."""

    def refresh(self, folders: Sequence[Path]) -> None:
        """Read new files, and drop the oldest ones if there are too many frames."""
        for path in [path for folder in folders for path in shards(folder) if path not in self.read]:
            self.read.add(path)
            self.parts.append(Part.read(path))
        while len(self) > MOST_FRAMES:
            self.parts.pop(0)
        useful = [self._useful(number) for number in range(len(self.parts))]
        self.rows = np.concatenate(
            [np.stack([np.full(len(rows), number), rows], axis=1) for number, rows in enumerate(useful)]
        ).astype(np.int32)

    def __len__(self) -> int:
        return sum(len(part.frames) for part in self.parts)

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Return `count` random rows, as arrays of `KINDS`."""
        chosen = [(self.parts[number], row) for number, row in self.rows[rng.integers(len(self.rows), size=count)]]
        frames = b"".join(zlib.decompress(part.frames[row]) for part, row in chosen)
        labels = {
            name: np.stack([part.labels[name][row] for part, row in chosen]) for name in KINDS if name != "frames"
        }
        return {"frames": np.frombuffer(bytearray(frames), np.uint8).reshape(count, *FRAME), **labels}

    def _useful(self, number: int) -> np.ndarray:
        labels = self.parts[number].labels
        recent = number >= len(self.parts) - VALUE_FILES
        return np.flatnonzero((labels["actions"] != NO_ACTION) | (recent & (labels["remaining"] != NO_END)))


def write_shard(folder: Path, number: int, arrays: Mapping[str, Any]) -> None:
    """Write a file of arrays with one row per frame."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_atomically(folder / f"{number:06d}.npz", content.getvalue())


def shards(folder: Path) -> list[Path]:
    """Return the files of a folder in the order of their numbers."""
    return sorted(folder.glob("*.npz"))


def next_number(folder: Path) -> int:
    """Return the number of the next file."""
    existing = shards(folder)
    return int(existing[-1].stem) + 1 if existing else 0


def log(folder: Path, **facts: object) -> None:
    """Append a line with the time and the given facts to `progress.log`, and print it."""
    line = json.dumps({"time": time.strftime("%Y-%m-%d %H:%M:%S"), **facts})
    print(line, flush=True)
    with (folder / "progress.log").open("a") as file:
        file.write(line + "\n")
