"""Ablation in play: agents with one feature ablated play the same levels as the unedited agent."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.ablation import AblationAnalysis, AblationOptions, read_changes
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis, attribution_inputs
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.attribution.outputs import attributed_outputs
from rl_clarity.analyses.behavior.clips import Clip, write_clips
from rl_clarity.analyses.behavior.options import BehaviorOptions
from rl_clarity.analyses.behavior.variants import Variant, variants
from rl_clarity.analyses.features import (
    FeaturesAnalysis,
    finished_layer,
    reduction_inputs,
)
from rl_clarity.analyses.layers import PageLayer, page_layers
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import as_json, to_plain
from rl_clarity.base.registry import source_hash
from rl_clarity.base.statistics import MeasuredDifference, compare, holm
from rl_clarity.environments.invisible import check_types
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import SectionData
from rl_clarity.recordings.evaluation import known_cause
from rl_clarity.recordings.paired_play import Block, blocks, environment_of
from rl_clarity.visualization.totals import mean_effects

COMPARISON, UNEDITED = "comparison", "unedited"
"""Name of the task that compares all episodes, and first component of the names of the unedited agent's tasks."""
BLOCK = 50
"""Number of episodes that a process plays in parallel."""
MEASURED_EPISODES = 8
"""Number of episodes that the forecast plays to measure the time."""
MEASURED_STEPS = 64
"""Number of steps after which the forecast cuts these episodes off."""
LIKELY_LENGTH = 200
"""Number of steps per episode that the forecast assumes."""
CLEAR = 5.0
"""No more episodes are played for a variant once its mean change of the return is more than this many standard errors
from 0. The change is tested after each block. With a bound this strict, the repeated tests hardly raise the error rate
of the final test (Haybittle, 1971; Peto et al., 1976, whose bound is 3 for a single hypothesis)."""


@dataclass(frozen=True)
class FailureOdds:
    """Odds of a cause of failure: the number of failures by this cause, per failure by any other cause.

    None if there are no failures by other causes.
    """

    unedited: float | None
    ablated: float | None


@dataclass(frozen=True)
class BehaviorRow:
    """Differences in play when features are ablated, or when objects of a type are invisible."""

    layer: str
    """Empty where objects are invisible."""
    feature: int
    """Number of the feature, counted from 1; 0 where objects are invisible."""
    twins: Sequence[int]
    """Numbers of the features that were ablated together with this one: its twins, which are active in the same places,
    or the other feature of a pair. Empty if the feature was ablated on its own."""
    episodes: int
    """Number of pairs of episodes; fewer than planned if the change of the return was clear earlier."""
    attribution: float | None
    """Mean attribution of the output to the features; null where objects are invisible."""
    ablation: float | None
    """Mean change of the output on the ablated steps; null without the section `ablation`, for several features, and
    where objects are invisible."""
    return_difference: float
    interval: tuple[float, float]
    adjusted_p: float
    """p-value of the return, corrected for the number of tests."""
    return_: MeasuredDifference
    length: MeasuredDifference
    causes: Mapping[str, MeasuredDifference]
    """By cause, the share of the episodes that ended with it."""
    actions: Mapping[str, MeasuredDifference]
    """By label of an action, the share of an episode's steps at which it was taken."""
    failures: Mapping[str, FailureOdds] = field(default_factory=dict)
    """Odds by cause of failure. An episode fails if its last step gives no reward, or if its time runs out."""
    invisible: str | None = None
    """The type of the objects that the unedited agent did not see; None where features were ablated."""


@dataclass(frozen=True)
class BehaviorSection(SectionData):
    """The agent's play with each feature ablated, on the same levels as without ablation."""

    kind = "behavior"
    title = "Without a feature"
    episodes: int
    """Number of pairs of episodes that were planned for each row."""
    tests: int
    """Number of tests for which p-values are corrected."""
    output: str
    """The output to which `attribution` and `ablation` of the rows refer."""
    causes: Sequence[str]
    """Causes of an episode's end, starting with the most frequent one of the unedited agent."""
    rows: Sequence[BehaviorRow]
    """A row for each feature and each group of twins, and, if requested, for each pair of features and each invisible
    type."""
    clips: Sequence[Clip]
    files: Sequence[str]
    """Names of the report's files, JSON and CSV."""


