"""Ablation on frames: measure how much an output changes when a feature of a layer is set to its baseline.

At each position, the part of the activations a that belongs to a feature with the component d is
max(0, a . d / |d|^2) d, as in `rl_clarity.Ablate(layer, component=...)`. Ablation replaces it by the same part of the
activations at the baseline of attribution, so that ablation and attribution answer the same question, or by 0
(`ablation.to="zero"`). Attribution estimates the contribution of a feature to an output; ablation measures how the
output changes without the feature. If the network above the layer is linear, and the feature is a single channel, one
is the negative of the other. In general, their correlation over frames measures how well they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from rl_clarity.agents.capabilities import before_step, parallel_calls
from rl_clarity.agents.editing import Ablate, Edit
from rl_clarity.agents.protocol import Agent, Outputs, Score, State, Tail
from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, Baseline, ExpectedBaseline, layer_baseline
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.attribution.outputs import attributed_outputs, score_rows, scores_to_compute, sum_rows
from rl_clarity.analyses.chosen_baseline import with_chosen_baseline
from rl_clarity.analyses.features import (
    FeaturesAnalysis,
    feature_layers,
    finished_layer,
    load_features,
    reduction_inputs,
)
from rl_clarity.analyses.layers import (
    MEMORY_HINT,
    PageLayer,
    PathOptions,
    gradient_bytes,
    parallel_tasks,
    sample_frames,
    task_size,
)
from rl_clarity.base.parsing import check_minimum, check_option
from rl_clarity.base.statistics import resampled_interval
from rl_clarity.base.threads import prefetch
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.sections import SectionData

MEASURED_FEATURES = 2
"""Number of features that the forecast ablates to estimate the run time of a task."""


@dataclass(frozen=True)
class AblationOptions:
    """Options of ablation on frames."""

    every: int | None = 4
    """Ablate the features on every n-th frame of a trajectory: 1 for all frames, None for no ablation."""
    to: Literal["baseline", "zero"] = "baseline"
    """What a feature is set to: its value at the baseline of attribution (`baseline`), so that ablation and attribution
    answer the same question, or 0 (`zero`)."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "every")
        check_option(self, "to", self.to in ("baseline", "zero"), "must be 'baseline' or 'zero'")


