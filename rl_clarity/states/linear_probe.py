"""Linear probes: ridge regression on held-out episodes, with scores by episode.

For classes, indicators are regressed on features, and a step is assigned to the class whose mean prediction is nearest,
so that rare classes count as much as frequent ones (optimal scoring; Hastie, Tibshirani and Buja, 1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.statistics import resampled_interval
from rl_clarity.states.labels import Label

FOLDS = 5
PENALTIES = (1e-4, 1e-2, 1e-1, 1.0, 10.0)
"""Ridge penalties to choose from, as multiples of the mean variance of a feature."""
MOST_FEATURES = 256
"""If there are more features than this, they are replaced by this many principal components."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The n steps that are probed."""

    rows: np.ndarray  # (n,) rows of the data
    episodes: np.ndarray  # (n,)
    time: np.ndarray  # (n,)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of a probe for steps of episodes that it was not fitted on."""

    predictions: np.ndarray  # (n,) values of the label
    correct: np.ndarray  # classes: (E, K) numbers of correct steps; numbers: (E, 1) minus the squared error
    total: np.ndarray  # classes: (E, K) numbers of steps; numbers: (E, 1) squared error of the training episodes' mean
    is_number: bool

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Return scores (R,) of R resamples of the episodes. `weights` (R, E) counts each episode in each resample.

        For classes, the score is the mean over classes of the share of correct steps (balanced accuracy). For a numeric
        label, it is R2: 1 - (squared error) / (squared error of the mean).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = (weights @ self.correct) / (weights @ self.total)
            return np.asarray(1 + shares[:, 0] if self.is_number else np.nanmean(shares, axis=1))

    @property
    def score(self) -> float:
        return float(self.scores(np.ones((1, len(self.total))))[0])

    def interval(self, seed: int) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of the score over episodes."""
        return resampled_interval(len(self.total), self.scores, np.random.default_rng(seed))

    def gain(self, other: HeldOut, seed: int) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of the score minus that of another probe at the same steps."""
        rng = np.random.default_rng(seed)
        return resampled_interval(len(self.total), lambda weights: self.scores(weights) - other.scores(weights), rng)


