"""The analysis `trajectories`: frames, filmstrips, the values at every step, and bookmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from rl_clarity.agents.capabilities import parallel_calls
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.numeric_inputs import input_names, input_values
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.parsing import check_minimum, check_option, hidden
from rl_clarity.base.statistics import softmax
from rl_clarity.base.threads import thread_count
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import (
    SEGMENT,
    ChunkName,
    ExtraImageName,
    ImageName,
    check_subdirectories,
    path_in,
    segments,
)
from rl_clarity.pages.frames import frame_arrays
from rl_clarity.pages.images import filmstrips, frames_side_by_side, sheet
from rl_clarity.pages.sections import SectionData
from rl_clarity.recordings import advantages as estimates
from rl_clarity.recordings.samples import Trajectories

Name = TypeVar("Name", bound=str)
GAMMA, LAMBDA = 0.999, 0.95
SCRUB_STEPS = 512
"""Number of steps in an image of the filmstrip."""
FIRST_STATE = "state."
"""Prefix of the arrays (1, ...) of a series that are the parts of the recurrent state before the first step. This state
and the observations determine all later states."""
FILM_COLUMNS = 8
"""Number of frames per row of the images that `filmstrip.images` adds."""


@dataclass(frozen=True)
class TrajectoryPageOptions:
    """Options of frames, filmstrips and numbers along trajectories."""

    scrub_range: tuple[float, float] = (42 / 64, 44 / 64)
    """Part of each frame that the filmstrip shows, as fractions of the width."""
    images: bool = False
    """Also write images of 64 frames each, to view outside of the page. The page itself does not need them."""
    trajectories_subdir: str = hidden("trajectories/")
    trajectories_scrub_subdir: str = hidden("trajectories_scrub/")

    def __post_init__(self) -> None:
        ordered = len(self.scrub_range) == 2 and 0 <= self.scrub_range[0] < self.scrub_range[1] <= 1
        check_option(self, "scrub_range", ordered, "must be two fractions of the width, the smaller one first")
        check_subdirectories(self)


@dataclass(frozen=True)
class AdvantageOptions:
    """Options of generalized advantage estimation, and of bookmarks."""

    gamma: float | None = None
    """Discount factor; from the checkpoint by default, or 0.999."""
    gae_lambda: float | None = None
    """Decay of the advantage estimator; from the checkpoint by default, or 0.95."""
    bookmarks: int = 16
    """Number of bookmarks at the highest advantages, and as many at the lowest."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "bookmarks")
        for name in ("gamma", "gae_lambda"):
            value = getattr(self, name)
            check_option(self, name, value is None or 0 <= value <= 1, "must be from 0 to 1")


@dataclass(frozen=True)
class Series:
    """Values along a trajectory of T steps, with A actions and G groups of actions. Arrays without data are None."""

    rewards: np.ndarray  # (T,)
    firsts: np.ndarray  # (T,) bool
    actions: np.ndarray | None = None  # (T,), None if an action is not one choice
    advantages: np.ndarray | None = None  # (T,), None without values and action values
    probabilities: np.ndarray | None = None  # (T, A), None if an action is not one choice
    logits: np.ndarray | None = None  # (T, A): logits, or action values, or the outputs of all factors of an action
    groups: np.ndarray | None = None  # (T, G): sums of logits
    values: np.ndarray | None = None  # (T,), None for action values and for an agent without a value
    inputs: np.ndarray | None = None  # (T, K): numbers that the agent observes, None for images alone


@dataclass(frozen=True)
class Scrub:
    """Images of the filmstrip, which show the steps from left to right."""

    steps: int
    """Number of steps in an image; the last image of a trajectory may have fewer."""
    height: int
    """Height of the frame, or less for large frames."""
    step_width: int
    """Width of a step in pixels. A step shows the part `filmstrip.scrub_range` of its frame."""


@dataclass(frozen=True)
class FrameSheets:
    """Layout of the images that `filmstrip.images` adds. The page itself draws frames from chunks."""

    columns: int
    """Number of frames in a row."""


