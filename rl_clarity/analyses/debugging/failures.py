"""The analysis `failures`: why episodes failed, and until which step the end could be avoided."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.objects.measure import ending_track
from rl_clarity.analyses.objects.section import ObjectsSection
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.statistics import share_interval
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import (
    VERDICTS,
    Ending,
    Failure,
    FailureOptions,
    Survival,
    ago,
    count_episodes,
    episode_moments,
    escape_frames,
    examine,
    failed_episodes,
)
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.animations import BEFORE, animated_png, side_by_side
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.images import newest_frames
from rl_clarity.pages.manifest import AgentInfo
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import (
    Bar,
    BarsSection,
    ImagesSection,
    Line,
    LinesSection,
    Note,
    PanelImage,
    TableSection,
    columns_with_values,
)

PARTS = 8
"""Number of tasks among which the failures are divided."""
CLIPS = 2
"""Largest number of clips that each of these tasks writes."""
SEARCHES = 8
"""Average number of steps per failure from which action sequences are searched, as assumed by the forecast."""
STEPS_OF_A_FAILURE = 512
"""Number of steps per failed episode that the forecast assumes, because failures are not known before episodes are
played."""
TRACKS = (
    Line("effect", "reaction"),
    Line("avoidable", "avoidable", limits=(0, 1)),
    Line("survives", "survival", limits=(0, 1), points=True),
    Line("without", "without it", limits=(0, 1), points=True),
)
TRACKS_CAPTION = (
    "Reaction: effect on the policy of the object that ended the episode, from the step at which it is first seen. "
    "Avoidable: 1 up to the last step from which the end could be avoided, then 0. Survival: share of the policy's "
    "continuations from a step that survive, at the marked steps. Without it: the same share after the object that "
    "ended the episode was removed from the environment. "
)
NOTE = Note(
    "Failures",
    "An episode failed if its last step gave no reward, or if its time ran out although other episodes end with a "
    "reward. The cause is the object without which the last step, repeated from the saved state of the environment, "
    "does not end the episode. An end is avoidable until the last step from which at least one of several random "
    "sequences of actions survives; random sequences do not find every way out, so the end may be avoidable for "
    "longer. From some steps, the policy continues the episode with new random numbers for its actions; the "
    "environment's random numbers are part of its saved state. Verdicts: "
    + "; ".join(f"{name}: {text}" for name, text in VERDICTS.items())
    + ".",
)


@dataclass(frozen=True)
class FailuresSection(TableSection):
    """Failures with their verdicts, in increasing order of the return."""

    kind = "failures"
    title = "Failures"


@dataclass(frozen=True)
class VerdictsSection(BarsSection):
    """Shares of the failures by cause and verdict, with 95 % intervals."""

    kind = "verdicts"
    title = "Causes of failures"


@dataclass(frozen=True)
class FailureClips(ImagesSection):
    """Failures as they originally happened, each next to a continuation that survives."""

    kind = "failure_clips"
    title = "Failures, and how they could be avoided"


@dataclass(frozen=True)
class FailureTracks(LinesSection):
    """Reaction, avoidability and survival before the end of failed episodes, along the trajectories."""

    kind = "failure_tracks"
    title = "Before the end of failed episodes"


_Sections: TypeAlias = FailuresSection | VerdictsSection | FailureClips | FailureTracks


class FailuresAnalysis(Analysis[FailureOptions, _Sections]):
    """Continues failed episodes from the saved states of the steps before their end."""

    kind = "failures"
    version = 4

    def tasks(self, subject: Subject, options: FailureOptions) -> Iterable[Task]:
        for part in range(min(PARTS, max(1, options.count))):
            yield self.task(
                subject,
                self.task_name("part", part + 1),
                partial(_measure_part, subject, options, part),
                [asdict(options), subject.options.seed, part],
                group=self.task_name("part"),
                pieces=partial(_pieces, options, expected_failures(subject, options) / PARTS),
            )
        yield self.task(
            subject,
            self.task_name("tracks"),
            partial(_write_tracks, subject, options),
            [asdict(options), subject.options.seed],
            size=0.01,
            after=(self.task_name("part"),),
            pieces=lambda sample, batch: (),  # the task takes no time
        )

    def sections(self, subject: Subject, options: FailureOptions, results: Results) -> Iterable[_Sections]:
        failures, episodes, known = failures_of(results), episodes_of(results), _failed(results)
        columns = {
            "failure": "failure",
            "survival": "policy survives",
            "without": "without it",
            "verdict": "verdict",
            "until": "avoidable until",
            "seen": "seen since",
            "statement": "what happened",
            "end": "end",
            "return": "return",
            "played": "actions taken",
            "escape": "actions that survive",
        }
        worst = f" The {len(failures)} with the lowest return were examined." if known > len(failures) else ""
        caption = (
            f"{known} of {episodes} episodes failed.{worst} A row opens the last step at which the end could be "
            "avoided. The row shows how many of the policy's continuations from this step survive, with and without "
            "the object that ended the episode; the actions that the agent took from this step; and a sequence of "
            "actions that survives. Steps are counted back from the last one. Shares in sentences have 95% intervals."
        )
        rows = [_row(one, subject, results) for one in failures]
        yield FailuresSection(columns_with_values(columns, rows, frames=("end",)), rows, caption=caption)
        counts = Counter(f"{one.cause}: {one.verdict}" for one in failures)
        bars = [
            Bar(name, count / len(failures), *share_interval(count, len(failures)))
            for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        ]
        yield VerdictsSection(bars, caption="Shares of the examined failures, with 95% intervals.")
        clips = [read(PanelImage, clip, "clip") for facts in _parts(results) for clip in facts["clips"]]
        if clips:
            clips.sort(key=lambda clip: (clip.trajectory, clip.frame))
            caption = "Left: the episode as it was played. Right: a sequence of actions that survives."
            yield FailureClips(clips, caption=caption)
        tracks = [ChunkName(name) for name in results[self.task_name("tracks")]["chunks"]]
        if any(one.reactions or one.survival for one in failures):
            half = Survival(0, options.continuations // 2, options.continuations)
            yield FailureTracks(tracks, TRACKS, caption=f"{TRACKS_CAPTION}The 95% interval of a share is wide: {half}.")

    def notes(self, options: FailureOptions) -> Sequence[Note]:
        return [NOTE]


def failures_of(results: Results) -> list[Failure]:
    """Return the failures that finished tasks examined, in increasing order of the return."""
    failures = [read(Failure, values, "failure") for facts in _parts(results) for values in facts["failures"]]
    return sorted(failures, key=lambda one: (one.total, one.trajectory, one.last))


def episodes_of(results: Results) -> int:
    """Return the number of episodes that ended."""
    return max((int(facts["episodes"]) for facts in _parts(results)), default=0)


def expected_failures(subject: Subject, options: FailureOptions) -> float:
    """Return the expected number of failures to examine, for forecasts."""
    return min(options.count, subject.trajectories.rewards.size / STEPS_OF_A_FAILURE)


def _parts(results: Results) -> list[Mapping[str, Any]]:
    name = FailuresAnalysis.task_name("part", "")
    return [facts for task, facts in results.items() if task.startswith(name)]


def _failed(results: Results) -> int:
    return max((int(facts["failed"]) for facts in _parts(results)), default=0)


def _measure_part(subject: Subject, options: FailureOptions, part: int, work: Work) -> TaskResult:
    played = subject.trajectories
    known = failed_episodes(played)
    chosen = known[: options.count][part::PARTS]
    failures, clips = list[JsonObject](), list[JsonObject]()
    for number, (failure, escape) in enumerate(_examined(subject, options, chosen), start=1):
        failures.append(asdict(failure))
        if escape is not None and len(clips) < CLIPS:
            clips.append(_write_clip(subject, failure, escape))
        work.report(number / len(chosen))
    facts = {"failures": failures, "clips": clips, "episodes": count_episodes(played), "failed": len(known)}
    return TaskResult(facts, [clip["image"] for clip in clips])


def _write_tracks(subject: Subject, options: FailureOptions, work: Work) -> TaskResult:
    """Write a chunk of the arrays of `TRACKS` for each trajectory, NaN where nothing was measured."""
    failures, chunks = failures_of(work.results), list[str]()
    for trajectory in range(len(subject.trajectories)):
        steps = subject.trajectories.steps(trajectory)
        arrays = {line.key: np.full(steps, np.nan, np.float32) for line in TRACKS}
        for one in failures:
            if one.trajectory == trajectory:
                for reaction in one.reactions:
                    arrays["effect"][reaction.step] = reaction.policy
                for key, points in (("survives", one.survival), ("without", one.without_killer)):
                    for point in points:
                        arrays[key][point.step] = point.survived / point.count
                if one.avoidable_until is not None or one.verdict == "unavoidable":
                    begin, until = max(one.first, one.last + 1 - options.window), one.avoidable_until
                    arrays["avoidable"][begin : one.last + 1] = 0
                    arrays["avoidable"][begin : begin if until is None else until + 1] = 1
        chunks.append(ChunkName(f"failures/tracks-{trajectory + 1}.js"))
        subject.files.write_chunk(chunks[-1], arrays)
    return TaskResult({"chunks": chunks}, chunks)


def _write_clip(subject: Subject, failure: Failure, escape: np.ndarray) -> JsonObject:
    """Write an animation of the failure as it originally happened, next to the sequence of actions that survives."""
    until = failure.avoidable_until
    assert until is not None
    begin = max(failure.first, until - BEFORE)
    seen = np.asarray(subject.trajectories.observations[failure.trajectory, begin : failure.last + 1])
    other = np.concatenate([seen[: until - begin], escape])
    frames = side_by_side(newest_frames(seen, subject.stack), newest_frames(other, subject.stack), until - begin)
    name = f"failures/{failure.trajectory + 1}-{failure.last + 1}.png"
    subject.files.directory.write(name, animated_png(frames))
    label = f"{failure.cause}, {failure.verdict}"
    return {"image": name, "label": label, "trajectory": failure.trajectory, "frame": until}


def _examined(
    subject: Subject, options: FailureOptions, chosen: Sequence[Ending]
) -> Iterable[tuple[Failure, np.ndarray | None]]:
    """Yield each failure, with the observations during a sequence of actions that survives, or None without such a
    sequence.

    If episodes cannot be continued, the failures only state how the episodes ended, and why they were not tested.
    """
    played, seed = subject.trajectories, subject.options.seed
    if not chosen:
        return
    try:
        if played.world_states is None:
            raise ClarityError(UNKNOWN)
        brancher = Brancher(subject.agent, played.world_states.spec, seed)
    except ClarityError as error:
        for one in chosen:
            statement = f"Not tested: {error.message}."
            yield Failure(one.trajectory, one.first, one.last, one.total, one.cause, "not tested", statement), None
        return
    with closing(brancher):
        for one in chosen:
            failure = examine(brancher, played, one, options, seed)
            yield failure, escape_frames(brancher, played, failure)


UNKNOWN = (
    "states of the environment cannot be saved and edited; a custom environment can offer a state_editor with "
    "`continues = True` (docs/extending.md)"
)
"""Message that says why episodes cannot be continued."""


def failure_name(failure: Failure) -> str:
    """Return the label of a failure: its cause, and the step and trajectory at which it ended."""
    return f"{failure.cause}, step {failure.last + 1} of trajectory {failure.trajectory + 1}"


def _row(failure: Failure, subject: Subject, results: Results) -> dict[str, object]:
    last, until = failure.last, failure.avoidable_until
    since = last + 1 if until is None else until
    played = np.asarray(subject.trajectories.actions[failure.trajectory, since : last + 1]).tolist()
    survival, without = (
        next((f"{one.survived} of {one.count}" for one in points if until in (None, one.step)), None)
        for points in (failure.survival, failure.without_killer)
    )
    objects = results.get(f"{ObjectsSection.kind}/{failure.trajectory + 1}")
    track = None if objects is None else ending_track(subject, failure, objects["types"])
    return {
        "failure": failure_name(failure),
        "statement": f"{failure.statement}{_without_killer(failure)}",
        "verdict": failure.verdict,
        "end": last,
        "return": failure.total,
        "until": None if until is None else last - until,
        "seen": None if failure.visible_since is None else last - failure.visible_since,
        "played": action_words(subject.info, played),
        "escape": action_words(subject.info, failure.escape),
        "survival": survival,
        "without": without,
        "trajectory": failure.trajectory,
        "frame": last if until is None else until,
        "edit": "open" if track is None else f"without~{track + 1}",  # with which What if opens
    }


def action_words(info: AgentInfo, actions: Iterable[int]) -> str | None:
    """Return the labels of actions in order. An action that is repeated is listed once, with its number of steps.

    Actions with the same effect have the label of the first of them. Return None if there are no actions, or if an
    action is not a single choice.
    """
    if info.factors is not None:
        return None
    first = {action: group[0] for group in info.equivalent_actions for action in group}
    labels = [info.actions[first.get(int(action), int(action))].label for action in actions]
    held = [(label, len(list(same))) for label, same in groupby(labels)]
    return ", ".join(label if steps == 1 else f"{label} ×{steps}" for label, steps in held) or None


def _without_killer(failure: Failure) -> str:
    """Return a sentence on survival without the object that ended the episode, or an empty text if it is not known.

    Survival is measured from the last step at which the end was avoidable.
    """
    until = failure.avoidable_until
    removed = next((one for one in failure.without_killer if until in (None, one.step)), None)
    if removed is None:
        return ""
    with_it = next(one for one in failure.survival if one.step == removed.step)
    return (
        f" Without this {failure.killer}, the policy survives from {ago(failure.last, removed.step)} in "
        f"{removed}, and with it in {with_it}."
    )


def _pieces(options: FailureOptions, failures: float, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that searches from a step of the sample, and one that continues from it with the policy.

    Each failure requires several of both.
    """
    states, steps = sample.trajectories.world_states, sample.trajectories.steps(0)
    if states is None:
        return
    with contextlib.suppress(ClarityError):
        brancher = Brancher(sample.agent, states.spec, sample.options.seed)
        (moment,) = episode_moments(sample.trajectories, 0, [steps - 1])
        sequences = brancher.random_sequences(options.sequences, options.horizon, np.random.default_rng(0))
        search = partial(brancher.continue_actions, [moment.world_state] * options.sequences, sequences)
        yield Piece(search, SEARCHES * failures, search)
        length = options.horizon + options.window // 2
        points = 2 * (options.points + 1)  # with and without what ended the episode
        yield continuations_piece(brancher, sample, options.continuations, length, points * failures)
        brancher.close()


def continuations_piece(brancher: Brancher, sample: Subject, count: int, length: int, times: float) -> Piece:
    """Return a `Piece` for the forecast that continues one episode of the sample with the policy, `count` times."""
    (moment,) = episode_moments(sample.trajectories, 0, [sample.trajectories.steps(0) - 1])
    rng = np.random.default_rng(0)
    follow = partial(brancher.continue_policy, [moment] * count, [length] * count, rng)
    return Piece(follow, times, follow)
