"""The section `windows`: short windows of episodes, whose last step is explained by the steps before it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from rl_clarity.agents.capabilities import has
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.memory.explained import cause_agreement, explain_windows
from rl_clarity.analyses.memory.matrix import MATRIX, MatrixOptions, MatrixSection, decisions, page_matrix
from rl_clarity.analyses.memory.sample import sample_states
from rl_clarity.analyses.memory.source import (
    FIT,
    FOLDER,
    direction_names,
    fitted_states,
    memory_source,
    places,
)
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import ChunkName, path_in
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import SectionData
from rl_clarity.states.data import StateData
from rl_clarity.states.matrix import MemoryMatrix
from rl_clarity.states.memory_path import mean_frame, outputs_at
from rl_clarity.states.options import StateOptions
from rl_clarity.states.partners import Partners
from rl_clarity.states.parts import FittedStates
from rl_clarity.states.replacement import compared_step

CHOICE = "windows/choice"
"""Name of the task that chooses the windows."""
TASK_WINDOWS = 10
"""Number of windows per task."""
AT_ONCE = 2
"""Number of windows in a batch."""
APART = 4
"""Smallest number of steps between two decisions of an episode that windows are chosen for."""
End = Literal["top", "middle", "bottom"]
ENDS: tuple[End, ...] = ("top", "middle", "bottom")
Output = Literal["value", "action"]
OUTPUTS: tuple[Output, ...] = ("value", "action")
DIRECTION = "direction-"
"""Prefix of the ids of targets that are directions."""
MEASURED_STEPS, MEASURED_WINDOWS = 2, 2
"""Numbers of steps per window, and of windows, that are explained to measure the time."""


@dataclass(frozen=True)
class WindowOptions:
    """Options of windows of steps, whose last step is explained by the earlier ones."""

    count: int = 100
    """Largest number of windows; 0 for none. Windows end at decisions that depend on memory, at rewards, at high
    entropies of the policy, at ends of episodes, at high, medium and low coordinates of each direction, at examples of
    each behavior, and at evenly spaced steps of all episodes."""
    at: tuple[str, ...] = ()
    """Steps that are always explained, in the form EPISODE:STEP, counted from 1 as on the page, for example 3:57."""
    horizon: int = 16
    """Number of steps of a window. Windows that end at decisions that depend on memory, or at steps in `at`, are longer
    if the dependence on memory begins earlier."""
    longest: int = 64
    """Largest number of steps of a window that is longer than `horizon`."""
    directions: int = 2
    """Number of directions that are explained in each window: those whose coordinates at its last step differ most from
    the mean. If the window was chosen for a direction, this direction is added."""
    points: int = 32
    """Number of points on the line from the frames of another episode to those of the window. Gradients through memory
    are averaged over them; gradients through the world always use 4 points."""
    grid: int = 32
    """Largest number of rows and columns of saliency maps."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "count", "directions")
        check_minimum(self, 1, "horizon", "longest", "grid", "points")
        valid = all(re.fullmatch(r"[1-9]\d*:[1-9]\d*", place) for place in self.at)
        check_option(self, "at", valid, "must be steps in the form EPISODE:STEP, counted from 1, such as 3:57")
        check_option(self, "at", len(self.at) <= self.count, f"must have at most count={self.count} steps")

    def places(self) -> list[tuple[int, int]]:
        """Return the steps in `at` as pairs (episode, step), counted from 0."""
        return [(int(episode) - 1, int(step) - 1) for episode, step in (place.split(":") for place in self.at)]


@dataclass(frozen=True)
class WindowTarget:
    """A quantity that is explained at the last step of a window."""

    id: str
    """`value`, `action` or `direction-3`."""
    kind: Literal["value", "action", "direction"]
    """The value; the logit of the action taken minus the mean logit of the other actions; or a coordinate of the state
    before the step."""
    label: str
    direction: int | None = None


