"""Correlate coordinates of a state with later ones, and compare the correlation with influence.

In all matrices (D, D), entry [i, j] relates coordinate i at a step t to coordinate j at step t + lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError

LEVEL = 0.05
"""Confidence intervals, and the ranges of null distributions, cover 1 - LEVEL."""


@dataclass(frozen=True)
class Consistency:
    """How often influence and correlation have the same sign, for each of L lags (and K clusters)."""

    share: np.ndarray  # (..., L): share of the compared entries with the same sign; NaN if no entry is large enough
    null: np.ndarray  # (..., L, 2): bounds between which 95 % of the shares lie after random permutations
    p: np.ndarray  # (..., L): p-value, the share of permutations that agree at least as often
    count: np.ndarray  # (..., L): number of compared entries


def lagged_correlation(s: np.ndarray, lags: Sequence[int], by: np.ndarray | None = None) -> np.ndarray:
    """Return the correlation (L, D, D) of coordinate i at t with coordinate j at t + lag.

    This is Pearson's correlation, centered and scaled over the pairs of steps that are used, or 0 if a coordinate does
    not vary.

    Args:
        s: (N, T, D) coordinates of N sequences of T steps; steps with NaN, such as those after an episode's end, are
            left out
        lags: L numbers of steps, from 0 to T - 1
        by: cluster labels of the sequences (N,) or of the steps (N, T). The result is then (K, L, D, D), in the order
            of the sorted labels: correlations within each cluster. A pair belongs to the cluster of its earlier step.

    Raises:
        OptionError: The shape of `s` or `by` is invalid, there are no lags, or a lag is out of range.
    """
    values, labels = _checked(s, lags, by)
    groups = [None] if labels is None else list(np.unique(labels))
    result = np.stack(
        [[_correlation(_moments(values, lag, labels, group).sum(axis=0)) for lag in lags] for group in groups]
    )
    return result[0] if labels is None else result


def correlation_intervals(
    s: np.ndarray,
    lags: Sequence[int],
    by: np.ndarray | None = None,
    *,
    resamples: int = 200,
    seed: int = 0,
) -> np.ndarray:
    """Return 95 % percentile bootstrap intervals (L, D, D, 2) or (K, L, D, D, 2) of `lagged_correlation`.

    Sequences are resampled instead of steps, because the steps of a sequence are not independent.
    """
    values, labels = _checked(s, lags, by)
    groups = [None] if labels is None else list(np.unique(labels))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=resamples)

    def interval(group: Any, lag: int) -> np.ndarray:
        moments = _moments(values, lag, labels, group)  # (N, M)
        drawn = np.stack([_correlation(count @ moments) for count in counts])
        return np.moveaxis(np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2], axis=0), 0, -1)

    result = np.stack([[interval(group, lag) for lag in lags] for group in groups])
    return result[0] if labels is None else result


def consistency(
    influence: np.ndarray,
    correlation: np.ndarray,
    permutations: int = 200,
    seed: int = 0,
    *,
    threshold: float = 0.0,
    sequences: np.ndarray | None = None,
    lags: Sequence[int] = (),
) -> Consistency:
    """Return how often entries of influence and correlation, both (L, D, D) or (K, L, D, D), have the same sign.

    Only entries off the diagonal are counted, because a coordinate that changes slowly is always correlated with
    itself. Entries that are 0 are not counted, because they have no sign. The null distribution is the distribution of
    the share when different coordinates are unrelated. With `sequences`, it comes from correlations of coordinates
    after the sequences are permuted for each coordinate separately, which preserves how each coordinate changes over
    time. Without `sequences`, the entries of the influence are permuted, which assumes that entries are independent.

    Args:
        influence: as `rl_clarity.influence` returns it.
        correlation: as `lagged_correlation` returns it.
        sequences: (N, T, D) coordinates of at least 2 sequences, such as episodes, from which the correlation was
            computed, for matrices (L, D, D).
        lags: Lags of the L matrices; required with `sequences`.
        permutations: Number of permutations.
        seed: Seed of the permutations.
        threshold: Count only entries whose magnitude is at least this share of the largest one, in both matrices.

    Raises:
        OptionError: The shapes differ, or an option is out of range.
    """
    first, second = np.asarray(influence, np.float64), np.asarray(correlation, np.float64)
    if first.shape != second.shape or first.ndim < 3:
        raise OptionError(f"influence {first.shape} and correlation {second.shape} must have the same shape (L, D, D)")
    if permutations < 1 or not 0 <= threshold <= 1:
        raise OptionError(f"permutations={permutations} must be positive, and threshold={threshold} from 0 to 1")
    if sequences is not None and (first.ndim != 3 or len(lags) != len(first) or len(sequences) < 2):
        raise OptionError(
            f"sequences need matrices (L, D, D), as many lags as matrices, and at least 2 sequences; got influence "
            f"{first.shape}, lags={list(lags)} and {len(sequences)} sequences"
        )
    rng = np.random.default_rng(seed)
    unrelated = None if sequences is None else _unrelated(sequences, lags, permutations, rng)
    shape = first.shape[:-2]
    different = ~np.eye(first.shape[-1], dtype=bool).ravel()
    share, p, count = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, np.int64)
    null = np.full((*shape, 2), np.nan)
    for index in np.ndindex(*shape):
        a, b = first[index].ravel(), second[index].ravel()
        large = [np.abs(x) >= threshold * np.nanmax(np.abs(x), initial=0) for x in (a, b)]
        used = large[0] & large[1] & (a * b != 0) & np.isfinite(a * b) & different
        count[index] = used.sum()
        if not used.any():
            continue
        signs, others = np.sign(a[used]), np.sign(b[used])
        share[index] = np.mean(signs == others)
        if unrelated is None:
            orders = np.array([np.mean(rng.permutation(signs) == others) for _ in range(permutations)])
        else:
            orders = np.array([np.mean(signs == np.sign(one.ravel()[used])) for one in unrelated[:, index[0]]])
        null[index] = np.quantile(orders, [LEVEL / 2, 1 - LEVEL / 2])
        p[index] = (1 + (orders >= share[index] - 1e-12).sum()) / (1 + permutations)
    return Consistency(share, null, p, count)


def _unrelated(sequences: np.ndarray, lags: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """Return lagged covariances (count, L, D, D) of coordinates (N, T, D) whose sequences are permuted for each
    coordinate separately.
    """
    values = sequences - np.nanmean(sequences, axis=(0, 1))
    values = np.nan_to_num(values / np.maximum(np.nanstd(values, axis=(0, 1)), 1e-12))
    coordinates = np.arange(values.shape[2])
    result = np.empty((count, len(lags), len(coordinates), len(coordinates)))
    for permuted in result:
        orders = np.stack([rng.permutation(len(values)) for _ in coordinates], axis=1)  # (N, D)
        mixed = values[orders[:, None], np.arange(values.shape[1])[None, :, None], coordinates]
        for matrix, lag in zip(permuted, lags, strict=True):
            earlier, later = mixed[:, : mixed.shape[1] - lag], mixed[:, lag:]
            matrix[:] = np.tensordot(earlier, later, axes=((0, 1), (0, 1)))
    return result


def _checked(s: np.ndarray, lags: Sequence[int], by: Any) -> tuple[np.ndarray, np.ndarray | None]:
    values = np.asarray(s, np.float64)
    if values.ndim != 3:
        raise OptionError(f"s has the shape {values.shape}; expected (N, T, D), for N sequences of T steps")
    wrong = [lag for lag in lags if isinstance(lag, bool) or lag != int(lag) or not 0 <= lag < values.shape[1]]
    if wrong or not len(lags):
        raise OptionError(
            f"lags={list(lags)} must be from 0 to {values.shape[1] - 1}, less than the length of the sequences"
        )
    if by is None:
        return values, None
    labels = np.asarray(by)
    if labels.shape == values.shape[:1]:
        labels = np.repeat(labels[:, None], values.shape[1], axis=1)
    if labels.shape != values.shape[:2]:
        raise OptionError(f"by has the shape {labels.shape}; expected {values.shape[:1]} or {values.shape[:2]}")
    return values, labels


def _moments(values: np.ndarray, lag: int, labels: np.ndarray | None, group: Any) -> np.ndarray:
    """Return sums over the pairs of steps of each sequence, (N, 1 + 4 D + D D): the number of pairs, then sums of
    values, of squares, and of products.

    Values are standardized over all sequences first, for the precision of sums of squares. Coordinates that do not vary
    become 0.
    """
    center, scale = np.nanmean(values, axis=(0, 1)), np.nanstd(values, axis=(0, 1))
    varies = scale > 1e-9 * np.abs(center)
    values = (values - center) / np.where(varies, scale, np.inf)
    earlier, later = values[:, : values.shape[1] - lag], values[:, lag:]
    valid = np.isfinite(earlier).all(axis=2) & np.isfinite(later).all(axis=2)
    if labels is not None:
        valid &= labels[:, : values.shape[1] - lag] == group
    a, b = (np.where(valid[..., None], part, 0) for part in (earlier, later))
    sums = [valid.sum(axis=1, keepdims=True), a.sum(axis=1), b.sum(axis=1), (a * a).sum(axis=1), (b * b).sum(axis=1)]
    products = np.einsum("nti,ntj->nij", a, b, optimize=True).reshape(len(values), -1)
    return np.concatenate([*sums, products], axis=1)


def _correlation(moments: np.ndarray) -> np.ndarray:
    """Return the correlations (D, D) from summed moments (1 + 4 D + D D,)."""
    dimensions = round((len(moments) + 3) ** 0.5) - 2
    count, rest = moments[0], moments[1:]
    if count < 2:
        return np.zeros((dimensions, dimensions))
    first, second, first_squares, second_squares = rest[: 4 * dimensions].reshape(4, dimensions) / count
    products = rest[4 * dimensions :].reshape(dimensions, dimensions) / count
    variances = np.outer(first_squares - first**2, second_squares - second**2)
    deviations = np.sqrt(np.maximum(variances, 0))
    covariance = products - np.outer(first, second)
    return np.divide(covariance, deviations, out=np.zeros_like(covariance), where=deviations > 1e-9)
