"""Measure how well explanations predict the measured effects of objects.

The sum of a signed map over the box of an object predicts how much the object changes an output; `ObjectEffects` has
the measured change. Predictions that do not depend on the agent (edges, nearness to the center, the number of pixels)
are controls, which an explanation has to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.analyses.attribution.saliency import head_columns
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import JsonObject, to_plain
from rl_clarity.base.statistics import resampled_interval
from rl_clarity.recordings.object_effects import ObjectEffects

SHARE_OF_RANGE = 0.05
"""Signs are compared only for effects above this share of the output's range."""
MARGIN = 1 / 32
"""Margin around an object's box, as a share of the observation. Convolutions spread the attribution of an object beyond
its box: sums over the box and a margin of 2 of 64 pixels predict effects better than sums over the box alone, or over
the pixels that the object changes (CoinRun, layer 2b: correlations .87, .74 and .46)."""
FEWEST = 3
"""Smallest number of objects for an estimate."""
CONTROLS = {"edges": "edges (Sobel)", "center": "nearness to the center", "pixels": "number of pixels"}
"""Predictions that do not depend on the agent, with their labels."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % bootstrap interval over episodes; NaN if too little was measured."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TypeAgreement:
    """How well predictions agree with the measured effects of the objects of one type."""

    count: int
    """Number of objects."""
    large: int
    """Number of objects whose effect has a magnitude above the threshold."""
    correlation: Estimate
    """Pearson's correlation of the predictions with the changes of the output."""
    signs: Estimate
    """Share of correct signs among the effects above the threshold."""
    magnitudes: Estimate
    """Spearman's rank correlation of the magnitudes of predictions and changes."""


@dataclass(frozen=True)
class Agreement(TypeAgreement):
    """How well predictions agree with the effects of all objects, and of those of each type."""

    episodes: int
    threshold: float
    """Magnitude of an effect, in the output's unit, above which signs are compared."""
    by_type: Mapping[str, TypeAgreement]

    def to_dict(self) -> JsonObject:
        """Return the agreement as JSON values, with None for NaN."""
        plain: JsonObject = to_plain(self, finite=True)
        return plain

    @classmethod
    def from_dict(cls, values: JsonObject) -> Agreement:
        """Return the agreement for values that `to_dict` returned."""
        types = {name: TypeAgreement(**_estimates(one)) for name, one in values["by_type"].items()}
        return cls(**{**_estimates(values), "by_type": types})


@dataclass(frozen=True)
class EffectSample:
    """The effects of N objects on one output, and the M steps in which they were measured."""

    effects: ObjectEffects
    change: np.ndarray  # (N,): output with the object minus that without
    threshold: float
    observations: np.ndarray  # (M, H, W, C)
    state: State
    step: np.ndarray  # (N,): index of each object's step among the M

    @classmethod
    def for_output(cls, agent: Agent, effects: ObjectEffects, output: str | int = "value") -> EffectSample:
        """Return the effects on one output: "value", an action's logit (given by its index), or the logit of the best
        action ("greedy").

        Signs are compared for effects above 5 % of the output's range over the M steps. The threshold needs no
        allowance for noise: in a world that can be edited exactly, removing an object that is not seen does not change
        the frame, and has an effect of 0.

        Raises OptionError for an output that the agent does not have.
        """
        places = np.stack([effects.episode, effects.step], axis=1)
        _, first, step = np.unique(places, axis=0, return_index=True, return_inverse=True)
        step = step.ravel()
        observations = effects.with_object[first]
        state = None if effects.state is None else tuple(part[first] for part in effects.state)
        results, columns = head_columns(agent.forward(observations, state))
        actions = results[:, : next(iter(columns.values()))]
        if output == "value" and columns.keys() & {"values", "q_values"}:
            outputs, change = results[:, -1] if "values" in columns else actions.max(axis=1), effects.value_change
        elif output == "greedy" or output in range(actions.shape[1]):
            chosen = actions.argmax(axis=1) if output == "greedy" else np.full(len(actions), output)
            outputs = actions[np.arange(len(actions)), chosen]
            change = effects.logits_change[np.arange(len(effects)), chosen[step]]
        else:
            raise OptionError(
                f"output {output!r} must be 'greedy', an action from 0 to {actions.shape[1] - 1}, or 'value' for an "
                "agent that has a value"
            )
        threshold = SHARE_OF_RANGE * float(np.ptp(outputs))
        return cls(effects, np.asarray(change, np.float64), threshold, observations, state, step)

    @property
    def usual_sign(self) -> float:
        """Sign (1 or -1) of most effects above the threshold. Predictions without a sign get this sign."""
        large = self.change[np.abs(self.change) > self.threshold]
        return -1.0 if (large < 0).sum() > len(large) / 2 else 1.0

    def predictions(self, maps: np.ndarray) -> np.ndarray:
        """Return predictions (N,): the sums of maps (M, h, w) over the boxes of the objects.

        If no map has negative values, the predictions get the `usual_sign`.
        """
        sums = self.sums(maps)
        return sums if (maps < 0).any() else self.usual_sign * sums

    def sums(self, maps: np.ndarray) -> np.ndarray:
        """Return the sums (N,) of signed maps (M, h, w) in the box of each object; see `box_sums`."""
        return box_sums(maps, self.step, self.effects.box, self.observations.shape[1:3])

    def controls(self) -> dict[str, np.ndarray]:
        """Return predictions (N,) that do not depend on the agent, by the keys of `CONTROLS`.

        They are magnitudes without a sign, and get the `usual_sign`.
        """
        height, width = self.observations.shape[1:3]
        left, top, right, bottom = self.effects.box.T
        x = np.clip((left + right) / 2 / width, 0, 1) - 0.5
        y = np.clip((top + bottom) / 2 / height, 0, 1) - 0.5
        magnitudes = {
            "edges": self.sums(sobel(self.observations)),
            "center": 1 - np.hypot(x, y),
            "pixels": self.effects.mask.sum(axis=(1, 2)).astype(np.float64),
        }
        return {name: self.usual_sign * values for name, values in magnitudes.items()}

    def agreement(self, predictions: np.ndarray, seed: int = 0) -> Agreement:
        """Return how well predictions (N,) agree with the changes in the output. `seed` seeds the bootstrap."""
        return compare(predictions, self.change, self.effects.type, self.effects.episode, self.threshold, seed)


