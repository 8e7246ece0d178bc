"""What the agent thought along each trajectory: its outputs attributed to a layer, reduced to a few channels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution import attribute, multi_path_attributions
from rl_clarity.jobs import TaskResult
from rl_clarity.pages.chunks import Chunk
from rl_clarity.pages.layers import attribution_chunk, selections, write_attribution_pictures, write_totals
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.progress import Report, part_of
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.reduction import ChannelReduction
from rl_clarity.stages.batches import ALONG_PATHS, frames_at_once, held_scores, parts
from rl_clarity.stages.features import load_features, states_at
from rl_clarity.stages.plan import Plan, PlannedLayer, outputs_to_compute
from rl_clarity.stages.spool import Spool
from rl_clarity.threads import in_threads
from rl_clarity.visualization.rendering import scale_of_peaks
from rl_clarity.visualization.totals import channel_totals


@dataclass(frozen=True)
class Explained:
    """One output's attribution on n frames."""

    channels: np.ndarray  # (n, h, w, K), in units of attribution
    residual: np.ndarray | None  # (n, h, w, 1); None for the input
    gap: np.ndarray | None  # (n, 3): sum of the attribution, s(a) - s(0), s(a); None for the input


@dataclass(frozen=True)
class Packed:
    """One output's attribution on n frames, ready to be written, and what is kept of it."""

    chunk: Chunk
    totals: np.ndarray  # (n, K + 1, 2)
    peaks: np.ndarray  # (n,)


def attribute_trajectory(
    files: PageFiles,
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    trajectories: Trajectories,
    trajectory: int,
    memory: int,
    report: Report,
) -> TaskResult:
    """Write one trajectory's attribution to one layer, in so much memory (bytes).

    Facts: the scale of each output's pictures, and at each step the position where a channel of the first output is
    strongest.
    """
    reduction = None if layer.is_input else load_features(files, layer).reduction
    steps = trajectories.actions.shape[1]
    segments = files.layout.segments(steps)
    totals: dict[str, list[np.ndarray]] = {output.id: [] for output in plan.outputs}
    gaps: dict[str, list[np.ndarray]] = {output.id: [] for output in plan.outputs}
    peaks: dict[str, list[np.ndarray]] = {output.id: [] for output in plan.outputs}
    positions: list[np.ndarray] = []
    pictures = _Pictures(plan, layer, steps) if plan.options.attr_images else None
    names = []
    for segment, part in enumerate(segments):
        chosen = slice(part.start, part.stop)
        observations = np.asarray(trajectories.observations[trajectory, chosen])
        state = _states(trajectories, trajectory, chosen)
        seed = [plan.options.seed, trajectory, segment]
        explained = _explain(agent, plan, layer, reduction, observations, state, seed, memory)
        pack = partial(_pack, files.layout, layer, trajectory, segment)
        for output, packed in zip(explained, in_threads(pack, explained.items()), strict=True):
            files.write(packed.chunk)
            names.append(packed.chunk.name)
            totals[output].append(packed.totals)
            peaks[output].append(packed.peaks)
            gap = explained[output].gap
            if gap is not None:
                gaps[output].append(gap)
            if pictures is not None:
                pictures.keep(output, part, explained[output])
        positions.append(_strongest_positions(explained[plan.outputs[0].id].channels))
        report(0.95 * (segment + 1) / len(segments))
    joined = {output: np.concatenate(parts) for output, parts in totals.items()}
    joined_gaps = {output: np.concatenate(parts) for output, parts in gaps.items() if parts}
    write_totals(files, layer.slug, trajectory, joined, joined_gaps)
    scales = {output: float(scale_of_peaks(np.concatenate(parts))) for output, parts in peaks.items()}
    names.append(files.layout.totals(layer.slug, trajectory))
    if pictures is not None:
        names += pictures.draw(files, plan, layer, trajectory, scales, part_of(report, 0.95, 1.0))
    return TaskResult({"scales": scales, "positions": np.concatenate(positions).tolist()}, names)


def _pack(layout: Layout, layer: PlannedLayer, trajectory: int, segment: int, item: tuple[str, Explained]) -> Packed:
    output, explained = item
    channels, residual = explained.channels, explained.residual
    return Packed(
        attribution_chunk(layout, layer.slug, output, trajectory, segment, channels, residual),
        channel_totals(channels, residual),
        channels.max(axis=(1, 2, 3)),
    )


def _strongest_positions(channels: np.ndarray) -> np.ndarray:
    """Where each channel is strongest, (n, K): row times the width, plus column."""
    return np.asarray(np.abs(channels).reshape(len(channels), -1, channels.shape[-1]).argmax(axis=1))


