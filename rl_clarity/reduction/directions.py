"""`rl_clarity.fit_directions` finds directions in the space of recurrent states.

A state h (H,) is standardized with the mean and scale of the states that the directions are fitted to, and written as a
combination of D directions, the rows of `basis` (D, H). Methods that do not standardize states use a different origin
as `mean`, such as the minimum, and a scale of 1.

    s = ((h - mean) / scale) pinv(basis),    h ~ mean + scale (s basis).

For every method, coordinates s are those of the nearest point in the span of the directions (least squares).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.methods import REDUCTIONS, Reduction
from rl_clarity.reduction.nmf import ChannelReduction
from rl_clarity.reduction.pairs import pair_directions
from rl_clarity.reduction.stability import matched_similarity

CLASSIFIER = "classifier"
PAIRS = "pairs"
"""Methods in addition to those in `REDUCTIONS`. `classifier` also needs labels; `pairs` also needs the states without
an object."""
FEWEST_STATES = 4
FIT_ROWS = 20_000
"""Largest number of rows that directions are fitted to. If there are more, a random subset is used."""
FIT_NUMBERS = 50_000_000
"""Largest number of values in these rows (400 MB). For example, 2,500 rows are used if states have 20,000 units."""
CHECK_ROWS = 5_000
"""To measure stability, fits with other seeds use every n-th row, where n = max(1, rows // CHECK_ROWS)."""
HELD_OUT = 0.25
"""Share of the rows on which a classifier is tested."""
MAX_ITERATIONS = 500
RARE_STATES, RARE_SHARE = 0.02, 0.5
"""A direction is rare if fewer than 2 % of the states account for more than half of its coordinate's variance."""
WIDE = 512
"""Largest number of units for which the covariance matrix is computed."""
SMALLEST_SCALE = 0.01
"""Smallest scale of a dimension, as a share of the largest scale. Without it, dimensions that hardly vary would be
amplified: a small change of the state would change them by many standard deviations."""
SMALLEST_VARIANCE = 1e-3
"""Independent components are made of principal components with at least this share of the largest one's variance.
Otherwise, components would be almost linearly dependent, and collapsing one during play would change others by a large
multiple."""


@dataclass(frozen=True, eq=False)
class Directions:
    """D directions in the space of states (H,), and the mean and scale that standardize states."""

    mean: np.ndarray  # (H,)
    scale: np.ndarray  # (H,): above 0
    basis: np.ndarray  # (D, H): directions of standardized states
    method: str = "pca"
    names: tuple[str, ...] = ()
    """A name for each direction; by default its index, counted from 0."""
    seed_stability: np.ndarray | None = None  # (D,)
    """Mean |cosine| with the matching directions of fits with other seeds, from 0 to 1."""
    half_stability: np.ndarray | None = None  # (D,)
    """Mean |cosine| with the matching directions of fits to each half of the data, from 0 to 1."""
    fits: np.ndarray | None = None  # (D, 4)
    """The |cosines| that the stabilities average: two for fits with other seeds, then two for fits to the halves."""
    explained: np.ndarray | None = None  # (D,)
    """For principal components, the share of the variance of standardized states; for pairs, the share of the squared
    differences."""
    auc: np.ndarray | None = None  # (D,)
    """For classifiers, the area under the ROC curve on held-out data."""
    rare: np.ndarray | None = None  # (D,) bool
    """Whether fewer than 2 % of the states account for more than half of the coordinate's variance; None if unknown."""
    range: np.ndarray | None = None  # (2, H)
    """Lowest and highest value of each unit in the states; None if unknown."""
    dropped: int = 0
    """Number of rows that were excluded from the fit as outliers."""

    def __post_init__(self) -> None:
        mean, scale = (np.asarray(values, np.float64) for values in (self.mean, self.scale))
        basis = np.asarray(self.basis, np.float64)
        if basis.ndim != 2 or mean.shape != basis.shape[1:] or scale.shape != mean.shape:
            raise OptionError(
                f"mean {mean.shape}, scale {scale.shape} and basis {basis.shape} must be (H,), (H,) and (D, H)"
            )
        if not (all(np.isfinite(values).all() for values in (mean, scale, basis)) and (scale > 0).all()):
            raise OptionError("mean, scale and basis must be finite, and scale above 0")
        for name, values in (("mean", mean), ("scale", scale), ("basis", basis)):
            object.__setattr__(self, name, values)
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(len(basis)))))

    def __len__(self) -> int:
        return len(self.basis)

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """(D, H): change of a state when a coordinate grows by 1."""
        return self.scale * self.basis

    @functools.cached_property
    def readout(self) -> np.ndarray:
        """(H, D): gradient of each coordinate with respect to the state."""
        return np.linalg.pinv(self.basis) / self.scale[:, None]

    def to(self, states: np.ndarray) -> np.ndarray:
        """Return coordinates (..., D) of states (..., H)."""
        return np.asarray((self._checked(states) - self.mean) @ self.readout)

    def back(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the states (..., H) with coordinates (..., D)."""
        return np.asarray(self.mean + np.asarray(coordinates, np.float64) @ self.vectors)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient (..., D) with respect to coordinates, from the gradient (..., H) with respect to the
        state.

        The chain rule for `back`: df/ds = df/dh (scale basis)^T.
        """
        return np.asarray(self._checked(gradient) @ self.vectors.T)

    def rare_last(self, states: np.ndarray) -> Directions:
        """Return the directions with `rare` measured on states (N, H), and with rare directions moved to the end."""
        deviations = self.to(states)
        deviations = np.sort((deviations - deviations.mean(axis=0)) ** 2, axis=0)
        few = int(np.ceil(RARE_STATES * len(states))) - 1
        rare = deviations[len(states) - few :].sum(axis=0) > RARE_SHARE * deviations.sum(axis=0)
        order = np.argsort(rare, kind="stable")
        measured = {
            name: values[order]
            for name in ("seed_stability", "half_stability", "fits", "explained", "auc")
            if (values := getattr(self, name)) is not None
        }
        numbered = self.names == tuple(map(str, range(len(self))))
        names = () if numbered else tuple(self.names[i] for i in order)
        return dataclasses.replace(self, basis=self.basis[order], names=names, rare=rare[order], **measured)

    @property
    def stability(self) -> np.ndarray:
        """(D,): the smaller of `seed_stability` and `half_stability`, or NaN if they were not measured."""
        parts = [part for part in (self.seed_stability, self.half_stability) if part is not None]
        return np.min(parts, axis=0) if parts else np.full(len(self), np.nan)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that defines the directions, as arrays by name, for `Directions.from_arrays`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Directions:
        """Restore directions from the result of `arrays`."""
        plain: dict[str, Any] = dict(arrays)
        texts = {"method": str(plain["method"]), "names": tuple(map(str, plain["names"]))}
        return cls(**{**plain, **texts, "dropped": int(plain["dropped"])})

    def _checked(self, states: np.ndarray) -> np.ndarray:
        states = np.asarray(states, np.float64)
        if states.shape[-1:] != self.mean.shape:
            raise OptionError(f"states of shape {states.shape} must be (..., {len(self.mean)}), like those of the fit")
        return states


def fitted_rows(rows: int, units: int) -> int:
    """Return the number of rows to which directions are fitted, for `rows` states with `units` values each."""
    return min(rows, FIT_ROWS, max(FEWEST_STATES, FIT_NUMBERS // units))


def fit_directions(
    states: np.ndarray,
    method: str = "ica",
    count: int | float = 16,
    seed: int = 0,
    *,
    labels: Mapping[str, np.ndarray] | np.ndarray | None = None,
    without: np.ndarray | None = None,
    others: np.ndarray | None = None,
    outliers: float | None = None,
    episodes: np.ndarray | None = None,
    stability: bool = True,
) -> Directions:
    """Fit directions to recurrent states (N, H), or to a layer's activations.

    The same states, options and seed give the same directions. The number of directions is at most the number of
    dimensions of states.

    - `pca`: principal components of standardized states, orthonormal.
    - `ica`: independent components: FastICA (Hyvärinen 1999, "Fast and robust fixed-point algorithms for independent
      component analysis") of the first `count` principal components, whitened. Coordinates have unit variance, and the
      least Gaussian ones come first, with a positive skewness.
    - `nmf`: non-negative factors of states minus their minimum; `nmf_positive`: of the positive part of states.
    - `units`: the units of the state with the largest variance.
    - `classifier`: a logistic regression for each of `labels`; the coordinate is its logit without the bias, and `auc`
      measures how well it separates held-out states, the last quarter of the rows.
    - `pairs`: directions of what `states` contain and `without` does not, such as an object (see
      `rl_clarity.object_pairs`). They are orthonormal. Along them, the differences are large relative to the rows of
      `others`, which should not change. `Ablate(layer, component=directions.vectors, signed=True)` removes them.

    States are standardized, with a scale of at least 1 % of the largest scale, except for `nmf`, `nmf_positive` and
    `pairs`. `ica` has fewer than `count` components if fewer principal components have at least 0.1 % of the variance
    of the largest component.

    Stability is measured by fits with two other seeds, and to the first and the second half of the rows. Directions are
    matched one to one, so that the sum of the |cosines| of `vectors` is largest.

    Args:
        states: Finite numbers, in the order of time if they have one. Of an array on disk, only the rows that are used
            are read.
        method: `pca`, `ica`, `nmf`, `nmf_positive`, `units`, `classifier`, `pairs`, or any other name in `REDUCTIONS`.
        count: Number of directions. A number below 1, for `pca` and `ica`, is a share of the variance: the fewest
            principal components with this share are used. `classifier` has a direction for each label instead.
        seed: Seed of the choice of rows, and of the fit.
        labels: (N,) true or false for each state, or several such arrays by name. Only for `classifier`.
        without: (N, H), each state without the object that the directions stand for. Only for `pairs`.
        others: (M, H), differences and states that should not change. Only for `pairs`.
        outliers: Leave out states whose distance to the nearest other state is more than this multiple of the median of
            these distances. `Directions.dropped` is the number of these states.
        episodes: (N,) the episode number of each state, in order. The halves then have no episode in common if there
            are several episodes.
        stability: Whether to measure the stability, by four further fits.

    Raises:
        OptionError: The states are not finite, too few or constant, or an option is out of range.
    """
    if method not in (*REDUCTIONS, CLASSIFIER, PAIRS):
        raise OptionError(f"method={method!r} must be one of {', '.join((*REDUCTIONS, CLASSIFIER, PAIRS))}")
    if np.ndim(states) != 2 or len(states) < FEWEST_STATES:
        raise OptionError(
            f"states have the shape {np.shape(states)}; (N, H) with at least {FEWEST_STATES} states is needed"
        )
    is_share = isinstance(count, float) and 0 < count < 1
    if not is_share and (isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1):
        raise OptionError(f"count={count!r} must be a positive integer, or a share of the variance below 1")
    if is_share and not (method in REDUCTIONS and REDUCTIONS.get(method).shares):
        raise OptionError(f"count={count!r}: a share of the variance needs method='pca' or 'ica', not {method!r}")
    named = _named_labels(labels, len(states))
    if (method == CLASSIFIER) != bool(named):
        raise OptionError(f"method={method!r}: 'classifier' needs labels=, and the other methods do not take labels=")
    _check_pairs(method, np.shape(states), without, others)
    if episodes is not None and np.shape(episodes) != (len(states),):
        raise OptionError(f"episodes= has the shape {np.shape(episodes)}; ({len(states)},) is needed")
    chosen = np.arange(len(states))
    used = fitted_rows(*np.shape(states))
    if len(chosen) > used:
        chosen = np.sort(np.random.default_rng(seed).choice(len(states), used, replace=False))
    rows = np.asarray(states[chosen], np.float64)
    if not np.isfinite(rows).all():
        raise OptionError("states must be finite numbers")
    kept = np.ones(len(rows), bool) if outliers is None else _inliers(rows, outliers)
    rows, named = rows[kept], {name: values[chosen][kept] for name, values in named.items()}
    if without is not None:
        rows = rows - np.asarray(without[chosen][kept], np.float64)

    def fit(part: slice, fit_seed: int, amount: int | float) -> Directions:
        if method == PAIRS:
            vectors, shares = pair_directions(rows[part], int(amount), others)
            return Directions(np.zeros(rows.shape[1]), np.ones(rows.shape[1]), vectors, PAIRS, explained=shares)
        selected = {name: values[part] for name, values in named.items()}
        if not _standardized(rows[part])[3].any():
            raise OptionError("the states are all the same, so they have no directions")
        if method == CLASSIFIER:
            return _fit_classifiers(rows[part], selected)
        return dataclasses.replace(REDUCTIONS.get(method).fit(rows[part], amount, fit_seed), method=method)

    directions = fit(slice(None), seed, count)
    dropped = int(len(kept) - kept.sum())
    ends = np.stack([rows.min(axis=0), rows.max(axis=0)])
    directions = dataclasses.replace(directions, range=ends, dropped=dropped)
    if not stability:
        return directions
    middle = len(rows) // 2
    if episodes is not None:
        begins = np.flatnonzero(np.diff(np.asarray(episodes)[chosen][kept])) + 1
        middle = int(begins[np.abs(begins - middle).argmin()]) if len(begins) else middle
    fits = _similarities(directions, fit, len(rows), middle, seed)
    seeds, halves = fits[:, :2].mean(axis=1), fits[:, 2:].mean(axis=1)
    return dataclasses.replace(directions, seed_stability=seeds, half_stability=halves, fits=fits)


def _similarities(
    directions: Directions, fit: Callable[[slice, int, int | float], Directions], rows: int, middle: int, seed: int
) -> np.ndarray:
    """Return the |cosine| (D, 4) of each direction with its match in two fits with other seeds, and in fits to the rows
    before `middle` and from `middle` on.
    """

    def similarity(part: slice, other_seed: int) -> np.ndarray:
        try:
            other = fit(part, other_seed, len(directions))
        except OptionError:  # a half may be constant, or have labels of one kind only
            return np.zeros(len(directions))
        return matched_similarity(directions.vectors, other.vectors, absolute=True)

    step = max(1, rows // CHECK_ROWS)
    seeds = [similarity(slice(None, None, step), seed + i) for i in (1, 2)]
    halves = [similarity(part, seed) for part in (slice(0, middle), slice(middle, None))]
    return np.stack([*seeds, *halves], axis=1)


def _standardized(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean and scale (H,) of rows (N, H), the standardized rows, and which dimensions (H,) vary."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    varies = scale > 1e-9 * max(1.0, float(np.abs(rows).max()))
    scale = np.where(varies, np.maximum(scale, SMALLEST_SCALE * scale.max()), 1.0)
    return mean, scale, np.where(varies, (rows - mean) / scale, 0.0), varies


def _fit_pca(rows: np.ndarray, count: int | float, seed: int) -> Directions:
    mean, scale, standardized, _ = _standardized(rows)
    shares, axes = _principal_components(standardized, count, seed)
    return Directions(mean, scale, axes, explained=shares)


def _fit_ica(rows: np.ndarray, count: int | float, seed: int) -> Directions:
    mean, scale, standardized, _ = _standardized(rows)
    shares, axes = _principal_components(standardized, count, seed)
    axes = axes[shares >= SMALLEST_VARIANCE * shares[0]]
    components = standardized @ axes.T
    deviations = components.std(axis=0)
    unmixing = _independent_components(components / deviations, seed)  # (D, D), orthogonal
    return Directions(mean, scale, unmixing @ (deviations[:, None] * axes))


def _fit_units(rows: np.ndarray, count: int, seed: int) -> Directions:
    mean, scale, _, varies = _standardized(rows)
    order = np.argsort(-np.where(varies, rows.std(axis=0), -1), kind="stable")[: min(count, int(varies.sum()))]
    basis = np.zeros((len(order), rows.shape[1]))
    basis[np.arange(len(order)), order] = 1
    return Directions(mean, scale, basis, names=tuple(f"unit {i}" for i in order))


def _fit_nmf(rows: np.ndarray, count: int, seed: int) -> Directions:
    return _non_negative_factors(rows, rows.min(axis=0), count, seed)


def _fit_nmf_positive(rows: np.ndarray, count: int, seed: int) -> Directions:
    return _non_negative_factors(rows, np.zeros(rows.shape[1]), count, seed)


def _non_negative_factors(rows: np.ndarray, origin: np.ndarray, count: int, seed: int) -> Directions:
    """Factorize the positive part of rows minus an origin (H,), at which the coordinates of the directions are 0."""
    reduction = ChannelReduction.fit(
        np.maximum(rows - origin, 0).astype(np.float32), count, seed, max_rows=None, random_start=seed > 0
    )
    used = reduction.components[np.any(reduction.components > 0, axis=1)]
    if not len(used):
        raise OptionError("the states have no positive values: use method='nmf'")
    return Directions(origin, np.ones(rows.shape[1]), used)


PCA = Reduction("PCA", _fit_pca, shares=True)
ICA = Reduction("ICA", _fit_ica, shares=True)
NMF = Reduction("NMF", _fit_nmf, non_negative=True)
NMF_POSITIVE = Reduction("NMF", _fit_nmf_positive, non_negative=True)
UNITS = Reduction("unit", _fit_units, non_negative=True)


def _principal_components(standardized: np.ndarray, count: int | float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of the variance (K,) and the axes (K, H) of the first components. The largest weight of each
    axis is positive.

    There are `count` components, or as many as have that share of the variance. With more than `WIDE` units, they come
    from a randomized SVD, which does not need the large covariance matrix; if `count` is a share, at most `WIDE`
    components are computed.
    """
    if standardized.shape[1] > WIDE:
        from sklearn.utils.extmath import randomized_svd

        most = min(len(standardized), WIDE if isinstance(count, float) else count)
        _, sizes, axes = randomized_svd(standardized, most, n_iter=4, random_state=seed)
        values, variance = np.square(sizes) / len(standardized), np.square(standardized).sum() / len(standardized)
    else:
        covariance = standardized.T @ standardized / len(standardized)
        (values, vectors), variance = np.linalg.eigh(covariance), np.trace(covariance)
        values, axes = values[::-1], vectors.T[::-1]
    used = values > 1e-10 * values[0]
    values, axes = values[used], axes[used]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    shares = values / variance
    number = int(np.searchsorted(np.cumsum(shares), count - 1e-12) + 1) if isinstance(count, float) else count
    return shares[:number], (axes * signs[:, None])[:number]


def _independent_components(whitened: np.ndarray, seed: int) -> np.ndarray:
    """Return the rotation (D, D) of whitened rows (n, D) to independent components."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    count = whitened.shape[1]
    start = np.linalg.qr(np.random.default_rng(seed).normal(size=(count, count)))[0]
    with warnings.catch_warnings():
        # ignore warnings, because the stability shows how reliable a component is
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = FastICA(whiten=False, w_init=start, max_iter=MAX_ITERATIONS, tol=1e-5).fit(whitened)
    rotation = np.asarray(fitted.components_)
    sources = whitened @ rotation.T
    kurtosis = (sources**4).mean(axis=0) - 3
    signs = np.where((sources**3).mean(axis=0) < 0, -1.0, 1.0)
    order = np.argsort(-np.abs(kurtosis), kind="stable")
    return (signs[:, None] * rotation)[order]


def _fit_classifiers(rows: np.ndarray, labels: Mapping[str, np.ndarray]) -> Directions:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    mean, scale, standardized, _ = _standardized(rows)
    end = round(len(standardized) * (1 - HELD_OUT))
    weights, areas = [], []
    for name, values in labels.items():
        if not all(0 < values[part].mean() < 1 for part in (slice(0, end), slice(end, None))):
            raise OptionError(
                f"labels={name!r} are the same for all states in the first {1 - HELD_OUT:.0%} of the rows, or in the "
                "rest; both parts must have some true and some false labels"
            )
        fitted = LogisticRegression(max_iter=MAX_ITERATIONS).fit(standardized[:end], values[:end])
        weights.append(fitted.coef_[0])
        areas.append(roc_auc_score(values[end:], standardized[end:] @ fitted.coef_[0]))
    # Coordinates are the logits: the pseudoinverse of the basis is the matrix of weights.
    basis = np.linalg.pinv(np.array(weights)).T
    return Directions(mean, scale, basis, CLASSIFIER, tuple(labels), auc=np.array(areas))


def _named_labels(labels: Mapping[str, np.ndarray] | np.ndarray | None, count: int) -> dict[str, np.ndarray]:
    if labels is None:
        return {}
    named = {str(k): v for k, v in labels.items()} if isinstance(labels, Mapping) else {"label": labels}
    arrays = {name: np.asarray(values) for name, values in named.items()}
    for name, values in arrays.items():
        if values.shape != (count,) or not np.isin(values, (0, 1)).all():
            raise OptionError(
                f"labels={name!r} have the shape {values.shape}, but {count} values that are true or false are needed"
            )
    return {name: values.astype(bool) for name, values in arrays.items()}


def _check_pairs(method: str, shape: tuple[int, ...], without: np.ndarray | None, others: np.ndarray | None) -> None:
    if (method == PAIRS) != (without is not None) or (method != PAIRS and others is not None):
        raise OptionError(
            f"method={method!r}: 'pairs' needs without=, and the other methods take neither without= nor others="
        )
    for name, array, rows in (("without", without, shape[0]), ("others", others, None)):
        if array is None:
            continue
        if np.ndim(array) != 2 or np.shape(array)[1] != shape[1] or rows not in (None, len(array)):
            raise OptionError(f"{name}= has the shape {np.shape(array)}; ({rows or 'M'}, {shape[1]}) is needed")
        if not np.isfinite(array).all():
            raise OptionError(f"{name}= must be finite numbers")


def _inliers(rows: np.ndarray, factor: float) -> np.ndarray:
    """Return which rows (n,) have another row within `factor` times the median distance to the nearest row."""
    from sklearn.neighbors import NearestNeighbors

    if not factor >= 1:
        raise OptionError(f"outliers={factor!r} must be at least 1, because it is a multiple of the median distance")
    distances = NearestNeighbors(n_neighbors=1).fit(rows).kneighbors()[0][:, 0]
    return np.asarray(distances <= factor * np.median(distances))
