"""Draw dataset examples as images: the opacity of each patch, and its pixels.

This follows Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020). Patches of weak activation are
transparent; pixels outside the observation show a light checkerboard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.visualization.dataset_examples import NONE, Examples

_FAINTEST = 15 / 255
_OPAQUE_PERCENTILE = 90  # pixels above this percentile are opaque
_LIGHT, _DARK = 1.0, 0.75


def grid_opacity(examples: Examples, pixels: np.ndarray | None = None) -> np.ndarray:
    """Return the opacity (rows, columns) float32 of a grid's patches. The strongest tenth is opaque, and no patch
    is invisible.

    `pixels` (rows, columns) are the sizes of the patches, if they differ.
    """
    strength = _relative(examples)
    threshold = _percentile(strength, np.ones_like(strength) if pixels is None else pixels)
    return _opacity(strength, max(threshold, strength.max() / 10), examples)


def thumbnail_opacity(examples: Examples) -> np.ndarray:
    """Return the opacity (rows, columns) float32 of a thumbnail's patches, 1 for the strongest and 0 for
    inactive ones.
    """
    strength = _relative(examples)
    return np.where(strength > 0, _opacity(strength, strength.max(), examples), 0).astype(np.float32)


def draw_grid(examples: Examples, observations: np.ndarray, layer: tuple[int, int], expand_mult: float) -> np.ndarray:
    """Draw a grid's patches, each `expand_mult` layer positions wide, as an image (height, width, 4) float32 in 0..1.

    The indices refer to `observations` (M, H, W, C) uint8; `layer` is the layer's (h, w).
    """
    patches = _Patches.of_grid(examples, _size(observations), layer, expand_mult)
    pixels = np.outer(patches.heights, patches.widths)
    return _draw(examples, patches, observations, grid_opacity(examples, pixels))


def draw_thumbnail(
    examples: Examples, observations: np.ndarray, layer: tuple[int, int], expand_mult: float = 4
) -> np.ndarray:
    """Draw a thumbnail's patches as an image (height, width, 4) float32 in 0..1. Arguments are as in `draw_grid`."""
    patches = _Patches.of_one_size(examples, _size(observations), layer, expand_mult)
    return _draw(examples, patches, observations, thumbnail_opacity(examples))


@dataclass(frozen=True)
class _Patches:
    """Location of the patches in their observations, in pixels."""

    top: np.ndarray  # (rows, columns) int
    left: np.ndarray  # (rows, columns) int
    heights: np.ndarray  # (rows,) int
    widths: np.ndarray  # (columns,) int
    padding: tuple[int, int]  # origin of the checkerboard outside the observation

    @classmethod
    def of_grid(cls, examples: Examples, size: tuple[int, int], layer: tuple[int, int], expand_mult: float) -> _Patches:
        """Return the patches of a grid. All patches in a row have the same height, and all in a column the same width,
        but sizes may differ by rounding.
        """
        unit, padding = _units(size, layer, expand_mult)
        first = np.round((examples.centers - expand_mult / 2) * unit).astype(int)
        last = np.round((examples.centers + expand_mult / 2) * unit).astype(int)
        extent = last - first
        return cls(first[..., 0], first[..., 1], extent[:, 0, 0], extent[0, :, 1], padding)

    @classmethod
    def of_one_size(
        cls, examples: Examples, size: tuple[int, int], layer: tuple[int, int], expand_mult: float
    ) -> _Patches:
        """Return patches at any positions, all of the same size."""
        unit, padding = _units(size, layer, expand_mult)
        first = np.round((examples.centers - expand_mult / 2) * unit).astype(int)
        extent = np.round(expand_mult * unit).astype(int)
        rows, columns = examples.indices.shape
        return cls(first[..., 0], first[..., 1], np.full(rows, extent[0]), np.full(columns, extent[1]), padding)


def _size(observations: np.ndarray) -> tuple[int, int]:
    return observations.shape[1], observations.shape[2]


def _units(size: tuple[int, int], layer: tuple[int, int], expand_mult: float) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the pixels (2,) per layer position, and the extent of the checkerboard outside the observation."""
    unit = np.array(size, np.float64) / layer
    reach = np.ceil(unit * expand_mult).astype(int)
    return unit, (int(reach[0]), int(reach[1]))


def _draw(examples: Examples, patches: _Patches, observations: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    row, within_row = _cell_and_offset(patches.heights)
    column, within_column = _cell_and_offset(patches.widths)
    cell = np.ix_(row, column)
    y = patches.top[cell] + within_row[:, None]  # (height, width): pixel index in the observation
    x = patches.left[cell] + within_column[None, :]
    shown = examples.indices[cell]
    height, width = observations.shape[1:3]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (shown != NONE)
    even = (y + x + sum(patches.padding)) % 2 == 0
    image = np.empty((*y.shape, 4), np.float32)
    image[..., :3] = np.where(even, _DARK, _LIGHT)[..., None]
    image[inside, :3] = observations[shown[inside], y[inside], x[inside]].astype(np.float32) / 255
    image[..., 3] = opacity[cell]
    return image


def _cell_and_offset(extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of each pixel along an axis, and the pixel's offset in the cell."""
    cell = np.repeat(np.arange(len(extents)), extents)
    return cell, np.arange(len(cell)) - np.repeat(np.cumsum(extents) - extents, extents)


def _relative(examples: Examples) -> np.ndarray:
    """Return strengths relative to the strongest, or 0 if nothing is shown or active."""
    strength = np.where(examples.indices == NONE, 0, examples.strengths).astype(np.float64)
    strongest = strength.max()
    return np.asarray(strength / strongest) if strongest > 0 else np.zeros_like(strength)


def _opacity(strength: np.ndarray, full: float, examples: Examples) -> np.ndarray:
    relative = strength / full if full > 0 else np.zeros_like(strength)
    opacity = np.clip(_FAINTEST + (1 - _FAINTEST) * relative, 0, 1)
    return np.where(examples.indices == NONE, 0, opacity).astype(np.float32)


def _percentile(values: np.ndarray, counts: np.ndarray) -> float:
    """Return the linearly interpolated percentile `_OPAQUE_PERCENTILE` of values that occur `counts` times each."""
    order = np.argsort(values, axis=None)
    ordered, ends = values.ravel()[order], np.cumsum(counts.ravel()[order])
    place = _OPAQUE_PERCENTILE / 100 * (ends[-1] - 1)
    below, above = (ordered[np.searchsorted(ends, index, side="right")] for index in (np.floor(place), np.ceil(place)))
    return float(below + (above - below) * (place - np.floor(place)))
