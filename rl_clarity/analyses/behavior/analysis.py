"""Ablation in play: agents with one feature ablated play the same levels as the agent itself."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.ablation import read_changes
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.analysis import attributed_outputs, attribution_inputs
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.behavior.clips import write_clips
from rl_clarity.analyses.behavior.play import Block, blocks, environment_of
from rl_clarity.analyses.features import feature_layers, finished_layer, load_features, reduction_inputs
from rl_clarity.analyses.layers import PageLayer, page_layers
from rl_clarity.analyses.statistics import compare
from rl_clarity.errors import OptionError
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.keys import as_json, to_plain
from rl_clarity.pages.files import check_subdirectories, path_in
from rl_clarity.pages.manifest import ImageName, Section
from rl_clarity.parsing import check_minimum
from rl_clarity.recordings.evaluation import Cause, known_cause
from rl_clarity.recordings.options import EvaluationOptions
from rl_clarity.registry import source_hash
from rl_clarity.visualization.totals import mean_effects

BLOCK = 50
"""Episodes that are played together, by one rank."""
MEASURED_EPISODES = 8
"""Episodes that are played to measure the time."""
MEASURED_STEPS = 64
"""Steps after which they are cut."""
LIKELY_LENGTH = 200
"""Steps that an episode is assumed to take in the forecast."""


@dataclass(frozen=True)
class BehaviorOptions:
    """Ablation in play."""

    causal_episodes: int = 0
    """Episodes that the agent plays with each feature ablated, on the same levels as without; 0 for none."""
    causal_layers: tuple[str, ...] | None = None
    """Layers whose features are ablated in play, by name; all layers of the page by default."""
    causal_max_steps: int = EvaluationOptions.max_steps
    """Number of steps after which such an episode is cut off."""
    causal_cause: Cause | None = None
    """Function (info, frames) that names what ended an episode; by default what the environment says."""
    behavior_subdir: str = "behavior/"
    """Directory of the report on ablation in play, and of its clips."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "causal_episodes")
        check_minimum(self, 1, "causal_max_steps")
        if self.causal_episodes == 1:
            raise OptionError("causal_episodes=1 must be 0 or at least 2: one pair of episodes has no interval")
        check_subdirectories(self)


class BehaviorAnalysis(Analysis):
    """What the agent achieves with each feature ablated, compared with itself on the same levels."""

    kind = "behavior"
    Options = BehaviorOptions
    needs_all = True

    def check(self, agent: Agent, options: Any) -> None:
        if options.causal_episodes:
            require(agent, *PLAYING, for_="causal_episodes")
            environment_of(agent)
            layers = [layer.name for layer in page_layers(agent, options)]
            unknown = [name for name in options.causal_layers or () if name not in layers]
            if unknown:
                raise OptionError(f"causal_layers={unknown}: the page explains the layers {', '.join(layers)}")

    def tasks(self, subject: Subject, options: Any) -> Iterable[Task]:
        if not options.causal_episodes:
            return
        agents = functools.lru_cache(maxsize=1)(partial(_ablated, subject))  # tasks of one agent follow each other
        layers, own = _layers(subject), _own_inputs(subject)
        for block in _blocks(subject):
            run = partial(_play_unedited, subject, block)
            yield self._play_task(subject, "unedited", block, run, [own, None], ())
        for layer in layers:
            inputs = [own, reduction_inputs(subject), asdict(layer)]
            for feature in range(layer.channels):
                for block in _blocks(subject):
                    name = f"{layer.name}/{feature + 1}"
                    run = partial(_play_ablated, subject, block, agents, layer, feature)
                    yield self._play_task(subject, name, block, run, [*inputs, feature], (f"features/{layer.name}",))
        names = [asdict(layer) for layer in layers]
        yield self.task(
            subject,
            "comparison",
            partial(_compare_task, subject, layers),
            [own, attribution_inputs(subject), names, options.causal_episodes, options.ablation_every],
            after=(f"{self.kind}/", "features/", "attribution/", "ablation/"),
            pieces=lambda sample, frames: (),
        )

    def _play_task(
        self, subject: Subject, name: str, block: Block, run: Any, inputs: Any, after: tuple[str, ...]
    ) -> Task:
        return self.task(
            subject,
            f"{self.kind}/{name}/{block.number + 1}",
            run,
            [inputs, block.number, block.episodes],
            size=block.episodes,
            group=self.kind,
            after=after,
            pieces=_pieces,
        )

    def section(self, subject: Subject, options: Any, results: Results) -> Section | None:
        if not options.causal_episodes:
            return None
        facts = results["comparison"]
        images = ("image", "still")
        clips = [
            {key: ImageName(value) if key in images else value for key, value in clip.items()}
            for clip in facts["clips"]
        ]
        return Section(self.kind, "Without a feature", {**facts, "clips": clips})


