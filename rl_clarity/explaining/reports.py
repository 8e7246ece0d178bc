"""Reports of `explain_recording`. Equal reasons are grouped, even across recordings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rl_clarity.base.keys import JsonObject

FEWEST_POINTS = 1000
"""Smallest number of points to which a map is fitted while watching. A map of only the first episodes would be poor."""
NO_CHECKPOINT = (
    "no checkpoint was recorded; call Recorder.agent(checkpoint) in the training loop, or pass the agent that played "
    "(agent=, rl-clarity explain --agent)"
)
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
"""Matches numbers, in which the reasons of several episodes may differ."""


@dataclass
class ExplainedRecording:
    """The result of `explain_recording`: which episodes of a recording are explained.

    `rl_clarity.read_explanations` reads the maps and sections.
    """

    location: str
    episodes: int = 0
    """Number of complete episodes in the recording."""
    explained: int = 0
    """Number of complete episodes for which everything is computed, by this call or an earlier one."""
    only_states: list[int] = field(default_factory=list)
    """Indices of the episodes whose recorded states are on the map, but which have no checkpoint for other
    explanations."""
    waiting: int | None = None
    """While watching, the current number of points if the state map is waiting for more; otherwise None."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Reasons why other episodes were not explained, or only in part, by their index in the recording."""
    problem: str | None = None
    """Reason why the recording cannot be explained, or None."""
    loader: str | None = None
    """Name (MODULE:FUNCTION) of a function that loads the agents, from the recording's metadata. It is only shown,
    never run."""

    def __str__(self) -> str:
        return describe([self])


@dataclass(frozen=True)
class Reason:
    """A reason why some episodes, or whole recordings, are not explained."""

    text: str
    """The reason as it was stated for the first episode or recording."""
    same: bool
    """Whether the reason has exactly the same text for all episodes or recordings. Otherwise the texts differ in
    numbers or in the location of the recording."""
    episodes: dict[str, list[int]]
    """Indices of the episodes, by the location of the recording; empty for a whole recording."""
    only_states: bool = False
    """Whether the recorded states of the episodes are on the map."""

    def to_dict(self) -> JsonObject:
        return {"reason": self.text, "recordings": self.episodes}

    def __str__(self) -> str:
        return f"{self.text}{'' if self.same else ' (one of several similar reasons)'}"


def group_reasons(reports: Sequence[ExplainedRecording]) -> list[Reason]:
    """Return the reasons of all recordings. Reasons that differ only in numbers and locations are grouped into one."""
    groups: dict[tuple[str, str], list[tuple[str, str, int | None]]] = {}
    for report in reports:
        location = report.location
        episodes: list[tuple[str, str, int | None]] = []
        if report.problem is not None:
            episodes = [("problem", report.problem, None)]
        else:
            episodes += [("states", NO_CHECKPOINT, index) for index in sorted(report.only_states)]
            episodes += [("skipped", reason, index) for index, reason in sorted(report.skipped.items())]
        for kind, reason, index in episodes:
            key = kind, _NUMBERS.sub("#", reason.replace(location, "LOCATION"))
            groups.setdefault(key, []).append((reason, location, index))
    reasons = []
    for (kind, _), members in groups.items():
        indices: dict[str, list[int]] = {}
        for _, location, index in members:
            indices.setdefault(location, []).extend([] if index is None else [index])
        first = members[0][0]
        reasons.append(Reason(first, all(one == first for one, *_ in members), indices, kind == "states"))
    return reasons


def describe(reports: Sequence[ExplainedRecording]) -> str:
    """Return the text of reports: a line for each recording, followed by the reasons that apply only to it. Reasons
    that apply to several recordings come last.
    """
    reasons, lines = group_reasons(reports), []
    for report in reports:
        own = [reason for reason in reasons if [*reason.episodes] == [report.location]]
        if report.problem is not None:
            problem = f": {report.problem}" if own else ""
            lines.append(f"{report.location} is not explained{problem}")
            continue
        lines.append(f"{report.location}: {report.explained} of {report.episodes} complete episodes are explained")
        if report.waiting is not None:
            lines.append(f"  the state map waits for {FEWEST_POINTS} points; there are {report.waiting} so far")
        lines += [f"  {_episodes(reason, report.location)}: {reason}" for reason in own]
        if report.skipped and report.loader is not None:
            lines.append(f"  the recording suggests a function that loads its agents: --agent {report.loader}")
    for reason in reasons:
        if len(reason.episodes) > 1:
            lines.append(f"{len(reason.episodes)} recordings: {reason}")
            lines += [f"  {location}{_separated(reason, location)}" for location in reason.episodes]
    return "\n".join(lines)


def _separated(reason: Reason, location: str) -> str:
    return f": {_episodes(reason, location)}" if reason.episodes[location] else ""


def _episodes(reason: Reason, location: str) -> str:
    indices = reason.episodes[location]
    word = "episode" if len(indices) == 1 else "episodes"
    return f"{'only the states of' if reason.only_states else 'not'} {word} {_ranges(indices)}"


def _ranges(indices: Sequence[int]) -> str:
    """Return sorted indices as text, such as `0 to 5, 8`."""
    starts = [i for i in indices if i - 1 not in indices]
    ends = [i for i in indices if i + 1 not in indices]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(f"{a}" if a == b else f"{a}{', ' if b == a + 1 else ' to '}{b}" for a, b in pairs)
