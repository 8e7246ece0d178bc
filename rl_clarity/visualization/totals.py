"""Compute the total attribution of each channel, its peaks, and the decomposition of an output into contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

SPREAD = (0.1, 0.9)
"""Quantiles of a channel's net attribution over frames that bound its spread."""


def channel_totals(channels: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
    """Return the sums (B, K + 1, 2) float32 over positions of each channel's positive and negative parts.

    `channels` (B, h, w, K) and `residual` (B, h, w) or (B, h, w, 1) are signed. Sums of negative parts are at most 0.
    The residual is last; without a residual, the result is (B, K, 2).
    """
    values = channels
    if residual is not None:
        values = np.concatenate([channels, np.reshape(residual, (*channels.shape[:3], 1))], axis=-1)
    # Sum one axis after another, which takes half the time of both together.
    parts = [part(values, 0).sum(axis=1, dtype=np.float64).sum(axis=1) for part in (np.maximum, np.minimum)]
    return np.stack(parts, axis=-1).astype(np.float32)


def magnitudes(totals: np.ndarray) -> list[float]:
    """Sum the absolute values of totals (T, K + 1, 2) over all frames, and return two sums: over the features only, and
    over the features and the residual.
    """
    by_part = np.abs(totals).sum(axis=(0, 2), dtype=np.float64)
    return [float(by_part[:-1].sum()), float(by_part.sum())]


def peak_positions(channels: np.ndarray) -> np.ndarray:
    """Return the positions (B, K, 2) int32 of the largest and the smallest value of each channel of (B, h, w, K).

    A position is row times the width, plus column.
    """
    values = channels.reshape(len(channels), -1, channels.shape[-1])
    return np.stack([values.argmax(axis=1), values.argmin(axis=1)], axis=-1).astype(np.int32)


def output_decomposition(
    totals: np.ndarray, completeness: np.ndarray, memory: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Decompose an output into terms that add up to it.

    output = baseline + sum of features + residual + memory + completeness_error, each float64:

    - `baseline` (T,) is the output at the layer's baseline in the initial state
    - `features` (T, K) is the attribution to the features, and `residual` (T,) that to what the features omit
    - `memory` (T,) is the change of the output at the baseline when the initial state is replaced by the current one
    - `completeness_error` (T,) is the difference of the outputs at the activations and at the baseline, minus the sum
      of the attribution

    Args:
        totals: (T, K + 1, 2), as `channel_totals` returns them with a residual
        completeness: (T, 3): the sum of the unreduced attribution, the output minus that at the baseline, and the
            output
        memory: (T,), as above; None for agents without a recurrent state
    """
    net = totals.sum(axis=-1, dtype=np.float64)
    attribution, difference, output = np.asarray(completeness, np.float64).T
    from_state = np.zeros(len(net)) if memory is None else np.asarray(memory, np.float64)
    return {
        "baseline": output - difference - from_state,
        "features": net[:, :-1],
        "residual": net[:, -1],
        "memory": from_state,
        "completeness_error": difference - attribution,
        "output": output,
    }


def variance_share(decompositions: Sequence[Mapping[str, np.ndarray]]) -> float | None:
    """Return the share of an output's variance over all frames that features and residual together explain.

    It is 1 - var(output - features - residual) / var(output): 1 if their sum differs from the output by a constant, 0
    if it explains no more than a constant would, and negative if it explains less. None if the output does not vary.
    """
    output = np.concatenate([terms["output"] for terms in decompositions])
    unexplained = [terms["output"] - terms["features"].sum(axis=1) - terms["residual"] for terms in decompositions]
    variance = float(output.var())
    return 1 - float(np.concatenate(unexplained).var()) / variance if variance else None


UNEXPLAINED = ("baseline", "memory", "completeness_error")
"""Terms of a decomposition that are not attribution."""


def unexplained_shares(decompositions: Sequence[Mapping[str, np.ndarray]]) -> dict[str, float] | None:
    """Return the share of an output's variance over all frames that each of the terms `UNEXPLAINED` accounts for.

    The share of a term is its covariance with the sum of these terms, divided by the variance of the output. Negative
    shares offset others. Together with `variance_share`, they add up to 1. None if the output does not vary.
    """
    output = np.concatenate([terms["output"] for terms in decompositions])
    terms = {name: np.concatenate([terms[name] for terms in decompositions]) for name in UNEXPLAINED}
    variance, unexplained = float(output.var()), sum(terms.values())
    if not variance:
        return None
    centered = unexplained - np.mean(unexplained)
    return {name: float(np.mean((values - values.mean()) * centered)) / variance for name, values in terms.items()}


def mean_effects(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean net attribution (K + 1,) of each channel over all frames of trajectories.

    `totals` contains an array (T, K + 1, 2) for each trajectory, as `channel_totals` returns it.
    """
    return np.asarray(np.concatenate([frames.sum(axis=-1) for frames in totals]).mean(axis=0, dtype=np.float64))


def effect_spread(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the quantiles `SPREAD` (K + 1, 2) of each channel's net attribution over all frames.

    `totals` are as for `mean_effects`.
    """
    net = np.concatenate([frames.sum(axis=-1) for frames in totals])
    return np.asarray(np.quantile(net, SPREAD, axis=0).T, np.float64)
