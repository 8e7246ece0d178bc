"""Attribution in one byte a value: signed square roots with a scale for each frame.

With the square root small values keep a relative precision of a few percent, which equal steps would lose next to one
large value. Close to 0 steps would become finer than anything that can be seen, and are what noise fills: values below
half of `SMALLEST` become 0, others below it `SMALLEST`. docs/page-format.md has the formula.
"""

from __future__ import annotations

import math

import numpy as np

from rl_clarity.errors import ClarityError

LEVELS = 127
SMALLEST = 9
"""The smallest code but 0: 1/199 of the frame's largest value. The error close to 0 is at most half of it, which is
less than a step of an 8-bit color."""


def quantize(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (B, h, w, n) int8 and scales (B,) float32, the largest magnitude of each frame."""
    values = np.asarray(values, np.float32)
    if not np.isfinite(values).all():
        frame = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ClarityError(f"the attribution of frame {frame} is not finite; check the agent's parameters for NaN")
    magnitude = np.abs(values)
    scales = magnitude.max(axis=tuple(range(1, values.ndim)), initial=0)
    divisor = np.where(scales > 0, scales, 1).reshape(-1, *[1] * (values.ndim - 1))
    # In place, because a segment of a large layer takes tens of megabytes.
    np.divide(magnitude, divisor, out=magnitude)
    np.sqrt(magnitude, out=magnitude)
    magnitude *= LEVELS
    small = magnitude < SMALLEST
    magnitude[small] = np.where(magnitude[small] < SMALLEST / math.sqrt(2), 0, SMALLEST)
    np.rint(magnitude, out=magnitude)
    np.copysign(magnitude, values, out=magnitude)
    return magnitude.astype(np.int8), scales


def dequantize(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return values (B, h, w, n) float32 of codes and scales: `sign(q) * (q / 127)^2 * scale`."""
    levels = codes.astype(np.float32) / LEVELS
    return np.asarray(levels * np.abs(levels) * scales.astype(np.float32).reshape(-1, *[1] * (codes.ndim - 1)))