@dataclass(frozen=True)
class WindowReason:
    """A reason why a window was chosen."""

    kind: Literal["asked", "decision", "reward", "entropy", "end", "direction", "behaviour", "episode"]
    """`asked`: the step is in `windows.at`; `decision`: the decision at the step depends on memory; `reward`: it has a
    reward; `entropy`: the policy has a high entropy; `end`: it ends an episode; `direction`: the coordinate of the
    direction is high, medium or low; `behaviour`: it is an example of the behavior; `episode`: it is one of the evenly
    spaced steps."""
    direction: int | None = None
    end: End | None = None
    behaviour: int | None = None


@dataclass(frozen=True)
class WindowChoice:
    """A window of steps, whose last step is explained."""

    trajectory: int
    frame: int
    """The step that is explained."""
    first: int
    """The first step of the window."""
    targets: Sequence[str]
    """Ids of the targets that are explained."""
    why: Sequence[WindowReason]
    begins: int | None = None
    """The first step whose frame the decision depends on, according to the memory matrix; null if there is no such
    step, or if the decision is not in the matrix. A window that starts later does not show the whole dependence."""
    partner: int | None = None
    """The episode whose frames at the same steps the window is compared with. It is chosen from 16 episodes whose
    states differ strongly from the states of this one: its state changes the policy most when it replaces the state
    before the explained step. Null if no other episode has this step: the window is then compared with the recording's
    mean frame."""

    @property
    def directions(self) -> list[int]:
        """The numbers of the directions among the targets."""
        return [int(one.removeprefix(DIRECTION)) for one in self.targets if one.startswith(DIRECTION)]


@dataclass(frozen=True)
class WindowEntry(WindowChoice):
    """A window that is explained, with its chunk."""

    chunk: ChunkName = dataclasses.field(kw_only=True)


@dataclass(frozen=True)
class WindowsSection(SectionData):
    """Short windows of episodes, whose last step is explained by the steps before it."""

    kind = "windows"
    title = "Causes of single steps"
    targets: Sequence[WindowTarget]
    paths: Sequence[Literal["memory", "whole"]]
    """Paths of the gradients: `memory`, through memory alone, and with a simulator also `whole`, through memory and
    world. `whole` minus `memory` is the influence through the world."""
    windows: Sequence[WindowEntry]
    measured: int = 0
    """Number of causes, in all windows, whose effects were measured by replacing their frames. Causes below a twentieth
    of the largest cause of their window and target are not counted."""
    disagree: int = 0
    """Number of these causes whose estimate differs from the measured effect by more than half of the larger of the
    two."""


@dataclass(frozen=True)
class WrittenChunk:
    """The chunk of a window, with the number of the window and the counts of `cause_agreement`."""

    number: int
    name: str
    measured: int
    disagree: int


class WindowsAnalysis(Analysis[WindowOptions, WindowsSection]):
    """Finds the earlier steps that caused an action or a value, by gradients through memory and through the world."""

    kind = "windows"
    needs_all = False

    def tasks(self, subject: Subject, options: WindowOptions) -> Iterable[Task]:
        if not options.count or not has(subject.agent, "state_gradients"):
            return
        inputs = [subject.decisive(StateOptions, WindowOptions, MatrixOptions), subject.options.seed]
        before = (FIT, f"{FOLDER}/cards", f"{FOLDER}/behaviours", MATRIX)
        yield self.task(
            subject, CHOICE, partial(_choose, subject), inputs, after=before, pieces=lambda sample, batch: ()
        )
        for number, part in enumerate(slices(options.count, TASK_WINDOWS)):
            yield self.task(
                subject, self.task_name(number + 1), partial(_explain, subject, part), inputs, after=(CHOICE,),
                size=100 * options.horizon * (part.stop - part.start), group=self.kind,
                pieces=partial(_pieces, part.stop - part.start),
            )  # fmt: skip

    def sections(self, subject: Subject, options: WindowOptions, results: Results) -> Iterable[WindowsSection]:
        choice = results.get(CHOICE)
        if choice is None:
            return
        finished = (facts for name, facts in results.items() if name.startswith(self.task_name("")))
        written = [one for facts in finished for one in facts.get("chunks", ())]
        chunk_of = {one["number"]: one["name"] for one in written}
        windows = [
            {**window, "chunk": chunk_of[number]}
            for number, window in enumerate(choice["windows"])
            if number in chunk_of
        ]
        counts = {name: sum(one[name] for one in written) for name in ("measured", "disagree")}
        yield read(WindowsSection, {**choice, "windows": windows, **counts}, self.kind)


