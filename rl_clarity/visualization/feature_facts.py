"""Statistics of features from their activations: how often they are active, which features are active together, and
examples.

A feature is active where it exceeds a fifth of its largest activation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.visualization.dataset_examples import NONE

ON = 0.2
"""A feature is active where it exceeds this share of its largest activation."""
EXAMPLES = 12
"""Number of examples of each kind."""
BINS = 24
"""Number of bins of a histogram."""
TOP = 100
"""Largest number of a feature's strongest observations on which other features are compared with it."""
NEAR = 16
"""Features overlap if they are active within a distance of the layer's size divided by this number, or within one
position if that is farther."""
TWINS = 0.5
"""Smallest overlap, in both directions, of features that count as twins."""


@dataclass(frozen=True)
class Selection:
    """Examples of K features, n of each: observations, or frames of trajectories."""

    places: (
        np.ndarray
    )  # (K, n, 2) observation and position; or (K, n, 3) trajectory, frame and position; NONE if absent
    strengths: np.ndarray  # (K, n) float32


@dataclass(frozen=True)
class FeatureFacts:
    """Statistics of K features on M observations."""

    strongest: np.ndarray  # (K,) float32: the strongest activation
    frames: np.ndarray  # (K,) share of observations in which the feature is active somewhere
    positions: np.ndarray  # (K,) share of the positions of all observations at which the feature is active
    histogram: np.ndarray  # (K, BINS) int32: observations by strongest activation, from 0 to `strongest`
    # (K, K): share of the row's strongest observations in which the column's feature is active, too
    overlap: np.ndarray
    examples: dict[str, Selection]
    """Observations with the strongest activations (`excites`), with activations around the median of the positive ones
    (`middle`), and with the weakest activations (`lowest`)."""

    @property
    def twins(self) -> list[list[int]]:
        """For each feature, the other features that overlap with it by at least `TWINS`, in both directions."""
        both = np.minimum(self.overlap, self.overlap.T) >= TWINS
        return [[int(k) for k in np.flatnonzero(row) if k != i] for i, row in enumerate(both)]


def feature_facts(activations: Callable[[int], np.ndarray], channels: int, episodes: np.ndarray) -> FeatureFacts:
    """Return statistics of features. `activations(k)` returns the activations (M, h, w) of a feature; `episodes` (M,)
    are the episodes of the observations.
    """
    count = len(episodes)
    peaks = np.zeros((channels, count), np.float32)
    places = np.zeros((channels, count), np.int32)
    positions = np.zeros(channels)
    width = 1
    for k in range(channels):
        values = activations(k)
        width = values.shape[2]
        flat = values.reshape(count, -1)
        places[k] = flat.argmax(axis=1)
        peaks[k] = flat[np.arange(count), places[k]]
        positions[k] = (flat > ON * peaks[k].max()).mean()
    strongest = peaks.max(axis=1)
    on = peaks > ON * strongest[:, None]
    histogram = [np.histogram(row, BINS, (0, top or 1))[0] for row, top in zip(peaks, strongest, strict=True)]
    examples = {
        name: Selection(*_observations(peaks, places, episodes, order))
        for name, order in (("excites", _strongest), ("middle", _middle), ("lowest", _weakest))
    }
    return FeatureFacts(
        strongest,
        on.mean(axis=1),
        positions,
        np.stack(histogram).astype(np.int32),
        _overlap(activations, peaks, places, width),
        examples,
    )


def frames_by_effect(
    totals: Sequence[np.ndarray], peaks: Sequence[np.ndarray], firsts: Sequence[np.ndarray] | np.ndarray
) -> dict[str, Selection]:
    """Return the frames in which each feature `raises` and `lowers` the output most, from different episodes.

    Args:
        totals: for each trajectory (T, K, 2), the total positive and negative attribution of each feature
        peaks: for each trajectory (T, K, 2), the positions of the largest and the smallest attribution of each feature
        firsts: for each trajectory (T,), whether a frame is the first of an episode
    """
    net = np.concatenate([total.sum(axis=-1) for total in totals])  # (frames, K)
    at = np.concatenate(list(peaks))
    begins = [np.array(first, bool) for first in firsts]
    for one in begins:
        one[:1] = True  # trajectories have different episodes
    episodes = np.cumsum(np.concatenate(begins))
    frames = np.concatenate([np.arange(len(first)) for first in firsts])
    trajectories = np.repeat(np.arange(len(firsts)), [len(first) for first in firsts])
    selections = {}
    for index, (name, sign) in enumerate((("raises", 1), ("lowers", -1))):
        places = np.full((net.shape[1], EXAMPLES, 3), NONE, np.int32)
        strengths = np.zeros((net.shape[1], EXAMPLES), np.float32)
        for k in range(net.shape[1]):
            chosen = from_different_episodes(_strongest(sign * net[:, k]), episodes, EXAMPLES)
            parts = (trajectories[chosen], frames[chosen], at[chosen, k, index])
            places[k, : len(chosen)] = np.stack(parts, axis=1)
            strengths[k, : len(chosen)] = net[chosen, k]
        selections[name] = Selection(places, strengths)
    return selections


