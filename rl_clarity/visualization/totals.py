"""What a frame's attribution comes to in each channel, and the frames in which a channel is strongest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NO_FRAME = -1


def channel_totals(channels: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
    """Sums (B, K + 1, 2) float32 over positions of the positive and the negative part (<= 0), the residual's last.

    `channels` (B, h, w, K) and `residual` (B, h, w) or (B, h, w, 1) are signed. Without a residual the result is
    (B, K, 2).
    """
    values = channels if residual is None else np.concatenate([channels, _as_channel(channels, residual)], axis=-1)
    parts = [part(values, 0).sum(axis=(1, 2), dtype=np.float64) for part in (np.maximum, np.minimum)]
    return np.stack(parts, axis=-1).astype(np.float32)


def mean_effects(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Mean contribution (K + 1,) of each channel over the frames of all trajectories' totals (T, K + 1, 2)."""
    return np.asarray(np.concatenate([one.sum(axis=-1) for one in totals]).mean(axis=0, dtype=np.float64))


def strongest_frames(
    strengths: Sequence[np.ndarray], count: int, apart: int = 16, positions: Sequence[np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The frames where each channel is strongest, at least `apart` steps from one another: one peak counts once.

    `strengths` holds a (T, K) array for each trajectory, `positions` maybe another with the position (row times the
    layer's width, plus column) where the channel is strongest. Returns trajectory, frame and position (K, count, 3)
    int32, strongest first, NO_FRAME where there is none, and the strengths (K, count) float32.
    """
    channels = strengths[0].shape[1]
    places = np.full((channels, count, 3), NO_FRAME, np.int32)
    values = np.zeros((channels, count), np.float32)
    for channel in range(channels):
        for slot, (trajectory, frame) in enumerate(_peaks([one[:, channel] for one in strengths], count, apart)):
            position = NO_FRAME if positions is None else positions[trajectory][frame, channel]
            places[channel, slot] = trajectory, frame, position
            values[channel, slot] = strengths[trajectory][frame, channel]
    return places, values


def _peaks(series: list[np.ndarray], count: int, apart: int) -> list[tuple[int, int]]:
    longest = max(len(one) for one in series)
    free = np.full((len(series), longest), -np.inf)
    for trajectory, one in enumerate(series):
        free[trajectory, : len(one)] = one
    peaks: list[tuple[int, int]] = []
    while len(peaks) < count and free.max() > 0:
        trajectory, frame = (int(index) for index in np.unravel_index(free.argmax(), free.shape))
        peaks.append((trajectory, frame))
        free[trajectory, max(0, frame - apart + 1) : frame + apart] = -np.inf
    return peaks


def _as_channel(channels: np.ndarray, residual: np.ndarray) -> np.ndarray:
    return np.reshape(residual, (*channels.shape[:3], 1))
