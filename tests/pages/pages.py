"""A small page made of random numbers, for tests of everything that writes or reads one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.options import ViewOptions
from rl_clarity.pages.features import (
    Atlas,
    GridFacts,
    atlas_info,
    write_atlas,
    write_feature_picture,
    write_grids,
    write_optimized,
    write_thumbnail,
)
from rl_clarity.pages.files import Directory
from rl_clarity.pages.layers import (
    LayerFacts,
    attribution_chunk,
    layer_entry,
    write_attribution_pictures,
    write_totals,
)
from rl_clarity.pages.layout import Layout, slugs
from rl_clarity.pages.manifest import (
    ActionGroup,
    ActionInfo,
    AgentInfo,
    Bookmark,
    Bookmarks,
    Manifest,
    ObservationInfo,
    OutputInfo,
    ProvenanceGroup,
    ReductionInfo,
    view_of,
)
from rl_clarity.pages.page import Bundle, write_page
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.trajectories import (
    FILM_COLUMNS,
    Series,
    scrub_info,
    trajectory_entry,
    write_frames,
    write_scrub,
    write_series,
)
from rl_clarity.visualization.colors import action_colors, channel_hues, input_hues
from rl_clarity.visualization.dataset_examples import dataset_grids, thumbnail
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail
from rl_clarity.visualization.rendering import attribution_scale
from rl_clarity.visualization.totals import channel_totals, mean_effects, strongest_frames

BUNDLE = Bundle("class Interface { constructor({ target }) { target.textContent = 'ready'; } }", "#app { color: red }")
FRAME = (16, 20)
LAYER = (4, 5)
CHANNELS = 3
ACTIONS = 4
STEPS = (70, 9)
DENSITIES = (0.5, 1)
ZOOMS = (1, 2)
SCRUB_RANGE = (0.5, 0.6)


@dataclass(frozen=True)
class Arrays:
    """What the small page is made of."""

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
    directory: Directory, arrays: Arrays | None = None, *, pictures: bool = False, **options: Any
) -> dict[str, Any]:
    """Write all of a page's files and the page; `options` are those of `write_page`; returns the manifest."""
    arrays = arrays or random_arrays()
    files = PageFiles(options.pop("data", None) or directory, Layout(segment=64, scrub_steps=32))
    manifest = write_parts(files, arrays, pictures)
    manifest |= options.pop("changes", {})
    write_page(directory, manifest, bundle=BUNDLE, data=files.directory, **options)
    return manifest


def write_parts(files: PageFiles, arrays: Arrays, pictures: bool = False) -> dict[str, Any]:
    layout = files.layout
    for trajectory, frames in enumerate(arrays.frames):
        write_series(files, trajectory, arrays.series[trajectory])
        for segment, steps in enumerate(layout.segments(len(frames))):
            write_frames(files, trajectory, segment, frames[steps.start : steps.stop])
        for picture, steps in enumerate(layout.scrubs(len(frames))):
            write_scrub(files, trajectory, picture, frames[steps.start : steps.stop], SCRUB_RANGE)
    layers = [_layer(files, arrays, pictures), _input_layer(files, arrays)]
    atlas = _features(files, arrays, pictures)
    manifest = Manifest(
        id="0123abcd",
        title="A page",
        env_name="coinrun",
        agent=AgentInfo("clear", "policy", False, ACTIONS),
        observation=ObservationInfo(*FRAME, 3, *FRAME),
        actions=[ActionInfo(str(index), [str(index)], color) for index, color in enumerate(action_colors(ACTIONS))],
        action_groups=[ActionGroup("0 or 1", [0, 1])],
        outputs=[OutputInfo("value", "value", "value function")],
        trajectories=[trajectory_entry(layout, index, steps) for index, steps in enumerate(STEPS)],
        segment=layout.segment,
        scrub=scrub_info(layout, FRAME, SCRUB_RANGE),
        film={"columns": FILM_COLUMNS},
        layers=[layer_entry(layout, layer, ["value"], STEPS) for layer in layers],
        bookmarks=Bookmarks([Bookmark(0, 3, 0.123456789)], []),
        observations=atlas_info(layout, atlas, FRAME, np.full((12, 2), -1)),
        view=view_of(ViewOptions(), single_channels=True),
        numpy_precision=6,
        provenance=[ProvenanceGroup("Checkpoint", [("file", "coinrun.jd")])],
    )
    return manifest.to_dict()


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


