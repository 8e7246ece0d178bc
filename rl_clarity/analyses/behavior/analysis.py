"""Ablation in play: agents with one feature ablated play the same levels as the agent itself."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from rl_clarity.base.statistics import MeasuredDifference, compare
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


@dataclass(frozen=True)
class BehaviorRow:
    """Differences of play with a feature ablated."""

    layer: str
    feature: int
    """Number of the feature, counted from 1."""
    attribution: float
    """Mean attribution of the output to the feature."""
    ablation: float | None
    """Mean change of the output on the ablated steps; null without the section `ablation`."""
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
    """Number of pairs of episodes."""
    tests: int
    """Number of tests for which p-values are corrected."""
    output: str
    """The output to which `attribution` and `ablation` of the rows refer."""
    causes: Sequence[str]
    """Causes of ends, the most frequent of the unedited agent first."""
    rows: Sequence[BehaviorRow]
    """A row for each feature."""
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
        # the tasks of an agent run one after another
        agents = functools.lru_cache(maxsize=1)(partial(_ablated, subject))
        layers, own = _layers(subject), _own_inputs(subject)
        for block in _blocks(subject):
            run = partial(_play_unedited, subject, block)
            yield self._play_task(subject, UNEDITED, block, run, [own, None], ())
        for layer in layers:
            inputs = [own, reduction_inputs(subject), asdict(layer)]
            after = (FeaturesAnalysis.task_name(layer.name),)
            for feature in range(layer.channels):
                for block in _blocks(subject):
                    name = f"{layer.name}/{feature + 1}"
                    run = partial(_play_ablated, subject, block, agents, layer, feature)
                    yield self._play_task(subject, name, block, run, [*inputs, feature], after)
        names = [asdict(layer) for layer in layers]
        every = subject.options_of(AblationOptions).every
        before = (BehaviorAnalysis, FeaturesAnalysis, AttributionAnalysis, AblationAnalysis)
        yield self.task(
            subject,
            COMPARISON,
            partial(_compare_task, subject, layers),
            [own, attribution_inputs(subject), names, options.episodes, every],
            after=tuple(analysis.task_name("") for analysis in before),
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
    ) -> Task:
        return self.task(
            subject,
            self.task_name(name, block.number + 1),
            run,
            [inputs, block.number, block.episodes],
            size=block.episodes,
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


def _ablated(subject: Subject, layer: PageLayer, feature: int) -> Agent:
    component = load_features(subject.files, layer).reduction.components[feature]
    return edit(subject.agent, Ablate(layer.full_name, component=component))


def _play_ablated(
    subject: Subject, block: Block, agents: Callable[..., Agent], layer: PageLayer, feature: int, work: Work
) -> TaskResult:
    if feature >= finished_layer(layer, work.results).channels:  # `features.count="auto"` chose fewer features
        return TaskResult()
    return _play(subject, block, agents(layer, feature), work)


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
    def joined(cls, results: Results, name: str, count: int) -> Episodes:
        facts = [results[BehaviorAnalysis.task_name(name, number + 1)] for number in range(count)]
        return cls(*(np.concatenate([np.array(one[key]) for one in facts]) for key in cls.__dataclass_fields__))

    def measures(self, causes: Sequence[str]) -> np.ndarray:
        """Return, length, whether each cause ended it, frequencies of actions: (n, 2 + causes + A)."""
        ended_by = [self.causes == cause for cause in causes]
        frequencies = self.actions / self.lengths[:, None]
        return np.column_stack([self.returns, self.lengths, *ended_by, frequencies])


def _compare_task(subject: Subject, layers: Sequence[PageLayer], work: Work) -> TaskResult:
    """Compare the episodes with each feature ablated to those of the unedited agent, and write the report and clips."""
    options, results = subject.options_of(BehaviorOptions), work.results
    layers = [finished_layer(layer, results) for layer in layers]
    parts = _blocks(subject)
    own = Episodes.joined(results, UNEDITED, len(parts))
    features = [(layer, k) for layer in layers for k in range(layer.channels)]
    edited = [Episodes.joined(results, f"{layer.name}/{k + 1}", len(parts)) for layer, k in features]
    shares = {cause: float(np.mean(own.causes == cause)) for cause in {*own.causes.tolist()}}
    others = {cause for one in edited for cause in one.causes.tolist()} - {*shares}
    causes = [*sorted(shares, key=lambda cause: (-shares[cause], cause)), *sorted(others)]
    # how often an action is taken is only counted if it is one choice
    labels = [action.label for action in subject.info.actions] if subject.info.factors is None else []
    before = own.measures(causes)
    compared = compare(
        np.tile(before, len(features)), np.hstack([one.measures(causes) for one in edited]), subject.options.seed
    )
    rows = []
    for i, (layer, k) in enumerate(features):
        row = [compared[i * before.shape[1] + j] for j in range(before.shape[1])]
        attribution, ablation = _on_frames(subject, layer, k)
        rows.append(
            BehaviorRow(
                layer=layer.name,
                feature=k + 1,
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
    losses = np.stack([own.returns - one.returns for one in edited])  # (features, n)
    clips = write_clips(subject, features, losses, parts, partial(_ablated, subject))
    names = ["behavior/report.json", "behavior/report.csv"]
    tests = len(features) * before.shape[1]
    output = attributed_outputs(subject)[0].id
    section = as_dicts(BehaviorSection(options.episodes, tests, output, causes, rows, clips, names))
    report = {key: value for key, value in section.items() if key not in ("clips", "files")}
    subject.files.directory.write(names[0], (as_json(to_plain(report, finite=True)) + "\n").encode())
    subject.files.directory.write(names[1], _csv(flat_rows(rows)).encode())
    return TaskResult(section, [*names, *(name for clip in clips for name in (clip.still, clip.image))])


def _on_frames(subject: Subject, layer: PageLayer, feature: int) -> tuple[float, float | None]:
    """Return the mean attribution of the first output to a feature, and the mean change of the output when it is
    ablated.
    """
    output, trajectories = attributed_outputs(subject)[0].id, range(len(subject.trajectories.actions))
    effects = mean_effects([read_totals(subject, layer, t)[output] for t in trajectories])
    change = None
    if subject.options_of(AblationOptions).every is not None:
        changes = [read_changes(subject, layer, t)[f"change.{output}"][:, feature] for t in trajectories]
        change = float(np.concatenate(changes).mean(dtype=np.float64))
    return float(effects[feature]), change


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
        shared = {key: getattr(row, key) for key in ("layer", "feature", "attribution", "ablation")}
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
