"""The parts of a page that show what features are: dataset examples, thumbnails, and the atlas they draw from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.pages.layout import Layout, number_text
from rl_clarity.pages.manifest import AtlasInfo
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.pictures import sheet, to_bytes
from rl_clarity.visualization.dataset_examples import NONE, Examples
from rl_clarity.visualization.patches import grid_opacity

_PICTURE_SIDE = 2048


@dataclass(frozen=True)
class Atlas:
    """The extra observations that dataset examples use, each in a cell."""

    indices: np.ndarray  # (cells,) int32: the observation in each cell
    cells: np.ndarray  # (M,) int32: the cell of each observation, or NONE

    @classmethod
    def of(cls, examples: Iterable[Examples], observations: int) -> Atlas:
        """The observations, of so many, that any of the examples shows."""
        used = np.zeros(observations, bool)
        for one in examples:
            used[one.indices[one.indices != NONE]] = True
        indices = np.flatnonzero(used).astype(np.int32)
        cells = np.full(observations, NONE, np.int32)
        cells[indices] = np.arange(len(indices))
        return cls(indices, cells)


@dataclass(frozen=True)
class GridFacts:
    """A layer's dataset examples: for each density a grid for each of K channels."""

    grids: Mapping[float, Sequence[Examples]]
    subdiv_mult_default: float
    expand_mults: Sequence[float]
    expand_mult_default: float
    strongest: np.ndarray  # (K, n, 3): trajectory, frame, position
    strongest_strength: np.ndarray  # (K, n)


def write_grids(files: PageFiles, slug: str, facts: GridFacts, atlas: Atlas) -> None:
    """Write a layer's dataset examples, as cells of the atlas."""
    arrays: dict[str, np.ndarray | bytes] = {}
    for density, grids in facts.grids.items():
        name = number_text(density)
        indices = np.stack([grid.indices for grid in grids])
        arrays[f"index.{name}"] = np.where(indices == NONE, NONE, atlas.cells[indices]).astype(np.int32)
        arrays[f"opacity.{name}"] = np.stack([to_bytes(grid_opacity(grid)) for grid in grids])
        arrays[f"position.{name}"] = grids[0].centers.astype(np.float32)
    arrays["strongest"] = facts.strongest.astype(np.int32)
    arrays["strongest_strength"] = facts.strongest_strength.astype(np.float32)
    meta: dict[str, Any] = {
        "subdiv_mults": list(facts.grids),
        "subdiv_mult_default": facts.subdiv_mult_default,
        "expand_mults": list(facts.expand_mults),
        "expand_mult_default": facts.expand_mult_default,
    }
    files.write_chunk(files.layout.grids(slug), arrays, meta)


def write_thumbnail(files: PageFiles, slug: str, channel: int, picture: np.ndarray) -> None:
    """Write a channel's thumbnail (H, W, 4) in 0..1."""
    files.write_picture(files.layout.thumbnail(slug, channel), to_bytes(picture))


def write_feature_picture(
    files: PageFiles, slug: str, channel: int, subdiv_mult: float, expand_mult: float, picture: np.ndarray
) -> None:
    """Write the picture (H, W, 4) in 0..1 of a channel's grid."""
    name = files.layout.feature_picture(slug, channel, subdiv_mult, expand_mult)
    files.write_picture(name, to_bytes(picture))


def write_optimized(files: PageFiles, slug: str, channel: int, picture: np.ndarray) -> None:
    """Write the image (H, W, 1 | 3) in 0..1 that was optimised for a channel."""
    files.write_picture(files.layout.optimized(slug, channel), to_bytes(picture))


def write_atlas(files: PageFiles, atlas: Atlas, frames: np.ndarray, picture: int) -> None:
    """Write one of the atlas's pictures from frames (M, H, W, 1 | 3) uint8 of all extra observations."""
    columns, per_picture = _cells_of_a_picture(frames.shape[1], frames.shape[2])
    shown = atlas.indices[picture * per_picture : (picture + 1) * per_picture]
    files.write_picture(files.layout.atlas(picture), sheet(frames[shown], columns))


def atlas_info(layout: Layout, atlas: Atlas, frame: tuple[int, int], origins: np.ndarray | None = None) -> AtlasInfo:
    """What the manifest says of the atlas; `origins` (M, 2) are trajectory and frame, negative where there is none."""
    height, width = frame
    columns, per_picture = _cells_of_a_picture(height, width)
    places: list[tuple[int, int] | None] = [None] * len(atlas.indices)
    if origins is not None:
        places = [(int(place[0]), int(place[1])) if place[0] >= 0 else None for place in origins[atlas.indices]]
    pictures = -(-len(atlas.indices) // per_picture)
    return AtlasInfo(
        count=len(atlas.indices),
        pictures=[layout.atlas(picture) for picture in range(pictures)],
        columns=columns,
        per_picture=per_picture,
        height=height,
        width=width,
        indices=atlas.indices.tolist(),
        origins=places,
    )


def _cells_of_a_picture(height: int, width: int) -> tuple[int, int]:
    """Columns and cells of a picture that browsers can hold as one texture."""
    columns = max(1, _PICTURE_SIDE // width)
    return columns, columns * max(1, _PICTURE_SIDE // height)
