"""Quantize attribution to one byte per value: signed square roots with a scale for each frame.

Large values have steps of a few percent, which uniform steps could not provide in frames with one large value. Near 0
the steps of a square root would be finer than visible and would only encode noise, so there the steps are uniform, as
large as the value of the code `SMALLEST`. docs/page-format.md has the formula.
"""

from __future__ import annotations

import numpy as np

from rl_clarity.base.errors import ClarityError

LEVELS = 127
SMALLEST = 9
"""The smallest code except 0. It stands for 1/199 of the frame's largest value, which is the size of uniform steps."""
STEPS = SMALLEST**2 // 4
"""Number of uniform steps. Beyond them the steps of the square root are larger."""
_PARTS = 16
"""Number of subdivisions of a code to which the square root is rounded before the nearest code is looked up."""


def written_codes() -> np.ndarray:
    """Return the magnitudes of the codes that are used: those of uniform steps, then all larger ones."""
    equal = np.rint(SMALLEST * np.sqrt(np.arange(STEPS + 1)))
    return np.concatenate([equal, np.arange(equal[-1] + 1, LEVELS + 1)]).astype(np.int8)


def _nearest_codes() -> np.ndarray:
    """Return the used code with the nearest value, for each subdivision of a code."""
    codes, roots = written_codes(), np.arange(LEVELS * _PARTS + 1) / _PARTS
    return codes[np.abs(roots[:, None] ** 2 - codes.astype(float) ** 2).argmin(axis=1)]


_NEAREST = _nearest_codes()


def quantize(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (B, h, w, n) int8, and the scale (B,) float32 of each frame, which is its largest magnitude."""
    values = np.asarray(values, np.float32)
    if not np.isfinite(values).all():
        frame = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ClarityError(f"the attribution of frame {frame} is not finite; check the agent's parameters for NaN")
    magnitude = np.abs(values)
    scales = magnitude.max(axis=tuple(range(1, values.ndim)), initial=0)
    divisor = np.where(scales > 0, scales, 1).reshape(-1, *[1] * (values.ndim - 1))
    # Compute in place, because a segment of a large layer takes tens of megabytes.
    np.divide(magnitude, divisor, out=magnitude)
    np.sqrt(magnitude, out=magnitude)
    magnitude *= LEVELS * _PARTS
    np.rint(magnitude, out=magnitude)
    codes = _NEAREST[magnitude.astype(np.int16)]
    np.negative(codes, out=codes, where=values < 0)
    return codes, scales


def dequantize(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the values (B, h, w, n) float32 of codes and scales: `sign(q) * (q / 127)^2 * scale`."""
    levels = codes.astype(np.float32) / LEVELS
    return np.asarray(levels * np.abs(levels) * scales.astype(np.float32).reshape(-1, *[1] * (codes.ndim - 1)))
