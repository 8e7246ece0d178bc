"""The runs of log directories. Their recordings are read again when they have changed.

A run that cannot be read, for whatever reason, is listed with the error. Other runs are not affected.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import rl_clarity
from rl_clarity.base.errors import SamplesError, describe_error
from rl_clarity.base.files import local_path
from rl_clarity.base.keys import cache_key
from rl_clarity.explaining.files import EXPLAINED, Explanations, read_explanations
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.manifest import AgentInfo, ObservationInfo
from rl_clarity.recordings.layout import BLOCKS, EPISODES, GOING, METADATA, PLUGIN, STOPPED
from rl_clarity.recordings.recorder import NAME
from rl_clarity.recordings.recording import StoredRecording
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.search import FoundRecording, find_recordings
from rl_clarity.viewer.episodes import describe_recorded_agent

SECONDS_BETWEEN_SCANS, REMOTE_SECONDS_BETWEEN_SCANS = 2.0, 60.0
"""Minimum seconds between two searches for new recordings: if all log directories are local, and otherwise."""
SCAN_RATIO = 20
"""Smallest ratio of the time between two searches to the duration of a search."""
IDLE_SECONDS = 600.0
"""Seconds without a new step after which an unfinished episode counts as stopped, because its writer was probably
killed."""
ATTEMPTS = 20
"""Largest number of attempts to read a recording that seems to be damaged and has changed in the meantime. Its writer
may have removed episodes and their files while it was read."""
UNKNOWN_AGENT = AgentInfo("", "policy", False, False, 0, ObservationInfo(0, 0, 0, 0, 0), (), ())


@dataclass(frozen=True)
class LogDirectory:
    """A local directory or a remote address with recordings. It has a name if several directories are shown."""

    location: str
    name: str = ""

    @classmethod
    def at(cls, place: str, name: str = "") -> LogDirectory:
        """Return the directory at a path, which may begin with `~`, or at an address."""
        path = local_path(place)
        return cls(place if path is None else str(path.expanduser().resolve()), name)


@dataclass(frozen=True)
class Snapshot:
    """The state of a run when its recording was last read."""

    number: int
    """Number of the run, from 1, in the order in which recordings were found. It does not change while the viewer
    runs."""
    name: str
    location: str
    key: str = ""
    """Folder in the names of the run's files. It identifies the recording and the version of the package."""
    recording: StoredRecording | None = None
    rows: Sequence[tuple[dict[str, Any], str | None]] = ()
    """Facts of each episode and, if it is damaged, the reason, otherwise None; see `StoredRecording.listing`."""
    agent: AgentInfo = UNKNOWN_AGENT
    error: str | None = None
    """Reason why the run cannot be shown, or None."""
    explanations: Explanations | None = None
    """Saliency maps and state maps of the run's episodes."""
    state: Any = None
    """A value that changes whenever the recording or its explanations change."""


class Runs:
    """All runs of log directories.

    Args:
        directories: The log directories.
        follow_links: Whether to show runs that symbolic links in local log directories point to; see `find_recordings`.
    """

    def __init__(self, directories: Sequence[LogDirectory], *, follow_links: bool = False) -> None:
        self._directories, self._follow_links = directories, follow_links
        self._runs: dict[str, Run] = {}
        self._numbers = itertools.count(1)
        self._next_scan = 0.0

    def snapshots(self) -> list[Snapshot]:
        """Return the current state of every run, sorted by name."""
        self._scan()
        current = [run.current() for run in list(self._runs.values())]
        return sorted((one for one in current if one is not None), key=lambda one: (one.name, one.location))

    def find(self, key: str) -> Snapshot | None:
        """Return the current state of the run with a key, or None. Reads other runs only if no run had this key."""
        self._scan()
        known = [run.current() for run in list(self._runs.values()) if run.key == key]
        return next((one for one in known or self.snapshots() if one is not None and one.key == key), None)

    def exist(self) -> bool:
        """Return whether there are recordings, without reading them."""
        self._scan()
        return bool(self._runs)

    def _scan(self) -> None:
        start = time.monotonic()
        if start < self._next_scan:
            return
        found: dict[str, tuple[FoundRecording, LogDirectory]] = {}
        for directory in self._directories:
            for one in self._search(directory):
                found.setdefault(one.location, (one, directory))
        for location, (one, directory) in found.items():
            if location not in self._runs:
                self._runs[location] = Run(next(self._numbers), run_name(location, directory), one)
            self._runs[location].found = one
        for location in [*self._runs]:
            if location not in found and self._runs[location].found.problem is not None:
                del self._runs[location]
        end = time.monotonic()
        remote = any(local_path(directory.location) is None for directory in self._directories)
        shortest = REMOTE_SECONDS_BETWEEN_SCANS if remote else SECONDS_BETWEEN_SCANS
        self._next_scan = end + max(shortest, SCAN_RATIO * (end - start))

    def _search(self, directory: LogDirectory) -> list[FoundRecording]:
        """Return the recordings in a directory. If it cannot be searched, return a single entry with the reason."""
        try:
            return find_recordings(directory.location, follow_links=self._follow_links)
        except Exception as error:  # of any kind: the other directories are shown
            return [FoundRecording(directory.location, directory.location, describe_error(error))]