@dataclass(frozen=True)
class Share:
    """A share of steps with a 95 % bootstrap interval over episodes. The ends of the interval are null for a single
    episode.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AblationSummary:
    """Summary, over all ablated steps, of how an output changes when each of K features is ablated."""

    mean: Sequence[float]
    """Mean change (K) of the output."""
    mean_abs: Sequence[float]
    """Mean absolute change (K)."""
    correlation: Sequence[float]
    """Correlation (K) of the *negative* change with the feature's net attribution: 1 if the decrease of the output is
    proportional to the attribution, 0 if either is constant."""
    largest: Share | None = None
    """Share of the steps at which the feature with the largest attribution, by magnitude, is also the feature whose
    ablation changes the output most. Steps without attribution or without a change do not count. Absent for a layer
    with one feature, and if no step is left."""


@dataclass(frozen=True)
class AblatedLayer:
    """Results of ablating the features of a layer."""

    trajectories: Sequence[ChunkName]
    """For each trajectory, the chunk with the changes at its ablated steps."""
    outputs: Mapping[str, AblationSummary] | None = None
    """Summaries by output. Absent until ablation and attribution of all trajectories are finished."""


@dataclass(frozen=True)
class AblationSection(SectionData):
    """Changes of outputs when a feature is ablated."""

    kind = "ablation"
    title = "Ablation"
    every: int
    """Every n-th step is ablated."""
    layers: Mapping[str, AblatedLayer]
    """Every layer except the input, by its `slug` in the section `attribution`."""
    to: Literal["baseline", "zero"] = "zero"
    """What an ablated feature is set to: its value at the baseline of attribution, or 0."""


class AblationAnalysis(Analysis[AblationOptions, AblationSection]):
    """Measures how outputs change along each trajectory when a feature is ablated."""

    version = 2
    kind = "ablation"
    needs_all = False

    def tasks(self, subject: Subject, options: AblationOptions) -> Iterable[Task]:
        if options.every is None:
            return
        count, steps = subject.trajectories.rewards.shape
        frames, outputs = len(range(0, steps, options.every)), len(attributed_outputs(subject))
        for layer in feature_layers(subject):
            for trajectory in range(count):
                yield self.task(
                    subject,
                    self.task_name(layer.name, trajectory + 1),
                    partial(ablate_trajectory, subject, layer, trajectory),
                    [
                        reduction_inputs(subject),
                        score_rows(subject),
                        subject.decisive(AblationOptions),
                        asdict(layer),
                        trajectory,
                    ],
                    size=task_size(layer, frames) * layer.channels,
                    group=self.task_name(layer.name),
                    after=(FeaturesAnalysis.task_name(layer.name),),
                    pieces=partial(_pieces, layer, frames),
                    frame_bytes=gradient_bytes(subject.agent, layer.shape, 1),
                    parallel=parallel_tasks(subject.agent, outputs),
                    memory_hint=MEMORY_HINT,
                )

    def sections(self, subject: Subject, options: AblationOptions, results: Results) -> Iterable[AblationSection]:
        if options.every is not None:
            layers = {layer.slug: layer_entry(subject, layer, results) for layer in feature_layers(subject)}
            yield AblationSection(options.every, layers, options.to)


def ablation_changes(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    components: np.ndarray,
    scores: Sequence[Score],
    state: State = None,
    calls: int = 1,
    baseline: Baseline = "zero-layer",
) -> np.ndarray:
    """Return how S scores at B observations change, (S, B, K), when each of K components of a layer's activations is
    set to the baseline.

    For each batch of observations, the network is evaluated up to the layer once, or twice if the baseline depends on
    the observations, and above the layer K + 1 times.

    Args:
        observations: (B, H, W, C)
        layer: name of a site of shape (h, w, c)
        components: (K, c)
        scores: the scores, in the format of `Agent.tails`
        state: the state of a recurrent agent before the observations
        calls: number of threads that call the agent in parallel
        baseline: see `integrated_gradients`; "zero-layer" removes the components. For an `ExpectedBaseline`, a
            component is set to its mean over the baseline's observations
    """
    edits = [Ablate(layer, component=component) for component in components]
    start = layer_baseline(agent, baseline, observations, layer, state)
    changes, first = [], 0
    for tail in agent.tails(observations, layer, scores, state):
        rows = slice(first, first + len(tail.values))
        own = start[rows] if isinstance(start, np.ndarray) and len(start) > 1 else start
        change = partial(_change, tail, tail.scores(), own)
        changes.append(np.stack([*prefetch(change, edits, calls)], axis=-1))  # (S, n, K)
        first = rows.stop
    return np.concatenate(changes, axis=1)


def _change(tail: Tail, before: np.ndarray, start: np.ndarray | ExpectedBaseline | None, edit: Ablate) -> np.ndarray:
    """Return the changes (S, n) of scores when an edit replaces the part of a layer's activations that it selects.

    The replacement is the same part of the baseline `start` (n or 1, h, w, c), or 0 if it is None. `before` contains
    the scores (S, n) without the edit.
    """
    return tail.scores(edit.apply(tail.values, replaced_by(edit, start))) - before


def replaced_by(edit: Edit, start: np.ndarray | ExpectedBaseline | None) -> np.ndarray | None:
    """Return the values that replace the part of a layer's activations that an edit selects, or None for 0.

    They are the same part of the baseline `start` (n or 1, h, w, c). For an `ExpectedBaseline`, they are the mean of
    this part over its observations.
    """
    if start is None:
        return None
    activations = start.activations if isinstance(start, ExpectedBaseline) else start
    part = activations - np.asarray(edit.apply(activations))
    return part.mean(axis=0, keepdims=True) if isinstance(start, ExpectedBaseline) else part


class AblatedPlayer:
    """Plays with an agent while a component of a layer is set to the baseline, as in `ablation_changes`."""

    def __init__(self, agent: Agent, layer: str, component: np.ndarray, baseline: Baseline) -> None:
        self.num_actions, self.initial_state, self.preprocess = agent.num_actions, agent.initial_state, agent.preprocess
        self._agent, self._baseline = agent, baseline
        self._edit = Ablate(find_site(agent.sites, layer).name, component=component)

    def reset(self, state: State, firsts: np.ndarray) -> State:
        return before_step(self._agent, state, firsts)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        layer, state = self._edit.layer, self.reset(state, np.asarray(firsts, bool))
        start = layer_baseline(self._agent, self._baseline, observations, layer, state)
        change = partial(self._edit.apply, replacement=replaced_by(self._edit, start))
        outputs = self._agent.forward(observations, state, write={layer: change})
        return outputs, outputs.state


def ablate_trajectory(subject: Subject, layer: PageLayer, trajectory: int, work: Work) -> TaskResult:
    """Write the changes in the outputs along a trajectory when each feature of a layer is ablated."""
    options = subject.options_of(AblationOptions)
    chosen = np.arange(0, subject.trajectories.actions.shape[1], options.every or 1)
    features = load_features(subject.files, layer)
    components = features.reduction.components
    baseline = features.baseline(ablation_baseline(subject, work.results))
    parts = []
    for part in slices(len(chosen), work.frames):
        frames = chosen[part]
        observations = np.asarray(subject.trajectories.observations[trajectory, frames])
        state = subject.states(trajectory, frames)
        scores = scores_to_compute(subject)
        calls = parallel_calls(subject.agent, work.threads)
        changes = ablation_changes(
            subject.agent, observations, layer.full_name, components, scores, state, calls, baseline
        )
        parts.append(changes)
        work.report(part.stop / len(chosen))
    changes = np.concatenate(parts, axis=1)  # (S, n, K)
    arrays: dict[str, np.ndarray | bytes] = {"frames": chosen.astype(np.int32)}
    for output, rows in score_rows(subject).items():
        arrays[f"change.{output}"] = sum_rows(changes, rows).astype(np.float32)
    name = chunk_name(layer, trajectory)
    subject.files.write_chunk(name, arrays)
    return TaskResult(files=[name])


def ablation_baseline(subject: Subject, results: Results) -> str:
    """Return the name of the baseline that ablated features of the page are set to."""
    if subject.options_of(AblationOptions).to == "zero":
        return "zero-layer"
    return with_chosen_baseline(subject, results).options_of(PathOptions).baseline


def chunk_name(layer: PageLayer, trajectory: int) -> ChunkName:
    return ChunkName(f"{AblationAnalysis.kind}/{layer.slug}/{trajectory + 1}/ablation.js")


def read_changes(subject: Subject, layer: PageLayer, trajectory: int) -> dict[str, np.ndarray]:
    """Return the ablated frames of a trajectory, and the changes in the outputs at these frames.

    docs/page-format.md lists the names of the arrays.
    """
    return subject.files.read_chunk(chunk_name(layer, trajectory))


def layer_entry(subject: Subject, layer: PageLayer, results: Results) -> AblatedLayer:
    """Return the section's entry for a layer. The entry has no summaries until all trajectories are finished."""
    trajectories = range(len(subject.trajectories.actions))
    entry = AblatedLayer([chunk_name(layer, trajectory) for trajectory in trajectories])
    analyses = (AblationAnalysis, AttributionAnalysis)
    needed = [analysis.task_name(layer.name, t + 1) for analysis in analyses for t in trajectories]
    if any(name not in results for name in needed):
        return entry
    outputs, layer = attributed_outputs(subject), finished_layer(layer, results)
    return replace(entry, outputs={output.id: _summary(subject, layer, output.id) for output in outputs})


