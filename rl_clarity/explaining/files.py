"""What `rl_clarity.explain_recording` has computed, beside a recording: saliency maps, and maps of states.

`RECORDING/explained/` contains chunks (docs/page-format.md), and in `.rl-clarity/` an entry for each finished piece of
work, which is written last: what has no entry does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl_clarity.analyses.saliency import peak_percentile
from rl_clarity.base.files import local_path
from rl_clarity.jobs.directory import is_name, open_directory
from rl_clarity.jobs.store import UNREADABLE, WorkStore
from rl_clarity.recordings.agreement import Agreement, join_agreements

EXPLAINED = "explained"
"""Folder of a recording."""
WRITTEN = ("maps/*", "[0-9][0-9][0-9][0-9][0-9]*/*")
"""Patterns of the names of files there: those of state maps, and those of the episode of an index."""
SALIENCY, STATE_MAP = "saliency", "state_map"
"""Names of finished work: `saliency/METHOD/EPISODE`, `state_map/SOURCE`."""


@dataclass(frozen=True)
class Explanations:
    """What is known of a recording's episodes. Names are those of files in `explained/`."""

    saliency: list[dict[str, Any]]
    """Methods, as the section `saliency` of a page describes them, without `maps` and `scales`."""
    state_map: dict[str, Any] | None
    """`maps` and `colors`, as in the section `state_map`; `trajectory` in its chunks is the index of an episode in the
    recording (`Episode.index`)."""
    episodes: dict[int, dict[str, dict[str, Any]]]
    """By index of the episode in the recording and by method: `maps`, a list of chunks, one for each segment; `scales`,
    the largest value of the episode's maps by output; and `agreement`, which says how far the outputs of the explained
    agent are from those recorded: `steps` that were compared, the `largest` difference as a share of the outputs' range
    in the episode, and whether it is an `other_agent` on purpose."""
    every: dict[str, int]
    """By method: every n-th step has a map."""
    folder: Path
    files: frozenset[str]

    def agreement(self, indices: Iterable[int]) -> Agreement:
        """How far the outputs of the explained agents are from the recorded ones, in some of the episodes."""
        episodes = [[Agreement(**one["agreement"]) for one in self.episodes.get(i, {}).values()] for i in indices]
        return join_agreements(max(methods, key=lambda one: one.largest) for methods in episodes if methods)

    def path(self, name: str) -> Path:
        """The path of a file; raises KeyError for a name that is not listed above."""
        if name not in self.files:
            raise KeyError(name)
        return self.folder / name


def read_explanations(recording: str | os.PathLike[str]) -> Explanations | None:
    """Read what was explained of a local recording; None if it is nothing. It may be read while more is computed."""
    folder = local_path(os.fspath(recording))
    if folder is None or not (folder / EXPLAINED).is_dir():
        return None
    folder = folder / EXPLAINED
    methods: dict[str, dict[str, Any]] = {}
    peaks: dict[str, dict[str, list[list[float]]]] = {}
    episodes: dict[int, dict[str, dict[str, Any]]] = {}
    maps: list[dict[str, Any]] = []
    colors: list[dict[str, Any]] = []
    files: set[str] = set()
    every: dict[str, int] = {}
    for name, entry in sorted(WorkStore(open_directory(folder)).entries().items()):
        try:
            facts, names = entry["facts"], entry["files"]
            kind, *rest = name.split("/")
            if not names or not all(map(is_name, names)):  # a failure, or written by something else
                continue
            if kind == SALIENCY:
                method, index = rest
                found = {output: max(values) for output, values in facts["peaks"].items()}
                one = {"maps": names, "scales": found, "agreement": asdict(Agreement(**facts["agreement"]))}
                episodes.setdefault(int(index), {})[method] = one
                methods.setdefault(method, facts["method"])
                every.setdefault(method, facts["every"])
                for output, values in facts["peaks"].items():
                    peaks.setdefault(method, {}).setdefault(output, []).append(values)
                files |= {*names}
            elif kind == STATE_MAP:
                maps += [one for one in facts["maps"] if one["chunk"] in names]
                colors += [one for one in facts["colors"] if one["key"] not in [known["key"] for known in colors]]
                files |= {*names}
        except UNREADABLE:
            continue
    if not episodes and not maps:
        return None
    saliency = [
        {**about, "percentile": {output: peak_percentile(lists) for output, lists in peaks[method].items()}}
        for method, about in methods.items()
    ]
    state_map = {"maps": maps, "colors": colors} if maps else None
    return Explanations(saliency, state_map, dict(sorted(episodes.items())), every, folder, frozenset(files))