class BehaviorAnalysis(Analysis[BehaviorOptions, BehaviorSection]):
    """Compares the agent's play with each feature ablated to its unedited play, on the same levels."""

    kind = "behavior"
    needs_all = True

    def check(self, agent: Agent, options: BehaviorOptions, page: SubjectOptions) -> None:
        if options.episodes:
            require(agent, *PLAYING, for_="behavior.episodes")
            environment_of(agent)
            layers = [layer.name for layer in page_layers(agent, page)]
            unknown = [name for name in options.layers or () if name not in layers]
            if unknown:
                raise OptionError(
                    f"behavior.layers={unknown} are not layers of the page; its layers are {', '.join(layers)}"
                )
            if options.invisible:
                check_types(environment_of(agent), options.invisible, "behavior.invisible")

    def tasks(self, subject: Subject, options: BehaviorOptions) -> Iterable[Task]:
        if not options.episodes:
            return
        own = _own_inputs(subject)
        for block in _blocks(subject):
            run = partial(_play_unedited, subject, block)
            yield self._play_task(subject, UNEDITED, block, run, [own, None], (), block.episodes)
        for variant in variants(subject):
            fitted = None if variant.layer is None else reduction_inputs(subject)
            inputs = [own, fitted, asdict(variant), options.stop_early and CLEAR]
            agent = functools.lru_cache(maxsize=1)(partial(variant.agent, subject))
            needed = [] if variant.layer is None else [FeaturesAnalysis.task_name(variant.layer.name)]
            for block in _blocks(subject):
                before = [self.task_name(name, _number(block.number)) for name in (UNEDITED, variant.name)]
                after = (*needed, *(before if block.number else ()))
                run = partial(_play_variant, subject, block, agent, variant)
                size = 1 if variant.with_twins else block.episodes  # most features have no twins
                yield self._play_task(subject, variant.name, block, run, inputs, after, size)
        every = subject.options_of(AblationOptions).every
        analyses = (BehaviorAnalysis, FeaturesAnalysis, AttributionAnalysis, AblationAnalysis)
        names = [asdict(variant) for variant in variants(subject)]
        yield self.task(
            subject,
            COMPARISON,
            partial(_compare_task, subject),
            [own, attribution_inputs(subject), names, options.episodes, options.stop_early and CLEAR, every],
            after=tuple(analysis.task_name("") for analysis in analyses),
            pieces=lambda sample, frames: (),
        )

    def _play_task(
        self,
        subject: Subject,
        name: str,
        block: Block,
        run: Callable[[Work], TaskResult],
        inputs: object,
        after: tuple[str, ...],
        size: int,
    ) -> Task:
        return self.task(
            subject,
            self.task_name(name, _number(block.number + 1)),
            run,
            [inputs, block.number, block.episodes],
            size=size,
            group=self.kind,
            after=after,
            pieces=_pieces,
        )

    def sections(self, subject: Subject, options: BehaviorOptions, results: Results) -> Iterable[BehaviorSection]:
        if options.episodes:
            yield read(BehaviorSection, results[COMPARISON], self.kind)


def _own_inputs(subject: Subject) -> list[object]:
    """Return everything that determines the episodes of the unedited agent."""
    options = subject.options_of(BehaviorOptions)
    cause = None if options.cause is None else source_hash(options.cause)
    return [to_plain(environment_of(subject.agent)), subject.options.seed, options.max_steps, cause]


def _blocks(subject: Subject) -> list[Block]:
    episodes = subject.options_of(BehaviorOptions).episodes
    return blocks(environment_of(subject.agent), episodes, BLOCK, subject.options.seed)


def _number(number: int) -> str:
    """Return the last component of the names of a block's tasks.

    The number is padded with zeros, so that no name is a prefix of another: `Task.after` selects tasks by prefix.
    """
    return f"{number:05d}"


def _play_variant(
    subject: Subject, block: Block, agent: Callable[..., Agent], variant: Variant, work: Work
) -> TaskResult:
    features = variant.features(subject, work.results)
    if features is None or (subject.options_of(BehaviorOptions).stop_early and _is_clear(work.results, variant, block)):
        return TaskResult()
    return _play(subject, variant.seen(block), agent(tuple(features)), work)


def _is_clear(results: Results, variant: Variant, block: Block) -> bool:
    """Return whether the blocks before this one show a clear change of the return, or were not all played."""
    if block.number == 0:
        return False
    edits = Episodes.joined(results, variant.name, block.number)
    if edits is None or len(edits) < block.number * BLOCK:
        return True
    own = Episodes.joined(results, UNEDITED, block.number)
    assert own is not None
    changes = edits.returns - own.returns
    return abs(float(changes.mean())) > CLEAR * float(changes.std(ddof=1)) / np.sqrt(len(changes)) > 0


def _play_unedited(subject: Subject, block: Block, work: Work) -> TaskResult:
    return _play(subject, block, subject.agent, work)


