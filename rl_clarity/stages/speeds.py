"""A short measurement: what each kind of work takes on this machine, for this agent and frames that it saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution import attribute
from rl_clarity.pages.layers import attribution_chunk, write_attribution_pictures
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.recordings.advantages import advantages_of
from rl_clarity.recordings.preview import Preview
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.nmf import FIT_ROWS
from rl_clarity.stages.batches import frames_at_once
from rl_clarity.stages.features import states_at, write_grid_pictures, write_optimized_images
from rl_clarity.stages.plan import Plan, PlannedLayer, outputs_to_compute
from rl_clarity.stages.shown import observation_frames
from rl_clarity.stages.trajectories import write_trajectory
from rl_clarity.threads import thread_count
from rl_clarity.visualization.dataset_examples import dataset_grids
from rl_clarity.visualization.optimization import STEPS

FIT_SHARE = 10
"""A reduction is fitted to this part of the rows that it will be fitted to."""
PICTURED = 8
"""Frames whose pictures are drawn."""
CLIMBED = 4
"""Steps of the ascent to an optimised image."""
PATH = 1.5
"""What a point of a path in reduced channels costs, of one of the straight path."""


@dataclass(frozen=True)
class Cost:
    """Of one frame or observation."""

    seconds: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class LayerSpeed:
    """What work at a layer costs."""

    gradients: Cost
    """All scores at all points of the path, of one frame."""
    compiling: Cost
    """What a first batch of another size costs, whatever its size."""
    written: Cost
    """One output's attribution of one frame, reduced and written."""
    pictures: Cost = Cost()
    """The original's pictures of that, if asked for."""
    fitting: Cost = Cost()
    """Gradients of an observation that the reduction is fitted to."""
    fit: Cost = Cost()
    """The reduction's fit itself, for the whole layer."""
    examples: Cost = Cost()
    """An observation's activations, reduced, and looked through for dataset examples."""
    features: Cost = Cost()
    """Pictures of the layer's features, as far as they are asked for, of all its channels."""


@dataclass(frozen=True)
class Speeds:
    """What a page's work costs, by layer, and for frames alone."""

    layers: Mapping[str, LayerSpeed]
    frame: Cost
    """Frames, film strips and numbers of one step."""


def measure(agent: Agent, plan: Plan, preview: Preview, layout: Layout, memory: int) -> Speeds:
    """Do a little of each kind of work, in so much memory (bytes), and keep nothing of it."""
    files, played = PageFiles(Counting(), layout), preview.trajectories
    advantages = advantages_of(played, plan.gamma, plan.lam)
    steps = played.actions.shape[1]
    ChannelReduction.fit(np.eye(4), 2)  # which also imports scikit-learn
    frame = _cost(files, steps, lambda: write_trajectory(files, plan, played, advantages, 0, lambda share: None))
    return Speeds({layer.name: _of_layer(agent, plan, layer, preview, files, memory) for layer in plan.layers}, frame)


def _of_layer(
    agent: Agent, plan: Plan, layer: PlannedLayer, preview: Preview, files: PageFiles, memory: int
) -> LayerSpeed:
    scores, played = outputs_to_compute(plan), preview.trajectories
    count = min(played.actions.shape[1], frames_at_once(agent, layer, len(scores), memory))
    seen = np.asarray(played.observations[0, :count])
    state = None if played.states is None else states_at(tuple(part[0] for part in played.states), slice(0, count))
    if layer.is_input:
        values = agent.gradients(seen, "input", scores, state=state)[0]  # which also compiles
        gradients = _cost(files, count, lambda: agent.gradients(seen, "input", scores, state=state))
        return LayerSpeed(gradients, Cost(), *_writing(plan, layer, files, values, None))
    values, gradients, compiling, fitting = _gradients(agent, plan, layer, seen, state, files)
    reduction, fit = _fit(plan, layer, preview, values)
    channels, residual = reduction.signed_transform(values)
    reduced = _cost(files, count, lambda: reduction.signed_transform(values))
    written, pictures = _writing(plan, layer, files, channels, residual)
    written = Cost(written.seconds + reduced.seconds, written.bytes)
    activations = agent.activations(seen, layer.full_name, state)  # which also compiles
    seconds = _cost(files, count, lambda: agent.activations(seen, layer.full_name, state)).seconds
    seconds += _cost(files, count, lambda: reduction.transform(activations)).seconds
    one = np.ascontiguousarray(reduction.transform(activations)[..., 0])
    found = _cost(files, count, lambda: dataset_grids(one, plan.options.vis_subdiv_mults))
    examples = Cost(seconds + found.seconds * layer.channels / thread_count())
    features = _pictures_of_features(agent, plan, layer, reduction, preview, one, files)
    return LayerSpeed(gradients, compiling, written, pictures, fitting, fit, examples, features)


