"""Functions that write files atomically, open regular files only, and lock files."""

from __future__ import annotations

import errno
import importlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from rl_clarity.base.errors import OutputError

UNFINISHED = ".unfinished"
"""Suffix of files that are being written."""
WINDOWS_LOCK_OFFSET = 2**30
"""Position of the byte that is locked. It lies after the text of the file, because other processes cannot read a locked
byte."""


def local_path(place: str) -> Path | None:
    """Return the path of a local file that is specified as a path or a `file://` URL, or None for any other URL."""
    if place.startswith("file://"):
        return Path(url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place)


def missing_storage(address: str, error: Exception) -> str:
    """Return a message for an error of `fsspec.core.url_to_fs`. If a library is missing, the message contains the extra
    that installs it.
    """
    if not isinstance(error, ImportError):
        return str(error)
    return f'{error} (pip install "rl-clarity[{"hub" if address.startswith("hf://") else "remote"}]")'


def write_atomically(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a temporary file, sync it and rename it, so that readers see either the old file or the complete new one.

    `data` is the content, as a whole or in chunks. After an error the old file is unchanged, and no temporary file
    remains. An OSError contains the file's name.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        create_folder(path.parent)
        with unfinished.open("wb") as file:
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        if error.filename is None or error.filename == str(unfinished):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_output(path: Path, data: bytes, *, overwrite: bool = False) -> None:
    """Write a file to a path that the user passed, in an existing folder. Writing the same content again is allowed.

    Raises OutputError if a file with different content exists and `overwrite` is false, or if the file cannot be
    written.
    """
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: the folder {path.parent} does not exist")
    try:
        if os.path.lexists(path) and not overwrite:
            if path.is_file() and path.read_bytes() == data:
                return
            raise OutputError(f"{path} exists: choose another name, or replace it with overwrite=True (--force)")
        write_atomically(path, data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def final_path(unfinished: Path) -> Path:
    """Return the path that `write_atomically` was about to write when it was killed and left an unfinished file."""
    return unfinished.with_name(unfinished.name.removeprefix(".").removesuffix(UNFINISHED).rpartition(".")[0])


def create_folder(folder: Path) -> None:
    """Create a folder and its parents, if they do not exist.

    Raises OSError if a file or a dangling link exists where a folder is needed. The message contains its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        place = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
        target = f"is a link to {place.readlink()}, which does not exist" if place.is_symlink() else "is a file"
        raise NotADirectoryError(errno.ENOTDIR, f"{place} {target}", str(folder)) from error


def open_regular(path: str | Path, mode: str, buffering: int = -1) -> Any:
    """Open a regular file as `open` does. Unlike `open`, do not wait for a pipe, and do not write through a symbolic
    link.

    Raises OSError, with the file's name, for pipes, devices and folders, and for writing to a symbolic link.
    """

    def opener(name: str, flags: int) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        if writes and Path(path).is_symlink():
            raise OSError(errno.ELOOP, f"{path} is a link, and files are not written through links", name)
        only = getattr(os, "O_NOFOLLOW", 0) if writes else 0
        descriptor = os.open(name, flags | only | getattr(os, "O_NONBLOCK", 0), 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, f"{path} is not a regular file", name)
        return descriptor

    return open(path, mode, buffering, opener=opener)


def lock_file(path: Path) -> TextIO:
    """Open a file and lock it until it is closed or this process ends, if the file system supports locks.

    Raises BlockingIOError, with the text in the file, if another process holds the lock, and OSError for a symbolic
    link.
    """
    create_folder(path.parent)
    file: TextIO = open_regular(path, "a+")
    try:
        _lock(file)
    except BlockingIOError:
        file.seek(0)
        with file:
            text = file.buffer.read().decode(errors="replace").strip()  # a locked file may also contain data
            raise BlockingIOError(text or "another process") from None
    except OSError:
        pass
    return file


def _lock(file: TextIO) -> None:
    """Lock an open file. Raises BlockingIOError if another process has locked it, and OSError if locking fails."""
    try:
        import fcntl
    except ImportError:  # Windows
        msvcrt = importlib.import_module("msvcrt")
        os.lseek(file.fileno(), WINDOWS_LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock_file(file: TextIO) -> None:
    """Close a locked file and release its lock, even if a process that was forked meanwhile also has the file open."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
    file.close()


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that the names of its files are stored, in addition to their contents. Do nothing on
    Windows, which has no such operation.
    """
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
