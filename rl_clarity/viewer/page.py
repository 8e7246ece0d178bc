"""The page of recordings that may still be growing: its manifest, and its files by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from rl_clarity.analyses.state_map import StateMapSection
from rl_clarity.analyses.trajectories import SCRUB_STEPS
from rl_clarity.base.errors import SamplesError, describe_error
from rl_clarity.base.files import open_regular
from rl_clarity.base.keys import as_json, cache_key, to_plain
from rl_clarity.pages.chunks import encode_chunk, parse_script
from rl_clarity.pages.files import SEGMENT
from rl_clarity.pages.images import encode_png
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import SectionData
from rl_clarity.viewer.changes import changes
from rl_clarity.viewer.episodes import ShownEpisode
from rl_clarity.viewer.manifest import (
    KIND,
    DescribedRun,
    EpisodeRow,
    ListedTrajectory,
    ShownRun,
    describe_episode,
    describe_page,
    describe_run,
    listed_trajectories_section,
)
from rl_clarity.viewer.runs import LogDirectory, Runs, Snapshot, failed, is_inside

MANIFEST = "manifest.json"
SCRIPT, IMAGE, JSON = "text/javascript; charset=utf-8", "image/png", "application/json"
CACHE_BYTES = 64 * 2**20
GZIP_LEVEL = 3
REVISIONS = 3
"""Number of recent manifests that are kept. A page that has one of them receives only the changes since then."""
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_NAME = re.compile(
    rf"(?P<key>[0-9a-f]{{16}})/(?P<episode>{_NUMBER})/"
    rf"(?:(?P<entry>entry)-[0-9a-f]{{12}}\.json|(?P<series>series)-(?P<length>{_NUMBER})(?P<live>-live)?\.js"
    rf"|(?P<kind>frames|scrub)-(?P<part>{_NUMBER})-(?P<steps>{_NUMBER})\.(?P<type>js|png))"
)


_EXPLAINED = re.compile(r"(?P<key>[0-9a-f]{16})/explained-(?P<version>[0-9a-f]{12})/(?P<file>.+)")


@dataclass(frozen=True)
class Content:
    """The response to a request: data with their media type and ETag."""

    data: bytes
    type: str
    etag: str
    fixed: bool = True
    """Whether the content at this address never changes."""

    @cached_property
    def gzipped(self) -> bytes:
        """The data, compressed by gzip."""
        return gzip.compress(self.data, GZIP_LEVEL, mtime=0)


class RecordingsPage:
    """The page of all recordings in log directories.

    It is thread-safe.
    """

    def __init__(self, directories: Sequence[LogDirectory], title: str, *, follow_links: bool = False) -> None:
        self._runs, self.title = Runs(directories, follow_links=follow_links), title
        self._lock = threading.Lock()
        self._cache = _Cache(CACHE_BYTES)
        self._problems: dict[tuple[str, int], str] = {}
        self._described: dict[tuple[str, str], tuple[Any, DescribedRun]] = {}
        """Description of each run, and the values that it was made from, by name and location."""
        self._manifest: tuple[Any, Content] | None = None
        self._values: OrderedDict[str, Any] = OrderedDict()
        """The last manifests as JSON values, by ETag."""

    def exists(self) -> bool:
        """Return whether there are recordings to show, without reading them."""
        with self._lock:
            return self._runs.exist()

    def manifest(self, since: str = "") -> Content:
        """Return the manifest as JSON. If the manifest with the ETag `since` is still known, return `{"since",
        "change"}` instead, where `change` turns that manifest into the current one (`changes.py`).
        """
        made = self._whole_manifest()
        with self._lock:
            before, now = self._values.get(since), self._values.get(made.etag)
        if before is None or now is None:
            return made
        change = {"since": since, "change": changes(before, now) or {"keys": {}, "removed": []}}
        return replace(made, data=as_compact_json(change))

    def _whole_manifest(self) -> Content:
        with self._lock:
            snapshots = self._runs.snapshots()
            problems = dict(self._problems)
        state = [[one.name, one.state, one.error] for one in snapshots], problems
        before = self._manifest
        if before is not None and before[0] == state:
            return before[1]
        self._described = {(run.name, run.location): self._describe(run, problems) for run in snapshots}
        runs = [described for _, described in self._described.values()]
        manifest = describe_page(runs, self.title, id=cache_key([KIND, self.title]), logdir=self.title).to_dict()
        value = to_plain(manifest, finite=True)
        made = content(as_compact_json(value), JSON, fixed=False)
        with self._lock:
            self._manifest = state, made
            self._values[made.etag] = value
            while len(self._values) > REVISIONS:
                self._values.popitem(last=False)
        return made

    def _describe(self, run: Snapshot, problems: Mapping[Any, str]) -> tuple[Any, DescribedRun]:
        """Return the values that identify a run's state, and its description, which is reused for equal values."""
        own = {place: text for place, text in problems.items() if place[0] == run.key}
        made_of = [run.name, run.key, run.state, run.error, own]
        before = self._described.get((run.name, run.location))
        return before if before is not None and before[0] == made_of else (made_of, _describe(run, problems))

    def file(self, name: str) -> Content | None:
        """Return the file called `name`, or None if neither the manifest nor an entry lists the name.

        Raises SamplesError if the recorded data are damaged; the manifest then lists the problem.
        """
        key, state = name.partition("/")[0], None
        while True:
            with self._lock:
                run = self._runs.find(key) if key else None
            if run is None:
                return None
            try:
                return self._cached(name, partial(_read, run, name))
            except EpisodeError as error:
                if state == run.state:
                    with self._lock:
                        self._problems[run.key, error.index] = error.message
                    raise
                state = run.state  # the writer may have moved data meanwhile: try again

    def _cached(self, name: str, read: Callable[[], Content | None]) -> Content | None:
        found = self._cache.get(name)
        if found is None:
            found = read()
            if found is not None and found.fixed:
                self._cache.put(name, found)
        return found


