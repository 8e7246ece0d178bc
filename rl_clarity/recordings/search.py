"""Find the recordings of a log directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rl_clarity.base.errors import SamplesError, describe_error, printable
from rl_clarity.base.files import local_path
from rl_clarity.recordings.layout import METADATA, PLUGIN
from rl_clarity.recordings.recording_files import RecordingFiles

FOLLOW = "--follow-links (follow_links=True)"


@dataclass(frozen=True)
class FoundRecording:
    """A recording in a log directory, or a path that may contain recordings but cannot be searched."""

    location: str
    root: str
    """The directory that must contain its files after links are resolved: the log directory, or the target of
    a link."""
    problem: str | None = None
    """Reason why the path cannot be searched, or None."""


def find_recordings(location: str | os.PathLike[str], *, follow_links: bool = False) -> list[FoundRecording]:
    """Return the recording at a location, or the recordings of a log directory and, if it is local, of all runs below
    it.

    Nothing that may contain recordings is omitted: links out of the log directory, and folders that cannot be read, are
    listed with a `problem`.

    Args:
        location: Path or address.
        follow_links: Whether to search the targets of links to other folders. Links that do not belong to the owner of
            the log directory are never followed.

    Raises:
        SamplesError: An address cannot be searched.
    """
    folder = local_path(os.fspath(location))
    if folder is None:
        return [FoundRecording(place, place) for place in recordings_at(location)]
    if os.path.lexists(folder / METADATA):
        return [FoundRecording(str(folder), str(folder))]
    return sorted(_Search(folder, follow_links).run(), key=lambda one: one.location)


def recordings_at(location: str | os.PathLike[str]) -> list[str]:
    """Return the location if it is a recording; otherwise, return the recordings in the log directory there."""
    files = RecordingFiles(location)
    if files.exists(METADATA):
        return [files.location]
    return [files.path(name) for name in (f"{PLUGIN}/{name}" for name in files.names(PLUGIN)) if _may_be(files, name)]


def _may_be(files: RecordingFiles, name: str) -> bool:
    """Return whether a folder contains a recording, even an unreadable one."""
    try:
        return files.exists(f"{name}/{METADATA}")
    except SamplesError:
        return True


class _Search:
    """A search of a local log directory and all folders below it."""

    def __init__(self, folder: Path, follow_links: bool) -> None:
        self._folder, self._follow_links = folder, follow_links
        self._pending = [(folder, folder.resolve())]
        """Folders to search, with the directories that must contain their files."""
        self._followed: dict[Path, Path] = {}
        """Targets of links, with the first link to each."""

    def run(self) -> Iterator[FoundRecording]:
        while self._pending:
            folder, root = self._pending.pop()
            try:
                with os.scandir(folder) as listed:
                    entries = list(listed)
            except FileNotFoundError:
                continue  # deleted in the meantime
            except OSError as error:
                yield FoundRecording(str(folder), str(root), f"it cannot be searched: {describe_error(error)}")
                continue
            for entry in entries:
                path = Path(entry.path)
                if entry.is_symlink():
                    yield from self._link(path, root)
                elif entry.is_dir():
                    yield from self._visit(path, root)

    def _visit(self, path: Path, root: Path) -> Iterator[FoundRecording]:
        """Yield a folder if it is a recording; otherwise search it later."""
        metadata = path / METADATA
        if path.parent.parts[-2:] != PurePosixPath(PLUGIN).parts:
            self._pending.append((path, root))
        elif metadata.is_symlink() and not metadata.exists():
            yield FoundRecording(str(path), str(root), f"{METADATA} is {_describe_link(metadata)}")
        elif _is_there(metadata):
            yield FoundRecording(str(path), str(root))

    def _link(self, path: Path, root: Path) -> Iterator[FoundRecording]:
        """Search the target of a link to a folder, or yield the link with the reason why it is not followed."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError for circular links
            if not path.name.startswith("."):  # lock files of editors
                yield FoundRecording(str(path), str(root), _describe_link(path))
            return
        if not target.is_dir() or any(target.is_relative_to(one) for one in (root, self._folder.resolve())):
            return  # its target is searched anyway
        problem = None
        if not self._follow_links:
            problem = f"a link to {target}, not followed; use {FOLLOW} to follow it"
        elif path.lstat().st_uid != self._folder.stat().st_uid:
            problem = f"a link to {target}, not followed because it does not belong to the owner of {self._folder}"
        elif target in self._followed:
            problem = f"a link to {target}, which is already searched through the link {self._followed[target]}"
        if problem is not None:
            yield FoundRecording(str(path), str(root), printable(problem))
        else:
            self._followed[target] = path
            yield from self._visit(path, target)


def _describe_link(path: Path) -> str:
    return printable(f"a link to {path.readlink()}, which does not exist or cannot be read")


def _is_there(path: Path) -> bool:
    """Return whether something exists at a path, even if it is not accessible."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True