def _summary(subject: Subject, layer: PageLayer, output: str) -> AblationSummary:
    """Summarize the changes of an output over all ablated frames, and compare them with attribution."""
    changes, attribution, episodes = [], [], []
    for trajectory in range(len(subject.trajectories.actions)):
        arrays = read_changes(subject, layer, trajectory)
        changes.append(arrays[f"change.{output}"])
        totals = read_totals(subject, layer, trajectory)[output]
        attribution.append(totals[arrays["frames"], :-1].sum(axis=-1))
        episodes.append(subject.trajectories.episode_numbers(trajectory)[arrays["frames"]])
    changed, attributed, numbers = (np.concatenate(part) for part in (changes, attribution, episodes))
    return summarize(changed, attributed, numbers, subject.options.seed)


def summarize(changes: np.ndarray, attribution: np.ndarray, episodes: np.ndarray, seed: int = 0) -> AblationSummary:
    """Summarize the changes (n, K) of an output on n frames when each of K features is ablated.

    The correlation is between the negative change and the attribution (n, K) to the features: 1 if they are
    proportional, 0 if either is constant. `episodes` (n,) contains the number of each frame's episode.
    """
    changes, attribution = changes.astype(np.float64), attribution.astype(np.float64)
    lost, due = (values - values.mean(axis=0) for values in (-changes, attribution))
    norms = np.linalg.norm(lost, axis=0) * np.linalg.norm(due, axis=0)
    correlation = np.divide((lost * due).sum(axis=0), norms, out=np.zeros(len(norms)), where=norms > 0)
    return AblationSummary(
        changes.mean(axis=0).tolist(),
        np.abs(changes).mean(axis=0).tolist(),
        correlation.tolist(),
        _largest_agree(np.abs(changes), np.abs(attribution), episodes, seed),
    )


def _largest_agree(changes: np.ndarray, attribution: np.ndarray, episodes: np.ndarray, seed: int) -> Share | None:
    """Return the share of frames in which the same feature has the largest change and the largest attribution.

    Both arrays are magnitudes (n, K). Frames without a change or without attribution do not count. Return None if no
    frame is left, or for a single feature.
    """
    known = changes.any(axis=1) & attribution.any(axis=1)
    if changes.shape[1] < 2 or not known.any():
        return None
    agree = changes[known].argmax(axis=1) == attribution[known].argmax(axis=1)
    _, index = np.unique(episodes[known], return_inverse=True)
    right, steps = np.bincount(index, agree), np.bincount(index)
    low, high = resampled_interval(
        len(steps), lambda weights: (weights @ right) / (weights @ steps), np.random.default_rng(seed)
    )
    single = len(steps) == 1
    return Share(float(agree.mean()), None if single else low, None if single else high)


def _pieces(layer: PageLayer, frames: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that ablates a few features on a batch. A trajectory has `frames` ablated frames."""
    seen, state = sample_frames(sample, batch)
    components = np.eye(layer.shape[-1], dtype=np.float32)[: min(MEASURED_FEATURES, layer.channels)]
    scores = scores_to_compute(sample)
    calls = parallel_calls(sample.agent)
    to_zero = sample.options_of(AblationOptions).to == "zero" or sample.options_of(PathOptions).baseline == "zero-layer"
    baseline = "zero-layer" if to_zero else DEFAULT_BASELINE
    ablate = partial(ablation_changes, sample.agent, seen, layer.full_name, components, scores, state, calls, baseline)
    passes = (layer.channels + 1) / (len(components) + 1)
    yield Piece(ablate, frames / len(seen) * passes)  # already compiled by the pieces of attribution
