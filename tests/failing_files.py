"""Failure injection: the n-th write, sync or rename below a folder fails, as on a disk that is full.

Only this process's Python calls are counted: `open` for writing, writes and truncation of files opened so, and the
functions of `os` (which `pathlib`, `shutil` and `tempfile` call). Writes by C libraries (HDF5, `ndarray.tofile`, memory
maps) are not. It needs Linux, whose `/proc` names the file of a descriptor.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from unittest import mock

_PATHS = ("mkdir", "truncate", "symlink", "link", "rename", "replace")
"""Functions of `os` whose last positional argument, or only one, is the path that they change."""
_REMOVALS = ("remove", "unlink", "rmdir")
_DESCRIPTORS = ("write", "pwrite", "writev", "sendfile", "ftruncate", "fsync", "fdatasync")
"""Functions of `os` whose first argument is the descriptor of the file that they change."""


@contextmanager
def failing_files(folder: Path, fail_at: int = 0, *, lasting: bool = False, kill: bool = False) -> Iterator[list[str]]:
    """Make the n-th operation below a folder raise OSError (ENOSPC); yield the operations so far, as they happen.

    A write that fails has written the first half of its data. Removing files never fails.

    Args:
        folder: Operations elsewhere are neither counted nor changed.
        fail_at: Number of the operation that fails, from 1; 0 for none, to count them.
        lasting: All operations after it fail, too.
        kill: After it, nothing below the folder changes any more, as if the process had been killed: removing files
            fails, too.
    """
    files = _Files(folder, fail_at, lasting, kill)
    with ExitStack() as patches:
        for module in (builtins, io):
            patches.enter_context(mock.patch.object(module, "open", files.open))
        patches.enter_context(mock.patch.object(os, "open", files.os_open))
        for name in _PATHS:
            patches.enter_context(mock.patch.object(os, name, files.on_path(name)))
        for name in _REMOVALS:
            patches.enter_context(mock.patch.object(os, name, files.on_removal(name)))
        for name in _DESCRIPTORS:
            patches.enter_context(mock.patch.object(os, name, files.on_descriptor(name)))
        yield files.operations


class _Files:
    """Counts the operations below a folder."""

    def __init__(self, folder: Path, fail_at: int, lasting: bool, kill: bool) -> None:
        self._folder, self._fail_at = os.path.realpath(folder), fail_at
        self._lasting, self._kill = lasting or kill, kill
        self._lock = Lock()
        self._open, self._os_open = io.open, os.open
        self.operations: list[str] = []

    def contains(self, place: Any) -> bool:
        """Whether a path, or the file of a descriptor, is below the folder."""
        path = os.path.realpath(f"/proc/self/fd/{place}" if isinstance(place, int) else os.fsdecode(place))
        return path == self._folder or path.startswith(self._folder + os.sep)

    def count(self, operation: str, place: Any) -> None:
        """Count an operation; raises OSError if it is the one that fails."""
        path = os.path.realpath(f"/proc/self/fd/{place}") if isinstance(place, int) else os.fsdecode(place)
        with self._lock:
            self.operations.append(f"{operation} {path}")
            number = len(self.operations)
        if number == self._fail_at or (self._lasting and 0 < self._fail_at < number):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        """Replace `open`: files for writing below the folder count their writes."""
        if not set(mode) & set("wax+") or not self.contains(file):
            return self._open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int):
            self.count("open", file)
        raw = _CountedFile(self, file, "".join(set(mode) - set("bt")), closefd, opener)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, size)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

    def os_open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        """Replace `os.open`."""
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self.contains(path):
            self.count("open", path)
        return self._os_open(path, flags, *arguments, **options)

    def on_path(self, name: str) -> Callable[..., Any]:
        """Replace a function of `os` that changes a path."""
        real = getattr(os, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            paths = [one for one in arguments if isinstance(one, str | bytes | os.PathLike)]
            exists = name == "mkdir" and os.path.lexists(paths[0])  # which fails with another error
            if not exists and any(self.contains(path) for path in paths):
                self.count(name, paths[-1])
            return real(*arguments, **options)

        return counted

    def on_removal(self, name: str) -> Callable[..., Any]:
        """Replace a function of `os` that removes a path."""
        real = getattr(os, name)

        def removed(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._kill and 0 < self._fail_at <= len(self.operations):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            return real(path, *arguments, **options)

        return removed

    def on_descriptor(self, name: str) -> Callable[..., Any]:
        """Replace a function of `os` that changes an open file."""
        real = getattr(os, name)

        def counted(descriptor: Any, *arguments: Any, **options: Any) -> Any:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            if self.contains(number):
                try:
                    self.count(name, number)
                except OSError:
                    if name in ("write", "pwrite"):
                        data, *others = arguments
                        real(descriptor, memoryview(data).cast("B")[: memoryview(data).nbytes // 2], *others)
                    raise
            return real(descriptor, *arguments, **options)

        return counted


class _CountedFile(io.FileIO):
    """A file that counts each write and truncation."""

    def __init__(self, files: _Files, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._files = files

    def write(self, data: Any) -> int:
        try:
            self._files.count("write", self.fileno())
        except OSError:
            view = memoryview(data).cast("B")
            super().write(view[: len(view) // 2])
            raise
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self._files.count("truncate", self.fileno())
        return super().truncate(size)
