"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

UNFINISHED = ".unfinished"
"""How the names of files end that are still being written."""


def local_path(place: str) -> Path | None:
    """The path of a place on this machine, given as one or as `file://...`; None for an address of another store."""
    if place.startswith("file://"):
        return Path(url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place)


def write_atomically(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write under a temporary name, sync, rename: a reader sees the old file or the new one, never a part.

    `data` is the content, whole or in pieces. An error (a full disk, a lost permission) leaves the old file as it was
    and no temporary file behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make sure that the names of a folder's files are on disk, not only their contents."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
