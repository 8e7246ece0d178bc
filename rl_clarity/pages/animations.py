"""Draw animated images of two episodes side by side."""

from __future__ import annotations

import io

import numpy as np

BEFORE, AFTER = 8, 40
"""Numbers of frames of a clip before and after the moment at which the two episodes diverge."""
GAP = 4
"""Number of pixels between the two sides."""
MILLISECONDS = 100
"""Duration of a frame in milliseconds."""


def first_difference(first: np.ndarray, second: np.ndarray) -> int:
    """Return the first step at which two sequences of actions differ, or the last common step if there is none."""
    common = min(len(first), len(second))
    different = np.flatnonzero((first[:common] != second[:common]).reshape(common, -1).any(axis=1))
    return int(different[0]) if len(different) else common - 1


def side_by_side(left: np.ndarray, right: np.ndarray, moment: int) -> np.ndarray:
    """Return the frames of two episodes around the step `moment`, side by side.

    The frames of an episode of n steps are (n, H, W, C); m frames (m, H, 2 W + GAP, C) are returned. The last frame of
    the shorter episode is repeated.
    """
    steps = np.arange(max(0, moment - BEFORE), min(moment + AFTER, max(len(left), len(right))))
    sides = [frames[np.minimum(steps, len(frames) - 1)] for frames in (left, right)]
    gap = np.full((*sides[0].shape[:2], GAP, sides[0].shape[3]), 255, np.uint8)
    return np.concatenate([sides[0], gap, sides[1]], axis=2)


def animated_png(frames: np.ndarray) -> bytes:
    """Return the bytes of a looping animated PNG of n frames (n, H, W, 1 | 3) uint8."""
    from PIL import Image

    images = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "PNG", save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0)
    return buffer.getvalue()
