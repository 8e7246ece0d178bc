"""Render attribution in reduced channels as images, in which hue is the channel and opacity the strength.

This follows Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020). Everything up to the smoothing is linear
in the positive and negative parts of the channels, so the page can compose any selection from the channels alone.

Shapes: B frames, h x w positions of a layer, K channels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.visualization.colors import channel_hues

Direction = Literal["abs", "pos", "neg"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

KERNEL_RADIUS = 7
UNCLIPPED = 0.9925
_FRAMES_AT_ONCE = 64
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601 luma


def render_attribution(
    channels: np.ndarray,
    residual: np.ndarray | None = None,
    *,
    direction: Direction = "pos",
    channel: str | int = "prin",
    scale: float | None = None,
    hues: np.ndarray | None = None,
    gray: np.ndarray | None = None,
) -> np.ndarray:
    """Render attribution as images (B, h, w, 4) float32. Colors are not clipped: they may exceed 1 where opacity is 1.

    Args:
        channels: (B, h, w, K), signed attribution to each channel
        residual: (B, h, w) or (B, h, w, 1), signed attribution that the channels omit
        direction: whether to render absolute values (`"abs"`), positive parts (`"pos"`) or negative parts (`"neg"`)
        channel: the channels (`"prin"`), channels and residual (`"all"`), the residual (`"res"`) or a channel's index
        scale: strength at full brightness, above 0; default `attribution_scale(channels)`
        hues: (K, 3); default `channel_hues(K)`
        gray: (B,) bool, whether to render an image without colors, because its completeness error is too large

    Raises OptionError for shapes that do not match, and for an invalid direction, channel or scale.
    """
    channels = np.asarray(channels)
    if channels.ndim != 4:
        raise OptionError(f"channels have shape {channels.shape}; expected (B, h, w, K)")
    if direction not in DIRECTIONS:
        raise OptionError(f"direction={direction!r} must be 'abs', 'pos' or 'neg'")
    _check_scale(scale)
    residual = _check_residual(channels, residual, channel)
    weights, residual_weight = _weights(channels.shape[-1], channel, hues)
    divisor = attribution_scale(channels) if scale is None else scale
    images = np.empty((*channels.shape[:3], 4), np.float32)
    for start in range(0, len(channels), _FRAMES_AT_ONCE):
        part = slice(start, start + _FRAMES_AT_ONCE)
        rgb = _part(channels[part], direction) @ weights  # (b, h, w, 3)
        if gray is not None:
            rgb[gray[part]] = _part(channels[part][gray[part]], direction) @ _without_colors(weights)
        if residual is not None and residual_weight:
            rgb += _part(residual[part], direction)[..., None]
        images[part] = brightness_to_opacity(smooth(rgb / np.float32(divisor)))
    return images


def attribution_scale(channels: np.ndarray) -> float:
    """Return the strength at full brightness: the median over frames (B, h, w, K) of the largest signed value.

    If the median is 0, return the maximum, or 1 if that is 0, too.
    """
    peaks = np.asarray(channels).max(axis=(1, 2, 3))
    return scale_of_peaks(peaks)


def scale_of_peaks(peaks: np.ndarray) -> float:
    """Return `attribution_scale`, from the largest signed value of each frame (B,)."""
    if len(peaks) == 0:
        return 1.0
    return float(np.median(peaks)) or float(np.max(peaks)) or 1.0


def full_scale(channels: np.ndarray, residual: np.ndarray | None = None) -> float:
    """Return the strength at full opacity if each position has the color of its strongest channel.

    99.25 % of the positions of `channels` (B, h, w, K) and `residual` (B, h, w, 1) with attribution do not exceed it.
    It is 1 if no position has attribution.
    """
    # One feature at a time, because NumPy's reduction of a short last axis takes several times as long.
    strongest = np.abs(channels[..., 0])
    for k in range(1, channels.shape[-1]):
        np.maximum(strongest, np.abs(channels[..., k]), out=strongest)
    if residual is not None:
        np.maximum(strongest, np.abs(residual)[..., 0], out=strongest)
    visible = strongest[strongest > 0]
    return float(np.quantile(visible, UNCLIPPED, method="higher")) if visible.size else 1.0


def smooth(images: np.ndarray) -> np.ndarray:
    """Convolve images (B, h, w, n) with the 15 x 15 kernel `exp(-d)`, 0 where d > 7, with zero padding; float32."""
    # Use matrix products, a row of the kernel at a time, instead of a Fourier transform: sums of non-negative values
    # keep their relative precision, and values outside the kernel's range stay exactly 0.
    height, width = images.shape[1:3]
    planes = np.ascontiguousarray(np.moveaxis(np.asarray(images, np.float32), -1, 1))  # (B, n, h, w)
    rows = planes @ _row_products(width)  # (B, n, h, 8 w): convolved with each row of the kernel
    smoothed = rows[..., :width].copy()
    for distance in range(1, min(KERNEL_RADIUS, height - 1) + 1):
        convolved = rows[..., distance * width : (distance + 1) * width]
        smoothed[..., distance:, :] += convolved[..., :-distance, :]
        smoothed[..., :-distance, :] += convolved[..., distance:, :]
    return np.moveaxis(smoothed, 1, -1)


def kernel() -> np.ndarray:
    """Return the smoothing kernel (15, 15): `exp(-d)` of the distance d in layer positions, 0 where d > 7."""
    offsets = np.arange(-KERNEL_RADIUS, KERNEL_RADIUS + 1)
    distance = np.hypot(offsets[:, None], offsets[None, :])
    return np.where(distance > KERNEL_RADIUS, 0, np.exp(-distance))


def brightness_to_opacity(rgb: np.ndarray) -> np.ndarray:
    """Convert colors on black (..., 3) to colors with opacity (..., 4). The opacity is the L2 norm, at most 1."""
    opacity = np.minimum(np.linalg.norm(rgb, axis=-1, keepdims=True), 1)
    color = np.divide(rgb, opacity, out=np.zeros_like(rgb), where=opacity > 0)
    return np.concatenate([color, opacity], axis=-1)


def hatch(images: np.ndarray) -> np.ndarray:
    """Draw dark and light diagonal lines over images (B, H, W, 3) uint8. The images remain visible."""
    place = np.add.outer(np.arange(images.shape[1]), -np.arange(images.shape[2]))[..., None] % 12
    half = images // 2
    return np.where(place < 2, half, np.where(place < 4, half + 127, images))


def over_observations(images: np.ndarray, frames: np.ndarray, weight: float = 0.9) -> np.ndarray:
    """Overlay images (B, h, w, 4) on grayscale frames (B, H, W, 3 or 1) uint8, and return (B, H, W, 3) uint8.

    `weight` is the opacity of full attribution. Each layer position covers a block of pixels.
    """
    height, width = frames.shape[1:3]
    rows = np.arange(height) * images.shape[1] // height
    columns = np.arange(width) * images.shape[2] // width
    enlarged = images[:, rows][:, :, columns]
    opacity = weight * enlarged[..., 3:]
    shown = np.clip(enlarged[..., :3], 0, 1) * opacity + grayscale(frames) * (1 - opacity)
    return np.round(255 * shown).astype(np.uint8)


def grayscale(frames: np.ndarray) -> np.ndarray:
    """Return luma (B, H, W, 1) float32 in 0..1 of frames (B, H, W, 3 or 1) uint8."""
    scaled = frames.astype(np.float32) / 255
    return scaled if frames.shape[-1] == 1 else (scaled @ _LUMA)[..., None]


def _part(values: np.ndarray, direction: Direction) -> np.ndarray:
    values = np.asarray(values, np.float32)
    if direction == "abs":
        return np.abs(values)
    if direction == "pos":
        return np.maximum(values, 0)
    return np.maximum(-values, 0)


def _weights(count: int, channel: str | int, hues: np.ndarray | None) -> tuple[np.ndarray, bool]:
    """Return the color (K, 3) of each channel, black if it is not selected, and whether the residual is shown."""
    weights = np.array(channel_hues(count) if hues is None else hues, np.float32)
    if weights.shape != (count, 3):
        raise OptionError(f"hues have shape {weights.shape}; expected {(count, 3)}")
    if isinstance(channel, str):
        if channel not in ("prin", "all", "res"):
            raise OptionError(f"channel={channel!r} must be 'prin', 'all', 'res' or the index of a channel")
        return (np.zeros_like(weights) if channel == "res" else weights), channel != "prin"
    if isinstance(channel, bool) or not isinstance(channel, int | np.integer) or not 0 <= channel < count:
        raise OptionError(f"channel={channel!r} is out of range; there are {count} channels")
    weights[np.arange(count) != channel] = 0
    return weights, False


def _without_colors(weights: np.ndarray) -> np.ndarray:
    """Replace the colors (K, 3) by grays of the same strength."""
    strength = np.linalg.norm(weights, axis=1, keepdims=True)
    return np.repeat(strength / np.float32(np.sqrt(3)), 3, axis=1)


def _check_scale(scale: float | None) -> None:
    if scale is None:
        return
    try:
        valid = 0 < float(scale) < np.inf
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise OptionError(f"scale={scale!r} must be a positive number, or None to compute it from the channels")


def _check_residual(channels: np.ndarray, residual: np.ndarray | None, channel: str | int) -> np.ndarray | None:
    if residual is None:
        if isinstance(channel, str) and channel in ("all", "res"):
            raise OptionError(f"channel={channel!r} needs a residual")
        return None
    shape = channels.shape[:3]
    if np.shape(residual) not in (shape, (*shape, 1)):
        raise OptionError(f"residual has shape {np.shape(residual)}; expected {shape} or {(*shape, 1)}")
    return np.reshape(residual, shape)


@lru_cache(maxsize=32)
def _row_products(width: int) -> np.ndarray:
    """Return 8 matrices, concatenated to (w, 8 w), that convolve with rows 0 to 7 of the kernel, from its center on."""
    offset = np.arange(width)[None, :] - np.arange(width)[:, None] + KERNEL_RADIUS
    inside = (offset >= 0) & (offset <= 2 * KERNEL_RADIUS)
    below = kernel()[KERNEL_RADIUS:]
    bands = [np.where(inside, row[np.clip(offset, 0, 2 * KERNEL_RADIUS)], 0) for row in below]
    return np.concatenate(bands, axis=1).astype(np.float32)