@dataclass(frozen=True)
class EpisodeSummary:
    """An episode of a trajectory."""

    frame: int
    """First step of the episode."""
    steps: int
    return_: float
    """Undiscounted return."""
    end: Literal["done", "time limit", "ended", "cut"]
    """How the episode ended: `ended` if it is not known how, `cut` if the recording stops before the end."""
    cause: str | None = None
    """What ended the episode, if the environment reports it: `saw`, `level completed`, `life lost`."""


@dataclass(frozen=True)
class TrajectoryEntry:
    """A trajectory and its files."""

    steps: int
    series: ChunkName
    scrub: Sequence[ImageName]
    frames: Sequence[ChunkName]
    """Chunk of each segment."""
    images: Sequence[ExtraImageName] = ()
    """Image of each segment, if `filmstrip.images` is set."""
    episodes: Sequence[EpisodeSummary] | None = None


@dataclass(frozen=True)
class Bookmark:
    """A step with a high or low advantage."""

    trajectory: int
    frame: int
    advantage: float


@dataclass(frozen=True)
class Bookmarks:
    """Steps with the highest and the lowest advantages, strongest first."""

    high: Sequence[Bookmark] = ()
    low: Sequence[Bookmark] = ()


@dataclass(frozen=True)
class TrajectoriesSection(SectionData):
    """Frames and values along each trajectory."""

    kind = "trajectories"
    title = "Trajectories"
    segment: int
    """Steps per chunk of frames or attribution; the last segment of a trajectory may be shorter."""
    scrub: Scrub
    film: FrameSheets
    trajectories: Sequence[TrajectoryEntry]
    bookmarks: Bookmarks | None = None
    """None if there are no advantages: for an agent without a value, and on pages of recordings."""
    inputs: Sequence[str] | None = None
    """Names of the agent's numeric inputs, in the order of the array `inputs` of a series. They are the entries of a
    vector, or of the parts of a dictionary observation other than the image. None for an agent that observes only
    images."""


class TrajectoriesAnalysis(Analysis[TrajectoryPageOptions, TrajectoriesSection]):
    """Shows frames, values and bookmarks of each trajectory."""

    kind = "trajectories"
    needs_all = False

    def tasks(self, subject: Subject, options: TrajectoryPageOptions) -> Iterable[Task]:
        advantages = compute_advantages(subject)
        groups = [group.actions for group in subject.info.action_groups]
        for trajectory in range(len(subject.trajectories)):
            steps = subject.trajectories.steps(trajectory)
            inputs = [subject.decisive(self.Options), trajectory, discounts(subject), groups]
            yield self.task(
                subject,
                self.task_name(trajectory + 1),
                partial(write_trajectory, subject, advantages, trajectory),
                inputs,
                size=10 * steps,
                group=self.kind,
                parallel=parallel_calls(subject.agent),
                pieces=partial(_pieces, steps),
            )

    def sections(
        self, subject: Subject, options: TrajectoryPageOptions, results: Results
    ) -> Iterable[TrajectoriesSection]:
        played, observation = subject.trajectories, subject.info.observation
        entries = [
            replace(
                trajectory_entry(options, trajectory, played.steps(trajectory)),
                episodes=episode_entries(played, trajectory),
            )
            for trajectory in range(len(played))
        ]
        frame_size = (observation.frame_height, observation.frame_width)
        yield TrajectoriesSection(
            SEGMENT,
            scrub_images(frame_size, options.scrub_range),
            SHEETS,
            entries,
            _bookmarks(subject),
            input_names(subject.agent, subject.metadata) or None,
        )


SHEETS = FrameSheets(FILM_COLUMNS)


def scrub_images(frame_size: tuple[int, int], scrub_range: tuple[float, float]) -> Scrub:
    """Return the sizes of filmstrips for frames of this height and width."""
    height, width, _ = filmstrips(np.zeros((1, *frame_size, 1), np.uint8), scrub_range).shape
    return Scrub(SCRUB_STEPS, height, width)


