"""PyTorch's layers in NumPy: arrays (B, C, H, W), PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


def windows(x: np.ndarray, size: int, stride: int, padding: int, value: float = 0) -> np.ndarray:
    """(B, C, h, w, size, size)."""
    around = (padding, padding)
    padded = np.pad(x, ((0, 0), (0, 0), around, around), constant_values=value)
    sliding: Any = np.lib.stride_tricks.sliding_window_view  # NumPy 1 has no overload for several axes
    return sliding(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


def conv(x: np.ndarray, p: Arrays, name: str, stride: int = 1, padding: int = 0) -> np.ndarray:
    weight = p[f"{name}.weight"].astype(np.float64)
    patches = windows(x, weight.shape[-1], stride, padding)
    return np.einsum("bchwij,ocij->bohw", patches, weight) + p[f"{name}.bias"][:, None, None]


def max_pool(x: np.ndarray) -> np.ndarray:
    return windows(x, 3, 2, 1, -np.inf).max(axis=(-2, -1))


def dense(x: np.ndarray, p: Arrays, name: str) -> np.ndarray:
    return x.reshape(len(x), -1) @ p[f"{name}.weight"].astype(np.float64).T + p[f"{name}.bias"]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gates(x: np.ndarray, h: np.ndarray, p: Arrays, name: str, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    from_input = x @ p[f"{name}.weight_ih{suffix}"].T + p[f"{name}.bias_ih{suffix}"]
    from_state = h @ p[f"{name}.weight_hh{suffix}"].T + p[f"{name}.bias_hh{suffix}"]
    return from_input, from_state


def lstm(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, p: Arrays, name: str, suffix: str = "_l0"
) -> tuple[np.ndarray, np.ndarray]:
    from_input, from_state = _gates(x, h, p, name, suffix)
    i, f, g, o = np.split(from_input + from_state, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(x: np.ndarray, h: np.ndarray, p: Arrays, name: str, suffix: str = "_l0") -> np.ndarray:
    (xr, xz, xn), (hr, hz, hn) = (np.split(part, 3, axis=1) for part in _gates(x, h, p, name, suffix))
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * h


def nature(x: np.ndarray, p: Arrays, prefix: str) -> np.ndarray:
    for i, stride in enumerate((4, 2, 1)):
        x = relu(conv(x, p, f"{prefix}.{2 * i}", stride))
    return x


def impala(
    x: np.ndarray, p: Arrays, block: str, start: int, residuals: tuple[str, ...], convs: tuple[str, ...]
) -> np.ndarray:
    for i in range(3):
        name = block.format(i + start)
        x = max_pool(conv(x, p, f"{name}.conv", 1, 1))
        for residual in residuals:
            y = x
            for conv_name in convs:
                y = conv(relu(y), p, f"{name}.{residual}.{conv_name}", 1, 1)
            x = x + y
    return relu(x)
