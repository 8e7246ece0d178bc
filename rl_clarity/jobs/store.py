"""Store finished work on disk, so that a stopped job can be resumed.

The entry of a task is a JSON file with the cache key of everything that determined its result, the facts that it
returned, and the names and checksums of the files that it wrote. Files are written atomically, and the entry is written
last. A task is finished if its entry exists and has the expected key, and its files have the sizes in the entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TextIO

from rl_clarity.base.errors import OutputError
from rl_clarity.base.files import lock_file
from rl_clarity.base.keys import as_json
from rl_clarity.jobs.directory import Checksum, Directory

DIRECTORY = ".rl-clarity"
LOCK = "lock"
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that can occur when reading a file that is missing, damaged, or written by a different version."""
_ENTRY = re.compile(rf"{re.escape(DIRECTORY)}/[A-Za-z0-9._-]+-[0-9a-f]{{8}}\.json")


class WorkStore:
    """The entries of finished tasks, in `.rl-clarity/` inside the output directory."""

    def __init__(self, files: Directory, damaged: Set[str] = frozenset()) -> None:
        """Create the store. Files in `damaged` count as missing."""
        self._files, self._damaged = files, damaged
        self._sizes: Mapping[str, int] = {}
        self.refresh()

    def refresh(self) -> None:
        """List the files again, because other ranks also write."""
        self._sizes = {name: size for name, size in self._files.sizes().items() if name not in self._damaged}

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Return the facts of a finished task, or None if the task must be run."""
        try:
            entry = json.loads(self._files.read(_entry(name)))
            current = entry["key"] == key and all(
                self._sizes.get(file) == size for file, (size, _) in entry["files"].items()
            )
            facts: dict[str, Any] = entry["facts"]
        except UNREADABLE:
            return None
        return facts if current else None

    def written(self, tasks: Iterable[str] | None = None) -> dict[str, Checksum]:
        """Return the checksums of the files and entries of finished tasks, by default of all tasks. Entries with
        outdated keys are included.
        """
        entries = self._sizes if tasks is None else map(_entry, tasks)
        written: dict[str, Checksum] = {}
        for entry in entries:
            if _ENTRY.fullmatch(entry):
                with contextlib.suppress(*UNREADABLE):
                    data = self._files.read(entry)
                    files = json.loads(data)["files"].items()
                    written |= {entry: Checksum.of(data), **{name: Checksum(*checksum) for name, checksum in files}}
        return written

    def damaged(self) -> set[str]:
        """Return the names of files of finished tasks whose content has changed since they were written. This reads all
        files.
        """
        present = ((name, checksum) for name, checksum in self.written().items() if name in self._sizes)
        return {name for name, checksum in present if Checksum.of(self._files.read(name)) != checksum}

    def entries(self, stage: str = "") -> dict[str, dict[str, Any]]:
        """Return the entries `{"facts": ..., "files": ...}` of finished tasks by task name, for one stage or for all
        stages.

        Entries with outdated keys are included. Entries whose files are missing or have a different size are omitted.
        """
        entries = {}
        prefix = f"{DIRECTORY}/{stage}-" if stage else DIRECTORY
        for file in self._sizes:
            if file.startswith(prefix) and _ENTRY.fullmatch(file):
                with contextlib.suppress(*UNREADABLE):
                    entry = json.loads(self._files.read(file))
                    if all(self._sizes.get(name) == size for name, (size, _) in entry["files"].items()):
                        entries[entry["name"]] = {"facts": entry["facts"], "files": [*entry["files"]]}
        return entries

    def withdraw(self, name: str) -> None:
        """Remove a task's entry before its files change."""
        self._files.remove(_entry(name))

    def enter(self, name: str, key: str, facts: Mapping[str, Any], files: Sequence[str]) -> None:
        """Record a task as finished."""
        checksums = {file: self._files.checksum(file) for file in files}
        entry = {"facts": facts, "files": checksums, "key": key, "name": name}
        self._files.write(_entry(name), as_json(entry).encode())


def _entry(name: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
    return f"{DIRECTORY}/{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"


@contextlib.contextmanager
def locked(location: str) -> Iterator[None]:
    """Lock a directory against a second run during the block. The lock is also released if the process ends. Raises
    OutputError if another run has locked it.

    Remote directories and file systems without locks are not locked.
    """
    if "://" in location:
        yield
        return
    path = Path(location) / DIRECTORY / LOCK
    created = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    with _lock(path) as lock:
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        try:
            yield
        finally:
            # The permission may be lost by now; an unlocked lock file is harmless.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # leave no empty folders
                for folder in created:
                    folder.rmdir()


def _lock(path: Path) -> TextIO:
    """Return the open lock file, which is locked if the file system supports locks. Raises OutputError if another
    process has locked it.
    """
    while True:
        try:
            lock = lock_file(path)
        except BlockingIOError as error:
            raise OutputError(
                f"{path.parent.parent} is in use by {error}; wait until it ends, or choose another directory"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        lock.close()  # a run that just ended has removed this file, so lock the new one
