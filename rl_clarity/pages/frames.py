"""Observations as pictures: the newest frame of a stack, all of them side by side, and strips of a film."""

from __future__ import annotations

import numpy as np

from rl_clarity.errors import OptionError

_STRIP_HEIGHT = 128


def newest_frames(observations: np.ndarray, stack: int = 1) -> np.ndarray:
    """The newest frame (n, H, W, 1 or 3) of observations (n, H, W, C) of `stack` frames each, newest last."""
    return _shown(observations[..., -_colors(observations, stack) :])


def frames_side_by_side(observations: np.ndarray, stack: int) -> np.ndarray:
    """All frames of stacked observations (n, H, W, C) beside each other, oldest first: (n, H, stack * W, 1 or 3)."""
    colors = _colors(observations, stack)
    return np.concatenate(
        [_shown(observations[..., index * colors : (index + 1) * colors]) for index in range(stack)], axis=2
    )


def film_strips(frames: np.ndarray, scrub_range: tuple[float, float]) -> np.ndarray:
    """The columns of frames (n, H, W, C) between two shares of the width, side by side in time: (h, n * w, C).

    Frames taller than 128 pixels are thinned out.
    """
    low, high = scrub_range
    if not 0 <= low < high <= 1:
        raise OptionError(f"scrub_range={scrub_range!r} must be two shares of the width, the smaller one first")
    width = frames.shape[2]
    start = int(low * width)
    stop = max(start + 1, round(high * width))
    every = -(-frames.shape[1] // _STRIP_HEIGHT)
    strips = frames[:, ::every, start:stop:every]  # (n, h, w, C)
    count, height, wide, channels = strips.shape
    return np.ascontiguousarray(strips.swapaxes(0, 1)).reshape(height, count * wide, channels)


def _colors(observations: np.ndarray, stack: int) -> int:
    channels = observations.shape[-1]
    if channels % stack:
        raise OptionError(f"observations of {channels} channels are no stacks of {stack} frames")
    return int(channels // stack)


def _shown(frames: np.ndarray) -> np.ndarray:
    """Frames of any number of channels as grey or RGB: an alpha channel is dropped, other ones are averaged."""
    channels = frames.shape[-1]
    if channels in (1, 3):
        return frames
    if channels == 4:
        return frames[..., :3]
    return np.round(frames.mean(axis=-1, keepdims=True)).astype(np.uint8)
