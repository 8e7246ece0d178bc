"""Dataset examples as the page shows them: an atlas of observations, and for each layer grids of cells of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.analysis import attributed_outputs, attribution_inputs
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.feature_fit import LayerFeatures
from rl_clarity.analyses.features import (
    ExampleOptions,
    FeatureOptions,
    examples_name,
    feature_layers,
    load_features,
    reduction_inputs,
)
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.files import PageFiles, number_text, path_in
from rl_clarity.pages.images import sheet, to_bytes
from rl_clarity.pages.manifest import Section
from rl_clarity.visualization.dataset_examples import NONE, Examples
from rl_clarity.visualization.patches import grid_opacity
from rl_clarity.visualization.totals import strongest_frames

STRONGEST_FRAMES = 24
"""Frames listed for each feature."""
ATLAS_SIDE = 2048
"""Largest side of an atlas image, in pixels: browsers hold it as one texture."""
BYTES_PER_CELL = 4
"""Of a cell of a grid, compressed: index and opacity."""


@dataclass(frozen=True)
class Atlas:
    """The extra observations that dataset examples use, each in a cell of an image."""

    indices: np.ndarray  # (cells,) int32: the observation in each cell
    cells: np.ndarray  # (M,) int32: the cell of each observation, or NONE

    @classmethod
    def collect(cls, examples: Iterable[Examples], observations: int) -> Atlas:
        """The observations, out of `observations`, that any of the examples shows."""
        used = np.zeros(observations, bool)
        for one in examples:
            used[one.indices[one.indices != NONE]] = True
        indices = np.flatnonzero(used).astype(np.int32)
        cells = np.full(observations, NONE, np.int32)
        cells[indices] = np.arange(len(indices))
        return cls(indices, cells)


class ExamplesAnalysis(Analysis):
    """Writes what the section of features draws; it has no section of its own."""

    kind = "examples"
    Options = ExampleOptions

    def tasks(self, subject: Subject, options: Any) -> Iterable[Task]:
        layers = feature_layers(subject)
        if not layers:
            return
        inputs = [
            reduction_inputs(subject),
            subject.decisive(FeatureOptions, ExampleOptions),
            [asdict(layer) for layer in layers],
        ]
        cells = [_cell_count(layer, options.vis_subdiv_mults) for layer in layers]
        observation = subject.info.observation
        frame = observation.frame_height * observation.frame_width
        yield self.task(
            subject,
            "atlas",
            partial(_write_atlas_task, subject, layers),
            inputs,
            after=("features/",),
            pieces=lambda sample, frames: (),
            output_bytes=min(len(subject.observations.observations), sum(cells)) * frame / 2,
        )
        explained = attribution_inputs(subject) if "attribution" in subject.analyses else None
        for layer, count in zip(layers, cells, strict=True):
            yield self.task(
                subject,
                f"{self.kind}/{layer.name}",
                partial(_write_examples_task, subject, layers, layer),
                [inputs, asdict(layer), explained],
                after=("features/", f"attribution/{layer.name}/"),
                pieces=lambda sample, frames: (),
                output_bytes=BYTES_PER_CELL * count,
            )

    def section(self, subject: Subject, options: Any, results: Results) -> Section | None:
        return None


def _cell_count(layer: PageLayer, densities: Sequence[float]) -> float:
    return sum(math.prod(layer.shape[:2]) * layer.channels * density**2 for density in densities)


def _atlas(subject: Subject, features: Iterable[LayerFeatures]) -> Atlas:
    shown = (grid for one in features for grids in one.grids.values() for grid in grids)
    return Atlas.collect(shown, len(subject.observations.observations))


def _write_atlas_task(subject: Subject, layers: Sequence[PageLayer], work: Work) -> TaskResult:
    atlas = _atlas(subject, (load_features(subject.files, layer) for layer in layers))
    frames = subject.observation_frames()
    info = write_atlas(subject.files, subject.options.observations_subdir, atlas, frames)
    info["origins"] = atlas_origins(atlas, subject.observations.trajectory_frames)
    return TaskResult(info, info["images"])


def _write_examples_task(subject: Subject, layers: Sequence[PageLayer], layer: PageLayer, work: Work) -> TaskResult:
    options = subject.options
    features = {one.slug: load_features(subject.files, one) for one in layers}
    name = examples_name(options, layer)
    places, strengths = _strongest(subject, layer, work.results)
    atlas, one = _atlas(subject, features.values()), features[layer.slug]
    write_examples(subject.files, name, options, one, atlas, places, strengths)
    return TaskResult(files=[name])


def write_atlas(files: PageFiles, subdirectory: str, atlas: Atlas, frames: np.ndarray) -> dict[str, Any]:
    """Write the images of the atlas from frames (M, H, W, 1 | 3) uint8 of all observations, and describe them."""
    height, width = frames.shape[1:3]
    columns = max(1, ATLAS_SIDE // width)
    per_image = columns * max(1, ATLAS_SIDE // height)
    names: list[str] = []
    for start in range(0, len(atlas.indices), per_image):
        names.append(path_in(subdirectory, f"observations-{len(names) + 1}.png"))
        files.write_image(names[-1], sheet(frames[atlas.indices[start : start + per_image]], columns))
    return {
        "count": len(atlas.indices),
        "images": names,
        "columns": columns,
        "per_image": per_image,
        "height": height,
        "width": width,
        "indices": atlas.indices.tolist(),
    }


def atlas_origins(atlas: Atlas, trajectory_frames: np.ndarray | None) -> list[Any]:
    """Trajectory and frame of each cell's observation; None where it is from no trajectory."""
    if trajectory_frames is None:
        return [None] * len(atlas.indices)
    places = trajectory_frames[atlas.indices].tolist()
    return [place if place[0] >= 0 else None for place in places]


