"""The manifest of a page of recordings: runs, episodes, and the facts that are known about their agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rl_clarity.analyses.trajectories import (
    SHEETS,
    FrameSheets,
    Scrub,
    TrajectoriesSection,
    TrajectoryEntry,
    scrub_images,
)
from rl_clarity.explaining.files import Explanations
from rl_clarity.pages.files import SEGMENT
from rl_clarity.pages.manifest import AgentInfo, Manifest, ProvenanceGroup, RecordingInfo, ViewOptions
from rl_clarity.pages.sections import Section, SectionData, StoredSection
from rl_clarity.recordings.layout import GOING
from rl_clarity.viewer.episodes import SCRUB_RANGE
from rl_clarity.viewer.runs import Snapshot

KIND = "recordings"
LIVE = "live"
"""Value of `end` for an episode that is still running."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ListedRun:
    """A run on a page of recordings."""

    recording: str
    """Id of the run's recording."""
    name: str
    error: str | None
    """Reason why the recording cannot be read, or null."""


@dataclass(frozen=True)
class EpisodeRow:
    """A recorded episode."""

    run: int
    """Index in `runs`."""
    trajectory: int
    """Index in the section `trajectories` of that run."""
    episode: int
    """Number of the episode in training."""
    step: int | None
    """Training step at which the episode began."""
    return_: float | None
    """Undiscounted return; null if unknown."""
    length: int
    """Number of steps."""
    time: float | None
    """Time at which the episode began, in seconds since 1970."""
    end: str
    """`done`, `time limit`, `stopped`, or `live` while the episode is still running."""
    explained: bool
    """Whether the episode has saliency maps."""
    error: str | None
    """Reason why the episode cannot be shown, or null."""
    entropy: float | None = None
    """Mean entropy of the policy, in nats; absent if no policy was recorded."""
    totals: Mapping[str, Mapping[str, float]] | None = None
    """Mean total of the episode's saliency maps, by method and output; absent if it is not explained."""


@dataclass(frozen=True)
class EpisodesSection(SectionData):
    """A table of recorded episodes."""

    kind = "episodes"
    title = "Episodes"
    live: bool
    """Whether a server keeps the page up to date."""
    runs: Sequence[ListedRun]
    episodes: Sequence[EpisodeRow]
    logdir: str | None = None
    """Log directory as the user named it; absent on static pages."""


@dataclass(frozen=True)
class ListedTrajectory:
    """A trajectory on a page that a server keeps up to date."""

    steps: int
    """Number of steps; 0 for an episode that is empty, damaged, or removed by the recorder."""
    entry: str | None = None
    """Address of the trajectory's entry; absent if there are no steps."""


@dataclass(frozen=True)
class ListedTrajectoriesSection(SectionData):
    """The trajectories of a run, on a served page. The page loads an entry when its trajectory is shown."""

    kind = "trajectories"
    title = "Trajectories"
    segment: int
    scrub: Scrub
    film: FrameSheets
    trajectories: Sequence[ListedTrajectory]
    """Indices are those of the episodes in the recording."""


@dataclass(frozen=True)
class ShownRun:
    """A run, and those of its episodes that a page shows."""

    run: Snapshot
    episodes: Sequence[EpisodeRow]
    trajectories: TrajectoriesSection | ListedTrajectoriesSection
    sections: Sequence[SectionData | StoredSection] = ()
    """The run's sections `saliency`, `state_map` and `updates`, and sections of single episodes."""


def trajectories_section(run: Snapshot, entries: Sequence[TrajectoryEntry]) -> TrajectoriesSection:
    """Return the section `trajectories` of a run."""
    return TrajectoriesSection(SEGMENT, _scrub(run), SHEETS, entries)


def listed_trajectories_section(run: Snapshot, entries: Sequence[ListedTrajectory]) -> ListedTrajectoriesSection:
    """Return the section `trajectories` of a run, for a served page."""
    return ListedTrajectoriesSection(SEGMENT, _scrub(run), SHEETS, entries)


def _scrub(run: Snapshot) -> Scrub:
    observation = run.agent.observation
    return scrub_images((max(1, observation.frame_height), max(1, observation.frame_width)), SCRUB_RANGE)


@dataclass(frozen=True)
class DescribedRun:
    """The entries that describe a run in a manifest."""

    listing: ListedRun
    episodes: Sequence[EpisodeRow]
    agent: AgentInfo
    recording: RecordingInfo
    sections: Sequence[Section | StoredSection]


def describe_run(shown: ShownRun) -> DescribedRun:
    """Return the entries that describe a run in a manifest."""
    run = shown.run
    agent, recording = f"agent-{run.number}", f"recording-{run.number}"
    return DescribedRun(
        ListedRun(recording, run.name, run.error),
        shown.episodes,
        replace(run.agent, id=agent),
        RecordingInfo(_env_name(run), agent, recording, run.name),
        [
            replace(one, agent=agent, recording=recording)
            if isinstance(one, StoredSection)
            else Section(one, agent=agent, recording=recording)
            for one in (shown.trajectories, *shown.sections)
        ],
    )


def describe_page(
    runs: Sequence[DescribedRun],
    title: str,
    *,
    id: str,
    logdir: str | None = None,
    numpy_precision: int = 6,
    provenance: Sequence[ProvenanceGroup] = (),
) -> Manifest:
    """Return the manifest of a page that shows runs. With `logdir`, a server keeps the page up to date."""
    listing = EpisodesSection(
        live=logdir is not None,
        runs=[one.listing for one in runs],
        # Sorted by start time, so that a new episode is a small change of the manifest.
        episodes=sorted(
            (replace(row, run=number) for number, one in enumerate(runs) for row in one.episodes),
            key=lambda row: row.time or 0.0,
        ),
        logdir=logdir,
    )
    return Manifest(
        id=id,
        kind=KIND,
        title=title,
        agents=[one.agent for one in runs],
        recordings=[one.recording for one in runs],
        sections=[Section(listing), *(section for one in runs for section in one.sections)],
        view=ViewOptions().view(),
        numpy_precision=numpy_precision,
        provenance=provenance,
    )


def describe_episode(
    row: Row, trajectory: int, explanations: Explanations | None, *, problem: str | None = None
) -> EpisodeRow:
    """Return an episode's row for the section `episodes`. Its run is 0 until `describe_page` numbers the runs."""
    index = row["episode"]
    return EpisodeRow(
        run=0,
        trajectory=trajectory,
        episode=row["number"],
        step=row["training_step"],
        return_=row["return"],
        length=row["steps"],
        time=row["start_time"],
        end=LIVE if row["end"] == GOING else row["end"],
        explained=explanations is not None and explanations.has_maps(index),
        error=problem,
        entropy=row["entropy"],
        totals=(explanations and explanations.totals(index)) or None,
    )


def _env_name(run: Snapshot) -> str:
    metadata = {} if run.recording is None else run.recording.metadata
    return str((metadata.get("environment") or {}).get("name") or metadata.get("name") or "")
