"""Frames, attribution and thumbnails of the made-up page, as numpy draws them."""

from __future__ import annotations

import numpy as np

SIDE = 64


def draw_frame(world: int, t: int) -> np.ndarray:
    """A side-scrolling landscape: sky, hills of brick, a coin, a small figure that jumps."""
    x = np.arange(SIDE) + t * 1.5 + world * 200
    ground = (44 + 7 * np.sin(x / 9) + 4 * np.sin(x / 4 + world)).astype(int)
    rows = np.arange(SIDE)[:, None]
    sky = np.array([(60, 110, 170), (48, 44, 60), (120, 170, 190), (30, 34, 44), (150, 110, 90)][world % 5])
    frame = np.broadcast_to(sky, (SIDE, SIDE, 3)) * (1 + rows[..., None] / 160)
    brick = np.where(((rows // 4 + (x.astype(int) // 6)) % 2)[..., None] == 0, (176, 122, 74), (156, 104, 60))
    frame = np.where((rows >= ground)[..., None], brick, frame)
    frame = np.where((rows == ground)[..., None], (236, 224, 196), frame)
    coin = int(170 - t * 1.5) % 120
    circle = (rows - ground[32] + 14) ** 2 + (np.arange(SIDE) - coin) ** 2
    frame = np.where((circle < 14)[..., None], (244, 200, 40), frame)
    top = ground[30] - 8 - int(8 * abs(np.sin(t / 7)))
    frame[max(0, top) : top + 7, 29:33] = (90, 200, 160)
    frame[max(0, top) : max(0, top) + 3, 29:33] = (240, 210, 180)
    return np.clip(frame, 0, 255).astype(np.uint8)


def drifting_blobs(rng: np.random.Generator, steps: int, side: int, depth: int, channels: int) -> np.ndarray:
    """Values (steps, side, side, depth): a positive and a negative blob a channel that drift, and a weak residual."""
    t = np.arange(steps)[:, None, None]
    y, x = np.ogrid[:side, :side]
    y, x = y / side, x / side
    values = np.zeros((steps, side, side, depth), np.float32)
    for k in range(channels):
        phase, speed = rng.random(6) * 6.28, 0.02 + rng.random() * 0.05
        for sign in (1, -1):
            cy = 0.5 + 0.36 * np.sin(speed * t + phase[0] + sign)
            cx = 0.5 + 0.38 * np.cos(speed * 0.8 * t + phase[1] + 2 * sign)
            size = 0.05 + 0.06 * rng.random()
            strength = np.maximum(0, 0.35 + np.sin(0.06 * t + phase[2] + sign)) * rng.random() * 0.02 * 64 / side**1.2
            column, row = (np.exp(-((at - center) ** 2) / (2 * size**2)) for at, center in ((y, cy), (x, cx)))
            values[..., k] += sign * strength * column * row
    if depth > channels:
        values[..., -1] = 0.1 * values[..., :channels].sum(-1) + rng.normal(size=(steps, 1, 1)) * 1e-4
    values[np.abs(values) < 1e-4] = 0
    return values


def to_codes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scales = np.abs(values).max(axis=(1, 2, 3))
    relative = values / np.where(scales > 0, scales, 1)[:, None, None, None]
    codes = np.round(np.sign(relative) * np.sqrt(np.abs(relative)) * 127)
    return codes.astype(np.int8), scales.astype(np.float32)


def hexagon_hues(count: int) -> np.ndarray:
    corners = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0, 0]], float)
    at = np.arange(count) * 6 / count
    low = at.astype(int)
    mixed = corners[low] * (1 - (at - low))[:, None] + corners[low + 1] * (at - low)[:, None]
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def hex_colors(hues: np.ndarray) -> list[str]:
    return ["#" + "".join(f"{round(255 * c / hue.max()):02x}" for c in hue) for hue in hues]


def grey_color(index: int, count: int) -> str:
    return "#" + f"{round(48 + index * 191 / (count - 1)):02x}" * 3


def draw_thumbnail(rng: np.random.Generator) -> np.ndarray:
    cells = [draw_frame(int(rng.integers(9, 14)), int(rng.integers(400)))[28:44, 20:36] for _ in range(16)]
    rows = [np.concatenate(cells[i : i + 4], axis=1) for i in range(0, 16, 4)]
    return np.concatenate(rows, axis=0)


def smooth_columns(noise: np.ndarray, width: int) -> np.ndarray:
    kernel = np.exp(-0.5 * (np.arange(-3 * width, 3 * width + 1) / width) ** 2)
    kernel /= kernel.sum()
    return np.stack([np.convolve(column, kernel)[3 * width :][: len(column)] for column in noise.T], 1)


def smooth_plane(noise: np.ndarray) -> np.ndarray:
    return smooth_columns(smooth_columns(noise, 2).T, 2).T