def discounts(subject: Subject) -> tuple[float, float]:
    """Return gamma and lambda for advantages: from the options, otherwise from the metadata, otherwise the defaults."""
    options, (gamma, lam) = subject.options_of(AdvantageOptions), recorded_discounts(subject.metadata)
    return (
        gamma if options.gamma is None else float(options.gamma),
        lam if options.gae_lambda is None else float(options.gae_lambda),
    )


def recorded_discounts(metadata: JsonObject) -> tuple[float, float]:
    """Return gamma and lambda from the metadata of an agent or a recording, or the defaults."""
    gamma, lam = metadata.get("gamma"), metadata.get("lambda")
    return GAMMA if gamma is None else float(gamma), LAMBDA if lam is None else float(lam)


def compute_advantages(subject: Subject) -> list[np.ndarray | None]:
    """Return the advantages (T,) of the actions taken in each trajectory, or None for an agent without a value."""
    played, factors = subject.trajectories, discounts(subject)
    estimated = (estimates.compute_advantages(played.select(one), *factors) for one in range(len(played)))
    return [None if advantages is None else advantages[0] for advantages in estimated]


def write_trajectory(
    subject: Subject, advantages: Sequence[np.ndarray | None], trajectory: int, work: Work
) -> TaskResult:
    """Write the frames, filmstrips and series of a trajectory. `advantages` has an array (T,) for each trajectory."""
    options, files = subject.options_of(TrajectoryPageOptions), subject.files
    steps = subject.trajectories.steps(trajectory)
    entry = trajectory_entry(options, trajectory, steps)
    groups = [group.actions for group in subject.info.action_groups]
    series = compute_series(subject.trajectories, trajectory, advantages[trajectory], groups)
    series = replace(series, inputs=input_values(subject.agent, subject.trajectories, trajectory))
    numbers = {} if series.actions is not None else factor_series(subject.trajectories.actions[trajectory])
    state = subject.states(trajectory, slice(1)) or ()
    files.write_chunk(
        entry.series,
        series_arrays(series)
        | {f"info.{name}": values for name, values in numbers.items()}
        | {f"{FIRST_STATE}{i}": np.asarray(part, np.float32) for i, part in enumerate(state)},
    )
    for segment, part in enumerate(segments(steps)):
        chosen = slice(part.start, part.stop)
        stacks = None
        if subject.stack > 1:
            stacks = frames_side_by_side(subject.trajectories.observations[trajectory, chosen], subject.stack)
        frames = subject.trajectory_frames(trajectory, chosen)
        files.write_chunk(entry.frames[segment], frame_arrays(frames, stacks, thread_count()))
        if options.images:
            files.write_image(entry.images[segment], sheet(frames, FILM_COLUMNS))
        work.report((segment + 1) / len(segments(steps)))
    for name, part in zip(entry.scrub, segments(steps, SCRUB_STEPS), strict=True):
        frames = subject.trajectory_frames(trajectory, slice(part.start, part.stop))
        files.write_image(name, filmstrips(frames, options.scrub_range))
    return TaskResult(files=[entry.series, *entry.frames, *entry.images, *entry.scrub])


def compute_series(
    played: Trajectories, trajectory: int, advantages: np.ndarray | None, groups: Sequence[Sequence[int]]
) -> Series:
    """Return the series of a trajectory. For action values, the probabilities are those of the greedy policy."""
    actions = played.actions[trajectory]
    logits = probabilities = sums = None
    if played.policy_logits is not None:
        logits = np.asarray(played.policy_logits[trajectory], np.float32)  # (T, A)
        probabilities = softmax(logits) if actions.ndim == 1 else None
    elif played.q_values is not None:
        logits = np.asarray(played.q_values[trajectory], np.float32)
        probabilities = np.eye(logits.shape[-1], dtype=np.float32)[logits.argmax(-1)]
    if logits is not None:
        parts = [logits[:, list(group)].sum(-1) for group in groups]
        sums = np.stack(parts, axis=-1) if parts else np.zeros((len(logits), 0), np.float32)
    return Series(
        rewards=played.rewards[trajectory],
        firsts=played.firsts[trajectory],
        actions=actions if actions.ndim == 1 else None,
        advantages=advantages,
        probabilities=probabilities,
        logits=logits,
        groups=sums,
        values=None if played.values is None else played.values[trajectory],
    )


