"""Ablation in play: agents with one feature ablated play the same levels as the agent itself."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.ablation import AblationAnalysis, AblationOptions, read_changes
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis, attribution_inputs
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.attribution.outputs import attributed_outputs
from rl_clarity.analyses.behavior.clips import Clip, write_clips
from rl_clarity.analyses.behavior.options import BehaviorOptions
from rl_clarity.analyses.feature_facts import load_facts
from rl_clarity.analyses.features import (
    FeaturesAnalysis,
    feature_layers,
    finished_layer,
    load_features,
    reduction_inputs,
)
from rl_clarity.analyses.layers import PageLayer, page_layers
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import as_json, to_plain
from rl_clarity.base.registry import source_hash
from rl_clarity.base.statistics import MeasuredDifference, compare, holm
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import SectionData
from rl_clarity.recordings.evaluation import known_cause
from rl_clarity.recordings.paired_play import Block, blocks, environment_of
from rl_clarity.visualization.totals import mean_effects

COMPARISON, UNEDITED = "comparison", "unedited"
"""The task that compares all episodes, and the first component of the names of tasks for the unedited agent."""
BLOCK = 50
"""Number of episodes that a rank plays together."""
MEASURED_EPISODES = 8
"""Number of episodes that are played to measure the time."""
MEASURED_STEPS = 64
"""Number of steps after which these episodes are cut."""
LIKELY_LENGTH = 200
"""Number of steps of an episode that the forecast assumes."""
CLEAR = 5.0
"""Standard errors from 0 of a mean change of the return after which no more episodes are played. A bound as far out as
this one, looked at after each block, leaves the probability of errors of the last test as it is (Haybittle, 1971; Peto
et al., 1976, whose bound is 3 for a single hypothesis)."""


@dataclass(frozen=True)
class BehaviorRow:
    """Differences of play with a feature ablated."""

    layer: str
    feature: int
    """Number of the feature, counted from 1."""
    twins: Sequence[int]
    """Numbers of the features that were ablated together with it, which are active in the same places; empty where the
    feature was ablated on its own."""
    episodes: int
    """Number of pairs of episodes; fewer than planned where the change of the return was clear before."""
    attribution: float
    """Mean attribution of the output to the features."""
    ablation: float | None
    """Mean change of the output on the ablated steps; null without the section `ablation`, and for several features."""
    return_difference: float
    interval: tuple[float, float]
    adjusted_p: float
    """p-value of the return, corrected for the number of tests."""
    return_: MeasuredDifference
    length: MeasuredDifference
    causes: Mapping[str, MeasuredDifference]
    """By cause, the share of the episodes that ended with it."""
    actions: Mapping[str, MeasuredDifference]
    """By label, the share of an episode's steps."""


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
    """Causes of ends, the most frequent of the unedited agent first."""
    rows: Sequence[BehaviorRow]
    """A row for each feature, and for twins together."""
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
                raise OptionError(f"behavior.layers={unknown}: the page explains the layers {', '.join(layers)}")

    def tasks(self, subject: Subject, options: BehaviorOptions) -> Iterable[Task]:
        if not options.episodes:
            return
        own = _own_inputs(subject)
        for block in _blocks(subject):
            run = partial(_play_unedited, subject, block)
            yield self._play_task(subject, UNEDITED, block, run, [own, None], (), block.episodes)
        for edited in _edits(subject):
            inputs = [own, reduction_inputs(subject), asdict(edited.layer), edited.feature, edited.with_twins]
            inputs.append(options.stop_early and CLEAR)
            agent = functools.lru_cache(maxsize=1)(partial(_ablated, subject, edited))
            for block in _blocks(subject):
                before = (self.task_name(name, _number(block.number)) for name in (UNEDITED, edited.name))
                after = (FeaturesAnalysis.task_name(edited.layer.name), *(before if block.number else ()))
                run = partial(_play_edited, subject, block, agent, edited)
                size = 1 if edited.with_twins else block.episodes  # most features have no twins
                yield self._play_task(subject, edited.name, block, run, inputs, after, size)
        every = subject.options_of(AblationOptions).every
        analyses = (BehaviorAnalysis, FeaturesAnalysis, AttributionAnalysis, AblationAnalysis)
        names = [asdict(layer) for layer in _layers(subject)]
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


def _layers(subject: Subject) -> list[PageLayer]:
    """Return the layers whose features are ablated."""
    chosen = subject.options_of(BehaviorOptions).layers
    return [layer for layer in feature_layers(subject) if chosen is None or layer.name in chosen]