def _choose(subject: Subject, work: Work) -> TaskResult:
    """Choose the windows. Return the contents of the section, without chunks."""
    fitted, source = fitted_states(subject), memory_source(subject)
    options = subject.options_of(WindowOptions)
    cards = subject.files.read_chunk(work.results[f"{FOLDER}/cards"]["chunk"])
    behaviors = work.results[f"{FOLDER}/behaviours"].get("chunk")
    clips = subject.files.read_chunk(behaviors)["clips"] if behaviors else np.zeros((0, 0, 2), np.int32)
    context = 0 if source.simulator is None else source.context
    facts = work.results.get(MATRIX)
    matrix = None
    if facts is not None:
        matrix = page_matrix(read(MatrixSection, facts, MATRIX), subject.files.read_chunk)
    chosen = choose_windows(fitted, cards, clips, options.count, context, matrix, options.places())
    others = Partners(fitted.data, subject.options.seed)
    windows = [window_at(fitted, row, options, others, matrix, why, context) for row, why in chosen.items()]
    used = sorted({direction for window in windows for direction in window.directions})
    paths = ["memory"] if source.simulator is None else ["memory", "whole"]
    return TaskResult(as_dicts({"targets": window_targets(fitted, used), "paths": paths, "windows": windows}))


def window_at(
    fitted: FittedStates,
    row: int,
    options: WindowOptions,
    others: Partners,
    matrix: MemoryMatrix | None,
    why: Sequence[WindowReason],
    context: int = 0,
) -> WindowChoice:
    """Return the window that ends at a row of the states. Its targets are the outputs and the largest coordinates."""
    trajectory, frame = map(int, places(fitted, np.array([row]))[0])
    begins = _begins(matrix, trajectory, frame)
    first = frame - options.horizon + 1
    if begins is not None and any(reason.kind in ("asked", "decision") for reason in why):
        first = min(first, max(begins, frame - options.longest + 1))
    sizes = np.abs(fitted.coordinates[row] - fitted.center) / np.maximum(fitted.spread, 1e-12)
    largest = np.argsort(-sizes, kind="stable")[: options.directions]
    directions = sorted({*map(int, largest), *(one.direction for one in why if one.direction is not None)})
    targets = [one.id for one in window_targets(fitted, directions)]
    partner = int(places(fitted, np.array([compared_step(fitted.agent, fitted.data, others, row)]))[0, 0])
    return WindowChoice(trajectory, frame, max(context, first), targets, why, begins, None if partner < 0 else partner)


def window_targets(fitted: FittedStates, directions: Iterable[int]) -> list[WindowTarget]:
    """Return the targets of windows: the agent's outputs, and directions."""
    labels: Mapping[Output, str] = {"value": "value function", "action": "action taken"}
    names = direction_names(fitted.directions)
    known = outputs_at(fitted.agent, fitted.data, np.zeros(1, int))
    outputs = [WindowTarget(one, one, labels[one]) for one in OUTPUTS if one in known]
    return outputs + [WindowTarget(f"{DIRECTION}{i}", "direction", names[i], i) for i in directions]


def _begins(matrix: MemoryMatrix | None, trajectory: int, frame: int) -> int | None:
    """Return the first step whose frame a decision depends on; None if there is none, or if it was not measured."""
    if matrix is None or trajectory not in matrix.episodes:
        return None
    return matrix.begins(int(np.searchsorted(matrix.episodes, trajectory)), frame)


