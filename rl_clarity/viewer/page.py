"""The page of recordings, while they are written: its manifest, and its files by name."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rl_clarity.analyses.trajectories import SCRUB_STEPS
from rl_clarity.errors import SamplesError
from rl_clarity.keys import as_json, cache_key, to_plain
from rl_clarity.pages.chunks import encode_chunk
from rl_clarity.pages.files import SEGMENT
from rl_clarity.pages.images import encode_png
from rl_clarity.pages.manifest import Manifest, RecordingInfo, Section, ViewOptions
from rl_clarity.recordings.layout import GOING
from rl_clarity.viewer.episodes import ShownEpisode, section_facts
from rl_clarity.viewer.runs import LogDirectory, Runs, Snapshot

KIND = "recordings"
MANIFEST = "manifest.json"
SCRIPT, IMAGE, JSON = "text/javascript; charset=utf-8", "image/png", "application/json"
LIVE = "live"
"""Why an episode that is still going has ended, as the page says it."""
CACHE_BYTES = 64 * 2**20
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_NAME = re.compile(
    rf"(?P<key>[0-9a-f]{{16}})/(?P<episode>{_NUMBER})/"
    rf"(?:(?P<entry>entry)-[0-9a-f]{{12}}\.json|(?P<series>series)-(?P<length>{_NUMBER})(?P<live>-live)?\.js"
    rf"|(?P<kind>frames|scrub)-(?P<part>{_NUMBER})-(?P<steps>{_NUMBER})\.(?P<type>js|png))"
)


@dataclass(frozen=True)
class Content:
    """What an address answers."""

    data: bytes
    type: str
    etag: str
    fixed: bool = True
    """Whether the address always has this content."""


class RecordingsPage:
    """The page of all recordings in log directories.

    It can be used by several threads.
    """

    def __init__(self, directories: Sequence[LogDirectory], title: str) -> None:
        self._runs, self.title = Runs(directories), title
        self._lock = threading.Lock()
        self._cache = _Cache(CACHE_BYTES)
        self._problems: dict[tuple[str, int], str] = {}
        self._manifest: tuple[Any, Content] | None = None

    def exists(self) -> bool:
        """Whether there is anything to show. Reads no recording."""
        with self._lock:
            return self._runs.exist()

    def manifest(self) -> Content:
        """The manifest as JSON."""
        with self._lock:
            snapshots = self._runs.snapshots()
            problems = dict(self._problems)
        state = [[one.name, one.state, one.error] for one in snapshots], problems
        before = self._manifest
        if before is not None and before[0] == state:
            return before[1]
        manifest = describe_page(snapshots, self.title, problems)
        made = content(json.dumps(to_plain(manifest, finite=True)).encode(), JSON, fixed=False)
        self._manifest = state, made
        return made

    def file(self, name: str) -> Content | None:
        """The file of a name that the manifest or an entry lists; None for other names.

        Raises SamplesError if what was recorded is damaged; the manifest says so from then on.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        state = None
        while True:
            with self._lock:
                run = next((one for one in self._runs.snapshots() if one.key == match["key"]), None)
            index = int(match["episode"])
            row = None if run is None else next((row for row, _ in run.rows if row["episode"] == index), None)
            if run is None or row is None:
                return None
            try:
                return self._cached(name, partial(_read, run, row, name, match))
            except SamplesError as error:
                if state == run.state:
                    with self._lock:
                        self._problems[run.key, index] = error.message
                    raise
                state = run.state  # the writer may have moved data meanwhile: try again

    def _cached(self, name: str, read: Callable[[], Content | None]) -> Content | None:
        found = self._cache.get(name)
        if found is None:
            found = read()
            if found is not None and found.fixed:
                self._cache.put(name, found)
        return found


