"""Write animated PNG files that show simulated frames beside the recorded ones."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from rl_clarity.base.files import write_atomically
from rl_clarity.pages.images import newest_frames
from rl_clarity.world_models.losses import Batch
from rl_clarity.world_models.rollouts import MODES, Rollouts

COLUMNS = ("truth", *MODES)
"""Columns of a clip, from left to right."""
SIDE = 64
"""Frames with smaller sides are enlarged to about this many pixels."""
FPS = 8


def clip_frames(batch: Batch, rollouts: Rollouts) -> np.ndarray:
    """Return the frames (T, height, width, 1 or 3) uint8 of a clip: a row of images for each window, in `COLUMNS`.

    Frames after the end of an episode are gray.
    """
    context = batch.frames.shape[1] - batch.mask.shape[1]
    clips = [batch.frames[:, context:], *(rollouts[mode].images for mode in MODES)]
    size = clips[0].shape
    pixels = [newest_frames(clip.reshape(-1, *size[2:])).reshape(*size[:4], -1) for clip in clips]
    shown = np.stack([np.where(batch.mask[..., None, None, None] > 0, clip, 128) for clip in pixels], axis=2)
    times = max(1, SIDE // max(size[2:4]))
    shown = shown.astype(np.uint8).repeat(times, axis=3).repeat(times, axis=4)  # (B, T, clips, H, W, C)
    shown = np.pad(shown, ((0, 0), (0, 0), (0, 0), (0, 2), (0, 2), (0, 0)), constant_values=255)
    count, steps, columns, height, width, colors = shown.shape
    return shown.transpose(1, 0, 3, 2, 4, 5).reshape(steps, count * height, columns * width, colors)


def write_clip(path: Path, frames: np.ndarray, fps: float = FPS) -> None:
    """Write frames (T, H, W, 1 or 3) uint8 as an animated PNG file."""
    write_atomically(path, clip_bytes(frames, fps))


def clip_bytes(frames: np.ndarray, fps: float = FPS) -> bytes:
    """Return frames (T, H, W, 1 or 3) uint8 as an animated PNG file."""
    from PIL import Image

    images = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "PNG", save_all=True, append_images=images[1:], duration=1000 / fps, loop=0)
    return buffer.getvalue()
