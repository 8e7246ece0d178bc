"""Total attribution of each channel, where it is largest, and the account of an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

SPREAD = (0.1, 0.9)
"""Quantiles of a channel's net attribution over frames, between which its spread lies."""


def channel_totals(channels: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
    """Return sums (B, K + 1, 2) float32 over positions of the positive and the negative part (<= 0), the residual last.

    `channels` (B, h, w, K) and `residual` (B, h, w) or (B, h, w, 1) are signed. Without a residual the result is
    (B, K, 2).
    """
    values = channels
    if residual is not None:
        values = np.concatenate([channels, np.reshape(residual, (*channels.shape[:3], 1))], axis=-1)
    # One axis after another, which takes half the time of both together.
    parts = [part(values, 0).sum(axis=1, dtype=np.float64).sum(axis=1) for part in (np.maximum, np.minimum)]
    return np.stack(parts, axis=-1).astype(np.float32)


def magnitudes(totals: np.ndarray) -> list[float]:
    """Sums of magnitudes over frames and positions of totals (T, K + 1, 2): of the features, and of all parts."""
    by_part = np.abs(totals).sum(axis=(0, 2), dtype=np.float64)
    return [float(by_part[:-1].sum()), float(by_part.sum())]


def peak_positions(channels: np.ndarray) -> np.ndarray:
    """Return the positions (B, K, 2) int32 of the largest and the smallest value of each channel of (B, h, w, K).

    A position is row times the width, plus column.
    """
    values = channels.reshape(len(channels), -1, channels.shape[-1])
    return np.stack([values.argmax(axis=1), values.argmin(axis=1)], axis=-1).astype(np.int32)


def output_account(totals: np.ndarray, gap: np.ndarray, memory: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return the parts that an output is the sum of, float64: baseline + features + rest + memory + gap = output.

    `baseline` (T,) is the output at the layer's baseline in the initial state, `features` (T, K) and `rest` (T,) are
    attribution, `memory` (T,) is what the state changes at the baseline, and `gap` (T,) what the attribution misses.

    Args:
        totals: (T, K + 1, 2), as `channel_totals` returns them with a residual
        gap: (T, 3): sum of the unreduced attribution, s(a) less s at the baseline, and s(a)
        memory: (T,); None without a recurrent state
    """
    net = totals.sum(axis=-1, dtype=np.float64)
    attribution, difference, output = np.asarray(gap, np.float64).T
    from_state = np.zeros(len(net)) if memory is None else np.asarray(memory, np.float64)
    return {
        "baseline": output - difference - from_state,
        "features": net[:, :-1],
        "rest": net[:, -1],
        "memory": from_state,
        "gap": difference - attribution,
        "output": output,
    }


def variance_share(accounts: Sequence[Mapping[str, np.ndarray]]) -> float | None:
    """Return the share of an output's variance over all frames that features and rest together account for.

    It is 1 - var(output - features - rest) / var(output): 1 if they differ from the output by a constant, 0 if they say
    no more than a constant, and below 0 if less. None if the output does not vary.
    """
    output = np.concatenate([one["output"] for one in accounts])
    left = [one["output"] - one["features"].sum(axis=1) - one["rest"] for one in accounts]
    variance = float(output.var())
    return 1 - float(np.concatenate(left).var()) / variance if variance else None


def mean_effects(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean (K + 1,) of each channel over the frames of all trajectories; totals are (T, K + 1, 2) each."""
    return np.asarray(np.concatenate([frames.sum(axis=-1) for frames in totals]).mean(axis=0, dtype=np.float64))


def effect_spread(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the quantiles `SPREAD` (K + 1, 2) of each channel over all frames; totals are as for `mean_effects`."""
    net = np.concatenate([frames.sum(axis=-1) for frames in totals])
    return np.asarray(np.quantile(net, SPREAD, axis=0).T, np.float64)