def sign_shares(totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the shares (K, 2) of frames in which each feature's net attribution raises and lowers the output.

    Frames in which the magnitude is at most a fifth of its median count as neither. The limit depends on the median so
    that a few large values do not hide the others. `totals` are (T, K, 2) each.
    """
    net = np.concatenate([total.sum(axis=-1) for total in totals])
    limit = ON * np.median(np.abs(net), axis=0)
    return np.stack([(net > limit).mean(axis=0), (net < -limit).mean(axis=0)], axis=1)


def net_histogram(totals: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return histograms (K, BINS) int32 of frames by net attribution, and the magnitude (K,) at which the bins end."""
    net = np.concatenate([total.sum(axis=-1) for total in totals])
    limits = np.abs(net).max(axis=0, initial=0)
    counts = [np.histogram(row, BINS, (-limit or -1, limit or 1))[0] for row, limit in zip(net.T, limits, strict=True)]
    return np.stack(counts).astype(np.int32), limits.astype(np.float32)


def from_different_episodes(order: np.ndarray, episodes: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` entries of `order` (indices, best first) that are from different episodes.

    If there are too few episodes, each may occur twice, then three times, and so on.
    """
    ordered = episodes[order]
    by_episode = np.argsort(ordered, kind="stable")
    starts = np.searchsorted(ordered[by_episode], ordered[by_episode])
    turn = np.empty(len(order), int)  # number of previous occurrences of the episode
    turn[by_episode] = np.arange(len(order)) - starts
    chosen: np.ndarray = np.sort(np.argsort(turn, kind="stable")[:count])
    return np.asarray(order[chosen])


def _strongest(values: np.ndarray) -> np.ndarray:
    order = np.argsort(-values, kind="stable")
    return np.asarray(order[values[order] > 0])


def _weakest(values: np.ndarray) -> np.ndarray:
    return np.argsort(values, kind="stable")


def _middle(values: np.ndarray) -> np.ndarray:
    order = _strongest(values)
    return np.asarray(order[np.argsort(np.abs(np.arange(len(order)) - len(order) // 2), kind="stable")])


def _observations(
    peaks: np.ndarray, places: np.ndarray, episodes: np.ndarray, order: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return examples, chosen by `order`, as observations and positions (K, n, 2), strongest first, and their
    activations (K, n).
    """
    chosen_places = np.full((len(peaks), EXAMPLES, 2), NONE, np.int32)
    strengths = np.zeros((len(peaks), EXAMPLES), np.float32)
    for k, row in enumerate(peaks):
        chosen = from_different_episodes(order(row), episodes, EXAMPLES)
        chosen = chosen[np.argsort(-row[chosen], kind="stable")]
        chosen_places[k, : len(chosen)] = np.stack([chosen, places[k, chosen]], axis=1)
        strengths[k, : len(chosen)] = row[chosen]
    return chosen_places, strengths


def _overlap(activations: Callable[[int], np.ndarray], peaks: np.ndarray, places: np.ndarray, width: int) -> np.ndarray:
    """Return the share (K, K) of each feature's strongest observations in which another is active near the same
    position.
    """
    strongest = peaks.max(axis=1)
    top = [_strongest(row)[:TOP] for row in peaks]
    top = [row[peaks[k, row] > ON * strongest[k]] for k, row in enumerate(top)]
    overlap = np.zeros((len(peaks), len(peaks)))
    for k in range(len(peaks)):
        values = activations(k)
        for j, chosen in enumerate(top):
            if len(chosen) and strongest[k] > 0:
                near = _strongest_near(values[chosen], *np.divmod(places[j, chosen], width))
                overlap[j, k] = (near > ON * strongest[k]).mean()
    return overlap


def _strongest_near(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the largest value (n,) near one position in each of n maps (n, h, w); at least 0."""
    height, width = values.shape[1:]
    vertical, horizontal = (
        np.abs(np.arange(size) - at[:, None]) <= max(1, size // NEAR) for size, at in ((height, rows), (width, columns))
    )
    inside = vertical[:, :, None] & horizontal[:, None, :]
    return np.asarray(np.where(inside, values, 0).max(axis=(1, 2)))
