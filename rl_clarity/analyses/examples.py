"""Dataset examples as the page shows them: an atlas of observations, and grids of its cells for each layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Never

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis, attribution_inputs
from rl_clarity.analyses.attribution.files import read_totals
from rl_clarity.analyses.feature_facts import load_facts, observation_episodes
from rl_clarity.analyses.feature_section import AtlasEntry
from rl_clarity.analyses.features import (
    ATLAS,
    ExampleOptions,
    FeatureImageOptions,
    FeaturesAnalysis,
    examples_name,
    feature_layers,
    load_features,
    reduction_inputs,
)
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.files import ImageName, PageFiles, number_text, path_in
from rl_clarity.pages.images import sheet, to_bytes
from rl_clarity.visualization.dataset_examples import NONE, Examples, grid_shape
from rl_clarity.visualization.feature_facts import (
    FeatureFacts,
    frames_by_effect,
    net_histogram,
    sign_shares,
)
from rl_clarity.visualization.patches import grid_opacity

FEWEST = 3
"""Smallest number of rows and columns of the grid with which the page opens."""
ATLAS_SIDE = 2048
"""Largest side of an atlas image in pixels, so that browsers can hold the image as one texture."""
BYTES_PER_CELL = 4
"""Compressed size in bytes of a cell of a grid, which has an index and an opacity."""


@dataclass(frozen=True)
class Atlas:
    """The extra observations that dataset examples show, each in a cell of an image."""

    indices: np.ndarray  # (cells,) int32: the observation in each cell
    cells: np.ndarray  # (M,) int32: the cell of each observation, or NONE

    @classmethod
    def collect(cls, shown: Iterable[np.ndarray], observations: int) -> Atlas:
        """Return the atlas of all observations whose indices occur in the arrays `shown`. NONE is ignored.

        `observations` is the number of all extra observations.
        """
        used = np.zeros(observations, bool)
        for one in shown:
            used[one[one != NONE]] = True
        indices = np.flatnonzero(used).astype(np.int32)
        cells = np.full(observations, NONE, np.int32)
        cells[indices] = np.arange(len(indices))
        return cls(indices, cells)

    def find_cells(self, indices: np.ndarray) -> np.ndarray:
        """Return the cells of observations with some indices; entries that are NONE stay NONE."""
        return np.where(indices == NONE, NONE, self.cells[indices]).astype(np.int32)


class ExamplesAnalysis(Analysis[ExampleOptions, Never]):
    """Writes the files of dataset examples that the section `features` shows. The analysis has no section."""

    kind = "examples"

    def tasks(self, subject: Subject, options: ExampleOptions) -> Iterable[Task]:
        layers = feature_layers(subject)
        if not layers:
            return
        inputs = [
            reduction_inputs(subject),
            subject.decisive(FeatureImageOptions, ExampleOptions),
            [asdict(layer) for layer in layers],
        ]
        cells = [_cell_count(layer, options.densities) for layer in layers]
        observation = subject.info.observation
        frame = observation.frame_height * observation.frame_width
        yield self.task(
            subject,
            ATLAS,
            partial(_write_atlas_task, subject, layers),
            inputs,
            after=(FeaturesAnalysis.task_name(""),),
            pieces=lambda sample, frames: (),
            output_bytes=min(len(subject.observations.observations), sum(cells)) * frame / 2,
        )
        explained = attribution_inputs(subject) if AttributionAnalysis.kind in subject.analyses else None
        for layer, count in zip(layers, cells, strict=True):
            yield self.task(
                subject,
                self.task_name(layer.name),
                partial(_write_examples_task, subject, layers, layer),
                [inputs, asdict(layer), explained],
                after=(FeaturesAnalysis.task_name(""), AttributionAnalysis.task_name(layer.name, "")),
                pieces=lambda sample, frames: (),
                output_bytes=BYTES_PER_CELL * count,
            )

    def sections(self, subject: Subject, options: ExampleOptions, results: Results) -> Iterable[Never]:
        return ()


def _cell_count(layer: PageLayer, densities: Sequence[float]) -> float:
    return sum(math.prod(layer.shape[:2]) * layer.channels * density**2 for density in densities)


def _atlas(subject: Subject, layers: Sequence[PageLayer]) -> Atlas:
    shown: list[np.ndarray] = []
    for layer in layers:
        grids = load_features(subject.files, layer).grids.values()
        shown += [grid.indices for by_channel in grids for grid in by_channel]
        shown += [example.places[..., 0] for example in load_facts(subject.files, layer).examples.values()]
    return Atlas.collect(shown, len(subject.observations.observations))


def _write_atlas_task(subject: Subject, layers: Sequence[PageLayer], work: Work) -> TaskResult:
    atlas = _atlas(subject, layers)
    subdirectory = subject.options_of(ExampleOptions).observations_subdir
    written = write_atlas(subject.files, subdirectory, atlas, subject.observation_frames())
    info = replace(
        written,
        origins=atlas_origins(atlas, subject.observations.trajectory_frames),
        episodes=observation_episodes(subject)[atlas.indices].tolist(),
    )
    return TaskResult(vars(info), info.images)


def _write_examples_task(subject: Subject, layers: Sequence[PageLayer], layer: PageLayer, work: Work) -> TaskResult:
    atlas, options = _atlas(subject, layers), subject.options_of(ExampleOptions)
    name = examples_name(options, layer)
    features, facts = load_features(subject.files, layer), load_facts(subject.files, layer)
    channels = len(facts.strongest)
    arrays = {"components": features.reduction.components}
    arrays |= grid_arrays(features.grids, atlas) | example_arrays(facts, atlas)
    signs = {}
    if AttributionAnalysis.kind in subject.analyses:
        trajectories = range(len(subject.trajectories.actions))
        totals, peaks = (
            [read_totals(subject, layer, trajectory, part) for trajectory in trajectories]
            for part in ("totals", "peak")
        )
        for output in totals[0]:
            parts = [total[output][:, :channels] for total in totals]
            arrays |= effect_arrays(output, parts, [peak[output] for peak in peaks], subject.trajectories.firsts)
            signs[output] = sign_shares(parts).tolist()
    meta = examples_meta(options, layer)
    subject.files.write_chunk(name, arrays, meta)
    return TaskResult({"signs": signs}, files=[name])


def write_atlas(files: PageFiles, subdirectory: str, atlas: Atlas, frames: np.ndarray) -> AtlasEntry:
    """Write the images of the atlas from frames (M, H, W, 1 | 3) uint8 of all observations. Return its description."""
    height, width = frames.shape[1:3]
    columns = max(1, ATLAS_SIDE // width)
    per_image = columns * max(1, ATLAS_SIDE // height)
    names: list[ImageName] = []
    for start in range(0, len(atlas.indices), per_image):
        names.append(ImageName(path_in(subdirectory, f"observations-{len(names) + 1}.png")))
        files.write_image(names[-1], sheet(frames[atlas.indices[start : start + per_image]], columns))
    return AtlasEntry(
        count=len(atlas.indices),
        images=names,
        columns=columns,
        per_image=per_image,
        height=height,
        width=width,
        indices=atlas.indices.tolist(),
        origins=atlas_origins(atlas, None),
    )


def atlas_origins(atlas: Atlas, trajectory_frames: np.ndarray | None) -> list[tuple[int, int] | None]:
    """Return the trajectory and frame of each cell's observation, or None if it is not from a trajectory."""
    if trajectory_frames is None:
        return [None] * len(atlas.indices)
    places = trajectory_frames[atlas.indices].tolist()
    return [(trajectory, step) if trajectory >= 0 else None for trajectory, step in places]


