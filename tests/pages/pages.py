"""A small page of random numbers, for tests of writing and reading pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from rl_clarity.analyses.attribution.files import (
    AttributionSection,
    LayerEntry,
    OutputInfo,
    attribution_chunk,
    chunk_name,
    rendered_name,
    rendered_scrub_name,
    selections,
    totals_name,
    write_totals,
)
from rl_clarity.analyses.attribution.images import write_attribution_images
from rl_clarity.analyses.examples import (
    Atlas,
    atlas_origins,
    effect_arrays,
    example_arrays,
    examples_meta,
    grid_arrays,
    write_atlas,
)
from rl_clarity.analyses.feature_section import FeaturesSection, LayerFeaturesEntry, ReductionErrors
from rl_clarity.analyses.features import examples_name, image_name, optimized_name, thumbnail_name
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.analyses.trajectories import (
    FILM_COLUMNS,
    SCRUB_STEPS,
    SHEETS,
    Bookmark,
    Bookmarks,
    Series,
    TrajectoriesSection,
    scrub_images,
    series_arrays,
    trajectory_entry,
)
from rl_clarity.base.parsing import find_part
from rl_clarity.jobs.directory import Directory
from rl_clarity.pages.document import Bundle, write_page
from rl_clarity.pages.files import SEGMENT, PageFiles, segments
from rl_clarity.pages.frames import frame_arrays
from rl_clarity.pages.images import filmstrips, sheet, to_bytes
from rl_clarity.pages.manifest import (
    ActionGroup,
    ActionInfo,
    AgentInfo,
    Manifest,
    ObservationInfo,
    ProvenanceGroup,
    RecordingInfo,
)
from rl_clarity.pages.sections import Section
from rl_clarity.visualization.colors import action_colors, page_colors
from rl_clarity.visualization.dataset_examples import dataset_grids, thumbnail
from rl_clarity.visualization.feature_facts import feature_facts
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail
from rl_clarity.visualization.rendering import attribution_scale
from rl_clarity.visualization.totals import channel_totals, mean_effects, peak_positions
from tests.page_options import page_options

Name = TypeVar("Name", bound=str)
BUNDLE = Bundle("class Interface { constructor({ target }) { target.textContent = 'ready'; } }", "#app { color: red }")
FRAME = (16, 20)
LAYER = (4, 5)
CHANNELS = 3
ACTIONS = 4
STEPS = (70, 9)
DENSITIES = (0.5, 1)
ZOOMS = (1, 2)
SCRUB_RANGE = (0.5, 0.6)
OPTIONS = page_options(
    scrub_range=SCRUB_RANGE,
    vis_subdiv_mults=DENSITIES,
    vis_subdiv_mult_default=1,
    vis_expand_mults=ZOOMS,
    vis_expand_mult_default=2,
)
PAGE_LAYER = PageLayer("2b", "2b", "ppo2_model/pi/2b/Relu", (*LAYER, 32), CHANNELS)
INPUT = PageLayer("input", "input", "input", (*FRAME, 3), 3, is_input=True)


@dataclass(frozen=True)
class Arrays:
    """Contents of the small page."""

    frames: list[np.ndarray]  # of each trajectory (T, H, W, 3)
    series: list[Series]
    channels: list[np.ndarray]  # (T, h, w, K)
    residual: list[np.ndarray]  # (T, h, w, 1)
    gradients: list[np.ndarray]  # (T, H, W, 3)
    observations: np.ndarray  # (M, H, W, 3)
    activations: np.ndarray  # (M, h, w, K)


def random_arrays(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)

    def drift(steps: int, *shape: int) -> np.ndarray:
        return rng.standard_normal((steps, *shape)).cumsum(axis=0).astype(np.float32) * 0.1

    return Arrays(
        frames=[rng.integers(0, 256, (steps, *FRAME, 3), np.uint8) for steps in STEPS],
        series=[_series(rng, steps) for steps in STEPS],
        channels=[drift(steps, *LAYER, CHANNELS) for steps in STEPS],
        residual=[drift(steps, *LAYER, 1) for steps in STEPS],
        gradients=[drift(steps, *FRAME, 3) for steps in STEPS],
        observations=rng.integers(0, 256, (12, *FRAME, 3), np.uint8),
        activations=np.maximum(rng.standard_normal((12, *LAYER, CHANNELS)), 0).astype(np.float32),
    )


def write_small_page(
    directory: Directory, arrays: Arrays | None = None, *, images: bool = False, **options: Any
) -> dict[str, Any]:
    """Write all files of a page and its document; return the manifest.

    `options` are those of `write_page`; `changes` replaces keys of the manifest, and `edit` modifies it.
    """
    files = PageFiles(options.pop("data", None) or directory)
    manifest = write_parts(files, arrays or random_arrays(), images).to_dict()
    manifest |= options.pop("changes", {})
    options.pop("edit", lambda plain: None)(manifest)
    write_page(directory, manifest, bundle=BUNDLE, data=files.directory, **options)
    return manifest


def write_parts(files: PageFiles, arrays: Arrays, images: bool = False) -> Manifest:
    shown = replace(OPTIONS.filmstrip, images=True)
    entries = [trajectory_entry(shown, trajectory, steps) for trajectory, steps in enumerate(STEPS)]
    for entry, frames, series in zip(entries, arrays.frames, arrays.series, strict=True):
        files.write_chunk(entry.series, series_arrays(series))
        for segment, steps in enumerate(segments(len(frames))):
            part = frames[steps.start : steps.stop]
            files.write_chunk(entry.frames[segment], frame_arrays(part))
            files.write_image(entry.images[segment], sheet(part, FILM_COLUMNS))
        for name, steps in zip(entry.scrub, segments(len(frames), SCRUB_STEPS), strict=True):
            files.write_image(name, filmstrips(frames[steps.start : steps.stop], SCRUB_RANGE))
    bookmarks = Bookmarks([Bookmark(0, 3, 0.123456789)])
    trajectories = TrajectoriesSection(SEGMENT, scrub_images(FRAME, SCRUB_RANGE), SHEETS, entries, bookmarks)
    layers = [
        _layer(files, PAGE_LAYER, arrays.channels, arrays.residual, images),
        _layer(files, INPUT, arrays.gradients, [None] * len(STEPS), False),
    ]
    outputs = [OutputInfo("value", "value", "value function")]
    return Manifest(
        id="0123abcd",
        kind="agent",
        title="A page",
        agents=[
            AgentInfo(
                "clear",
                "policy",
                True,
                False,
                ACTIONS,
                ObservationInfo(*FRAME, 3, *FRAME),
                [ActionInfo(str(index), [str(index)], color) for index, color in enumerate(action_colors(ACTIONS))],
                [ActionGroup("0 or 1", [0, 1])],
            )
        ],
        recordings=[RecordingInfo("coinrun")],
        sections=[
            Section(trajectories),
            Section(_features(files, arrays, images)),
            Section(AttributionSection(outputs, layers)),
        ],
        view=OPTIONS.view.view(),
        numpy_precision=6,
        provenance=[ProvenanceGroup("Checkpoint", [("file", "coinrun.jd")])],
    )


def _series(rng: np.random.Generator, steps: int) -> Series:
    return Series(
        actions=rng.integers(0, ACTIONS, steps),
        rewards=rng.random(steps),
        firsts=rng.random(steps) < 0.1,
        advantages=rng.standard_normal(steps),
        probabilities=rng.dirichlet(np.ones(ACTIONS), steps),
        logits=rng.standard_normal((steps, ACTIONS)),
        groups=rng.standard_normal((steps, 1)),
        values=rng.random(steps),
    )


def _layer(
    files: PageFiles, layer: PageLayer, channels: list[np.ndarray], residual: list[Any], images: bool
) -> LayerEntry:
    height, width, depth = layer.shape
    scales = [attribution_scale(values) for values in channels]
    totals = [channel_totals(*arrays) for arrays in zip(channels, residual, strict=True)]
    entry = LayerEntry(
        name=layer.name,
        slug=layer.slug,
        full_name=layer.full_name,
        kind="input" if layer.is_input else "layer",
        height=height,
        width=width,
        depth=depth,
        channels=layer.channels,
        colors=page_colors(layer.hues),
        hues=layer.hues.tolist(),
        effects={"value": mean_effects(totals).tolist()},
        scales={"value": scales},
        totals=[totals_name(OPTIONS.attribution, layer, trajectory) for trajectory in range(len(STEPS))],
        attribution={"value": by_segment(partial(chunk_name, OPTIONS.attribution, layer, "value"))},
    )
    if images:
        names = [name for name, _, _ in selections(layer.channels, residual=True)]
        rendered, scrubs = (
            {"value": {name: by_segment(partial(file, OPTIONS.attribution, layer, "value", name)) for name in names}}
            for file in (rendered_name, rendered_scrub_name)
        )
        entry = replace(entry, images=rendered, scrubs=scrubs)
    subject: Any = SimpleNamespace(options_of=partial(find_part, OPTIONS), files=files)
    for trajectory, values in enumerate(channels):
        rest = residual[trajectory]
        gap = {} if layer.is_input else {"gap.value": np.ones((len(values), 3))}
        sums = {"totals.value": totals[trajectory], **gap}
        write_totals(files, entry.totals[trajectory], sums)
        for segment, steps in enumerate(segments(len(values))):
            part = slice(steps.start, steps.stop)
            shown = (values[part], None if rest is None else rest[part])
            files.write(attribution_chunk(entry.attribution["value"][trajectory][segment], *shown))
            if images:
                write_attribution_images(subject, layer, "value", trajectory, segment, *shown, scales[trajectory])
    return entry


def by_segment(name: Callable[[int, int], Name]) -> list[list[Name]]:
    """Names for each segment of each trajectory."""
    return [
        [name(trajectory, segment) for segment in range(len(segments(steps)))] for trajectory, steps in enumerate(STEPS)
    ]


def _features(files: PageFiles, arrays: Arrays, images: bool) -> FeaturesSection:
    by_channel = [dataset_grids(arrays.activations[..., channel], DENSITIES) for channel in range(CHANNELS)]
    facts = feature_facts(np.moveaxis(arrays.activations, -1, 0).__getitem__, CHANNELS, np.arange(12))
    atlas = Atlas.collect([grid.indices for grids in by_channel for grid in grids], len(arrays.observations))
    totals = [channel_totals(values) for values in arrays.channels]
    peaks, firsts = [peak_positions(values) for values in arrays.channels], [one.firsts for one in arrays.series]
    grids = {density: [grids[index] for grids in by_channel] for index, density in enumerate(DENSITIES)}
    chunk = examples_name(OPTIONS.examples, PAGE_LAYER)
    components = np.random.default_rng(0).random((CHANNELS, PAGE_LAYER.shape[-1]), np.float32)
    contents = (
        {"components": components}
        | grid_arrays(grids, atlas)
        | example_arrays(facts, atlas)
        | effect_arrays("value", totals, peaks, firsts)
    )
    files.write_chunk(chunk, contents, examples_meta(OPTIONS.examples, PAGE_LAYER))
    entry = LayerFeaturesEntry(
        [thumbnail_name(OPTIONS.features, PAGE_LAYER, channel) for channel in range(CHANNELS)],
        chunk=chunk,
        reduction=ReductionErrors(0.25, 12, None),
    )
    for channel, name in enumerate(entry.thumbnails):
        strongest = thumbnail(arrays.activations[..., channel], num_mult=2)
        files.write_image(name, to_bytes(draw_thumbnail(strongest, arrays.observations, LAYER, 2)))
    if images:
        optimized = [optimized_name(OPTIONS.features, PAGE_LAYER, channel) for channel in range(CHANNELS)]
        for name in optimized:
            files.write_image(name, to_bytes(np.full((*FRAME, 3), 0.5)))
        drawn = {}
        for index, density in enumerate(DENSITIES):
            for zoom in ZOOMS:
                names = [
                    image_name(OPTIONS.features, PAGE_LAYER, channel, density, zoom) for channel in range(CHANNELS)
                ]
                drawn[f"{density} x {zoom}"] = names
                for channel, name in enumerate(names):
                    image = draw_grid(by_channel[channel][index], arrays.observations, LAYER, zoom)
                    files.write_image(name, to_bytes(image))
        entry = replace(entry, optimized=optimized, images=drawn)
    written = write_atlas(files, OPTIONS.examples.observations_subdir, atlas, arrays.observations)
    observations = replace(written, origins=atlas_origins(atlas, np.full((12, 2), -1)))
    return FeaturesSection({PAGE_LAYER.slug: entry}, observations)
