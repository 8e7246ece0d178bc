"""Output directories, which are local or in any store that fsspec supports.

Local files are written atomically: they are written under a temporary name, synced and renamed. Object stores write
files atomically anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

from rl_clarity.base.errors import OutputError
from rl_clarity.base.files import UNFINISHED, local_path, missing_storage, open_regular, write_atomically

_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8", ".png": "image/png"}
_TYPE_KEYWORDS = {"s3": "ContentType", "s3a": "ContentType", "gs": "content_type", "gcs": "content_type"}
_AZURE = ("az", "abfs", "abfss", "adl")


class Checksum(NamedTuple):
    """Size in bytes and SHA-256 of a file's content."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Checksum:
        """Return the checksum of a file with the content `data`."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


class Directory(Protocol):
    """A directory of named files. Names are relative paths with `/`."""

    @property
    def location(self) -> str:
        """Path or URL, as the user passed it."""
        ...

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file atomically. `data` is its content, as a whole or in chunks. Raises OutputError if it cannot be
        written.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return the file's bytes. Raises FileNotFoundError if it does not exist."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def names(self) -> Set[str]:
        """Return the names of all files that are completely written."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Return the sizes in bytes of all files that are completely written, by name."""
        ...

    def links(self) -> Set[str]:
        """Return the names of the symbolic links in the directory. Nothing is written or removed through them."""
        ...

    def checksum(self, name: str) -> Checksum:
        """Return the checksum of the last content that was written to a file through this object, or else of the file's
        current content.
        """
        ...


def open_directory(location: str | os.PathLike[str]) -> Directory:
    """Return the directory at a path, or at a URL such as `s3://bucket/page`."""
    text = os.fspath(location)
    path = local_path(text)
    return RemoteDirectory(text) if path is None else LocalDirectory(path)


def is_name(name: str) -> bool:
    """Return whether a file may have this name. Valid names stay inside the directory, and need no quoting."""
    parts = name.split("/")
    return bool(_NAME.fullmatch(name)) and not any(part in ("", ".", "..") for part in parts)


def remove_empty_folders(directory: Directory, name: str) -> None:
    """Remove the folders inside a local directory that contained a file, if they are empty."""
    if "://" not in directory.location:
        root = Path(directory.location)
        with contextlib.suppress(OSError):
            for folder in (root / name).parents:
                if folder == root:
                    break
                folder.rmdir()


class LocalDirectory:
    """A local directory, which is created when the first file is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: dict[str, Checksum] = {}

    @property
    def location(self) -> str:
        return str(self.path)

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        target, pieces = self._path(name), _CheckedPieces(data)
        link = self._link(target)
        if link is not None:
            raise OutputError(
                f"cannot write {target}: {link} is a link, and files are not written through links; remove it"
            )
        try:
            write_atomically(target, pieces)
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
        self._written[name] = pieces.checksum()

    def read(self, name: str) -> bytes:
        with open_regular(self._path(name), "rb") as file:
            return bytes(file.read())

    def remove(self, name: str) -> None:
        target = self._path(name)
        if self._link(target) is None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                target.unlink()

    def names(self) -> Set[str]:
        return set(self.sizes())

    def sizes(self) -> Mapping[str, int]:
        sizes = {}
        for path in self.path.rglob("*"):
            if not path.name.endswith(UNFINISHED):
                with contextlib.suppress(OSError):  # removed in the meantime, or a dangling link
                    status = path.stat()
                    if stat.S_ISREG(status.st_mode):
                        sizes[path.relative_to(self.path).as_posix()] = status.st_size
        return sizes

    def links(self) -> Set[str]:
        return {path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_symlink()}

    def checksum(self, name: str) -> Checksum:
        return self._written.get(name) or Checksum.of(self.read(name))

    def _path(self, name: str) -> Path:
        return self.path / _checked(name)

    def _link(self, target: Path) -> Path | None:
        """Return the first symbolic link in a path inside the directory, or None."""
        folders = target.parents[: len(target.relative_to(self.path).parts) - 1]
        return next((path for path in (target, *folders) if path.is_symlink()), None)


class RemoteDirectory:
    """A directory in a store that fsspec supports (`gs://`, `s3://`, `az://`, `memory://`, ...)."""

    def __init__(self, address: str) -> None:
        from fsspec.core import url_to_fs

        self.location = address
        self._protocol = address.split("://", 1)[0]
        try:
            self._files, root = url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise OutputError(f"cannot open {address}: {missing_storage(address, error)}") from error
        self._root = root.rstrip("/")
        self._written: dict[str, Checksum] = {}

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        path, content = self._path(name), b"".join(_pieces(data))
        with self._reached(f"write {self.location}/{name}"):
            self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
            self._files.pipe_file(path, content, **self._content_type(name))
        self._written[name] = Checksum.of(content)

    def read(self, name: str) -> bytes:
        with self._reached(f"read {self.location}/{name}"):
            return bytes(self._files.cat_file(self._path(name)))

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._reached(f"remove {self.location}/{name}"):
            self._files.rm_file(self._path(name))

    def names(self) -> Set[str]:
        return set(self.sizes())

    def sizes(self) -> Mapping[str, int]:
        files: Mapping[str, Any] = {}
        with contextlib.suppress(FileNotFoundError), self._reached(f"list {self.location}"):
            self._files.invalidate_cache(self._root)  # other ranks also write
            files = self._files.find(self._root, detail=True)
        return {path[len(self._root) :].lstrip("/"): int(info["size"]) for path, info in files.items()}

    def links(self) -> Set[str]:
        return frozenset()

    def checksum(self, name: str) -> Checksum:
        return self._written.get(name) or Checksum.of(self.read(name))

    @contextlib.contextmanager
    def _reached(self, what: str) -> Iterator[None]:
        """Convert errors in the block, whose classes depend on the store, to OutputError."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, OutputError, MemoryError):
            raise
        except Exception as error:
            raise OutputError(f"cannot {what}: {str(error) or type(error).__name__}") from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{_checked(name)}"

    def _content_type(self, name: str) -> dict[str, Any]:
        """Return the keyword argument that sets the content type, without which browsers would download the page
        instead of showing it.
        """
        keyword = _TYPE_KEYWORDS.get(self._protocol)
        suffix = PurePosixPath(name).suffix
        content_type = _TYPES.get(suffix) or mimetypes.guess_type(name)[0]
        if content_type and self._protocol in _AZURE:
            from azure.storage.blob import ContentSettings

            return {"content_settings": ContentSettings(content_type=content_type)}
        return {keyword: content_type} if keyword and content_type else {}


class _CheckedPieces:
    """The chunks of a file's content. Their checksum is computed while iterating over them."""

    def __init__(self, data: bytes | Iterable[bytes]) -> None:
        self._data = data
        self._size, self._hash = 0, hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in _pieces(self._data):
            self._size += len(piece)
            self._hash.update(piece)
            yield piece

    def checksum(self) -> Checksum:
        return Checksum(self._size, self._hash.hexdigest())


def _pieces(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


def _checked(name: str) -> str:
    if not is_name(name):
        raise OutputError(
            f"invalid file name {name!r}: it must be inside the directory, and consist of letters, digits and . _ / -"
        )
    return name