def _own_inputs(subject: Subject) -> list[object]:
    """Return everything that decides the episodes of the unedited agent."""
    options = subject.options_of(BehaviorOptions)
    cause = None if options.cause is None else source_hash(options.cause)
    return [to_plain(environment_of(subject.agent)), subject.options.seed, options.max_steps, cause]


def _blocks(subject: Subject) -> list[Block]:
    episodes = subject.options_of(BehaviorOptions).episodes
    return blocks(environment_of(subject.agent), episodes, BLOCK, subject.options.seed)


def _number(number: int) -> str:
    """Return the last component of a block's tasks. None begins with another one, since `after` names beginnings."""
    return f"{number:05d}"


@dataclass(frozen=True)
class _Edited:
    """An edited agent: without a feature, or without this one and its twins."""

    layer: PageLayer
    feature: int
    with_twins: bool = False

    @property
    def name(self) -> str:
        return f"{self.layer.name}/{self.feature + 1}{'-twins' if self.with_twins else ''}"

    def features(self, subject: Subject, results: Results) -> list[int]:
        """Return the features that are ablated, once the layer is finished; none if there is no such agent.

        Twins of twins are ablated, too. The first feature of such a group stands for it.
        """
        if self.feature >= finished_layer(self.layer, results).channels:  # `features.count="auto"` chose fewer features
            return []
        if not self.with_twins:
            return [self.feature]
        twins = load_facts(subject.files, self.layer).twins
        group, waiting = {self.feature}, [self.feature]
        while waiting:
            new = set(twins[waiting.pop()]) - group
            group |= new
            waiting += new
        return sorted(group) if len(group) > 1 and min(group) == self.feature else []


def _edits(subject: Subject) -> list[_Edited]:
    """Return all edited agents that there may be."""
    return [
        _Edited(layer, feature, with_twins)
        for layer in _layers(subject)
        for feature in range(layer.channels)
        for with_twins in (False, True)
    ]


def _ablated(subject: Subject, edited: _Edited, features: tuple[int, ...]) -> Agent:
    components = load_features(subject.files, edited.layer).reduction.components[list(features)]
    return edit(subject.agent, Ablate(edited.layer.full_name, component=components))


def _play_edited(
    subject: Subject, block: Block, agent: Callable[..., Agent], edited: _Edited, work: Work
) -> TaskResult:
    features = edited.features(subject, work.results)
    if not features or (subject.options_of(BehaviorOptions).stop_early and _is_clear(work.results, edited, block)):
        return TaskResult()
    return _play(subject, block, agent(tuple(features)), work)


def _is_clear(results: Results, edited: _Edited, block: Block) -> bool:
    """Return whether the change of the return is clear from the blocks before."""
    if block.number == 0:
        return False
    edits = Episodes.joined(results, edited.name, block.number)
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
    facts = {
        "returns": played.returns.tolist(),
        "lengths": played.lengths.tolist(),
        "causes": list(played.causes),
        "actions": played.actions.tolist(),
    }
    return TaskResult(facts)


