"""Choose hues for channels and grays for actions.

The hues are those of Lucid's `rl_util` (Hilton et al., Understanding RL Vision, 2020): evenly spaced on the hexagon of
primary and secondary colors and of equal L2 norm, so that attribution of equal strength looks equally strong.
"""

from __future__ import annotations

import numpy as np

_CORNERS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]], np.float64)
_CORNERS /= np.linalg.norm(_CORNERS, axis=1, keepdims=True)
_DARKEST, _LIGHTEST = 3 / 16, 15 / 16
_CANDIDATES = 96
"""Number of evenly spaced hues from which further hues are chosen."""


def hue_to_rgb(degrees: np.ndarray) -> np.ndarray:
    """Return unit-norm colors (n, 3) at angles (n,): red 0, yellow 60, green 120, cyan 180, blue 240, magenta 300."""
    sextant = np.asarray(degrees, np.float64) % 360 / 60
    corner = np.floor(sextant).astype(int) % 6
    fraction = sextant - np.floor(sextant)
    # Primaries are the even corners. Warp the fraction so that hues move away from red, green and blue quickly: these
    # occupy more of the perceived circle.
    from_primary = np.where(corner % 2 == 0, fraction, 1 - fraction)
    secondary = np.sin(np.pi / 2 * from_primary)
    next_corner = np.where(corner % 2 == 0, secondary, 1 - secondary)[:, None]
    rgb = (1 - next_corner) * _CORNERS[corner] + next_corner * _CORNERS[(corner + 1) % 6]
    return np.asarray(rgb / np.linalg.norm(rgb, axis=1, keepdims=True))


def channel_hues(channels: int) -> np.ndarray:
    """Return hues (K, 3) float32 of unit L2 norm."""
    return hue_to_rgb(360 * np.arange(channels) / channels).astype(np.float32)


def extended_hues(hues: np.ndarray, channels: int) -> np.ndarray:
    """Extend hues (k, 3) to hues (K, 3) float32. Each added hue differs most from the hues before it."""
    candidates = channel_hues(_CANDIDATES)
    chosen = np.asarray(hues, np.float32)[:channels]
    while len(chosen) < channels:
        distances = np.linalg.norm(candidates[:, None] - chosen, axis=2).min(axis=1)
        chosen = np.concatenate([chosen, candidates[[distances.argmax()]]])
    return chosen


def input_hues(channels: int) -> np.ndarray:
    """Return hues (C, 3) float32 of the channels of an observation: red, green, blue; gray for a single channel."""
    if channels == 1:
        return np.full((1, 3), 1 / np.sqrt(3), np.float32)
    return channel_hues(channels)


def page_colors(hues: np.ndarray) -> list[str]:
    """Return the hues (K, 3) at full brightness, as `#rrggbb`."""
    return [_to_hex(hue / hue.max()) for hue in np.asarray(hues, np.float64)]


def action_colors(actions: int) -> list[str]:
    """Return evenly spaced grays, dark to light, as `#rrggbb`."""
    return [_to_hex(np.full(3, gray)) for gray in np.linspace(_DARKEST, _LIGHTEST, actions)]


def _to_hex(rgb: np.ndarray) -> str:
    return "#" + "".join(f"{int(level):02x}" for level in np.round(rgb * 255))