def describe_page(snapshots: Sequence[Snapshot], title: str, problems: Mapping[Any, str]) -> dict[str, Any]:
    """The manifest of runs; `problems` are those of episodes that were noticed when they were read."""
    episodes: list[dict[str, Any]] = []
    sections: list[Section] = []
    for number, run in enumerate(snapshots):
        trajectories: list[dict[str, Any]] = []
        for row, listed in run.rows:
            index = row["episode"]
            problem = listed or problems.get((run.key, index))
            trajectories += [{"steps": 0}] * (index - len(trajectories))  # of episodes that were removed
            known = problem is None and row["steps"] > 0
            trajectories.append({"steps": row["steps"], "entry": _entry_name(run, row)} if known else {"steps": 0})
            episodes.append(_episode_row(number, row, problem))
        ids = {"agent": f"agent-{run.number}", "recording": f"recording-{run.number}"}
        data = {**section_facts(run.agent.observation), "trajectories": trajectories}
        data["bookmarks"] = {"high": [], "low": []}
        sections.append(Section("trajectories", "Trajectories", data, **ids))
    listing = {
        "live": True,
        "logdir": title,
        "runs": [{"recording": f"recording-{run.number}", "name": run.name, "error": run.error} for run in snapshots],
        "episodes": episodes,
    }
    manifest = Manifest(
        id=cache_key([KIND, title]),
        kind=KIND,
        title=title,
        agents=[replace(run.agent, id=f"agent-{run.number}") for run in snapshots],
        recordings=[
            RecordingInfo(_env_name(run), f"agent-{run.number}", f"recording-{run.number}", run.name)
            for run in snapshots
        ],
        sections=[Section("episodes", "Episodes", listing), *sections],
        view=ViewOptions().view(),
        numpy_precision=6,
    )
    return manifest.to_dict()


def _episode_row(run: int, row: Mapping[str, Any], problem: str | None) -> dict[str, Any]:
    return {
        "run": run,
        "trajectory": row["episode"],
        "episode": row["number"],
        "step": row["training_step"],
        "return": row["return"],
        "length": row["steps"],
        "time": row["start_time"],
        "end": LIVE if row["end"] == GOING else row["end"],
        "explained": False,
        "error": problem,
    }


def _env_name(run: Snapshot) -> str:
    metadata = {} if run.recording is None else run.recording.metadata
    return str((metadata.get("environment") or {}).get("name") or metadata.get("name") or "")


def _entry_name(run: Snapshot, row: Mapping[str, Any]) -> str:
    version = cache_key([row["steps"], row["end"], row["return"]])[:12]
    return f"{run.key}/{row['episode']}/entry-{version}.json"


def _read(run: Snapshot, row: Mapping[str, Any], name: str, match: re.Match[str]) -> Content | None:
    """The file of an episode, if it has or had one of this name."""
    index, folder = int(match["episode"]), f"{match['key']}/{match['episode']}"
    recording = run.recording
    assert recording is not None
    if match["entry"]:
        shown = ShownEpisode(recording, recording.episode(index), run.agent)
        data = as_json({"trajectory": shown.entry(folder)}).encode()
        return content(data, JSON, fixed=name == _entry_name(run, row))
    if match["series"]:
        steps = int(match["length"])
        if not match["live"] and steps != row["steps"]:
            return None
        episode = recording.episode(index, steps if match["live"] else None)
        arrays = ShownEpisode(recording, episode, run.agent).series()
        return content(encode_chunk(name, arrays).script(), SCRIPT)
    length = SEGMENT if match["kind"] == "frames" else SCRUB_STEPS
    start = (int(match["part"]) - 1) * length
    stop = start + int(match["steps"])
    if not 0 <= start < stop <= min(start + length, row["steps"]) or (match["type"] == "png") != (
        match["kind"] == "scrub"
    ):
        return None
    shown = ShownEpisode(recording, recording.episode(index), run.agent)
    if match["kind"] == "frames":
        return content(encode_chunk(name, shown.frames(slice(start, stop))).script(), SCRIPT)
    return content(encode_png(shown.film_strip(slice(start, stop))), IMAGE)


def content(data: bytes, kind: str, *, fixed: bool = True) -> Content:
    """Data with their hash."""
    return Content(data, kind, hashlib.sha256(data).hexdigest()[:32], fixed)


class _Cache:
    """Contents by name; those that were used longest ago are dropped when there are too many bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, 0
        self._contents: OrderedDict[str, Content] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> Content | None:
        with self._lock:
            content = self._contents.get(name)
            if content is not None:
                self._contents.move_to_end(name)
            return content

    def put(self, name: str, content: Content) -> None:
        with self._lock:
            if name not in self._contents:
                self._contents[name] = content
                self._bytes += len(content.data)
            while self._bytes > self._limit and len(self._contents) > 1:
                self._bytes -= len(self._contents.popitem(last=False)[1].data)