def run_name(location: str, directory: LogDirectory) -> str:
    """Return the name of a recording's run: its directory relative to the log directory, as TensorBoard names runs.

    The name of the recording is appended if it is not the recorder's default.
    """
    run, _, recording = location.rpartition(f"/{PLUGIN}/")
    if not run:
        run, recording = location, NAME
    root = directory.location.rstrip("/")
    inside = run[len(root) :].strip("/") if run.startswith(root) else run
    parts = [directory.name, inside, "" if recording == NAME else recording]
    return "/".join(part for part in parts if part) or "."


def is_inside(place: str | Path, directory: str) -> bool:
    """Return whether a file, or a recording with its files, is inside a directory after links are resolved.

    Remote addresses always count as inside.
    """
    path, root = local_path(str(place)), local_path(directory)
    if path is None or root is None:
        return True
    resolved = root.resolve()
    try:
        links = [Path(entry.path) for entry in os.scandir(path) if entry.is_symlink()] if path.is_dir() else []
        return all(one.resolve().is_relative_to(resolved) for one in (path, *links))
    except OSError:
        return False


def failed(run: Snapshot, reason: str, state: Any = None) -> Snapshot:
    """Return a run without content, with the reason why it cannot be shown."""
    return Snapshot(run.number, run.name, run.location, error=reason, state=state)


class Run:
    """A recording that may be written while it is shown."""

    def __init__(self, number: int, name: str, found: FoundRecording) -> None:
        self.found = found
        self._snapshot = Snapshot(number, name, found.location)

    @property
    def key(self) -> str:
        """The key that the recording had when it was last read; empty before the first time."""
        return self._snapshot.key

    @cached_property
    def _files(self) -> RecordingFiles:
        return RecordingFiles(self.found.location)

    def current(self) -> Snapshot | None:
        """Return the current state of the run, or None if its recording was deleted."""
        if self.found.problem is not None:
            return failed(self._snapshot, self.found.problem)
        for _ in range(ATTEMPTS):
            try:
                state, idle = self._state()
            except Exception as error:  # of any kind: the other runs are shown
                return failed(self._snapshot, describe_error(error))
            if state is None:
                return None
            if state == self._snapshot.state:
                break
            try:
                self._snapshot = self._read(state, idle)
            except Exception as error:
                self._snapshot = failed(self._snapshot, describe_error(error), state)
            if self._snapshot.error is None and not any(problem for _, problem in self._snapshot.rows):
                break
        return self._snapshot

    def _state(self) -> tuple[Any, bool]:
        """Return a value that changes whenever the recording changes, and whether writing has probably ended."""
        states = [self._files.state(name) for name in (METADATA, EPISODES, BLOCKS)]
        if states[0] is None:
            return None, False
        changed = next((one[1] for one in reversed(states) if one is not None), None)
        idle = changed is not None and time.time() - changed > IDLE_SECONDS
        folder, explained = local_path(self._snapshot.location), None
        if folder is not None:
            with suppress(OSError):  # its files are replaced as more is explained, which changes the folder's time
                explained = (folder / EXPLAINED / DIRECTORY).stat().st_mtime_ns
        return [states, idle, explained], idle

    def _read(self, state: Any, idle: bool) -> Snapshot:
        before = self._snapshot
        if not is_inside(before.location, self.found.root):
            raise SamplesError(f"{before.location} has links that lead out of {self.found.root}: they are not followed")
        recording = StoredRecording(before.location)
        version = rl_clarity.__version__
        key = cache_key([before.location, recording.metadata.get("begun"), version])[:16]
        rows = recording.listing()
        if idle:
            rows = [({**row, "end": STOPPED} if row["end"] == GOING else row, problem) for row, problem in rows]
        agent = before.agent if before.key == key else UNKNOWN_AGENT
        if agent is UNKNOWN_AGENT:
            agent = _first_agent(recording, rows, f"agent-{before.number}")
        return replace(
            Snapshot(before.number, before.name, before.location, key, recording, rows, agent),
            explanations=read_explanations(before.location),
            state=state,
        )


def _first_agent(recording: StoredRecording, rows: Sequence[tuple[dict[str, Any], str | None]], id: str) -> AgentInfo:
    """Return the agent of the first episode that can be read. Raises an error if there are episodes, but none can."""
    last: Exception | None = None
    for row, problem in rows:
        if problem is None and row["steps"]:
            try:
                return describe_recorded_agent(recording.metadata, recording.episode(row["episode"]), id)
            except Exception as error:  # of any kind: the episode is shown with it when it is opened
                last = error
    if last is not None:
        raise last
    return UNKNOWN_AGENT