def as_compact_json(value: object) -> bytes:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def _describe(run: Snapshot, problems: Mapping[Any, str]) -> DescribedRun:
    """Return a run's entries in the manifest, which contain only the error if the run cannot be shown."""
    try:
        return describe_run(_show(run, problems))
    except Exception as error:  # of any kind: the other runs are shown
        run = failed(run, describe_error(error))
        return describe_run(ShownRun(run, [], listed_trajectories_section(run, [])))


def _show(run: Snapshot, problems: Mapping[Any, str]) -> ShownRun:
    """Return a run with all its episodes. The indices of trajectories are those of episodes in the recording."""
    episodes: list[EpisodeRow] = []
    trajectories: list[ListedTrajectory] = []
    for row, listed in run.rows:
        index = row["episode"]
        problem = listed or problems.get((run.key, index))
        episodes.append(describe_episode(row, index, run.explanations, problem=problem))
        trajectories += [ListedTrajectory(0)] * (index - len(trajectories))  # of episodes that were removed
        known = problem is None and row["steps"] > 0
        trajectories.append(ListedTrajectory(row["steps"], _entry_name(run, row)) if known else ListedTrajectory(0))
    return ShownRun(run, episodes, listed_trajectories_section(run, trajectories), _explained_sections(run))


def _explained_sections(run: Snapshot) -> list[SectionData]:
    """Return the sections that describe all episodes: `saliency` (without maps, which are in the entries of episodes),
    `state_map` and `updates`.
    """
    explanations, sections = run.explanations, list[SectionData]()
    if explanations is None:
        return []
    saliency = explanations.saliency(explanations.episodes)
    if saliency is not None:
        methods = [replace(one, maps=[], scales={output.id: [] for output in one.outputs}) for one in saliency.methods]
        sections.append(replace(saliency, methods=methods, differences=[]))
    if explanations.state_map is not None:
        maps = [{**one, "chunk": _explained_name(run, one["chunk"])} for one in explanations.state_map["maps"]]
        sections.append(read(StateMapSection, {**explanations.state_map, "maps": maps}, "state_map"))
    updates = explanations.updates_section(partial(_explained_name, run))
    if updates is not None:
        sections.append(updates)
    return sections