def grid_arrays(grids: Mapping[float, Sequence[Examples]], atlas: Atlas) -> dict[str, np.ndarray]:
    """Return a layer's grids, one per channel and density, as arrays of the chunk of examples."""
    arrays: dict[str, np.ndarray] = {}
    for density, by_channel in grids.items():
        key = number_text(density)
        arrays[f"index.{key}"] = atlas.find_cells(np.stack([grid.indices for grid in by_channel]))
        arrays[f"opacity.{key}"] = np.stack([to_bytes(grid_opacity(grid)) for grid in by_channel])
        arrays[f"position.{key}"] = by_channel[0].centers.astype(np.float32)
    return arrays


def example_arrays(facts: FeatureFacts, atlas: Atlas) -> dict[str, np.ndarray]:
    """Return examples by strength, histograms and overlap, as arrays of the chunk of examples."""
    arrays = {"histogram": facts.histogram, "overlap": facts.overlap.astype(np.float32)}
    for name, example in facts.examples.items():
        arrays[name] = np.stack([atlas.find_cells(example.places[..., 0]), example.places[..., 1]], axis=-1).astype(
            np.int32
        )
        arrays[f"{name}_strength"] = example.strengths
    return arrays


def effect_arrays(
    output: str, totals: Sequence[np.ndarray], peaks: Sequence[np.ndarray], firsts: Sequence[np.ndarray] | np.ndarray
) -> dict[str, np.ndarray]:
    """Return examples by effect on an output, and a histogram of the effect, as arrays of the chunk of examples.

    See `frames_by_effect` for `totals`, `peaks` and `firsts`.
    """
    counts, limits = net_histogram(totals)
    arrays = {f"net.{output}": counts, f"net_limit.{output}": limits}
    for name, one in frames_by_effect(totals, peaks, firsts).items():
        arrays |= {f"{name}.{output}": one.places, f"{name}_strength.{output}": one.strengths}
    return arrays


def examples_meta(options: ExampleOptions, layer: PageLayer) -> dict[str, object]:
    """Return the header of a layer's chunk of examples."""
    density, densities = options.density, options.densities
    if density is None:
        enough = [one for one in densities if min(grid_shape(layer.shape[:2], one)) >= FEWEST]
        density = min(enough, default=max(densities))
    return {
        "subdiv_mults": list(densities),
        "subdiv_mult_default": density,
        "expand_mults": list(options.widths),
        "expand_mult_default": options.width,
    }