def _gradients(
    agent: Agent, plan: Plan, layer: PlannedLayer, seen: np.ndarray, state: State, files: PageFiles
) -> tuple[np.ndarray, Cost, Cost, Cost]:
    """Attribution (n, h, w, c) of the first score; what gradients cost: all scores', compiling, and one score's."""
    options, scores = plan.options, outputs_to_compute(plan)

    def explained(steps: int) -> np.ndarray:
        return attribute(agent, seen, layer.full_name, scores, steps=steps, state=state).values[0]

    start = time.perf_counter()
    values = np.nan_to_num(explained(1))  # which also compiles; what is not finite is said by the task itself
    compiled = time.perf_counter() - start
    first = _cost(files, len(seen), lambda: explained(1)).seconds
    point = max(0.0, _cost(files, len(seen), lambda: explained(2)).seconds - first)
    seconds = first + point * (options.attr_integrate_steps - 1)
    if options.attr_max_paths is not None:  # of the straight path one point; the others are followed in float64
        seconds = first + PATH * options.attr_max_paths * options.attr_integrate_steps * point
    fitted = (first + point * (options.nmf_attr_opts.integrate_steps - 1)) / len(scores)
    return values, Cost(seconds), Cost(max(0.0, compiled - first * len(seen))), Cost(fitted)


def _fit(plan: Plan, layer: PlannedLayer, preview: Preview, values: np.ndarray) -> tuple[ChannelReduction, Cost]:
    """A reduction, fitted to a part of the rows; and what the whole fit costs."""
    observations = min(plan.options.nmf_fit_observations or preview.observation_count, preview.observation_count)
    rows = min(FIT_ROWS, 2 * observations * layer.shape[0] * layer.shape[1])
    few = max(layer.channels, min(rows // FIT_SHARE, values.size // values.shape[-1]))
    start = time.perf_counter()
    reduction = ChannelReduction.fit(values, layer.channels, plan.options.seed, max_rows=few)
    return reduction, Cost((time.perf_counter() - start) * rows / few)


def _writing(
    plan: Plan, layer: PlannedLayer, files: PageFiles, channels: np.ndarray, residual: np.ndarray | None
) -> tuple[Cost, Cost]:
    count, few = len(channels), min(PICTURED, len(channels))
    place = (files.layout, layer.slug, "value", 0, 0)
    written = _cost(files, count, lambda: files.write(attribution_chunk(*place, channels, residual)))
    at_once = min(len(plan.outputs), thread_count())  # outputs are packed beside each other
    written = Cost(written.seconds / at_once, written.bytes)
    if not plan.options.attr_images:
        return written, Cost()
    cut = None if residual is None else residual[:few]
    look = (1.0, layer.hues, plan.options.scrub_range)
    return written, _cost(
        files,
        few,
        lambda: write_attribution_pictures(files, layer.slug, "value", 0, 0, channels[:few], cut, *look),
    )


def _pictures_of_features(
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    reduction: ChannelReduction,
    preview: Preview,
    activations: np.ndarray,
    files: PageFiles,
) -> Cost:
    seconds = size = 0.0
    if plan.options.feature_images:
        frames = observation_frames(preview.observations, plan.stack)
        grids = dataset_grids(activations[: len(frames)], plan.options.vis_subdiv_mults)
        drawn = _cost(files, 1, lambda: write_grid_pictures(files, plan, layer, 0, grids, frames))
        seconds += drawn.seconds * layer.channels
        size += drawn.bytes * layer.channels
    if plan.options.optimized_features:
        place = (files, agent, plan, layer, reduction)
        write_optimized_images(*place, steps=1)  # which also compiles
        climbed = _cost(files, 1, lambda: write_optimized_images(*place, steps=CLIMBED))
        seconds += climbed.seconds * STEPS / CLIMBED
        size += climbed.bytes
    return Cost(seconds, size)


def _cost(files: PageFiles, count: int, work: Callable[[], Any]) -> Cost:
    """Of one of so many that `work` is done on."""
    directory = files.directory
    assert isinstance(directory, Counting)
    before, start = directory.bytes, time.perf_counter()
    work()
    return Cost((time.perf_counter() - start) / count, (directory.bytes - before) / count)


class Counting:
    """A directory that keeps nothing and counts the bytes."""

    location = "nowhere"

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        self.bytes += len(data) if isinstance(data, bytes) else sum(map(len, data))

    def read(self, name: str) -> bytes:
        raise FileNotFoundError(name)

    def remove(self, name: str) -> None:
        pass

    def names(self) -> Set[str]:
        return frozenset()