def _layers(subject: Subject) -> list[PageLayer]:
    """The layers whose features are ablated."""
    chosen = subject.options.causal_layers
    return [layer for layer in feature_layers(subject) if chosen is None or layer.name in chosen]


def _own_inputs(subject: Subject) -> Any:
    """What decides the episodes of the agent itself."""
    options = subject.options
    cause = None if options.causal_cause is None else source_hash(options.causal_cause)
    return [to_plain(environment_of(subject.agent)), options.seed, options.causal_max_steps, cause]


def _blocks(subject: Subject) -> list[Block]:
    options = subject.options
    return blocks(environment_of(subject.agent), options.causal_episodes, BLOCK, options.seed)


def _ablated(subject: Subject, layer: PageLayer, feature: int) -> Agent:
    component = load_features(subject.files, layer).reduction.components[feature]
    return edit(subject.agent, Ablate(layer.full_name, component=component))


def _play_ablated(
    subject: Subject, block: Block, agents: Callable[..., Agent], layer: PageLayer, feature: int, work: Work
) -> TaskResult:
    if feature >= finished_layer(layer, work.results).channels:  # `nmf_features="auto"` has found fewer
        return TaskResult()
    return _play(subject, block, agents(layer, feature), work)


def _play_unedited(subject: Subject, block: Block, work: Work) -> TaskResult:
    return _play(subject, block, subject.agent, work)


def _play(subject: Subject, block: Block, agent: Agent, work: Work) -> TaskResult:
    options = subject.options
    played = block.play(agent, options.causal_max_steps, options.causal_cause or known_cause, work.report)
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
    actions: np.ndarray  # (n, A): how often each was taken

    @classmethod
    def joined(cls, results: Results, name: str, count: int) -> Episodes:
        facts = [results[f"behavior/{name}/{number + 1}"] for number in range(count)]
        return cls(*(np.concatenate([np.array(one[key]) for one in facts]) for key in cls.__dataclass_fields__))

    def measures(self, causes: Sequence[str]) -> np.ndarray:
        """Return, length, whether each cause ended it, frequencies of actions: (n, 2 + causes + A)."""
        ended_by = [self.causes == cause for cause in causes]
        frequencies = self.actions / self.lengths[:, None]
        return np.column_stack([self.returns, self.lengths, *ended_by, frequencies])


