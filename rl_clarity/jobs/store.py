"""Finished work on disk, so that a stopped job can be resumed.

A task's entry is a JSON file with the key of everything that decided its result, the facts it found, and the names of
the files it wrote. Files are written atomically and the entry last: a task is finished when its entry exists with the
expected key, and its files exist.
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

from rl_clarity.errors import OutputError
from rl_clarity.files import lock_file
from rl_clarity.jobs.directory import Directory
from rl_clarity.keys import as_json

DIRECTORY = ".rl-clarity"
LOCK = "lock"
_ENTRY = re.compile(rf"{re.escape(DIRECTORY)}/[A-Za-z0-9._-]+-[0-9a-f]{{8}}\.json")


class WorkStore:
    """Entries of finished tasks, in `.rl-clarity/` inside the output directory."""

    def __init__(self, files: Directory) -> None:
        self._files = files
        self._names: Set[str] = frozenset()
        self.refresh()

    def refresh(self) -> None:
        """List the files again: other ranks write too."""
        self._names = self._files.names()

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Facts of a finished task, or None if it must be done."""
        try:
            entry = json.loads(self._files.read(_entry(name)))
            current = entry["key"] == key and all(file in self._names for file in entry["files"])
            facts: dict[str, Any] = entry["facts"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return facts if current else None

    def written(self, tasks: Iterable[str] | None = None) -> set[str]:
        """Names of the files and entries of all finished tasks, or of the given ones, whatever their keys."""
        entries = self._names if tasks is None else map(_entry, tasks)
        written: set[str] = set()
        for entry in entries:
            if _ENTRY.fullmatch(entry):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    written |= {entry, *json.loads(self._files.read(entry))["files"]}
        return written

    def withdraw(self, name: str) -> None:
        """Remove a task's entry, before its files change."""
        self._files.remove(_entry(name))

    def enter(self, name: str, key: str, facts: Mapping[str, Any], files: Sequence[str]) -> None:
        """Record a task as finished."""
        entry = {"facts": facts, "files": list(files), "key": key, "name": name}
        self._files.write(_entry(name), as_json(entry).encode())


def _entry(name: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
    return f"{DIRECTORY}/{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"


@contextlib.contextmanager
def locked(location: str) -> Iterator[None]:
    """Lock a directory against a second run; the lock is released when the process ends.

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
            # Permission may be lost by now; a lock file that nobody holds does no harm.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # leave no empty folders
                for folder in created:
                    folder.rmdir()


def _lock(path: Path) -> TextIO:
    """The open lock file, locked if the file system supports locks."""
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
        lock.close()  # a run that just ended has removed this file: lock the new one