def choose_windows(
    fitted: FittedStates,
    cards: Mapping[str, np.ndarray],
    clips: np.ndarray,
    count: int,
    context: int = 0,
    matrix: MemoryMatrix | None = None,
    asked: Sequence[tuple[int, int]] = (),
) -> dict[int, list[WindowReason]]:
    """Choose at most `count` steps at which windows end. Return their rows in the states, each with its reasons.

    Steps (episode, step) that are `asked` for come first. Then up to a fifth of the steps are decisions that depend on
    memory, in the order of `decisions`; up to a twentieth each are steps with rewards, steps of high entropy, and ends
    of episodes; up to two fifths have a high, medium or low coordinate of a direction (`cards`); and up to an eighth
    are examples of behaviors (`clips`, (K, n, 2)). The others are evenly spaced over all episodes.

    The first `context` + 1 steps of an episode are never chosen, because a simulation starts from `context` frames and
    a window needs an earlier step. Raises OptionError for steps that are asked for but cannot be chosen.
    """
    starts, time = fitted.data.starts, fitted.data.time
    examples: list[tuple[int, WindowReason]] = []
    for example in range(cards["top"].shape[1]):
        for direction in range(len(cards["top"])):
            for end in ENDS:
                trajectory, frame = cards[end][direction, example]
                if trajectory >= 0:
                    reason = WindowReason("direction", direction=direction, end=end)
                    examples.append((int(starts[trajectory] + frame), reason))
    behavior_examples = [
        (int(starts[trajectory] + frame), WindowReason("behaviour", behaviour=behavior))
        for example in range(clips.shape[1])
        for behavior, (trajectory, frame) in enumerate(clips[:, example])
        if trajectory >= 0
    ]
    chosen: dict[int, list[WindowReason]] = {}

    def take(candidates: Sequence[tuple[int, WindowReason]], most: int) -> None:
        for row, reason in candidates:
            if row in chosen:
                chosen[row].append(reason)
            elif time[row] > context and len(chosen) < min(most, count):
                chosen[row] = [reason]

    take([(_asked_row(fitted.data, *place, context), WindowReason("asked")) for place in asked], count)
    if matrix is not None:
        take(list(_apart(fitted, matrix)), len(chosen) + -(-count // 5))
    for event, rows in _events(fitted.data).items():
        take([(int(row), event) for row in rows], len(chosen) + count // 20)
    take(examples, len(chosen) + 2 * count // 5)
    take(behavior_examples, len(chosen) + count // 8)
    others = np.setdiff1d(np.flatnonzero(time > context), list(chosen))
    take([(int(row), WindowReason("episode")) for row in others[_spread(len(others), count - len(chosen))]], count)
    return chosen


def _asked_row(data: StateData, episode: int, step: int, context: int) -> int:
    """Return the row of a step that is asked for. Raises OptionError if it cannot be explained."""
    length = int(data.length[data.starts[episode]]) if episode < len(data.starts) else 0
    if not context < step < length:
        raise OptionError(
            f"windows.at has {episode + 1}:{step + 1}, but only "
            + (
                f"steps {context + 2} to {length} of this episode can be explained"
                if length
                else f"{len(data.starts)} episodes were played"
            )
        )
    return int(data.starts[episode]) + step


def _apart(fitted: FittedStates, matrix: MemoryMatrix) -> Iterator[tuple[int, WindowReason]]:
    """Yield decisions that depend on memory, except those near a decision of their episode that was yielded before."""
    taken: dict[int, list[int]] = {}
    for e, step in decisions(matrix):
        others = taken.setdefault(e, [])
        if all(abs(step - other) >= APART for other in others):
            others.append(step)
            yield int(fitted.data.starts[matrix.episodes[e]]) + step, WindowReason("decision")


def _events(data: StateData) -> dict[WindowReason, np.ndarray]:
    """Return, by reason, the rows with rewards, with the highest entropy of each episode, and at ends of episodes."""
    rewarded = np.argsort(-np.abs(data.rewards), kind="stable")
    events = {WindowReason("reward"): rewarded[data.rewards[rewarded] != 0]}
    ends = data.starts + data.length[data.starts] - 1
    logs = data.log_probabilities
    if logs is not None:
        entropy = -(np.exp(logs) * logs).sum(axis=1)
        highest = np.array(
            [start + entropy[start : end + 1].argmax() for start, end in zip(data.starts, ends, strict=True)]
        )
        events[WindowReason("entropy")] = highest[np.argsort(-entropy[highest], kind="stable")]
    return events | {WindowReason("end"): ends}


def _spread(count: int, most: int) -> np.ndarray:
    return np.linspace(0, count - 1, min(most, count)).astype(int)


def _explain(subject: Subject, part: slice, work: Work) -> TaskResult:
    """Write the chunks of some of the windows."""
    chosen = [read(WindowChoice, window, CHOICE) for window in work.results[CHOICE]["windows"]]
    windows = list(enumerate(chosen))[part]
    fitted = fitted_states(subject)
    mean = mean_frame(fitted.data)
    groups: dict[tuple[int, int], list[tuple[int, WindowChoice]]] = {}
    for number, one in windows:  # windows of the same shape are computed together
        groups.setdefault((one.frame - one.first + 1, len(one.targets)), []).append((number, one))
    chunks: list[WrittenChunk] = []
    done = 0
    for (steps, _), members in sorted(groups.items()):
        for few in slices(len(members), AT_ONCE):
            chunks += _write_chunks(subject, fitted, members[few], steps, mean)
            done += len(members[few])
            work.report(done / len(windows))
    return TaskResult({"chunks": chunks}, [chunk.name for chunk in chunks])


def _write_chunks(
    subject: Subject,
    fitted: FittedStates,
    windows: Sequence[tuple[int, WindowChoice]],
    steps: int,
    mean: np.ndarray,
) -> list[WrittenChunk]:
    """Write the chunks of windows that have the same number of steps and targets."""
    options = subject.options_of(WindowOptions)
    rows, compared = window_rows(fitted, [one for _, one in windows])
    explained = explain_windows(
        fitted,
        rows,
        np.array([one.directions for _, one in windows], int).reshape(len(windows), -1),
        steps,
        compared,
        mean,
        points=options.points,
        grid=options.grid,
        partners=subject.options_of(MatrixOptions).partners,
        seed=subject.options.seed,
        source=memory_source(subject),
    )
    chunks = []
    for (number, _), arrays in zip(windows, explained, strict=True):
        name = path_in("windows", f"{number + 1}.js")
        subject.files.write_chunk(name, arrays)
        chunks.append(WrittenChunk(number, name, *cause_agreement(arrays)))
    return chunks


def window_rows(fitted: FittedStates, windows: Sequence[WindowChoice]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (B,) of the steps that windows explain, and the rows (B,) of the same steps of their partners.

    The latter are -1 for windows without a partner.
    """
    starts = fitted.data.starts
    rows = [starts[one.trajectory] + one.frame for one in windows]
    compared = [-1 if one.partner is None else starts[one.partner] + one.frame for one in windows]
    return np.array(rows), np.array(compared)


def _pieces(count: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a piece that explains a few short windows, scaled up to the `count` full-length windows of a task."""
    fitted, options = sample_states(sample), sample.options_of(WindowOptions)
    steps, together = min(options.horizon, MEASURED_STEPS), min(count, MEASURED_WINDOWS)
    # including the direction for which a window is chosen
    directions = range(min(options.directions + 1, len(fitted.directions)))
    targets = [*outputs_at(sample.agent, fitted.data, np.zeros(1, int)), *(f"direction-{i}" for i in directions)]
    first = memory_source(sample).context
    windows = [(i, WindowChoice(0, first + steps + i, first + 1 + i, targets, ())) for i in range(together)]
    explain = partial(_write_chunks, sample, fitted, windows, steps, mean_frame(fitted.data))
    yield Piece(explain, count / together * options.horizon / steps, explain)