def _compare_task(subject: Subject, layers: Sequence[PageLayer], work: Work) -> TaskResult:
    """Compare all features' episodes with those of the agent itself; write the report and clips."""
    options, results = subject.options, work.results
    layers = [finished_layer(layer, results) for layer in layers]
    parts = _blocks(subject)
    own = Episodes.joined(results, "unedited", len(parts))
    features = [(layer, k) for layer in layers for k in range(layer.channels)]
    edited = [Episodes.joined(results, f"{layer.name}/{k + 1}", len(parts)) for layer, k in features]
    shares = {cause: float(np.mean(own.causes == cause)) for cause in {*own.causes.tolist()}}
    others = {cause for one in edited for cause in one.causes.tolist()} - {*shares}
    causes = [*sorted(shares, key=lambda cause: (-shares[cause], cause)), *sorted(others)]
    labels = [action.label for action in subject.info.actions]
    before = own.measures(causes)
    compared = compare(
        np.tile(before, len(features)), np.hstack([one.measures(causes) for one in edited]), options.seed
    )
    rows = []
    for i, (layer, k) in enumerate(features):
        row = [compared[i * before.shape[1] + j] for j in range(before.shape[1])]
        rows.append(
            {
                "layer": layer.name,
                "feature": k + 1,
                **_on_frames(subject, layer, k),
                "return_difference": row[0]["difference"],
                "interval": row[0]["interval"],
                "adjusted_p": row[0]["adjusted_p"],
                "return": row[0],
                "length": row[1],
                "causes": dict(zip(causes, row[2:], strict=False)),
                "actions": dict(zip(_unique(labels), row[2 + len(causes) :], strict=True)),
            }
        )
    report = {
        "episodes": options.causal_episodes,
        "tests": len(features) * before.shape[1],
        "output": attributed_outputs(subject)[0].id,
        "causes": causes,
        "rows": rows,
    }
    names = [path_in(options.behavior_subdir, name) for name in ("report.json", "report.csv")]
    subject.files.directory.write(names[0], (as_json(to_plain(report, finite=True)) + "\n").encode())
    subject.files.directory.write(names[1], _csv(flat_rows(report)).encode())
    losses = np.stack([own.returns - one.returns for one in edited])  # (features, n)
    clips, images = write_clips(subject, features, losses, parts, partial(_ablated, subject))
    return TaskResult({**report, "files": names, "clips": clips}, [*names, *images])


def _on_frames(subject: Subject, layer: PageLayer, feature: int) -> dict[str, float | None]:
    """Mean attribution of the first output to a feature, and the output's mean change when it is ablated."""
    output, trajectories = attributed_outputs(subject)[0].id, range(len(subject.trajectories.actions))
    effects = mean_effects([read_totals(subject, layer, t)[output] for t in trajectories])
    change = None
    if subject.options.ablation_every is not None:
        changes = [read_changes(subject, layer, t)[f"change.{output}"][:, feature] for t in trajectories]
        change = float(np.concatenate(changes).mean(dtype=np.float64))
    return {"attribution": float(effects[feature]), "ablation": change}


def _unique(labels: Sequence[str]) -> list[str]:
    """Labels of actions, with the action's number where several have the same."""
    return [label if list(labels).count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels)]


def flat_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The report with one value a column: a row for each feature and measure."""
    rows = []
    for row in report["rows"]:
        measures = {
            "return": row["return"],
            "length": row["length"],
            **{f"ended by: {cause}": one for cause, one in row["causes"].items()},
            **{f"action: {label}": one for label, one in row["actions"].items()},
        }
        for name, one in measures.items():
            values = {key: value for key, value in one.items() if not key.endswith("interval")}
            for key in ("interval", "corrected_interval"):
                values[f"{key}_low"], values[f"{key}_high"] = one[key]
            shared = {key: row[key] for key in ("layer", "feature", "attribution", "ablation")}
            rows.append({**shared, "measure": name, **values})
    return rows


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# --- forecast --------------------------------------------------------------------------------------------------------


def _pieces(sample: Subject, frames: int) -> Iterable[Piece]:
    """Some episodes, cut after a few steps; how long episodes are is not known beforehand."""
    options = sample.options

    def play(episodes: int) -> None:
        (block,) = blocks(environment_of(sample.agent), episodes, episodes, options.seed)
        block.play(sample.agent, MEASURED_STEPS, known_cause)

    episodes = min(BLOCK, options.causal_episodes)
    times = episodes / MEASURED_EPISODES * LIKELY_LENGTH / MEASURED_STEPS
    yield Piece(partial(play, MEASURED_EPISODES), times, partial(play, 1))
