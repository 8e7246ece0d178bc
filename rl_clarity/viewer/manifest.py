"""The manifest of a page of recordings: runs, episodes, and what is known of their agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rl_clarity.pages.manifest import Manifest, ProvenanceGroup, RecordingInfo, Section, ViewOptions
from rl_clarity.recordings.layout import GOING
from rl_clarity.viewer.episodes import section_facts
from rl_clarity.viewer.runs import Snapshot

KIND = "recordings"
LIVE = "live"
"""In place of why an episode ended, where it is still going."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ShownRun:
    """A run, and the episodes of it that a page shows."""

    run: Snapshot
    episodes: Sequence[Row]
    """As `describe_episode` returns them."""
    trajectories: Sequence[Row]
    """Entries of the section `trajectories`."""
    sections: Sequence[Section] = ()
    """Its sections `saliency` and `state_map`."""


def describe_page(
    runs: Sequence[ShownRun],
    title: str,
    *,
    id: str,
    logdir: str | None = None,
    numpy_precision: int = 6,
    provenance: Sequence[ProvenanceGroup] = (),
) -> Manifest:
    """The manifest of a page that shows runs; with `logdir`, of one that a server keeps up to date."""
    sections = []
    for one in runs:
        ids: Any = {"agent": f"agent-{one.run.number}", "recording": f"recording-{one.run.number}"}
        data = {
            **section_facts(one.run.agent.observation),
            "trajectories": one.trajectories,
            "bookmarks": {"high": [], "low": []},
        }
        sections.append(Section("trajectories", "Trajectories", data, **ids))
        sections += [replace(section, **ids) for section in one.sections]
    listing: dict[str, Any] = {
        "live": logdir is not None,
        "runs": [
            {"recording": f"recording-{one.run.number}", "name": one.run.name, "error": one.run.error} for one in runs
        ],
        "episodes": [{"run": number, **row} for number, one in enumerate(runs) for row in one.episodes],
    }
    if logdir is not None:
        listing["logdir"] = logdir
    return Manifest(
        id=id,
        kind=KIND,
        title=title,
        agents=[replace(one.run.agent, id=f"agent-{one.run.number}") for one in runs],
        recordings=[
            RecordingInfo(_env_name(one.run), f"agent-{one.run.number}", f"recording-{one.run.number}", one.run.name)
            for one in runs
        ],
        sections=[Section("episodes", "Episodes", listing), *sections],
        view=ViewOptions().view(),
        numpy_precision=numpy_precision,
        provenance=provenance,
    )


def describe_episode(row: Row, trajectory: int, *, explained: bool, problem: str | None = None) -> Row:
    """What the section `episodes` says of an episode, beside its run."""
    return {
        "trajectory": trajectory,
        "episode": row["number"],
        "step": row["training_step"],
        "return": row["return"],
        "length": row["steps"],
        "time": row["start_time"],
        "end": LIVE if row["end"] == GOING else row["end"],
        "explained": explained,
        "error": problem,
    }


def _env_name(run: Snapshot) -> str:
    metadata = {} if run.recording is None else run.recording.metadata
    return str((metadata.get("environment") or {}).get("name") or metadata.get("name") or "")
