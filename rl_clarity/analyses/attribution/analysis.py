"""The analysis `attribution`: attributes outputs to the features of each layer, at every step of each trajectory."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.agents.capabilities import parallel_calls
from rl_clarity.agents.held_inputs import is_recurrent
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.baselines import (
    DEFAULT_BASELINE,
    Baseline,
    ExpectedBaseline,
    used_baseline,
)
from rl_clarity.analyses.attribution.files import (
    AttributionOptions,
    AttributionSection,
    attribution_chunk,
    chunk_name,
    incomplete_steps,
    layer_entry,
    totals_name,
    write_totals,
)
from rl_clarity.analyses.attribution.images import RenderedImages, write_attribution_images
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.analyses.attribution.memory import scores_without_memory
from rl_clarity.analyses.attribution.multi_path import multi_path_attributions
from rl_clarity.analyses.attribution.outputs import (
    attributed_outputs,
    completeness_limit,
    computed_outputs,
    score_rows,
    scores_to_compute,
    sum_rows,
)
from rl_clarity.analyses.attribution.quadrature import quadrature
from rl_clarity.analyses.chosen_baseline import with_chosen_baseline
from rl_clarity.analyses.feature_facts import activations_along
from rl_clarity.analyses.features import FeaturesAnalysis, fitted_layer, load_features, reduction_inputs
from rl_clarity.analyses.layers import (
    MEMORY_HINT,
    PageLayer,
    gradient_bytes,
    gradient_piece,
    page_layers,
    parallel_tasks,
    sample_frames,
    task_size,
)
from rl_clarity.analyses.trajectories import TrajectoryPageOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.progress import subrange
from rl_clarity.base.threads import prefetch, thread_count
from rl_clarity.jobs.tasks import MAX_FRAMES, Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import segments
from rl_clarity.reduction import ChannelReduction
from rl_clarity.visualization.rendering import full_scale, scale_of_peaks
from rl_clarity.visualization.totals import channel_totals, magnitudes, peak_positions

PATH_SCORES = 3
"""Memory for the points on paths in the reduced channels, in units of the memory of one score's gradients."""
PATH_FRAMES = 16
"""Largest number of frames in a batch with paths in the reduced channels."""
PATH_COST = 1.5
"""Time for a point on a path in the reduced channels, relative to a point on the straight path."""
MEASURED_IMAGES = 8
"""Number of frames whose images are rendered to measure the time of rendering."""