def write_examples(
    files: PageFiles,
    name: str,
    options: ExampleOptions,
    features: LayerFeatures,
    atlas: Atlas,
    places: np.ndarray,
    strengths: np.ndarray,
) -> None:
    """Write a layer's components and dataset examples, as cells of the atlas, and the frames where it is strongest.

    `places` (K, n, 3) are trajectory, frame and position, and
    `strengths` (K, n) the features' totals there.
    """
    grids = features.grids
    arrays: dict[str, np.ndarray | bytes] = {"components": features.reduction.components}
    for density, by_channel in grids.items():
        key = number_text(density)
        indices = np.stack([grid.indices for grid in by_channel])
        arrays[f"index.{key}"] = np.where(indices == NONE, NONE, atlas.cells[indices]).astype(np.int32)
        arrays[f"opacity.{key}"] = np.stack([to_bytes(grid_opacity(grid)) for grid in by_channel])
        arrays[f"position.{key}"] = by_channel[0].centers.astype(np.float32)
    arrays["strongest"] = places.astype(np.int32)
    arrays["strongest_strength"] = strengths.astype(np.float32)
    meta: dict[str, Any] = {
        "subdiv_mults": list(grids),
        "subdiv_mult_default": options.vis_subdiv_mult_default,
        "expand_mults": list(options.vis_expand_mults),
        "expand_mult_default": options.vis_expand_mult_default,
    }
    files.write_chunk(name, arrays, meta)


def _strongest(subject: Subject, layer: PageLayer, results: Results) -> tuple[np.ndarray, np.ndarray]:
    """Places (K, n, 3) and strengths (K, n) of the frames where each feature's attribution is strongest."""
    if "attribution" not in subject.analyses:
        return np.full((layer.channels, 0, 3), NONE), np.zeros((layer.channels, 0))
    trajectories = range(len(subject.trajectories.actions))
    output = attributed_outputs(subject)[0].id
    totals = [read_totals(subject, layer, trajectory)[output] for trajectory in trajectories]  # (T, K + 1, 2) each
    strengths = [np.abs(total[:, :-1]).sum(axis=-1) for total in totals]  # (T, K) each
    positions = [np.array(results[f"attribution/{layer.name}/{t + 1}"]["positions"]) for t in trajectories]
    return strongest_frames(strengths, STRONGEST_FRAMES, positions=positions)
