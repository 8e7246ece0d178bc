"""Finished work on disk, so that a job that was stopped goes on where it was.

A task's entry is a JSON file with the key of everything that decided its result, the small facts it found, and the
files it wrote with their sizes. The entry is written last: a task is finished when its entry is there, its key is the
one that is asked for, and its files are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.distributed.files import write_atomically
from rl_clarity.errors import OutputError

DIRECTORY = ".rl-clarity"
LOCK = "lock"


def key_of(value: Any) -> str:
    """Hash of a JSON value; equal values have equal keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") else value.tolist()


def code_version() -> str:
    """Hash of the package's Python sources: work done by other code is not reused."""
    root = Path(rl_clarity.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class WorkStore:
    """Entries of finished tasks, in `.rl-clarity/` inside the output directory."""

    def __init__(self, output_dir: Path) -> None:
        self.output_dir = output_dir
        self.directory = output_dir / DIRECTORY
        self._lock: Any = None

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Facts of a finished task, or None if it must be done (again)."""
        try:
            entry = json.loads(self._path(name).read_text("utf-8"))
            current = entry["key"] == key and all(
                (self.output_dir / file).stat().st_size == size for file, size in entry["files"].items()
            )
            facts: dict[str, Any] = entry["facts"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return facts if current else None

    def enter(self, name: str, key: str, facts: Mapping[str, Any], files: Mapping[str, int]) -> None:
        """Enter a task as finished."""
        entry = {"facts": facts, "files": files, "key": key, "name": name}
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), default=_plain)
        write_atomically(self._path(name), text.encode())

    def lock(self) -> None:
        """Refuse a second run into the same directory; the lock falls with the process, however it ends."""
        import fcntl
        import os
        import socket

        self.directory.mkdir(parents=True, exist_ok=True)
        lock = (self.directory / LOCK).open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise OutputError(
                f"{self.output_dir} is being written by {holder}; wait for it, or use another directory"
            ) from None
        except OSError:
            pass  # a file system without locks
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        self._lock = lock

    def unlock(self) -> None:
        """Let others write to the directory."""
        if self._lock is not None:
            (self.directory / LOCK).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _path(self, name: str) -> Path:
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
        return self.directory / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"