_Encoded: TypeAlias = tuple[list[str], dict[str, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Attributed:
    """The attribution of an output to the K features of a layer, on n frames.

    s(a) is the output at the layer's activations, and s(b) the output at the baseline.
    """

    channels: np.ndarray  # (n, h, w, K), in units of attribution
    residual: np.ndarray | None  # (n, h, w, 1); None for the input
    gap: np.ndarray | None  # (n, 3): sum of the attribution, s(a) - s(b), s(a); None for the input
    memory: np.ndarray | None = None  # (n,): s(b) minus s(b) in the initial state; None for the input or without state
    refined: np.ndarray | None = None  # (n,): factor by which refinement multiplied the points; None without it

    @property
    def sums(self) -> dict[str, np.ndarray]:
        """Arrays for these frames in the chunk of totals: `totals` (n, K + 1, 2), or (n, K, 2) without a residual;
        `peak` (n, K, 2); and `gap` and `memory` if they are not None.
        """
        totals, peaks = channel_totals(self.channels, self.residual), peak_positions(self.channels)
        parts = {"totals": totals, "peak": peaks, "gap": self.gap, "memory": self.memory}
        return {name: values for name, values in parts.items() if values is not None}


class AttributionAnalysis(Analysis[AttributionOptions, AttributionSection]):
    """Integrated gradients of the value, and optionally of all actions, with respect to each layer."""

    kind = "attribution"
    version = 3
    needs_all = False

    def check(self, agent: Agent, options: AttributionOptions, page: SubjectOptions) -> None:
        page_layers(agent, page)
        quadrature(options.quadrature, options.steps)
        if options.max_paths is not None and options.baseline == "expected":
            raise OptionError(
                f"attribution.max_paths={options.max_paths} needs a single starting point: choose an "
                "attribution.baseline other than 'expected'"
            )

    def tasks(self, subject: Subject, options: AttributionOptions) -> Iterable[Task]:
        count, steps = subject.trajectories.rewards.shape
        outputs = len(attributed_outputs(subject))
        scores = held_scores(subject)
        for layer in page_layers(subject.agent, subject.options):
            segment = 4 * MAX_FRAMES * math.prod(layer.shape[:2]) * (layer.channels + 1) * outputs * 3
            for trajectory in range(count):
                yield self.task(
                    subject,
                    self.task_name(layer.name, trajectory + 1),
                    partial(attribute_trajectory, subject, layer, trajectory),
                    [attribution_inputs(subject), asdict(layer), trajectory],
                    size=task_size(layer, steps) * outputs,
                    group=self.task_name(layer.name),
                    after=(FeaturesAnalysis.task_name(layer.name),),
                    pieces=partial(_pieces, layer, steps),
                    frame_bytes=gradient_bytes(subject.agent, layer.shape, scores),
                    held_bytes=segment,
                    parallel=parallel_tasks(subject.agent, outputs),
                    memory_hint=MEMORY_HINT,
                )

    def sections(self, subject: Subject, options: AttributionOptions, results: Results) -> Iterable[AttributionSection]:
        outputs = [
            replace(output, error_limit=completeness_limit(subject, output)) for output in attributed_outputs(subject)
        ]
        chosen = with_chosen_baseline(subject, results)
        baseline = used_baseline(subject.agent, chosen.options_of(AttributionOptions).baseline)
        layers = page_layers(subject.agent, subject.options)
        yield AttributionSection(
            outputs,
            [layer_entry(subject, layer, outputs, results) for layer in layers],
            None if baseline == "zero-layer" else baseline,
            next(layer.name for layer in layers if not layer.is_input),
        )


def held_scores(subject: Subject) -> int:
    """Return the number of scores whose gradients are in memory at the same time.

    Paths in the reduced channels (`max_paths`) need more memory, which is counted as additional scores. The points on
    these paths are float64. Each score's sum along the paths is also float64, and needs half the memory of the score's
    gradients.
    """
    scores, paths = len(scores_to_compute(subject)), subject.options_of(AttributionOptions).max_paths
    return scores if paths is None else scores + PATH_SCORES + scores // 2


def attribution_inputs(subject: Subject) -> list[object]:
    """Return the values that determine attribution, besides the agent and the samples, for the cache keys of tasks."""
    groups = subject.info.action_groups
    outputs = [
        (output.id, None if output.group is None else groups[output.group].actions)
        for output in attributed_outputs(subject)
    ]
    images = subject.options_of(AttributionOptions).images
    strips = subject.options_of(TrajectoryPageOptions).scrub_range if images else None
    return [reduction_inputs(subject), subject.decisive(AttributionOptions), outputs, strips]


def attribute_trajectory(subject: Subject, layer: PageLayer, trajectory: int, work: Work) -> TaskResult:
    """Write the attribution of outputs to a layer, along one trajectory.

    The facts are, by output: the value at full brightness (`scales`), the value at full opacity (`limits`), the share
    of steps whose path has additional points (`refined`), and two sums of magnitudes over all steps and positions
    (`magnitudes`): of the attribution to features, and of all attribution. The input has only scales and limits.
    """
    subject = with_chosen_baseline(subject, work.results)
    options, files = subject.options_of(AttributionOptions), subject.files
    features = None if layer.is_input else load_features(files, layer)
    reduction = None if features is None else features.reduction
    layer = layer if features is None else fitted_layer(layer, features)
    baseline: Baseline = options.baseline if features is None else features.baseline(options.baseline)
    steps = subject.trajectories.actions.shape[1]
    outputs = attributed_outputs(subject)
    ids = [output.id for output in outputs]
    sums: defaultdict[str, list[np.ndarray]] = defaultdict(list)  # by name of the array in the chunk of totals
    peaks: dict[str, list[np.ndarray]] = {output: [] for output in ids}
    limits: dict[str, float] = {}
    refined: defaultdict[str, int] = defaultdict(int)
    images = RenderedImages(subject, layer, ids, steps) if options.images else None
    names: list[str] = []
    parts = segments(steps)

    def explain_segment(segment: int) -> dict[str, Attributed]:
        chosen = slice(parts[segment].start, parts[segment].stop)
        observations = np.asarray(subject.trajectories.observations[trajectory, chosen])
        seed, state = [subject.options.seed, trajectory, segment], subject.states(trajectory, chosen)
        return explain(subject, layer, reduction, observations, state, seed, work.frames, baseline)

    # Encode and write a segment while the next ones are being explained.
    explained = prefetch(explain_segment, range(len(parts)), parallel_calls(subject.agent, work.threads))
    with ThreadPoolExecutor(thread_count()) as pool:
        for segment, (part, attributed) in enumerate(zip(parts, explained, strict=True)):
            encoded = pool.map(partial(_encode, subject, layer, trajectory, segment), attributed.items())
            for output, limit in _limits(subject, attributed).items():
                limits[output] = max(limit, limits.get(output, 0.0))
            for (output, one), (written, by_name, peak) in zip(attributed.items(), encoded, strict=True):
                names.extend(written)
                peaks[output].append(peak)
                refined[output] += 0 if one.refined is None else int((one.refined > 1).sum())
                for name, values in by_name.items():
                    sums[f"{name}.{output}"].append(values)
                if images is not None:
                    images.keep(output, part, one.channels, one.residual)
            work.report(0.95 * part.stop / steps)
    names.append(totals_name(options, layer, trajectory))
    joined = {name: np.concatenate(values) for name, values in sums.items()}
    if features is not None:
        joined["activation"] = activations_along(subject, layer, features, trajectory)
    write_totals(files, names[-1], joined)
    scales = {output: float(scale_of_peaks(np.concatenate(values))) for output, values in peaks.items()}
    if images is not None:
        gray = {
            output.id: incomplete_steps(joined[f"gap.{output.id}"], completeness_limit(subject, output))
            for output in outputs
            if features is not None
        }
        names += images.draw(trajectory, scales, gray, subrange(work.report, 0.95, 1.0))
    facts: dict[str, Any] = {"scales": scales, "limits": limits}
    if features is not None:
        facts["refined"] = {output: refined[output] / steps for output in ids}
        facts["magnitudes"] = {output: magnitudes(joined[f"totals.{output}"]) for output in ids}
    return TaskResult(facts, names)


def explain(
    subject: Subject,
    layer: PageLayer,
    reduction: ChannelReduction | None,
    observations: np.ndarray,
    state: State,
    seed: Sequence[int],
    batch: int,
    baseline: Baseline = DEFAULT_BASELINE,
) -> dict[str, Attributed]:
    """Return the attribution of each output on a segment's frames, by the output's id.

    At most `batch` frames are computed at a time. `seed` is the seed of random paths (`max_paths`).
    """
    if subject.options_of(AttributionOptions).max_paths is not None:
        batch = min(batch, PATH_FRAMES)
    parts = []
    for part in slices(len(observations), batch):
        rng = np.random.default_rng(seed)  # use the same paths for each batch
        states = None if state is None else tuple(np.asarray(one[part]) for one in state)
        parts.append(_explain_batch(subject, layer, reduction, observations[part], states, rng, baseline))
    if len(parts) == 1:
        return parts[0]
    return {
        output: Attributed(
            np.concatenate([one[output].channels for one in parts]),
            _join([one[output].residual for one in parts]),
            _join([one[output].gap for one in parts]),
            _join([one[output].memory for one in parts]),
            _join([one[output].refined for one in parts]),
        )
        for output in parts[0]
    }


def _explain_batch(
    subject: Subject,
    layer: PageLayer,
    reduction: ChannelReduction | None,
    observations: np.ndarray,
    state: State,
    rng: np.random.Generator,
    baseline: Baseline,
) -> dict[str, Attributed]:
    agent, options, scores = subject.agent, subject.options_of(AttributionOptions), scores_to_compute(subject)
    if reduction is None:
        gradients = agent.gradients(observations, "input", scores, state=state)
        return {name: Attributed(sum_rows(gradients, one), None, None) for name, one in score_rows(subject).items()}
    paths = options.max_paths
    steps = options.steps if paths is None else 1  # with max_paths, only the scores of this result are used
    result = attribute(
        agent,
        observations,
        layer.full_name,
        scores,
        steps=steps,
        quadrature=options.quadrature,
        state=state,
        baseline=baseline,
        linear_prefix=options.linear_prefix,
        refinement=options.refinement if paths is None else 1,
        error_limits=[completeness_limit(subject, one) for one in computed_outputs(subject)],
    )
    if paths is not None:
        values = multi_path_attributions(
            agent,
            observations,
            layer.full_name,
            reduction,
            scores,
            steps=options.steps,
            max_paths=paths,
            rng=rng,
            state=state,
            baseline=baseline,
        )
        result = replace(result, values=values)
    gaps = np.stack([result.totals, result.scores - result.scores_at_baseline, result.scores], axis=-1)  # (S, n, 3)
    memory = None
    if is_recurrent(agent):
        # an ExpectedBaseline weights observations by their points on the path, which refinement changes
        refined = result.refined if isinstance(baseline, ExpectedBaseline) else None
        factors = np.ones_like(result.scores, int) if refined is None else refined
        memory = result.scores_at_baseline.copy()
        for factor in np.unique(factors):
            weights = quadrature(options.quadrature, int(factor) * steps)[1]
            without = scores_without_memory(agent, observations, layer.full_name, scores, state, baseline, weights)
            memory -= np.where(factors == factor, without, 0)
    # A group's features are the sums of its actions' features. Readers of the page compute them in the same way.
    channels, residuals = zip(*(reduction.signed_transform(values) for values in result.values), strict=True)
    return {
        output: Attributed(
            sum_rows(channels, summed),
            sum_rows(residuals, summed),
            sum_rows(gaps, summed),
            None if memory is None else sum_rows(memory, summed),
            None if result.refined is None else result.refined[summed].max(axis=0),
        )
        for output, summed in score_rows(subject).items()
    }


def _join(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None


def _limits(subject: Subject, attributed: Mapping[str, Attributed]) -> dict[str, float]:
    """Return, for each output, the value that is shown at full opacity on a segment.

    If actions are attributed to a layer and the agent has a policy, there is also a value for each action's attribution
    minus the policy's mean attribution over actions (`action-0-less-mean`).
    """
    limits = {output: full_scale(one.channels, one.residual) for output, one in attributed.items()}
    actions = [one for output, one in attributed.items() if output.startswith("action-")]
    if subject.info.kind != "policy" or not actions or actions[0].gap is None:
        return limits
    logits = np.stack([one.gap[:, 2] for one in actions if one.gap is not None])  # (A, n)
    powers = np.exp(logits - logits.max(axis=0))
    policy = powers / powers.sum(axis=0)

    def policy_mean(values: Sequence[np.ndarray]) -> np.ndarray:
        return functools.reduce(
            np.add, (p[:, None, None, None] * value for p, value in zip(policy, values, strict=True))
        )

    residuals = [one.residual for one in actions if one.residual is not None]
    channels_mean, residual_mean = policy_mean([one.channels for one in actions]), policy_mean(residuals)
    for action, (one, residual) in enumerate(zip(actions, residuals, strict=True)):
        limits[f"action-{action}-less-mean"] = full_scale(one.channels - channels_mean, residual - residual_mean)
    return limits


def _encode(
    subject: Subject, layer: PageLayer, trajectory: int, segment: int, item: tuple[str, Attributed]
) -> _Encoded:
    """Write an output's chunk. Return the names of the written chunks, `sums`, and the largest value in each frame
    (n,).

    A group of actions has no chunk, because readers of the page add up the attribution of its actions.
    """
    output, one = item
    names: list[str] = []
    if not output.startswith("group"):
        name = chunk_name(subject.options_of(AttributionOptions), layer, output, trajectory, segment)
        subject.files.write(attribution_chunk(name, one.channels, one.residual))
        names.append(name)
    return names, one.sums, one.channels.max(axis=(1, 2, 3))


# --- forecast --------------------------------------------------------------------------------------------------------


def _pieces(layer: PageLayer, steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield the pieces of `attribute_trajectory` that are measured: gradients, reduction, encoding and images."""
    sample = with_chosen_baseline(sample, {})
    options, agent, scores = sample.options_of(AttributionOptions), sample.agent, scores_to_compute(sample)
    outputs = len(attributed_outputs(sample))
    seen, state = sample_frames(sample, batch)
    frames = steps / len(seen)
    if layer.is_input:

        def differentiate() -> np.ndarray:
            return agent.gradients(seen, "input", scores, state=state)[0]

        yield Piece(differentiate, frames, differentiate)
        channels, residual = differentiate(), None
    else:
        paths = 1.0 if options.max_paths is None else PATH_COST * options.max_paths
        prefix = options.max_paths is None and options.linear_prefix
        gradients, integrate = gradient_piece(
            sample, layer, scores, batch, steps * paths, options.steps, prefix, options.baseline
        )
        yield gradients
        values = np.nan_to_num(integrate())
        reduction = ChannelReduction.fit(values, layer.channels, sample.options.seed, max_rows=1000)
        yield Piece(partial(reduction.signed_transform, values), frames * outputs)
        channels, residual = reduction.signed_transform(values)

    def write() -> None:
        name = chunk_name(options, layer, "value", 0, 0)
        sample.files.write(attribution_chunk(name, channels, residual))

    yield Piece(write, frames * outputs)
    if options.images:
        few = min(MEASURED_IMAGES, len(seen))
        rest = None if residual is None else residual[:few]
        draw = partial(write_attribution_images, sample, layer, "value", 0, 0, channels[:few], rest, 1.0)
        yield Piece(draw, steps / few * outputs)
