"""Attribution in reduced channels as pictures: hue says which channel, opacity how much.

After Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020). Everything up to the smoothing is linear in the
positive and negative parts of the channels; that is why the page can compose any selection from the channels alone.

Shapes: B frames, h x w positions of a layer, K channels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from rl_clarity.errors import OptionError
from rl_clarity.visualization.colors import channel_hues

Direction = Literal["abs", "pos", "neg"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

KERNEL_RADIUS = 7
_FRAMES_AT_ONCE = 64
_GREY = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601 luma


def render_attribution(
    channels: np.ndarray,
    residual: np.ndarray | None = None,
    *,
    direction: Direction = "pos",
    channel: str | int = "prin",
    scale: float | None = None,
    hues: np.ndarray | None = None,
) -> np.ndarray:
    """Pictures (B, h, w, 4) float32 of attribution, colours not clipped: above 1 where the opacity is 1.

    `channels` (B, h, w, K) and `residual` (B, h, w) or (B, h, w, 1) are signed, in units of attribution. `direction`
    chooses their absolute values, positive or negative parts; `channel` all channels (`"prin"`), these and the
    residual (`"all"`), the residual alone (`"res"`) or one channel's index. `scale` is the strength shown at full
    brightness, above 0, by default `attribution_scale(channels)`; `hues` (K, 3) are by default `channel_hues(K)`.

    Raises OptionError for shapes that do not fit each other, and for a direction, channel or scale that is none.
    """
    channels = np.asarray(channels)
    if channels.ndim != 4:
        raise OptionError(f"channels must have the shape (B, h, w, K), not {channels.shape}.")
    if direction not in DIRECTIONS:
        raise OptionError(f"direction={direction!r} is none of 'abs', 'pos', 'neg'.")
    _check_scale(scale)
    residual = _checked_residual(channels, residual, channel)
    weights, residual_weight = _weights(channels.shape[-1], channel, hues)
    divisor = attribution_scale(channels) if scale is None else scale
    pictures = np.empty((*channels.shape[:3], 4), np.float32)
    for start in range(0, len(channels), _FRAMES_AT_ONCE):
        part = slice(start, start + _FRAMES_AT_ONCE)
        rgb = _part(channels[part], direction) @ weights  # (b, h, w, 3)
        if residual is not None and residual_weight:
            rgb += _part(residual[part], direction)[..., None]
        pictures[part] = brightness_to_opacity(smooth(rgb / np.float32(divisor)))
    return pictures


def attribution_scale(channels: np.ndarray) -> float:
    """Strength shown at full brightness: the median over frames (B, h, w, K) of each one's largest signed value.

    Where that is 0 the largest of all stands for it, and 1 where that is 0 too.
    """
    peaks = np.asarray(channels).max(axis=(1, 2, 3))
    return scale_of_peaks(peaks)


def scale_of_peaks(peaks: np.ndarray) -> float:
    """`attribution_scale` from the largest signed value of each frame (B,)."""
    if len(peaks) == 0:
        return 1.0
    return float(np.median(peaks)) or float(np.max(peaks)) or 1.0


def smooth(pictures: np.ndarray) -> np.ndarray:
    """Pictures (B, h, w, n) convolved with the 15 x 15 kernel `exp(-d)`, 0 where d > 7, and zero padding; float32."""
    # As matrix products, a row of the kernel at a time, rather than by Fourier transform: sums of what is not negative
    # keep their relative precision, and what is out of the kernel's reach stays 0 exactly.
    height, width = pictures.shape[1:3]
    planes = np.ascontiguousarray(np.moveaxis(np.asarray(pictures, np.float32), -1, 1))  # (B, n, h, w)
    rows = planes @ _row_products(width)  # (B, n, h, 8 w): convolved with the kernel's row at each distance
    smoothed = rows[..., :width].copy()
    for distance in range(1, min(KERNEL_RADIUS, height - 1) + 1):
        convolved = rows[..., distance * width : (distance + 1) * width]
        smoothed[..., distance:, :] += convolved[..., :-distance, :]
        smoothed[..., :-distance, :] += convolved[..., distance:, :]
    return np.moveaxis(smoothed, 1, -1)


def kernel() -> np.ndarray:
    """The smoothing kernel (15, 15): `exp(-d)` of the distance d in layer positions, 0 where d > 7."""
    offsets = np.arange(-KERNEL_RADIUS, KERNEL_RADIUS + 1)
    distance = np.hypot(offsets[:, None], offsets[None, :])
    return np.where(distance > KERNEL_RADIUS, 0, np.exp(-distance))


def brightness_to_opacity(rgb: np.ndarray) -> np.ndarray:
    """Colours on black (..., 3) as colours with opacity (..., 4): opacity is the L2 norm, at most 1."""
    opacity = np.minimum(np.linalg.norm(rgb, axis=-1, keepdims=True), 1)
    color = np.divide(rgb, opacity, out=np.zeros_like(rgb), where=opacity > 0)
    return np.concatenate([color, opacity], axis=-1)


def over_observations(pictures: np.ndarray, frames: np.ndarray, weight: float = 0.9) -> np.ndarray:
    """Pictures (B, h, w, 4) laid over the greyscale of frames (B, H, W, 3 or 1) uint8, as (B, H, W, 3) uint8.

    `weight` is the opacity of full attribution. Layer positions become blocks of pixels.
    """
    height, width = frames.shape[1:3]
    rows = np.arange(height) * pictures.shape[1] // height
    columns = np.arange(width) * pictures.shape[2] // width
    grown = pictures[:, rows][:, :, columns]
    opacity = weight * grown[..., 3:]
    shown = np.clip(grown[..., :3], 0, 1) * opacity + greyscale(frames) * (1 - opacity)
    return np.round(255 * shown).astype(np.uint8)


def greyscale(frames: np.ndarray) -> np.ndarray:
    """Luma (B, H, W, 1) float32 in 0..1 of frames (B, H, W, 3 or 1) uint8."""
    scaled = frames.astype(np.float32) / 255
    return scaled if frames.shape[-1] == 1 else (scaled @ _GREY)[..., None]


def _part(values: np.ndarray, direction: Direction) -> np.ndarray:
    values = np.asarray(values, np.float32)
    if direction == "abs":
        return np.abs(values)
    if direction == "pos":
        return np.maximum(values, 0)
    return np.maximum(-values, 0)


def _weights(count: int, channel: str | int, hues: np.ndarray | None) -> tuple[np.ndarray, bool]:
    """Colour (K, 3) of every channel, black for those not chosen, and whether the residual is shown."""
    weights = np.array(channel_hues(count) if hues is None else hues, np.float32)
    if weights.shape != (count, 3):
        raise OptionError(f"hues must have the shape {(count, 3)}, not {weights.shape}.")
    if isinstance(channel, str):
        if channel not in ("prin", "all", "res"):
            raise OptionError(f"channel={channel!r} is none of 'prin', 'all', 'res', nor the index of a channel.")
        return (np.zeros_like(weights) if channel == "res" else weights), channel != "prin"
    if isinstance(channel, bool) or not isinstance(channel, int | np.integer) or not 0 <= channel < count:
        raise OptionError(f"channel={channel!r} is not the index of one of {count} channels.")
    weights[np.arange(count) != channel] = 0
    return weights, False


def _check_scale(scale: float | None) -> None:
    if scale is None:
        return
    try:
        fits = 0 < float(scale) < np.inf
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise OptionError(f"scale={scale!r} must be a number above 0, or None for that of the channels.")


def _checked_residual(channels: np.ndarray, residual: np.ndarray | None, channel: str | int) -> np.ndarray | None:
    if residual is None:
        if isinstance(channel, str) and channel in ("all", "res"):
            raise OptionError(f"channel={channel!r} needs a residual.")
        return None
    shape = channels.shape[:3]
    if np.shape(residual) not in (shape, (*shape, 1)):
        raise OptionError(f"residual must have the shape {shape} or {(*shape, 1)}, not {np.shape(residual)}.")
    return np.reshape(residual, shape)


@lru_cache(maxsize=32)
def _row_products(width: int) -> np.ndarray:
    """Matrices (w, w) side by side: products with them convolve with the kernel's rows 0 to 7 from its centre."""
    offset = np.arange(width)[None, :] - np.arange(width)[:, None] + KERNEL_RADIUS
    inside = (offset >= 0) & (offset <= 2 * KERNEL_RADIUS)
    below = kernel()[KERNEL_RADIUS:]
    bands = [np.where(inside, row[np.clip(offset, 0, 2 * KERNEL_RADIUS)], 0) for row in below]
    return np.concatenate(bands, axis=1).astype(np.float32)
