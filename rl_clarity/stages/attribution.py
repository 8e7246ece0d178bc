"""What the agent thought along each trajectory: its outputs attributed to a layer, reduced to a few channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.attribution import attribute, multi_path_attribution
from rl_clarity.distributed import TaskResult
from rl_clarity.interface.layers import selections, write_attribution, write_attribution_pictures, write_totals
from rl_clarity.interface.page_files import PageFiles
from rl_clarity.progress import Report, part_of
from rl_clarity.reduction import ChannelReduction
from rl_clarity.sampling.samples import Trajectories
from rl_clarity.stages.batches import ALONG_PATHS, frames_at_once, held_scores, parts
from rl_clarity.stages.features import load_features, states_at
from rl_clarity.stages.plan import Plan, PlannedLayer, outputs_to_compute
from rl_clarity.stages.spool import Spool
from rl_clarity.visualization.rendering import scale_of_peaks
from rl_clarity.visualization.totals import channel_totals


@dataclass(frozen=True)
class Explained:
    """One output's attribution on n frames."""

    channels: np.ndarray  # (n, h, w, K), in units of attribution
    residual: np.ndarray | None  # (n, h, w, 1); None for the input
    gap: np.ndarray | None  # (n, 3): sum of the attribution, s(a) - s(0), s(a); None for the input


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
        for output, explained in _explain(agent, plan, layer, reduction, observations, state, seed, memory).items():
            channels, residual = explained.channels, explained.residual
            write_attribution(files, layer.slug, output, trajectory, segment, channels, residual)
            names.append(files.layout.attribution(layer.slug, output, trajectory, segment))
            totals[output].append(channel_totals(channels, residual))
            peaks[output].append(channels.max(axis=(1, 2, 3)))
            if output == plan.outputs[0].id:
                positions.append(np.abs(channels).reshape(len(channels), -1, layer.channels).argmax(axis=1))
            if explained.gap is not None:
                gaps[output].append(explained.gap)
            if pictures is not None:
                pictures.keep(output, part, channels, residual)
        report(0.95 * (segment + 1) / len(segments))
    joined = {output: np.concatenate(parts) for output, parts in totals.items()}
    joined_gaps = {output: np.concatenate(parts) for output, parts in gaps.items() if parts}
    write_totals(files, layer.slug, trajectory, joined, joined_gaps)
    scales = {output: float(scale_of_peaks(np.concatenate(parts))) for output, parts in peaks.items()}
    names.append(files.layout.totals(layer.slug, trajectory))
    if pictures is not None:
        names += pictures.draw(files, plan, layer, trajectory, scales, part_of(report, 0.95, 1.0))
    return TaskResult({"scales": scales, "positions": np.concatenate(positions).tolist()}, names)


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
        gradients = agent.gradients(observations, None, None, scores, state)
        return {output: Explained(v, None, None) for output, (v, _) in _by_output(plan, gradients, None).items()}
    straight = attribute(
        agent,
        observations,
        layer.full_name,
        scores,
        steps=plan.options.attr_integrate_steps,
        quadrature=plan.options.attr_quadrature,
        state=state,
    )
    values = straight.values
    if plan.options.attr_max_paths is not None:
        paths = [
            multi_path_attribution(
                agent,
                observations,
                layer.full_name,
                reduction,
                score,
                plan.options.attr_integrate_steps,
                plan.options.attr_max_paths,
                rng,
                state,
            )
            for score in scores
        ]
        values = np.stack(paths)
    sums = values.sum(axis=(2, 3, 4), dtype=np.float64)
    gaps = np.stack([sums, straight.scores - straight.scores_at_zero, straight.scores], axis=-1)  # (S, n, 3)
    explained = {}
    for output, (attribution, gap) in _by_output(plan, values, gaps.astype(np.float32)).items():
        channels, residual = reduction.signed_transform(attribution)
        explained[output] = Explained(channels, residual, gap)
    return explained


def _by_output(
    plan: Plan, values: np.ndarray, gaps: np.ndarray | None
) -> Mapping[str, tuple[np.ndarray, np.ndarray | None]]:
    """What was computed for the scores, by output: a group's is the sum over its actions, before any reduction."""
    computed = [output for output in plan.outputs if output.kind != "group"]
    row = {output.id: i for i, output in enumerate(computed)}
    found: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for output in plan.outputs:
        if output.group is None:
            chosen = [row[output.id]]
        else:
            chosen = [row[f"action-{action}"] for action in plan.groups[output.group].actions]
        gap = None if gaps is None else gaps[chosen].sum(axis=0)
        found[output.id] = (values[chosen].sum(axis=0), gap)
    return found


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

    def keep(self, output: str, chosen: range, channels: np.ndarray, residual: np.ndarray | None) -> None:
        parts = [channels] if residual is None else [channels, residual]
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
