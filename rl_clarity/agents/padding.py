"""Batches of few shapes, so that a function is compiled once or twice."""

from __future__ import annotations

import numpy as np


def padded_size(count: int, size: int, least: int) -> int:
    """A power of two from `least` on, at most `size`: few shapes to compile for, little waste on a few observations."""
    return min(size, max(least, 1 << max(count - 1, 0).bit_length()))


def pad(array: np.ndarray, size: int) -> np.ndarray:
    """The array with zeros after it, `size` rows in all."""
    array = np.asarray(array)
    if len(array) == size:
        return array
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])