def box_sums(maps: np.ndarray, step: np.ndarray, box: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the sums (N,) of signed maps over the box of each object and a margin around it.

    Each cell of a map is weighted by the share of its area that lies in the box or its margin.

    Args:
        maps: (M, h, w), of any resolution
        step: (N,) index of each object's map
        box: (N, 4) left, top, right, bottom in pixels of the observation
        shape: (H, W) of the observation
    """
    left, top, right, bottom = (box / [shape[1], shape[0], shape[1], shape[0]]).T
    rows = _overlap(top - MARGIN, bottom + MARGIN, maps.shape[1])
    columns = _overlap(left - MARGIN, right + MARGIN, maps.shape[2])
    return np.asarray(np.einsum("ni,nij,nj->n", rows, np.asarray(maps, np.float64)[step], columns, optimize=True))


def compare(
    predictions: np.ndarray,
    change: np.ndarray,
    types: np.ndarray,
    episodes: np.ndarray,
    threshold: float,
    seed: int = 0,
) -> Agreement:
    """Return how well predictions (N,) agree with the changes (N,) of an output that N objects cause.

    `types` and `episodes` (N,) contain the type and the episode of each object. `threshold` is the magnitude of a
    change above which signs are compared. `seed` is the seed of the bootstrap.
    """

    def agreement(chosen: np.ndarray) -> TypeAgreement:
        x, y, episode = np.asarray(predictions, np.float64)[chosen], change[chosen], episodes[chosen]
        large = np.abs(y) > threshold
        right = (np.sign(x) == np.sign(y))[large].astype(np.float64)
        return TypeAgreement(
            len(y),
            int(large.sum()),
            _correlation(x, y, episode, seed),
            _share(right, episode[large], seed),
            _correlation(_ranks(np.abs(x)), _ranks(np.abs(y)), episode, seed),
        )

    names, counts = np.unique(types, return_counts=True)
    by_type = {str(name): agreement(types == name) for name in names[np.argsort(-counts, kind="stable")]}
    whole = agreement(np.full(len(change), True))
    return Agreement(**vars(whole), episodes=len(np.unique(episodes)), threshold=threshold, by_type=by_type)


def sobel(observations: np.ndarray) -> np.ndarray:
    """Return the magnitudes (M, H, W) of the gradient of the mean over channels, by Sobel's operator."""
    from scipy.ndimage import correlate1d

    gray = np.asarray(observations, np.float32).mean(axis=-1)
    slopes = [correlate1d(correlate1d(gray, [-1, 0, 1], a), [1, 2, 1], b) for a, b in ((1, 2), (2, 1))]
    return np.asarray(np.hypot(*slopes))


def _overlap(low: np.ndarray, high: np.ndarray, cells: int) -> np.ndarray:
    """Return the share (n, cells) of each cell of an axis from 0 to 1 that lies between `low` and `high` (n,)."""
    edges = np.arange(cells + 1) / cells
    overlap = np.minimum(high[:, None], edges[1:]) - np.maximum(low[:, None], edges[:-1])
    return np.asarray(np.clip(overlap, 0, None) * cells)


def _estimates(values: JsonObject) -> JsonObject:
    """Return the fields of an agreement, with each estimate read from its JSON values and NaN in place of null."""
    return {
        name: Estimate(**{key: np.nan if number is None else number for key, number in value.items()})
        if name in ("correlation", "signs", "magnitudes")
        else value
        for name, value in values.items()
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), np.float64)


def _correlation(x: np.ndarray, y: np.ndarray, episode: np.ndarray, seed: int) -> Estimate:
    """Return Pearson's correlation. For rank correlation, x and y are ranks, which are not recomputed in resamples."""
    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Estimate(np.nan, np.nan, np.nan)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    moments = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def correlation(sums: np.ndarray) -> np.ndarray:
        n, sx, sy, sxx, syy, sxy = np.moveaxis(sums, -1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((n * sxy - sx * sy) / np.sqrt((n * sxx - sx**2) * (n * syy - sy**2)))

    return _bootstrap(moments, episode, correlation, seed)


def _share(right: np.ndarray, episode: np.ndarray, seed: int) -> Estimate:
    if len(right) < FEWEST:
        return Estimate(np.nan, np.nan, np.nan)
    return _bootstrap(
        np.stack([np.ones_like(right), right], axis=1), episode, lambda sums: sums[..., 1] / sums[..., 0], seed
    )


def _bootstrap(
    moments: np.ndarray, episode: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], seed: int
) -> Estimate:
    """Return a statistic of sums of moments (n, k), with its percentile bootstrap interval over episodes (n,).

    For a single episode, the interval is (NaN, NaN).
    """
    value = float(statistic(moments.sum(axis=0)))
    _, index = np.unique(episode, return_inverse=True)
    count = int(index.max()) + 1
    sums = np.zeros((count, moments.shape[1]))
    np.add.at(sums, index, moments)
    interval = resampled_interval(count, lambda drawn: statistic(drawn @ sums), np.random.default_rng(seed))
    return Estimate(value, *interval)