def compressed(features: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Reduce features (n, d) to at most `MOST_FEATURES` principal components (n, k).

    Also return the orthonormal basis (k, d) of the components, or None if there are at most `MOST_FEATURES` features,
    which are returned unchanged.
    """
    rows = np.asarray(features.reshape(len(features), -1), np.float32)
    if rows.shape[1] <= MOST_FEATURES:
        return rows.astype(np.float64), None
    from sklearn.utils.extmath import randomized_svd

    rows = rows - rows.mean(axis=0)
    count = min(MOST_FEATURES, len(rows))
    _, _, basis = randomized_svd(rows, count, n_iter=2, random_state=seed)
    return np.asarray(rows @ basis.T, np.float64), np.asarray(basis)


def fold_numbers(episodes: np.ndarray, seed: int) -> np.ndarray:
    """Return the cross-validation fold (n,) of each row. All rows of an episode are in the same fold."""
    distinct, index = np.unique(episodes, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return np.asarray(order[index] % min(FOLDS, len(distinct)))


def held_out(features: np.ndarray, label: Label, episodes: np.ndarray, folds: np.ndarray) -> HeldOut:
    """Predict a label in each fold with a probe that is fitted on the other folds. All values of the label must be
    known.
    """
    return next(_probes(features, label, np.arange(len(features))[None], episodes, folds))


def permuted_scores(
    features: np.ndarray, label: Label, orders: np.ndarray, episodes: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    """Return the scores (P,) of probes of permuted labels. In probe p, row i has the label of row `orders[p, i]`."""
    return np.array([probe.score for probe in _probes(features, label, orders, episodes, folds)])


def _probes(
    features: np.ndarray, label: Label, orders: np.ndarray, episodes: np.ndarray, folds: np.ndarray
) -> Iterator[HeldOut]:
    """Yield the predictions of P probes. In probe p, row i has the label of row `orders[p, i]`."""
    predicted, means = _predict(features, np.swapaxes(label.targets[orders], 0, 1), folds)  # (n, P, C)
    place = np.unique(folds, return_inverse=True)[1]
    index = np.unique(episodes, return_inverse=True)[1]
    count = int(index.max()) + 1
    for p, order in enumerate(orders):
        values, here = label.values[order], predicted[:, p]
        if label.classes is None:
            decided = here[:, 0]
            errors = -np.square(values - decided), np.square(values - means[place, p, 0, 0])
            sums = [np.bincount(index, one, count)[:, None] for one in errors]
        else:
            distance = np.square(here[:, None] - means[place, p]).sum(axis=-1)  # (n, K)
            decided = label.classes[np.where(np.isnan(distance), np.inf, distance).argmin(axis=-1)]
            of_class = values[:, None] == label.classes
            hits = of_class & (decided == values)[:, None]
            sums = [np.stack([np.bincount(index, one, count) for one in part.T], axis=1) for part in (hits, of_class)]
        yield HeldOut(decided, sums[0], sums[1], label.classes is None)


def weights(features: np.ndarray, label: Label, penalty: float = 1e-2) -> np.ndarray:
    """Return the weights (d, C) of a probe that is fitted on all rows."""
    x, y = features - features.mean(axis=0), label.targets - label.targets.mean(axis=0)
    gram = x.T @ x
    gram += (penalty * np.trace(gram) / len(gram) + 1e-12) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, x.T @ y))


def _predict(features: np.ndarray, targets: np.ndarray, folds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions (n, P, C) of targets (n, P, C) on held-out rows, and means for each of F folds.

    The means are over the rows that the probe was fitted on: for classes, the mean prediction at the steps of each
    class, (F, P, K, C); for numbers, the mean target, (F, P, 1, 1).

    The penalty is the one with the smallest error on the next fold, for the first of the P targets. The next fold is
    left out of the fits that are compared. With only two folds, the penalty is fixed.
    """
    n, count, size = targets.shape
    flat = targets.reshape(n, -1)
    present = np.unique(folds)
    predictions, means = np.empty((n, count * size)), np.empty((len(present), count, size, size))
    for i, fold in enumerate(present):
        test, after = folds == fold, folds == present[(i + 1) % len(present)]
        penalty = PENALTIES[1]
        if len(present) > 2:
            inner = ~(test | after)
            errors = [
                np.square(fitted[:, :size] - flat[after][:, :size]).sum()
                for fitted in _ridge(features[inner], flat[inner][:, :size], [features[after]], PENALTIES)
            ]
            penalty = PENALTIES[int(np.argmin(errors))]
        fit = ~test
        (both,) = _ridge(features[fit], flat[fit], [features[test], features[fit]], (penalty,))
        predictions[test] = both[: test.sum()]
        if size == 1:
            means[i] = flat[fit].mean(axis=0).reshape(count, 1, 1)
        else:
            fitted = both[test.sum() :].reshape(-1, count, size)
            totals = np.moveaxis(targets[fit], 0, -1) @ np.swapaxes(fitted, 0, 1)  # (P, K, C)
            with np.errstate(divide="ignore", invalid="ignore"):
                means[i] = totals / targets[fit].sum(axis=0)[..., None]
    return predictions.reshape(targets.shape), means


def _ridge(x: np.ndarray, y: np.ndarray, at: list[np.ndarray], penalties: tuple[float, ...]) -> Iterator[np.ndarray]:
    """Fit a ridge regression of y on x with each penalty, and yield its predictions for the rows of all arrays in
    `at`, concatenated.
    """
    origin, mean = x.mean(axis=0), y.mean(axis=0)
    values, vectors = np.linalg.eigh((x - origin).T @ (x - origin))
    onto = vectors.T @ ((x - origin).T @ (y - mean))
    rows = (np.concatenate(at) - origin) @ vectors
    for penalty in penalties:
        damped = np.maximum(values, 0) + penalty * max(values.mean(), 1e-12)
        yield rows @ (onto / damped[:, None]) + mean