def _play(subject: Subject, block: Block, agent: Agent, work: Work) -> TaskResult:
    options = subject.options_of(BehaviorOptions)
    played = block.play(agent, options.max_steps, options.cause or known_cause, work.report)
    assert played.actions is not None
    assert played.failed is not None
    facts = {
        "returns": played.returns.tolist(),
        "lengths": played.lengths.tolist(),
        "causes": list(played.causes),
        "actions": played.actions.tolist(),
        "failed": played.failed.tolist(),
    }
    return TaskResult(facts)


# --- comparison ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episodes:
    """The n episodes that an agent played."""

    returns: np.ndarray  # (n,)
    lengths: np.ndarray  # (n,)
    causes: np.ndarray  # (n,) of texts
    actions: np.ndarray  # (n, A): how often each action was taken
    failed: np.ndarray  # (n,) bool

    @classmethod
    def joined(cls, results: Results, name: str, count: int) -> Episodes | None:
        """Return an agent's episodes in the first `count` blocks. Blocks that were not played are left out. Return None
        if no block was played.
        """
        facts = [results[BehaviorAnalysis.task_name(name, _number(number + 1))] for number in range(count)]
        played = [one for one in facts if one]
        if not played:
            return None
        return cls(*(np.concatenate([np.array(one[key]) for one in played]) for key in cls.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.returns)

    def measures(self, causes: Sequence[str]) -> np.ndarray:
        """Return the measures (n, 2 + causes + A) of the episodes.

        They are the return, the length, whether each cause ended the episode, and the frequency of each action.
        """
        ended_by = [self.causes == cause for cause in causes]
        frequencies = self.actions / self.lengths[:, None]
        return np.column_stack([self.returns, self.lengths, *ended_by, frequencies])

    def failures_by(self, cause: str) -> int:
        """Return the number of failures by a cause."""
        return int((self.failed & (self.causes == cause)).sum())

    def odds(self, cause: str) -> float | None:
        """Return the number of failures by a cause per failure by any other cause; None if there are no others."""
        target = self.failures_by(cause)
        others = int(self.failed.sum()) - target
        return target / others if others else None

    def first(self, count: int) -> Episodes:
        """Return the first `count` episodes."""
        return Episodes(*(getattr(self, name)[:count] for name in self.__dataclass_fields__))


def _compare_task(subject: Subject, work: Work) -> TaskResult:
    """Compare the episodes of each edited agent to those of the unedited one, and write the report and clips."""
    options, results = subject.options_of(BehaviorOptions), work.results
    parts = _blocks(subject)
    own = Episodes.joined(results, UNEDITED, len(parts))
    assert own is not None
    played = [(variant, Episodes.joined(results, variant.name, len(parts))) for variant in variants(subject)]
    edits = [(variant, variant.features(subject, results) or [], one) for variant, one in played if one is not None]
    shares = {cause: float(np.mean(own.causes == cause)) for cause in {*own.causes.tolist()}}
    others = {cause for *_, one in edits for cause in one.causes.tolist()} - {*shares}
    causes = [*sorted(shares, key=lambda cause: (-shares[cause], cause)), *sorted(others)]
    # how often an action is taken is only counted if it is one choice
    labels = [action.label for action in subject.info.actions] if subject.info.factors is None else []
    agents = [own, *(one for *_, one in edits)]
    before = own.measures(causes)
    tests = len(edits) * before.shape[1]
    compared = _compared(before, [one.measures(causes) for *_, one in edits], subject.options.seed, tests)
    failing = [cause for cause in causes if any(one.failures_by(cause) for one in agents)]
    rows = []
    for (variant, features, one), row in zip(edits, compared, strict=True):
        layer = variant.layer
        on_frames = (None, None) if layer is None else _on_frames(subject, finished_layer(layer, results), features)
        attribution, ablation = on_frames
        first = own.first(len(one))
        rows.append(
            BehaviorRow(
                layer="" if layer is None else layer.name,
                feature=features[0] + 1 if features else 0,
                twins=[feature + 1 for feature in features[1:]],
                invisible=variant.invisible,
                episodes=len(one),
                attribution=attribution,
                ablation=ablation,
                return_difference=row[0].difference,
                interval=row[0].interval,
                adjusted_p=row[0].adjusted_p,
                return_=row[0],
                length=row[1],
                causes=dict(zip(causes, row[2:], strict=False)),
                failures={cause: FailureOdds(first.odds(cause), one.odds(cause)) for cause in failing},
                actions=dict(zip(_unique(labels), row[2 + len(causes) :], strict=True)),
            )
        )
    alone = [
        (variant.layer, features[0], own.returns[: len(one)] - one.returns)
        for variant, features, one in edits
        if variant.layer is not None and len(features) == 1
    ]
    clips = write_clips(
        subject,
        [(layer, feature) for layer, feature, _ in alone],
        [lost for *_, lost in alone],
        parts,
        lambda layer, feature: Variant(layer).agent(subject, [feature]),
    )
    names = ["behavior/report.json", "behavior/report.csv"]
    output = attributed_outputs(subject)[0].id
    section = as_dicts(BehaviorSection(options.episodes, tests, output, causes, rows, clips, names))
    report = {key: value for key, value in section.items() if key not in ("clips", "files")}
    subject.files.directory.write(names[0], (as_json(to_plain(report, finite=True)) + "\n").encode())
    subject.files.directory.write(names[1], _csv(flat_rows(rows)).encode())
    return TaskResult(section, [*names, *(name for clip in clips for name in (clip.still, clip.image))])


def _compared(before: np.ndarray, after: Sequence[np.ndarray], seed: int, tests: int) -> list[list[MeasuredDifference]]:
    """Compare the M measures of each edited agent, `after`, with those of the unedited agent, `before` (n, M).

    If an edited agent played fewer episodes, it is compared with the same number of the unedited agent's first
    episodes.
    """
    measures = before.shape[1]
    compared: list[list[MeasuredDifference]] = [[] for _ in after]
    for count in {len(one) for one in after}:
        chosen = [i for i, one in enumerate(after) if len(one) == count]
        edited = np.hstack([after[i] for i in chosen])
        found = compare(np.tile(before[:count], len(chosen)), edited, seed, tests=tests)
        for place, i in enumerate(chosen):
            compared[i] = [found[place * measures + j] for j in range(measures)]
    adjusted = iter(holm(np.array([one.p for row in compared for one in row])).tolist())
    return [[replace(one, adjusted_p=next(adjusted)) for one in row] for row in compared]


def _on_frames(subject: Subject, layer: PageLayer, features: Sequence[int]) -> tuple[float, float | None]:
    """Return the mean attribution of the first output to some features, and its mean change when they are ablated.

    The change is None for several features, and if ablation on frames was not measured.
    """
    output, trajectories = attributed_outputs(subject)[0].id, range(len(subject.trajectories.actions))
    effects = mean_effects([read_totals(subject, layer, t)[output] for t in trajectories])
    change = None
    if subject.options_of(AblationOptions).every is not None and len(features) == 1:
        changes = [read_changes(subject, layer, t)[f"change.{output}"][:, features[0]] for t in trajectories]
        change = float(np.concatenate(changes).mean(dtype=np.float64))
    return float(effects[list(features)].sum()), change


def _unique(labels: Sequence[str]) -> list[str]:
    """Return the labels of actions. A label that several actions share is followed by the number of the action."""
    return [label if list(labels).count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels)]


