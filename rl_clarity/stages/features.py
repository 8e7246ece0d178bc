"""What a layer's features are: its channel reduction, and the observations each channel responds to most."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution import attribute
from rl_clarity.errors import ClarityError
from rl_clarity.jobs import TaskResult
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.features import write_feature_picture, write_optimized, write_thumbnail
from rl_clarity.pages.frames import newest_frames
from rl_clarity.pages.manifest import ReductionInfo
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.progress import Report, part_of
from rl_clarity.recordings.samples import Observations
from rl_clarity.reduction import ChannelReduction
from rl_clarity.stages.batches import activations_at_once, frames_at_once, parts
from rl_clarity.stages.plan import Plan, PlannedLayer
from rl_clarity.stages.shown import observation_frames
from rl_clarity.stages.spool import Spool
from rl_clarity.threads import in_threads, thread_count
from rl_clarity.visualization.dataset_examples import Examples, dataset_grids, thumbnail
from rl_clarity.visualization.optimization import STEPS, optimize_images
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail

ERROR_OBSERVATIONS = 128
"""Observations on which the reconstruction error is measured."""
FIT_POSITIONS = 2**20
"""Positions, of all observations together, that a fit draws its rows from."""


@dataclass(frozen=True)
class LayerFeatures:
    """A layer's channel reduction, and the dataset examples of its channels."""

    reduction: ChannelReduction
    info: ReductionInfo
    grids: Mapping[float, tuple[Examples, ...]]
    """By density, one a channel."""


def find_features(
    files: PageFiles,
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    observations: Observations,
    memory: int,
    report: Report,
) -> TaskResult:
    """Fit the layer's reduction, choose its dataset examples, write their pictures; `load_features` reads the rest.

    `memory` is what there is for it, in bytes.
    """
    reduction, info = _fit(agent, plan, layer, observations, memory, part_of(report, 0, 0.6))
    reduced = _reduced_activations(agent, plan, layer, reduction, observations, memory, part_of(report, 0.6, 0.8))
    frames = observation_frames(observations, plan.stack)
    names, grids = [], []
    examples_of = functools.partial(_examples_of, plan)
    for first in range(0, layer.channels, thread_count()):  # few at a time: each is large
        channels = range(first, min(first + thread_count(), layer.channels))
        found = in_threads(examples_of, [reduced.get(channel) for channel in channels])
        for channel, (of_channel, strongest) in zip(channels, found, strict=True):
            grids.append(of_channel)
            names += _draw(files, plan, layer, channel, of_channel, strongest, frames)
        report(0.8 + 0.2 * len(grids) / layer.channels)
    if plan.options.optimized_features:
        names += write_optimized_images(files, agent, plan, layer, reduction)
    by_density = dict(zip(plan.options.vis_subdiv_mults, zip(*grids, strict=True), strict=True))
    name = f"{DIRECTORY}/features-{layer.slug}.npz"
    files.directory.write(name, _packed(LayerFeatures(reduction, info, by_density)))
    return TaskResult(files=[*names, name])


def load_features(files: PageFiles, layer: PlannedLayer) -> LayerFeatures:
    """What `find_features` found."""
    with np.load(io.BytesIO(files.directory.read(f"{DIRECTORY}/features-{layer.slug}.npz"))) as arrays:
        held_out = float(arrays["error_held_out"])
        info = ReductionInfo(float(arrays["error"]), int(arrays["fitted_on"]), None if np.isnan(held_out) else held_out)
        grids = {
            float(density): tuple(
                Examples(*fields)
                for fields in zip(
                    *(arrays[f"{field}.{i}"] for field in ("indices", "strengths", "centers")), strict=True
                )
            )
            for i, density in enumerate(arrays["densities"])
        }
        return LayerFeatures(ChannelReduction(arrays["components"]), info, grids)


