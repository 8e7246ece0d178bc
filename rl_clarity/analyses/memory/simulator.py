"""The section `simulator`: measures of a simulator's quality, and clips that compare it with recorded frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.memory.sample import SampleRecording
from rl_clarity.analyses.memory.source import memory_source
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import check_minimum
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import ImageName
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import SectionData
from rl_clarity.world_models.clips import clip_bytes, clip_frames
from rl_clarity.world_models.deletion import deletion_test
from rl_clarity.world_models.quality import COMPASS_STEPS, DELETION_AT, WINDOWS_AT_ONCE, action_compass, measure_quality
from rl_clarity.world_models.rollouts import follow
from rl_clarity.world_models.windows import Windows

MEASURED_STEPS, MEASURED_WINDOWS = 2, 8
"""Numbers of steps and windows that are simulated to measure the time."""


@dataclass(frozen=True)
class SimulatorPageOptions:
    """Options of the section about the simulator."""

    windows: int = 64
    """Number of windows of the recording on which the simulator's errors are measured."""
    clips: int = 4
    """Number of clips that show simulations beside the recorded frames."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "windows")
        check_minimum(self, 0, "clips")


@dataclass(frozen=True)
class DeletionEntry:
    """How much the value changes if blocks of the frames are removed, in order of saliency or at random
    (`rl_clarity.deletion_test`).

    `difference` is the mean over fractions of the change by saliency minus the change at random.
    """

    difference: float
    interval: tuple[float, float]
    fractions: Sequence[float]
    """Shares of the blocks that are removed."""
    by_saliency: Sequence[float]
    random: Sequence[float]
    at: int
    starts: int


@dataclass(frozen=True)
class ErrorDifference:
    """How much larger the error of the prediction `larger` is than that of `smaller`, on average.

    The average is over horizons and windows.
    """

    smaller: str
    larger: str
    difference: float | None
    interval: tuple[float | None, float | None]
    """95 % bootstrap interval over windows."""


@dataclass(frozen=True)
class QualityEntry:
    """Errors of the simulator on windows of the recording, and comparisons of its states and latents with the data.

    `auc` is the area under the ROC curve of a classifier of simulated and recorded states: 0.5 if they cannot be
    distinguished.
    """

    windows: int
    auc: float | None
    coverage: float | None
    """Share of random latents that are near one of 32 latents of the data; null for fewer than 32 windows."""
    latent_dimensions: float | None
    deletion: DeletionEntry | None
    errors: Mapping[str, Mapping[str, Sequence[Sequence[float | None]]]]
    """Mean squared errors, by kind (`frame`, `state`, `reward`) and prediction (`posterior`, `prior`, `closed_loop`,
    `last_frame`, `mean_frame`): three lists over horizons, with the mean, the 10th and the 90th percentile over
    windows."""
    coverage_interval: tuple[float | None, float | None] | None = None
    """Interval that contains the coverage for 95 % of the random choices of 32 latents."""
    auc_interval: tuple[float | None, float | None] | None = None
    """95 % bootstrap interval of `auc` over windows."""
    differences: Mapping[str, Sequence[ErrorDifference]] = dataclasses.field(default_factory=dict)
    """By kind, comparisons of the errors of two predictions, of which `smaller` should have the smaller error."""


@dataclass(frozen=True)
class CompassEntry:
    """The agent's simulated displacement under each constant action, and `expected`, the direction of its buttons."""

    actions: Sequence[str]
    """Labels of the actions."""
    displacements: Sequence[tuple[float, float]]
    """Mean displacement under each action, to the right and up, in pixels."""
    expected: Sequence[tuple[float, float]]
    agreement: Sequence[float | None]
    """For each action, the share of starts from which the agent moves in its direction; null for an action without a
    direction."""
    agreement_interval: Sequence[tuple[float | None, float | None]] = ()
    """95 % intervals of `agreement`."""


@dataclass(frozen=True)
class SimulatorSection(SectionData):
    """The quality of the simulator."""

    kind = "simulator"
    title = "Simulator"
    quality: QualityEntry
    compass: CompassEntry | None
    clips: Sequence[ImageName]
    """Animated PNGs that show, from left to right, the recorded frames, and simulations from the posterior, from the
    prior with the recorded actions, and with the agent in the loop."""
    context: int
    """Number of recorded frames from which a simulation starts."""
    horizon: int
    fit: Mapping[str, object]
    """Options of the simulator's training."""


