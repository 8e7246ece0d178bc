"""Films of a simulator beside the truth, as animated PNG files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from rl_clarity.base.files import write_atomically
from rl_clarity.pages.images import newest_frames
from rl_clarity.world_models.losses import Batch
from rl_clarity.world_models.rollouts import MODES, Rollouts

COLUMNS = ("truth", *MODES)
"""From left to right."""
SIDE = 64
"""Smaller frames are enlarged to about this many pixels."""
FPS = 8


def film_frames(batch: Batch, rollouts: Rollouts) -> np.ndarray:
    """Frames (T, rows, columns, 1 or 3) uint8: a row of images for each window, with `COLUMNS` side by side.

    Frames after the end of an episode are gray.
    """
    context = batch.frames.shape[1] - batch.mask.shape[1]
    films = [batch.frames[:, context:], *(rollouts[mode].images for mode in MODES)]
    size = films[0].shape
    pixels = [newest_frames(film.reshape(-1, *size[2:])).reshape(*size[:4], -1) for film in films]
    shown = np.stack([np.where(batch.mask[..., None, None, None] > 0, film, 128) for film in pixels], axis=2)
    times = max(1, SIDE // max(size[2:4]))
    shown = shown.astype(np.uint8).repeat(times, axis=3).repeat(times, axis=4)  # (B, T, films, H, W, C)
    shown = np.pad(shown, ((0, 0), (0, 0), (0, 0), (0, 2), (0, 2), (0, 0)), constant_values=255)
    count, steps, columns, height, width, colors = shown.shape
    return shown.transpose(1, 0, 3, 2, 4, 5).reshape(steps, count * height, columns * width, colors)


def write_film(path: Path, frames: np.ndarray, fps: float = FPS) -> None:
    """Write frames (T, H, W, 1 or 3) uint8 as an animated PNG file."""
    write_atomically(path, film_bytes(frames, fps))


def film_bytes(frames: np.ndarray, fps: float = FPS) -> bytes:
    """Return frames (T, H, W, 1 or 3) uint8 as an animated PNG file."""
    from PIL import Image

    images = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "PNG", save_all=True, append_images=images[1:], duration=1000 / fps, loop=0)
    return buffer.getvalue()