def _layer(files: PageFiles, arrays: Arrays, pictures: bool) -> LayerFacts:
    hues = channel_hues(CHANNELS)
    facts = LayerFacts(
        name="2b",
        slug=slugs(["2b", "input"])[0],
        full_name="ppo2_model/pi/2b/Relu",
        shape=(*LAYER, 32),
        hues=hues,
        scales={"value": [attribution_scale(channels) for channels in arrays.channels]},
        effects={"value": _effects(arrays.channels, arrays.residual)},
        nmf=ReductionInfo(error=0.25, fitted_on=12),
        feature_pictures=[(density, zoom) for density in DENSITIES for zoom in ZOOMS] if pictures else (),
        optimized=pictures,
        attribution_pictures=pictures,
    )
    _write_attribution(files, facts, arrays.channels, arrays.residual)
    return facts


def _input_layer(files: PageFiles, arrays: Arrays) -> LayerFacts:
    facts = LayerFacts(
        name="input",
        slug=slugs(["2b", "input"])[1],
        full_name="input",
        shape=(*FRAME, 3),
        hues=input_hues(3),
        scales={"value": [attribution_scale(gradients) for gradients in arrays.gradients]},
        effects={"value": _effects(arrays.gradients, [None] * len(STEPS))},
        is_input=True,
    )
    _write_attribution(files, facts, arrays.gradients, [None] * len(STEPS))
    return facts


def _effects(channels: list[np.ndarray], residual: list[Any]) -> list[float]:
    return mean_effects([channel_totals(*both) for both in zip(channels, residual, strict=True)]).tolist()


def _write_attribution(files: PageFiles, facts: LayerFacts, channels: list[np.ndarray], residual: list[Any]) -> None:
    for trajectory, values in enumerate(channels):
        rest = residual[trajectory]
        totals = {"value": channel_totals(values, rest)}
        write_totals(files, facts.slug, trajectory, totals, {"value": np.ones((len(values), 3))})
        for segment, steps in enumerate(files.layout.segments(len(values))):
            part = slice(steps.start, steps.stop)
            shown = (values[part], None if rest is None else rest[part])
            place = (facts.slug, "value", trajectory, segment)
            files.write(attribution_chunk(files.layout, *place, *shown))
            if facts.attribution_pictures:
                scale = facts.scales["value"][trajectory]
                write_attribution_pictures(files, *place, *shown, scale, facts.hues, SCRUB_RANGE)


def _features(files: PageFiles, arrays: Arrays, pictures: bool) -> Atlas:
    by_channel = [dataset_grids(arrays.activations[..., channel], DENSITIES) for channel in range(CHANNELS)]
    atlas = Atlas.of([grid for grids in by_channel for grid in grids], len(arrays.observations))
    places, strengths = strongest_frames([np.abs(one).sum(axis=(1, 2)) for one in arrays.channels], count=3)
    facts = GridFacts(
        grids={density: [grids[index] for grids in by_channel] for index, density in enumerate(DENSITIES)},
        subdiv_mult_default=1,
        expand_mults=ZOOMS,
        expand_mult_default=2,
        strongest=places,
        strongest_strength=strengths,
    )
    write_grids(files, "2b", facts, atlas)
    for channel in range(CHANNELS):
        shown = thumbnail(arrays.activations[..., channel], num_mult=2)
        write_thumbnail(files, "2b", channel, draw_thumbnail(shown, arrays.observations, LAYER, 2))
        if pictures:
            write_optimized(files, "2b", channel, np.full((*FRAME, 3), 0.5))
            for index, density in enumerate(DENSITIES):
                for zoom in ZOOMS:
                    picture = draw_grid(by_channel[channel][index], arrays.observations, LAYER, zoom)
                    write_feature_picture(files, "2b", channel, density, zoom, picture)
    for picture in range(len(atlas_info(files.layout, atlas, FRAME).pictures)):
        write_atlas(files, atlas, arrays.observations, picture)
    return atlas
