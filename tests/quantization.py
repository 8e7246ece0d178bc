"""How exact quantized attribution is."""

from __future__ import annotations

import numpy as np

from rl_clarity.visualization.quantization import SMALLEST


def quantization_error(values: np.ndarray) -> np.ndarray:
    """Bound of the error of quantized values (n, h, w, K): half a step of their roots, and half of an equal step."""
    largest = np.abs(values).max(axis=(1, 2, 3), keepdims=True)
    half_step = 0.5 / 127
    error = 2 * half_step * np.sqrt(np.abs(values) * largest) + largest * (half_step**2 + 1e-5)
    return error + 2.001 * largest * (SMALLEST * half_step) ** 2