def _packed(features: LayerFeatures) -> bytes:
    held_out = features.info.error_held_out
    arrays: dict[str, Any] = {
        "components": features.reduction.components,
        "error": np.float64(features.info.error),
        "error_held_out": np.float64(np.nan if held_out is None else held_out),
        "fitted_on": np.int64(features.info.fitted_on),
        "densities": np.array(list(features.grids), np.float64),
    }
    for i, grids in enumerate(features.grids.values()):
        for field in ("indices", "strengths", "centers"):
            arrays[f"{field}.{i}"] = np.stack([getattr(grid, field) for grid in grids])
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def _fit(
    agent: Agent, plan: Plan, layer: PlannedLayer, observations: Observations, memory: int, report: Report
) -> tuple[ChannelReduction, ReductionInfo]:
    """Fit to the attribution of observations spread over all; measure the error on some of them and on others."""
    count = len(observations.observations)
    fitted_on = min(plan.options.nmf_fit_observations or count, count)
    chosen = np.linspace(0, count - 1, fitted_on).round().astype(int)
    others = np.setdiff1d(np.arange(count), chosen)
    whole_every = max(1, fitted_on // ERROR_OBSERVATIONS)
    held_out = others[np.linspace(0, len(others) - 1, min(len(others), ERROR_OBSERVATIONS)).round().astype(int)]
    fitted_on_rows, seen_whole = [], []
    rng = np.random.default_rng(plan.options.seed)
    at_once = min(plan.options.batch_size, frames_at_once(agent, layer, 1, memory))
    for part in parts(fitted_on, at_once):
        attribution = _attribution(agent, plan, layer, observations, chosen[part])
        fitted_on_rows.append(_some_positions(attribution, FIT_POSITIONS // fitted_on, rng))
        seen_whole.append(attribution[-part.start % whole_every :: whole_every])
        report(part.stop / (fitted_on + len(held_out)))
    rows = np.concatenate(fitted_on_rows)
    del fitted_on_rows
    reduction = ChannelReduction.fit(rows, plan.options.nmf_features, plan.options.seed)
    del rows
    error = reduction.reconstruction_error(np.concatenate(seen_whole))
    del seen_whole
    held_out_error = None
    if len(held_out):
        attribution = np.concatenate(
            [_attribution(agent, plan, layer, observations, held_out[part]) for part in parts(len(held_out), at_once)]
        )
        held_out_error = reduction.reconstruction_error(attribution)
    return reduction, ReductionInfo(error, fitted_on, held_out_error)


def _some_positions(attribution: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Attribution (n, count, c) at some positions of each observation, other ones for each; all, where there are less.

    The fit draws far fewer rows than a layer has: so many to draw from are as good, and take a bounded memory.
    """
    rows = attribution.reshape(len(attribution), -1, attribution.shape[-1])
    if rows.shape[1] <= max(count, 1):
        return rows
    positions = np.argsort(rng.random(rows.shape[:2]), axis=1)[:, : max(count, 1)]
    return np.take_along_axis(rows, positions[:, :, None], axis=1)


def _attribution(
    agent: Agent, plan: Plan, layer: PlannedLayer, observations: Observations, chosen: np.ndarray
) -> np.ndarray:
    values = attribute(
        agent,
        observations.observations[chosen],
        layer.full_name,
        [plan.fit_output],
        steps=plan.options.nmf_attr_opts.integrate_steps,
        quadrature=plan.options.attr_quadrature,
        state=states_at(observations.states, chosen),
    ).values[0]
    if not np.isfinite(values).all():
        raise ClarityError(f"attribution to layer {layer.name} is not finite; look for NaN in the agent's parameters")
    return values


def _reduced_activations(
    agent: Agent,
    plan: Plan,
    layer: PlannedLayer,
    reduction: ChannelReduction,
    observations: Observations,
    memory: int,
    report: Report,
) -> Spool:
    """A row (M, h, w) for each reduced channel."""
    count = len(observations.observations)
    reduced = Spool(count, layer.shape[:2])
    for part in parts(count, activations_at_once(layer, plan.options.batch_size, memory)):
        state = states_at(observations.states, part)
        activations = agent.activations(observations.observations[part], layer.full_name, state)
        for channel, values in enumerate(np.moveaxis(reduction.transform(activations), -1, 0)):
            reduced.put(channel, part.start, values)
        report(part.stop / count)
    return reduced


def _examples_of(plan: Plan, activations: np.ndarray) -> tuple[list[Examples], Examples]:
    """The grids of a channel with such activations (M, h, w), and its thumbnail."""
    grids = dataset_grids(activations, plan.options.vis_subdiv_mults)
    return grids, thumbnail(activations, plan.options.vis_thumbnail_num_mult)


def _draw(
    files: PageFiles,
    plan: Plan,
    layer: PlannedLayer,
    channel: int,
    grids: Sequence[Examples],
    strongest: Examples,
    frames: np.ndarray,
) -> list[str]:
    """Write a channel's thumbnail and, if asked for, the pictures of its grids."""
    options = plan.options
    picture = draw_thumbnail(strongest, frames, layer.shape[:2], options.vis_thumbnail_expand_mult)
    write_thumbnail(files, layer.slug, channel, picture)
    names = [files.layout.thumbnail(layer.slug, channel)]
    if options.feature_images:
        names += write_grid_pictures(files, plan, layer, channel, grids, frames)
    return names


def write_grid_pictures(
    files: PageFiles, plan: Plan, layer: PlannedLayer, channel: int, grids: Sequence[Examples], frames: np.ndarray
) -> list[str]:
    """Write the pictures of a channel's grids at each zoom; returns their names."""
    names = []
    for density, grid in zip(plan.options.vis_subdiv_mults, grids, strict=True):
        for zoom in plan.options.vis_expand_mults:
            picture = draw_grid(grid, frames, layer.shape[:2], zoom)
            write_feature_picture(files, layer.slug, channel, density, zoom, picture)
            names.append(files.layout.feature_picture(layer.slug, channel, density, zoom))
    return names


def write_optimized_images(
    files: PageFiles, agent: Agent, plan: Plan, layer: PlannedLayer, reduction: ChannelReduction, steps: int = STEPS
) -> list[str]:
    """Write, for each channel, an image that maximises it; returns their names."""
    gradient_of_direction = require(agent, "gradient_of_direction", for_="optimized_features").gradient_of_direction
    norms = np.linalg.norm(reduction.components, axis=1, keepdims=True)
    directions = reduction.components / np.maximum(norms, 1e-12)
    rng = np.random.default_rng(plan.options.seed)
    optimized = optimize_images(
        gradient_of_direction, layer.full_name, directions, agent.observation_shape, rng, steps=steps
    )
    pictures = newest_frames(np.round(optimized.images * 255).astype(np.uint8), plan.stack)
    for channel, picture in enumerate(pictures):
        write_optimized(files, layer.slug, channel, picture / np.float32(255))
    return [files.layout.optimized(layer.slug, channel) for channel in range(layer.channels)]


def states_at(states: tuple[np.ndarray, ...] | None, chosen: slice | np.ndarray) -> State:
    """The states of some observations."""
    return None if states is None else tuple(np.asarray(part[chosen]) for part in states)
