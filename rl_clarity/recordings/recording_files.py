"""Access the files of a recording in a local folder, or at an address that fsspec supports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rl_clarity.base.errors import SamplesError
from rl_clarity.base.files import local_path, missing_storage, open_regular
from rl_clarity.recordings.layout import METADATA
from rl_clarity.recordings.metadata import MAX_BYTES, decode_metadata


class RecordingFiles:
    """The files of a recording at a path or an address."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        from fsspec.core import url_to_fs

        self.location = os.fspath(location).rstrip("/")
        try:
            self._files, root = url_to_fs(self.location)
        except (ImportError, ValueError) as error:
            raise SamplesError(f"cannot open {location}: {missing_storage(self.location, error)}") from error
        self._root = str(root).rstrip("/")
        self.is_local = local_path(self.location) is not None

    def path(self, name: str) -> str:
        """Return the path or address of a file."""
        return f"{self.location}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether a file with this name exists."""
        try:
            return self.size(name) >= 0
        except FileNotFoundError:
            return False

    def size(self, name: str) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if it does not exist, and SamplesError if it is
        not a regular file.
        """
        return int(self._info(name)["size"])

    def state(self, name: str) -> tuple[Any, ...] | None:
        """Return a tuple that changes whenever the file changes, or None if the file does not exist. The second item is
        the time of the last change in seconds since 1970, or None if it is unknown.
        """
        try:
            info = self._info(name)
        except FileNotFoundError:
            return None
        return (info["size"], info.get("mtime"), info.get("ino"), str(info.get("ETag")))

    def _info(self, name: str) -> dict[str, Any]:
        try:
            self._files.invalidate_cache(self._root)
            info: dict[str, Any] = self._files.info(f"{self._root}/{name}")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(self.path(name)) from error
        except Exception as error:  # each store raises its own errors: credentials, network, ...
            raise SamplesError(f"cannot read {self.path(name)}: {error}") from error
        if info["type"] != "file":
            raise SamplesError(f"{self.path(name)} is not a file")
        return info

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`. Raises SamplesError if the file is shorter."""
        try:
            data = self._read(f"{self._root}/{name}", start, end) if end > start else b""
        except Exception as error:
            raise SamplesError(f"cannot read {self.path(name)}: {error}") from error
        if len(data) != end - start:
            raise SamplesError(f"{self.path(name)} is damaged: it ends before byte {end}")
        return data

    def _read(self, path: str, start: int, end: int) -> bytes:
        if not self.is_local:
            return bytes(self._files.cat_file(path, start=start, end=end))
        with open_regular(path, "rb") as file:
            file.seek(start)
            return bytes(file.read(end - start))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the entries in a folder, or an empty list if it does not exist."""
        try:
            self._files.invalidate_cache()
            paths = self._files.ls(f"{self._root}/{folder}", detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:
            raise SamplesError(f"cannot read {self.path(folder)}: {error}") from error
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in paths)

    def metadata(self) -> dict[str, Any]:
        """Return the recording's metadata. Raises SamplesError if they are missing or damaged."""
        try:
            size = self.size(METADATA)
        except FileNotFoundError:
            raise SamplesError(f"no recording in {self.location}: {METADATA} is missing") from None
        if size > MAX_BYTES:
            raise SamplesError(f"{self.path(METADATA)} is damaged: its size of {size} bytes is too large")
        return decode_metadata(self.read(METADATA, 0, size), self.path(METADATA))

    def read_from(self, name: str, start: int) -> bytes:
        """Return the bytes from `start` to the end of a file, or b"" if it does not exist."""
        try:
            return self.read(name, start, max(start, self.size(name)))
        except FileNotFoundError:
            return b""

    def upload(self, path: Path, name: str) -> None:
        """Upload a local file, replacing an existing file with this name."""
        try:
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(path), f"{self._root}/{name}")
        except Exception as error:
            raise SamplesError(f"cannot write {self.path(name)}: {error}") from error