def flat_rows(rows: Sequence[BehaviorRow]) -> list[dict[str, object]]:
    """Return the report as a table: a row for each variant of play and each measure, with one value per column."""
    flat: list[dict[str, object]] = []
    for row in rows:
        measures = {
            "return": row.return_,
            "length": row.length,
            **{f"ended by: {cause}": one for cause, one in row.causes.items()},
            **{f"action: {label}": action for label, action in row.actions.items()},
        }
        keys = ("layer", "feature", "invisible", "episodes", "attribution", "ablation")
        shared = {key: getattr(row, key) for key in keys}
        shared["twins"] = " ".join(map(str, row.twins))
        for name, one in measures.items():
            values = {key: value for key, value in asdict(one).items() if not key.endswith("interval")}
            for key in ("interval", "corrected_interval"):
                values[f"{key}_low"], values[f"{key}_high"] = getattr(one, key)
            flat.append({**shared, "measure": name, **values})
    return flat


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# --- forecast --------------------------------------------------------------------------------------------------------


def _pieces(sample: Subject, frames: int) -> Iterable[Piece]:
    """Yield a `Piece` that plays the first steps of a few episodes, because their length is not known beforehand."""
    options = sample.options_of(BehaviorOptions)

    def play(episodes: int) -> None:
        (block,) = blocks(environment_of(sample.agent), episodes, episodes, sample.options.seed)
        block.play(sample.agent, MEASURED_STEPS, known_cause)

    episodes = min(BLOCK, options.episodes)
    times = episodes / MEASURED_EPISODES * LIKELY_LENGTH / MEASURED_STEPS
    yield Piece(partial(play, MEASURED_EPISODES), times, partial(play, 1))