def _entry_name(run: Snapshot, row: Mapping[str, Any]) -> str:
    sections = [] if run.explanations is None else run.explanations.sections(row["episode"])
    version = cache_key([row["steps"], row["end"], row["return"], sections])[:12]
    return f"{run.key}/{row['episode']}/entry-{version}.json"


class EpisodeError(SamplesError):
    """Raised for an episode that cannot be shown."""

    def __init__(self, index: int, message: str) -> None:
        self.index = index
        super().__init__(message)


def _read(run: Snapshot, name: str) -> Content | None:
    """Return a run's file called `name`, or None if there is none. The name may be from an earlier state."""
    match = _EXPLAINED.fullmatch(name)
    if match is not None:
        try:
            return _read_explained(run, name, match["file"])
        except Exception as error:
            raise SamplesError(describe_error(error)) from error
    match = _NAME.fullmatch(name)
    row = match and next((row for row, _ in run.rows if row["episode"] == int(match["episode"])), None)
    if match is None or row is None:
        return None
    try:
        return _read_episode(run, row, name, match)
    except Exception as error:  # of any kind: the episode is listed with it
        raise EpisodeError(row["episode"], describe_error(error)) from error


def _read_episode(run: Snapshot, row: Mapping[str, Any], name: str, match: re.Match[str]) -> Content | None:
    recording, index = run.recording, row["episode"]
    assert recording is not None
    if match["entry"]:
        shown = ShownEpisode(recording, recording.episode(index), run.agent)
        sections = [] if run.explanations is None else run.explanations.sections(index, partial(_explained_name, run))
        data = as_json({"trajectory": as_dicts(shown.entry(f"{run.key}/{index}")), "sections": sections})
        return content(data.encode(), JSON, fixed=name == _entry_name(run, row))
    if match["series"]:
        steps = int(match["length"])
        if not match["live"] and steps != row["steps"]:
            return None
        episode = recording.episode(index, steps if match["live"] else None)
        arrays = ShownEpisode(recording, episode, run.agent).series()
        return content(encode_chunk(name, arrays, quick=True).script(), SCRIPT)
    length = SEGMENT if match["kind"] == "frames" else SCRUB_STEPS
    start = (int(match["part"]) - 1) * length
    stop = start + int(match["steps"])
    if not 0 <= start < stop <= min(start + length, row["steps"]) or (match["type"] == "png") != (
        match["kind"] == "scrub"
    ):
        return None
    shown = ShownEpisode(recording, recording.episode(index), run.agent)
    if match["kind"] == "frames":
        return content(encode_chunk(name, shown.frames(slice(start, stop)), quick=True).script(), SCRIPT)
    return content(encode_png(shown.filmstrip(slice(start, stop))), IMAGE)


def _explained_name(run: Snapshot, file: str) -> str:
    """Return the name of a file of explanations, which contains the file's version."""
    assert run.explanations is not None
    try:
        status = run.explanations.path(file).stat()
        version = [status.st_mtime_ns, status.st_size]
    except OSError:
        version = []
    return f"{run.key}/explained-{cache_key(version)[:12]}/{file}"


def _read_explained(run: Snapshot, name: str, file: str) -> Content | None:
    if run.explanations is None or file not in run.explanations.files:
        return None
    path = run.explanations.path(file)
    try:
        fixed = name == _explained_name(run, file)
        if not is_inside(path, run.location):
            return None
        with open_regular(path, "rb") as opened:
            data = opened.read()
    except OSError:
        return None
    if file.endswith(".png"):
        return content(data, IMAGE, fixed=fixed)
    return content(replace(parse_script(data, file), name=name).script(), SCRIPT, fixed=fixed)


def content(data: bytes, kind: str, *, fixed: bool = True) -> Content:
    """Return data as `Content`, whose ETag is a hash of the data."""
    return Content(data, kind, hashlib.sha256(data).hexdigest()[:32], fixed)


class _Cache:
    """A cache of contents by name. The least recently used ones are dropped when their size exceeds `limit` bytes."""

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