SERIES_TYPES = {
    **{"actions": np.int32, "rewards": np.float32, "firsts": np.uint8, "advantages": np.float32},
    **{"probabilities": np.float32, "logits": np.float32, "groups": np.float32, "values": np.float32},
    "inputs": np.float32,
}
"""Arrays of a series, in the order and with the types of the chunk."""


def series_arrays(series: Series) -> dict[str, np.ndarray | bytes]:
    """Return a series as the arrays of its chunk."""
    arrays = {name: getattr(series, name) for name in SERIES_TYPES}
    return {name: array.astype(SERIES_TYPES[name]) for name, array in arrays.items() if array is not None}


def factor_series(actions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values (T,) float32 of each factor of the actions (T, ...), as `action.0`, `action.1`, ..."""
    columns = np.asarray(actions, np.float32).reshape(len(actions), -1).T
    return {f"action.{i}": np.ascontiguousarray(column) for i, column in enumerate(columns)}


def trajectory_entry(options: TrajectoryPageOptions, trajectory: int, steps: int) -> TrajectoryEntry:
    """Return the length of a trajectory and the names of its files."""

    def names(kind: type[Name], subdirectory: str, pattern: str, length: int) -> list[Name]:
        return [
            kind(path_in(subdirectory, f"{trajectory + 1}/{pattern.format(index + 1)}"))
            for index in range(len(segments(steps, length)))
        ]

    folder = options.trajectories_subdir
    return TrajectoryEntry(
        steps,
        ChunkName(path_in(folder, f"{trajectory + 1}/series.js")),
        names(ImageName, options.trajectories_scrub_subdir, "scrub-{}.png", SCRUB_STEPS),
        names(ChunkName, folder, "frames-{}.js", SEGMENT),
        names(ExtraImageName, folder, "frames-{}.png", SEGMENT) if options.images else (),
    )


def episode_entries(played: Trajectories, trajectory: int) -> list[EpisodeSummary]:
    """Return the episodes of a trajectory.

    An end is `done`, `time limit`, `ended` if the cause is unknown, or `cut` if the recording stops before the end.
    """
    firsts = np.asarray(played.firsts[trajectory], bool)
    starts = np.unique([0, *np.flatnonzero(firsts)])
    causes = {step: cause for i, step, cause in played.causes or () if i == trajectory}
    return [
        EpisodeSummary(
            frame=int(start),
            steps=int(stop - start),
            return_=float(np.sum(played.rewards[trajectory, start:stop], dtype=np.float64)),
            end=_end(played, trajectory, int(stop) - 1),
            cause=causes.get(int(stop) - 1),
        )
        for start, stop in zip(starts, [*starts[1:], len(firsts)], strict=True)
    ]


def _end(played: Trajectories, trajectory: int, step: int) -> Literal["done", "time limit", "ended", "cut"]:
    """Return how the episode whose last step is `step` ended; see `EpisodeSummary`."""
    truncated = played.truncated is not None and bool(played.truncated[trajectory, step])
    if played.dones is not None:
        ended = bool(played.dones[trajectory, step])
    else:
        ended = truncated or step + 1 < played.firsts.shape[1]
    if not ended:
        return "cut"
    if played.truncated is None:
        return "ended"
    return "time limit" if truncated else "done"


def _bookmarks(subject: Subject) -> Bookmarks | None:
    advantages = [one for one in compute_advantages(subject) if one is not None]
    if not advantages:
        return None
    count = subject.options_of(AdvantageOptions).bookmarks
    high, low = (
        [Bookmark(int(t), int(s), float(advantages[t][s])) for t, s in moments]
        for moments in estimates.find_bookmarks(advantages, subject.trajectories.firsts, count)
    )
    return Bookmarks(high, low)


def _pieces(steps: int, sample: Subject, frames: int) -> Iterable[Piece]:
    advantages = compute_advantages(sample)
    work = Work(frames, lambda share: None, {})
    played = sample.trajectories.actions.shape[1]
    yield Piece(partial(write_trajectory, sample, advantages, 0, work), steps / played)
