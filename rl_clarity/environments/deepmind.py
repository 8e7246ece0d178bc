"""Pictures of Atari games as DeepMind's agents saw them (Mnih et al. 2015, https://doi.org/10.1038/nature14236).

The published agents of Baselines, Stable-Baselines3 and CleanRL saw what OpenCV makes of a frame: `cvtColor` to grey,
then `resize` to 84 x 84 with `INTER_AREA`. Both are a few lines of arithmetic, and these give the same pixels but for
those (about one in 100,000) whose mean lies within a rounding error of one half, so OpenCV is not needed.
"""

from __future__ import annotations

import functools

import numpy as np

SIZE = 84


def grey(frames: np.ndarray) -> np.ndarray:
    """Luma (..., H, W) uint8 of RGB frames (..., H, W, 3) uint8 by ITU-R BT.601, rounded as OpenCV does."""
    red, green, blue = (frames[..., channel].astype(np.uint32) for channel in range(3))
    return ((red * 9798 + green * 19235 + blue * 3735 + (1 << 14)) >> 15).astype(np.uint8)


def area_resize(frames: np.ndarray, height: int = SIZE, width: int = SIZE) -> np.ndarray:
    """Mean (..., height, width) uint8 of the part of (..., H, W) uint8 that each smaller pixel covers."""
    rows = area_weights(frames.shape[-2], height)
    columns = area_weights(frames.shape[-1], width)
    # OpenCV sums along the rows first, in float32 too.
    return np.rint(rows @ (frames.astype(np.float32) @ columns.T)).astype(np.uint8)


@functools.cache
def area_weights(size: int, smaller: int) -> np.ndarray:
    """Weights (smaller, size) float32: the share of each of the `smaller` pixels that a larger one's covers."""
    edges = np.arange(smaller + 1) * (size / smaller)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (np.clip(overlap, 0, None) * (smaller / size)).astype(np.float32)


def preprocess(frames: np.ndarray) -> np.ndarray:
    """Observations (..., 84, 84, 1) uint8 of RGB frames (..., H, W, 3) uint8."""
    return area_resize(grey(frames))[..., None]
