"""Read what `rl_clarity.explain_recording` has stored beside a recording: sections of its episodes, and state maps.

`RECORDING/explained/` contains chunks and images (docs/page-format.md), and an entry in `.rl-clarity/` for each
finished task. Entries are written last, so files without an entry are ignored. The entry `sections/EPISODE/NAME`
contains sections of an episode in the format of manifests, `state_map/SOURCE` the state maps of all episodes, and
`updates` the comparison of the checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_clarity.analyses.saliency import SaliencySection, join_sections, mean_totals
from rl_clarity.analyses.updates import UpdatesSection
from rl_clarity.base.files import local_path
from rl_clarity.jobs.directory import is_name, open_directory
from rl_clarity.jobs.store import UNREADABLE, WorkStore
from rl_clarity.pages.files import ChunkName, ImageName
from rl_clarity.pages.schema import read
from rl_clarity.recordings.agreement import Agreement, join_agreements

EXPLAINED = "explained"
"""Name of the folder with explanations inside a recording."""
WRITTEN = ("maps/*", "updates/*", "[0-9][0-9][0-9][0-9][0-9]*/*")
"""Patterns of the names of files in this folder: state maps, updates, and files in the folders of episodes."""
SECTIONS, STATE_MAP, UPDATES = "sections", "state_map", "updates"
"""First components of the names of the entries that are read."""


def episode_folder(index: int) -> str:
    """Return the folder of an episode's files. It is also the second component of the names of the episode's tasks."""
    return f"{index:05}"


@dataclass(frozen=True)
class EpisodeSections:
    """The results of one analysis of one episode."""

    sections: Sequence[Mapping[str, Any]]
    """The sections in the format of manifests. Their only trajectory is the episode."""
    results: Mapping[str, Mapping[str, Any]]
    """Facts of the analysis's tasks."""
    agreement: Agreement
    """Differences between the outputs of the explained agent and the recorded outputs."""
    differences: str | None = None
    """Name of the chunk with `steps` (n,) and `differences` (n,): the largest difference at each compared step, as a
    fraction of the outputs' range."""

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the data of the sections with the given kind."""
        return [section["data"] for section in self.sections if section["kind"] == kind]


@dataclass(frozen=True)
class Explanations:
    """The explanations of a recording. Names of files are relative to `explained/`."""

    episodes: dict[int, dict[str, EpisodeSections]]
    """Results by index of the episode in the recording, and by name: `saliency-METHOD`, or the name of another
    analysis."""
    state_map: dict[str, Any] | None
    """`maps` and `colors`, as in the section `state_map`; `trajectory` in its chunks is the index of an episode in the
    recording (`Episode.index`)."""
    updates: dict[str, Any] | None
    """The data of the section `updates`."""
    folder: Path
    files: frozenset[str]

    def sections(self, index: int, rename: Callable[[str], str] = str) -> list[dict[str, Any]]:
        """Return all sections of an episode in the format of manifests. `rename` returns the new name of a file."""
        return [self._renamed(one, rename) for own in self.episodes.get(index, {}).values() for one in own.sections]

    def has_maps(self, index: int) -> bool:
        """Return whether an episode has saliency maps."""
        return any(own.of("saliency") for own in self.episodes.get(index, {}).values())

    def totals(self, index: int) -> dict[str, dict[str, float]]:
        """Return the mean total saliency of the maps of an episode, by method and output."""
        return {
            method: means
            for own in self.episodes.get(index, {}).values()
            for method, means in mean_totals(own.results).items()
        }

    def saliency(self, indices: Iterable[int], rename: Callable[[str], str] = str) -> SaliencySection | None:
        """Return the saliency maps of some episodes as a section with a trajectory for each episode, or None if there
        are no maps. `rename` returns the new name of a file.
        """
        indices = [*indices]
        found = [
            [
                (read(SaliencySection, self._renamed(data, rename), "saliency"), own.results)
                for own in self.episodes.get(index, {}).values()
                for data in own.of("saliency")
            ]
            for index in indices
        ]
        return join_sections(found, str(self.agreement(indices)))

    def agreement(self, indices: Iterable[int]) -> Agreement:
        """Return how much the outputs of the explained agents differ from the recorded ones, in some episodes."""
        episodes = [[one.agreement for one in self.episodes.get(index, {}).values()] for index in indices]
        return join_agreements(max(found, key=lambda one: one.largest) for found in episodes if found)

    def updates_section(self, rename: Callable[[str], str] = str) -> UpdatesSection | None:
        """Return the section that compares the checkpoints, or None if there is none. `rename` returns the new name of
        a file.
        """
        return None if self.updates is None else read(UpdatesSection, self._renamed(self.updates, rename), UPDATES)

    def path(self, name: str) -> Path:
        """Return the path of a file. Raises KeyError for a name that is not in `files`."""
        if name not in self.files:
            raise KeyError(name)
        return self.folder / name

    def _renamed(self, value: Any, rename: Callable[[str], str]) -> Any:
        if isinstance(value, str) and value in self.files:
            return (ImageName if value.endswith(".png") else ChunkName)(rename(value))
        if isinstance(value, Mapping):
            return {key: self._renamed(item, rename) for key, item in value.items()}
        return [self._renamed(item, rename) for item in value] if isinstance(value, list) else value


def read_explanations(recording: str | os.PathLike[str]) -> Explanations | None:
    """Read the explanations of a local recording, or return None if there are none.

    They can be read while `explain_recording` is running.
    """
    folder = local_path(os.fspath(recording))
    if folder is None or not (folder / EXPLAINED).is_dir():
        return None
    folder = folder / EXPLAINED
    store = WorkStore(open_directory(folder))
    episodes: dict[int, dict[str, EpisodeSections]] = {}
    maps: list[dict[str, Any]] = []
    colors: list[dict[str, Any]] = []
    updates: dict[str, Any] | None = None
    files: set[str] = set()
    entries = {name: one for kind in (SECTIONS, STATE_MAP, UPDATES) for name, one in store.entries(kind).items()}
    for name, entry in sorted(entries.items()):
        try:
            facts, names = entry["facts"], entry["files"]
            kind, *rest = name.split("/")
            if "problem" in facts or not all(map(is_name, names)):  # a failure, or written by something else
                continue
            if kind == SECTIONS:
                index, own = rest
                found = EpisodeSections(**{**facts, "agreement": Agreement(**facts["agreement"])})
                episodes.setdefault(int(index), {})[own] = found
            elif kind == UPDATES:
                updates = facts["section"]
            else:
                maps += [one for one in facts["maps"] if one["chunk"] in names]
                colors += [one for one in facts["colors"] if one["key"] not in [known["key"] for known in colors]]
            files |= {*names}
        except UNREADABLE:
            continue
    if not episodes and not maps and updates is None:
        return None
    state_map = {"maps": maps, "colors": colors} if maps else None
    return Explanations(dict(sorted(episodes.items())), state_map, updates, folder, frozenset(files))