# --- comparison ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episodes:
    """All n episodes of an agent."""

    returns: np.ndarray  # (n,)
    lengths: np.ndarray  # (n,)
    causes: np.ndarray  # (n,) of texts
    actions: np.ndarray  # (n, A): how often each action was taken

    @classmethod
    def joined(cls, results: Results, name: str, count: int) -> Episodes | None:
        """Return the episodes of an agent in the first `count` blocks that were played; None if none was."""
        facts = [results[BehaviorAnalysis.task_name(name, _number(number + 1))] for number in range(count)]
        played = [one for one in facts if one]
        if not played:
            return None
        return cls(*(np.concatenate([np.array(one[key]) for one in played]) for key in cls.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.returns)

    def measures(self, causes: Sequence[str]) -> np.ndarray:
        """Return, length, whether each cause ended it, frequencies of actions: (n, 2 + causes + A)."""
        ended_by = [self.causes == cause for cause in causes]
        frequencies = self.actions / self.lengths[:, None]
        return np.column_stack([self.returns, self.lengths, *ended_by, frequencies])


def _compare_task(subject: Subject, work: Work) -> TaskResult:
    """Compare the episodes of each edited agent to those of the unedited one, and write the report and clips."""
    options, results = subject.options_of(BehaviorOptions), work.results
    parts = _blocks(subject)
    own = Episodes.joined(results, UNEDITED, len(parts))
    assert own is not None
    played = [(edited, Episodes.joined(results, edited.name, len(parts))) for edited in _edits(subject)]
    edits = [(edited, edited.features(subject, results), one) for edited, one in played if one is not None]
    shares = {cause: float(np.mean(own.causes == cause)) for cause in {*own.causes.tolist()}}
    others = {cause for *_, one in edits for cause in one.causes.tolist()} - {*shares}
    causes = [*sorted(shares, key=lambda cause: (-shares[cause], cause)), *sorted(others)]
    # how often an action is taken is only counted if it is one choice
    labels = [action.label for action in subject.info.actions] if subject.info.factors is None else []
    before = own.measures(causes)
    tests = len(edits) * before.shape[1]
    compared = _compared(before, [one.measures(causes) for *_, one in edits], subject.options.seed, tests)
    rows = []
    for (edited, features, one), row in zip(edits, compared, strict=True):
        attribution, ablation = _on_frames(subject, finished_layer(edited.layer, results), features)
        rows.append(
            BehaviorRow(
                layer=edited.layer.name,
                feature=edited.feature + 1,
                twins=[feature + 1 for feature in features[1:]],
                episodes=len(one),
                attribution=attribution,
                ablation=ablation,
                return_difference=row[0].difference,
                interval=row[0].interval,
                adjusted_p=row[0].adjusted_p,
                return_=row[0],
                length=row[1],
                causes=dict(zip(causes, row[2:], strict=False)),
                actions=dict(zip(_unique(labels), row[2 + len(causes) :], strict=True)),
            )
        )
    alone = [(edited, own.returns[: len(one)] - one.returns) for edited, features, one in edits if len(features) == 1]
    clips = write_clips(
        subject,
        [(edited.layer, edited.feature) for edited, _ in alone],
        [lost for _, lost in alone],
        parts,
        lambda layer, feature: _ablated(subject, _Edited(layer, feature), (feature,)),
    )
    names = ["behavior/report.json", "behavior/report.csv"]
    output = attributed_outputs(subject)[0].id
    section = as_dicts(BehaviorSection(options.episodes, tests, output, causes, rows, clips, names))
    report = {key: value for key, value in section.items() if key not in ("clips", "files")}
    subject.files.directory.write(names[0], (as_json(to_plain(report, finite=True)) + "\n").encode())
    subject.files.directory.write(names[1], _csv(flat_rows(rows)).encode())
    return TaskResult(section, [*names, *(name for clip in clips for name in (clip.still, clip.image))])


def _compared(before: np.ndarray, after: Sequence[np.ndarray], seed: int, tests: int) -> list[list[MeasuredDifference]]:
    """Return the measures of each edited agent, compared with those (n, M) of the first episodes without the edit."""
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
    """Return the mean attribution of the first output to features, and the mean change of the output when one is
    ablated; None for several, which were ablated one at a time.
    """
    output, trajectories = attributed_outputs(subject)[0].id, range(len(subject.trajectories.actions))
    effects = mean_effects([read_totals(subject, layer, t)[output] for t in trajectories])
    change = None
    if subject.options_of(AblationOptions).every is not None and len(features) == 1:
        changes = [read_changes(subject, layer, t)[f"change.{output}"][:, features[0]] for t in trajectories]
        change = float(np.concatenate(changes).mean(dtype=np.float64))
    return float(effects[list(features)].sum()), change


def _unique(labels: Sequence[str]) -> list[str]:
    """Return labels of actions, with the action's number if several have the same label."""
    return [label if list(labels).count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels)]


def flat_rows(rows: Sequence[BehaviorRow]) -> list[dict[str, object]]:
    """Return the report as rows with one value per column, a row for each feature and measure."""
    flat: list[dict[str, object]] = []
    for row in rows:
        measures = {
            "return": row.return_,
            "length": row.length,
            **{f"ended by: {cause}": one for cause, one in row.causes.items()},
            **{f"action: {label}": action for label, action in row.actions.items()},
        }
        shared = {key: getattr(row, key) for key in ("layer", "feature", "episodes", "attribution", "ablation")}
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
    """Some episodes, cut after a few steps; how long episodes are is not known beforehand."""
    options = sample.options_of(BehaviorOptions)

    def play(episodes: int) -> None:
        (block,) = blocks(environment_of(sample.agent), episodes, episodes, sample.options.seed)
        block.play(sample.agent, MEASURED_STEPS, known_cause)

    episodes = min(BLOCK, options.episodes)
    times = episodes / MEASURED_EPISODES * LIKELY_LENGTH / MEASURED_STEPS
    yield Piece(partial(play, MEASURED_EPISODES), times, partial(play, 1))
