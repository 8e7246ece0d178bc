"""Finished work on disk, so that a job that was stopped goes on where it was.

A task's entry is a JSON file with the key of everything that decided its result, the small facts it found, and the
names of the files it wrote. Files appear under their names only when they are whole, and the entry is written last: a
task is finished when its entry is there, its key is the one that is asked for, and its files are there.
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
from typing import Any, Protocol, TextIO

from rl_clarity.errors import OutputError
from rl_clarity.keys import to_plain

DIRECTORY = ".rl-clarity"
LOCK = "lock"
_ENTRY = re.compile(rf"{re.escape(DIRECTORY)}/[A-Za-z0-9._-]+-[0-9a-f]{{8}}\.json")


class Files(Protocol):
    """A directory, here or remote, whose files are whole or not there."""

    @property
    def location(self) -> str: ...

    def write(self, name: str, data: bytes) -> None: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None: ...

    def names(self) -> Set[str]: ...


class WorkStore:
    """Entries of finished tasks, in `.rl-clarity/` inside the directory that the tasks write to."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._names: Set[str] = frozenset()
        self.refresh()

    def refresh(self) -> None:
        """Look again which files are there: other ranks write too."""
        self._names = self._files.names()

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Facts of a finished task, or None if it must be done (again)."""
        try:
            entry = json.loads(self._files.read(_entry(name)))
            current = entry["key"] == key and all(file in self._names for file in entry["files"])
            facts: dict[str, Any] = entry["facts"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return facts if current else None

    def written(self, tasks: Iterable[str] | None = None) -> set[str]:
        """Names of the files of finished tasks, or of these ones, and of their entries, whatever their keys."""
        entries = self._names if tasks is None else map(_entry, tasks)
        written: set[str] = set()
        for entry in entries:
            if _ENTRY.fullmatch(entry):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    written |= {entry, *json.loads(self._files.read(entry))["files"]}
        return written

    def withdraw(self, name: str) -> None:
        """Forget a task: its files are about to change, and an entry must not speak for what is no longer in them."""
        self._files.remove(_entry(name))

    def enter(self, name: str, key: str, facts: Mapping[str, Any], files: Sequence[str]) -> None:
        """Enter a task as finished."""
        entry = {"facts": facts, "files": list(files), "key": key, "name": name}
        text = json.dumps(to_plain(entry), sort_keys=True, separators=(",", ":"))
        self._files.write(_entry(name), text.encode())


def _entry(name: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
    return f"{DIRECTORY}/{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"


@contextlib.contextmanager
def locked(location: str) -> Iterator[None]:
    """Refuse a second run into the same directory while the context lasts; the lock falls with the process.

    Remote directories and file systems without locks are not locked.
    """
    if "://" in location:
        yield
        return
    path = Path(location) / DIRECTORY / LOCK
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    with _lock(path) as lock:
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        try:
            yield
        finally:
            # The permission may be lost by now; a lock that nobody holds is none.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # a run that wrote nothing leaves nothing
                for folder in made:
                    folder.rmdir()


def _lock(path: Path) -> TextIO:
    """The file, opened and locked, as far as the file system knows locks."""
    import fcntl

    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise OutputError(
                f"{path.parent.parent} is being written by {holder}; wait for it, or use another directory"
            ) from None
        except OSError:
            return lock
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        lock.close()  # a run that ended just now has removed the file: another one counts
