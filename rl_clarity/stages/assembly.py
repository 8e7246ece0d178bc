"""Put the page together from what the other stages found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.features import Atlas, GridFacts, atlas_info, write_atlas, write_grids
from rl_clarity.pages.layers import LayerFacts, layer_entry
from rl_clarity.pages.layout import Layout
from rl_clarity.pages.manifest import (
    AtlasInfo,
    Bookmark,
    Bookmarks,
    LayerEntry,
    Manifest,
    ProvenanceGroup,
    view_of,
)
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.trajectories import FILM_COLUMNS, scrub_info, trajectory_entry
from rl_clarity.recordings.bookmarks import bookmarks
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.stages.features import LayerFeatures, load_features
from rl_clarity.stages.plan import Plan, PlannedLayer
from rl_clarity.stages.shown import observation_frames
from rl_clarity.visualization.totals import mean_effects, strongest_frames

STRONGEST = 24
"""Frames listed for each channel."""

Facts = Mapping[str, Mapping[str, Any]]
"""By task."""


def assemble(
    files: PageFiles,
    plan: Plan,
    trajectories: Trajectories,
    observations: Observations,
    advantages: np.ndarray,
    facts: Facts,
    provenance: Sequence[ProvenanceGroup],
    page_id: str,
) -> Manifest:
    """Write what depends on all layers together, the atlas and the grids that refer to it; return the manifest."""
    layout, (count, steps) = files.layout, trajectories.actions.shape
    features = {layer.slug: load_features(files, layer) for layer in plan.layers if not layer.is_input}
    atlas = Atlas.of(
        (grid for found in features.values() for grids in found.grids.values() for grid in grids),
        len(observations.observations),
    )
    frames = observation_frames(observations, plan.stack)
    atlas_facts = atlas_info(layout, atlas, (frames.shape[1], frames.shape[2]), observations.trajectory_frames)
    for picture in range(len(atlas_facts.pictures)):
        write_atlas(files, atlas, frames, picture)
    layers = []
    for layer in plan.layers:
        totals = _totals(files, plan, layer, count)
        if not layer.is_input:
            positions = [np.array(facts[attribution_task(layer, t)]["positions"]) for t in range(count)]
            write_grids(files, layer.slug, _grid_facts(plan, layer, features[layer.slug], totals, positions), atlas)
        found = _layer_facts(plan, layer, features.get(layer.slug), totals, facts, count)
        layers.append(layer_entry(layout, found, [output.id for output in plan.outputs], [steps] * count))
    return manifest_of(layout, plan, trajectories, advantages, layers, atlas_facts, provenance, page_id)


def manifest_of(
    layout: Layout,
    plan: Plan,
    trajectories: Trajectories,
    advantages: np.ndarray,
    layers: Sequence[LayerEntry],
    atlas: AtlasInfo,
    provenance: Sequence[ProvenanceGroup],
    page_id: str,
) -> Manifest:
    """What the page says of itself, given its layers and its atlas."""
    count, steps = trajectories.actions.shape
    frame = (plan.observation.frame_height, plan.observation.frame_width)
    return Manifest(
        id=page_id,
        title=plan.title,
        env_name=plan.env_name,
        agent=plan.agent,
        observation=plan.observation,
        actions=plan.actions,
        action_groups=plan.groups,
        outputs=plan.outputs,
        trajectories=[trajectory_entry(layout, trajectory, steps) for trajectory in range(count)],
        segment=layout.segment,
        scrub=scrub_info(layout, frame, plan.options.scrub_range),
        film={"columns": FILM_COLUMNS},
        layers=layers,
        bookmarks=_bookmarks(plan, trajectories, advantages),
        observations=atlas,
        view=view_of(plan.options, single_channels=plan.options.attr_single_channels),
        numpy_precision=plan.options.numpy_precision,
        provenance=provenance,
    )


def _totals(files: PageFiles, plan: Plan, layer: PlannedLayer, count: int) -> dict[str, list[np.ndarray]]:
    """By output, the totals (T, K + 1, 2) of each trajectory."""
    chunks = [
        decode_chunk(parse_script(files.directory.read(files.layout.totals(layer.slug, trajectory))))
        for trajectory in range(count)
    ]
    return {output.id: [chunk[f"totals.{output.id}"] for chunk in chunks] for output in plan.outputs}


def _grid_facts(
    plan: Plan,
    layer: PlannedLayer,
    features: LayerFeatures,
    totals: Mapping[str, Sequence[np.ndarray]],
    positions: Sequence[np.ndarray],
) -> GridFacts:
    options = plan.options
    strengths = [np.abs(total[:, : layer.channels]).sum(axis=-1) for total in totals[plan.outputs[0].id]]  # each (T, K)
    places, strongest = strongest_frames(strengths, STRONGEST, positions=positions)
    return GridFacts(
        features.grids,
        options.vis_subdiv_mult_default,
        options.vis_expand_mults,
        options.vis_expand_mult_default,
        places,
        strongest,
    )


def _layer_facts(
    plan: Plan,
    layer: PlannedLayer,
    features: LayerFeatures | None,
    totals: Mapping[str, Sequence[np.ndarray]],
    facts: Facts,
    count: int,
) -> LayerFacts:
    options = plan.options
    pictures = [(d, z) for d in options.vis_subdiv_mults for z in options.vis_expand_mults]
    return LayerFacts(
        name=layer.name,
        slug=layer.slug,
        full_name=layer.full_name,
        shape=layer.shape,
        hues=layer.hues,
        scales={
            output.id: [facts[attribution_task(layer, t)]["scales"][output.id] for t in range(count)]
            for output in plan.outputs
        },
        effects={output: mean_effects(found).tolist() for output, found in totals.items()},
        nmf=None if features is None else features.info,
        is_input=layer.is_input,
        feature_pictures=pictures if options.feature_images and not layer.is_input else (),
        optimized=options.optimized_features and not layer.is_input,
        attribution_pictures=options.attr_images,
    )


def _bookmarks(plan: Plan, trajectories: Trajectories, advantages: np.ndarray) -> Bookmarks:
    found = bookmarks(advantages, trajectories.firsts, plan.options.trajectory_bookmarks)

    def listed(places: np.ndarray) -> list[Bookmark]:
        return [Bookmark(int(t), int(frame), float(advantages[t, frame])) for t, frame in places]

    return Bookmarks(listed(found.high), listed(found.low))


def attribution_task(layer: PlannedLayer, trajectory: int) -> str:
    """Name of the task that attributes a trajectory to a layer."""
    return f"attribution/{layer.name}/{trajectory + 1}"


def features_task(layer: PlannedLayer) -> str:
    """Name of the task that finds a layer's features."""
    return f"features/{layer.name}"


def trajectory_task(trajectory: int) -> str:
    """Name of the task that writes a trajectory's frames."""
    return f"trajectory/{trajectory + 1}"


def provenance_group(name: str, facts: Mapping[str, Any]) -> ProvenanceGroup:
    """Facts as the page lists them: plain strings, JSON for what is not one."""
    return ProvenanceGroup(
        name,
        [
            (key, value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str))
            for key, value in facts.items()
            if value is not None
        ],
    )