class SimulatorAnalysis(Analysis[SimulatorPageOptions, SimulatorSection]):
    """Measures the simulator's quality, and writes clips of it."""

    kind = "simulator"
    needs_all = False

    def tasks(self, subject: Subject, options: SimulatorPageOptions) -> Iterable[Task]:
        if memory_source(subject).simulator is None:
            return
        inputs = [subject.decisive(SimulatorPageOptions), subject.options.seed]
        for name, run, pieces in (("quality", _quality, _quality_pieces), ("clips", _clips, _clip_pieces)):
            yield self.task(subject, self.task_name(name), partial(run, subject), inputs, size=1000, pieces=pieces)

    def sections(self, subject: Subject, options: SimulatorPageOptions, results: Results) -> Iterable[SimulatorSection]:
        quality, clips = (results.get(self.task_name(name)) for name in ("quality", "clips"))
        if quality is not None:
            yield read(SimulatorSection, {"clips": (), **quality, **(clips or {})}, self.kind)


def _quality(subject: Subject, work: Work) -> TaskResult:
    """Measure the simulator on the recording. Return the contents of the section, except the clips."""
    source, options = memory_source(subject), subject.options_of(SimulatorPageOptions)
    simulator = source.required_simulator
    quality = measure_quality(
        simulator, source.required_recording, windows=options.windows, horizon=source.horizon,
        context=source.context, seed=subject.options.seed,
    ).to_dict()  # fmt: skip
    compass = quality.pop("compass")
    facts = {"quality": quality, "compass": compass, "context": source.context, "horizon": source.horizon}
    return TaskResult(to_plain({**facts, "fit": simulator.metadata.get("fit") or {}}, finite=True))


def _clips(subject: Subject, work: Work) -> TaskResult:
    """Write clips of evenly spaced windows of the recording, and return their names."""
    source, options = memory_source(subject), subject.options_of(SimulatorPageOptions)
    if not options.clips:
        return TaskResult({"clips": []})
    simulator = source.required_simulator
    windows = Windows(source.required_recording, subject.agent, source.context, source.horizon)
    complete = windows.complete()
    chosen = complete if len(complete) else np.arange(len(windows))
    numbers = np.unique(chosen[np.linspace(0, len(chosen) - 1, options.clips).astype(int)])
    batch = windows.read(numbers)
    rollouts = follow(simulator, batch, seed=subject.options.seed)
    frames = clip_frames(batch, rollouts)  # (T, rows, columns, C): a row of images for each window
    names = []
    for number, clip in enumerate(np.split(frames, len(numbers), axis=1), start=1):
        names.append(f"simulator/clip-{number}.png")
        subject.files.write_file(names[-1], clip_bytes(clip))
    return TaskResult({"clips": names}, names)


# --- forecast --------------------------------------------------------------------------------------------------------


def _quality_pieces(sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield pieces that measure each part of the quality on a few windows and steps."""
    source, windows = memory_source(sample), sample.options_of(SimulatorPageOptions).windows
    simulator, recording = source.required_simulator, SampleRecording(sample)
    count, steps = min(windows, MEASURED_WINDOWS), MEASURED_STEPS
    errors = partial(
        measure_quality, simulator, recording, windows=count, horizon=steps, context=source.context, compass_steps=0,
        deletion_at=0,
    )  # fmt: skip
    yield Piece(errors, windows / count * source.horizon / steps, errors)
    starts = Windows(recording, sample.agent, source.context, steps).read(np.arange(count)).frames[:, : source.context]
    compass = partial(action_compass, simulator, starts, steps)
    yield Piece(compass, min(windows, WINDOWS_AT_ONCE) / count * COMPASS_STEPS / steps)
    if "values" in simulator.agent.heads:
        deletion = partial(deletion_test, simulator, starts, at=steps - 1)
        yield Piece(deletion, windows / count * (DELETION_AT + 1) / steps, partial(deletion, at=0))


def _clip_pieces(sample: Subject, batch: int) -> Iterable[Piece]:
    source, clips = memory_source(sample), sample.options_of(SimulatorPageOptions).clips
    batch_of_one = Windows(SampleRecording(sample), sample.agent, source.context, MEASURED_STEPS).read([0])

    def write_one_clip() -> None:
        frames = clip_frames(batch_of_one, follow(source.required_simulator, batch_of_one))
        sample.files.write_file("clip.png", clip_bytes(frames))

    if clips:
        yield Piece(write_one_clip, clips * source.horizon / MEASURED_STEPS, write_one_clip)