def _explain(
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    reduction: ChannelReduction | None,
    observations: np.ndarray,
    state: State,
    seed: Sequence[int],
    memory: int,
) -> dict[str, Explained]:
    """Each output's attribution on a segment's frames, by the output's id; as many at once as memory holds."""
    at_once = frames_at_once(agent, layer, held_scores(plan), memory)
    if plan.options.attr_max_paths is not None:
        at_once = min(at_once, ALONG_PATHS)
    found = []
    for part in parts(len(observations), at_once):
        rng = np.random.default_rng(seed)  # each part follows the same paths
        found.append(_explain_part(agent, plan, layer, reduction, observations[part], states_at(state, part), rng))
    return {
        output: Explained(
            np.concatenate([one[output].channels for one in found]),
            _joined([one[output].residual for one in found]),
            _joined([one[output].gap for one in found]),
        )
        for output in found[0]
    }


def _joined(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None


def _explain_part(
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    reduction: ChannelReduction | None,
    observations: np.ndarray,
    state: State,
    rng: np.random.Generator,
) -> dict[str, Explained]:
    scores = outputs_to_compute(plan)
    if reduction is None:
        gradients = agent.gradients(observations, "input", scores, state=state)
        return {output: Explained(_sum(gradients, rows), None, None) for output, rows in _score_rows(plan).items()}
    options = plan.options
    straight = options.attr_max_paths is None
    found = attribute(
        agent,
        observations,
        layer.full_name,
        scores,
        steps=options.attr_integrate_steps if straight else 1,  # else only what the attribution should add up to
        quadrature=options.attr_quadrature,
        state=state,
    )
    if not straight:
        along = multi_path_attributions(
            agent,
            observations,
            layer.full_name,
            reduction,
            scores,
            steps=options.attr_integrate_steps,
            max_paths=options.attr_max_paths,
            rng=rng,
            state=state,
        )
        found = dataclasses.replace(found, values=along)
    gaps = np.stack([found.totals, found.scores - found.scores_at_zero, found.scores], axis=-1)  # (S, n, 3)
    explained = {}
    for output, rows in _score_rows(plan).items():
        channels, residual = reduction.signed_transform(_sum(found.values, rows))
        explained[output] = Explained(channels, residual, _sum(gaps, rows))
    return explained


def _score_rows(plan: Plan) -> dict[str, list[int]]:
    """Which of the computed scores an output is the sum of: a group's are its actions'."""
    computed = [output for output in plan.outputs if output.kind != "group"]
    row = {output.id: i for i, output in enumerate(computed)}
    return {
        output.id: [row[output.id]]
        if output.group is None
        else [row[f"action-{action}"] for action in plan.groups[output.group].actions]
        for output in plan.outputs
    }


def _sum(values: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """Sum of some of `values` (S, ...)."""
    return functools.reduce(np.add, (values[row] for row in rows))  # of one row, a view


def _states(trajectories: Trajectories, trajectory: int, chosen: slice) -> State:
    if trajectories.states is None:
        return None
    return tuple(np.asarray(part[trajectory, chosen]) for part in trajectories.states)


class _Pictures:
    """The original's pictures of a trajectory, which need its scale: that is known when all attribution is computed."""

    def __init__(self, plan: Plan, layer: PlannedLayer, steps: int) -> None:
        self._steps = steps
        self._row = {output.id: i for i, output in enumerate(plan.outputs)}
        self._values = Spool(steps, (*layer.shape[:2], layer.channels + (not layer.is_input)))

    def keep(self, output: str, chosen: range, explained: Explained) -> None:
        parts = [part for part in (explained.channels, explained.residual) if part is not None]
        self._values.put(self._row[output], chosen.start, np.concatenate(parts, axis=-1))

    def draw(
        self,
        files: PageFiles,
        plan: Plan,
        layer: PlannedLayer,
        trajectory: int,
        scales: Mapping[str, float],
        report: Report,
    ) -> Sequence[str]:
        """Write the original's pictures; returns their names."""
        names = []
        segments = files.layout.segments(self._steps)
        for row, output in enumerate(plan.outputs):
            for segment, part in enumerate(segments):
                values = self._values.get(row, part.start, part.stop)
                channels = values[..., : layer.channels]
                residual = None if layer.is_input else values[..., layer.channels :]
                write_attribution_pictures(
                    files,
                    layer.slug,
                    output.id,
                    trajectory,
                    segment,
                    channels,
                    residual,
                    scales[output.id],
                    layer.hues,
                    plan.options.scrub_range,
                )
                for name, _, _ in selections(layer.channels, residual is not None):
                    names.append(files.layout.attribution_picture(layer.slug, output.id, name, trajectory, segment))
                    names.append(files.layout.attribution_scrub(layer.slug, output.id, name, trajectory, segment))
                report((row + (segment + 1) / len(segments)) / len(plan.outputs))
        return names
