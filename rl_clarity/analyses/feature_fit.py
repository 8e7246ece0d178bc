"""Fit the features of a layer: choose the observations and the number of features, and measure how much of the
attribution they cover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.capabilities import parallel_calls
from rl_clarity.agents.protocol import State
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution import attribute
from rl_clarity.analyses.attribution.baselines import (
    Baseline,
    ExpectedBaseline,
    draw,
    mean_activations,
    median,
    used_baseline,
)
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.analyses.given_components import given_components, numbered
from rl_clarity.analyses.layers import PageLayer, PathOptions, ReductionOptions, is_inputs
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.progress import Report
from rl_clarity.base.threads import prefetch
from rl_clarity.jobs.tasks import slices
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.matching import MatchedFeature
from rl_clarity.reduction.stability import stability
from rl_clarity.visualization.dataset_examples import Examples

MEDIAN_OBSERVATIONS = 1024
"""Maximum number of observations from which the baseline `median` is computed."""
ERROR_OBSERVATIONS = 128
"""Number of observations on which errors and coverage are measured."""
FIT_POSITIONS = 2**20
"""Number of positions, over all observations, from which a fit draws its rows."""
COVERAGE_POSITIONS = 2**15
"""Number of positions, over all observations, on which coverage is measured."""


@dataclass(frozen=True)
class LayerFeatures:
    """The channel reduction of a layer, its errors, and the dataset examples of its features."""

    reduction: ChannelReduction
    error: float
    """Relative reconstruction error on observations that the reduction was fitted to."""
    fitted_on: int
    """Number of observations that the reduction was fitted to."""
    error_held_out: float | None
    """Error on held-out observations, or None if there are none."""
    grids: Mapping[float, tuple[Examples, ...]]
    """By density, a grid of dataset examples for each feature."""
    starts: np.ndarray | None = None
    """Activations (n, h, w, c) at the baseline, if it depends on the observations that the reduction was fitted to."""
    next_feature: float = 0.0
    """Increase in the covered share of the attribution with one more feature."""
    side_weights: tuple[float, float] = (1.0, 0.0)
    """Attribution per unit of activation above and below 0, relative to the larger of the two."""
    stability: np.ndarray | None = None
    """Similarity (K,) of each component to its counterparts in fits with different seeds; not stored."""
    errors: np.ndarray | None = None
    """Error (K,) at the positions where each feature is the strongest, on held-out observations if any; not stored."""
    matches: list[MatchedFeature | None] | None = None
    """For each feature (K), the same feature on the page of `features.match`, if there is one; not stored."""

    def baseline(self, name: str) -> Baseline:
        """Return the baseline with the given name, in the form that `integrated_gradients` accepts.

        A baseline that depends on the observations of the fit is returned as the stored activations, any other baseline
        as its name.
        """
        return _baseline(name, self.starts)

    def strengths(self, activations: np.ndarray) -> np.ndarray:
        """Return the strength of each feature (..., K), at least 0, for activations (..., c) of the layer.

        Activations below 0, which occur after a residual sum, count by their magnitude, weighted by how much
        attribution they get compared with those above 0. The weight is 0 if only a ReLU follows.
        """
        above, below = self.side_weights
        magnitude = np.maximum(activations, 0)
        if below:
            magnitude = above * magnitude + below * np.maximum(-activations, 0)
        return self.reduction.transform(magnitude)


def divide_observations(options: ReductionOptions, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the observations that the reduction is fitted to, and of the held-out ones.

    Both are evenly distributed; by default every tenth observation is held out.
    """
    ends = np.floor(np.arange(1, count + 1) * options.held_out)
    apart = np.diff(ends, prepend=0) > 0
    if options.held_out and not apart.any() and count > 1:
        apart[-1] = True
    rest, others = np.flatnonzero(~apart), np.flatnonzero(apart)
    return _spread(rest, options.fit_observations or count), others


def _spread(indices: np.ndarray, count: int) -> np.ndarray:
    """Return at most `count` of the indices, at even distances."""
    return indices[np.linspace(0, len(indices) - 1, min(len(indices), count)).round().astype(int)]


def fit_features(subject: Subject, layer: PageLayer, batch: int, threads: int, report: Report) -> LayerFeatures:
    """Fit a layer's features to the attribution of evenly distributed observations, and measure the errors.

    Errors are measured on some of these observations, and on held-out ones.
    """
    options, count = subject.options_of(ReductionOptions), len(subject.observations.observations)
    seed = subject.options.seed
    chosen, apart = divide_observations(options, count)
    fitted_on, held_out = len(chosen), _spread(apart, ERROR_OBSERVATIONS)
    error_every = max(1, fitted_on // ERROR_OBSERVATIONS)
    positions = min(math.prod(layer.shape[:2]), max(1, FIT_POSITIONS // fitted_on))
    rows = np.empty((fitted_on, positions, layer.shape[-1]), np.float32)
    on_fitted = np.empty((len(range(0, fitted_on, error_every)), *layer.shape), np.float32)
    sides = np.zeros((2, 2))
    rng = np.random.default_rng(seed)
    starts = _starts(subject, layer, chosen, batch)
    baseline = _baseline(subject.options_of(PathOptions).baseline, starts)
    calls = parallel_calls(subject.agent, threads)

    def explain(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        attribution = _attribution(subject, layer, observations, baseline)
        return attribution.values[0], _sides(attribution)  # drop the activations, which take as much memory

    parts = list(slices(fitted_on, batch))
    explained = prefetch(explain, (chosen[part] for part in parts), calls)
    for part, (values, both) in zip(parts, explained, strict=True):
        rows[part] = _some_positions(values, positions, rng)
        on_fitted[math.ceil(part.start / error_every) : math.ceil(part.stop / error_every)] = values[
            -part.start % error_every :: error_every
        ]
        sides += both
        report(part.stop / (fitted_on + len(held_out)))
    on_others = np.empty((len(held_out), *layer.shape), np.float32)
    for part in slices(len(held_out), batch):
        on_others[part] = _attribution(subject, layer, held_out[part], baseline).values[0]
    judged = on_others if len(held_out) else on_fitted
    sample = _some_positions(judged, COVERAGE_POSITIONS // len(judged), rng)
    given = np.eye(layer.channels, dtype=np.float32) if is_inputs(layer) else given_components(options, layer)
    reduction = fit_reduction(rows, options, layer.channels, sample, seed, given)
    reduction, matches = numbered(reduction, options, layer)
    error, errors = reduction.reconstruction_errors(on_fitted)
    held_out_error = None
    if len(held_out):
        held_out_error, errors = reduction.reconstruction_errors(on_others)
    return LayerFeatures(
        reduction,
        error,
        fitted_on,
        held_out_error,
        {},
        starts,
        max(0.0, reduction.with_next_component(sample).coverage(sample) - reduction.coverage(sample)),
        _side_weights(sides),
        _stability(reduction, len(given), rows, seed, options.reduction),
        errors,
        matches,
    )


def fit_reduction(
    rows: np.ndarray, options: ReductionOptions, most: int, sample: np.ndarray, seed: int, given: np.ndarray
) -> ChannelReduction:
    """Fit a reduction to attribution (..., c). The components `given` (K, c) come first and are not fitted.

    The reduction has `most` features. With `features.count="auto"`, it has fewer if they cover enough of `sample`.
    """

    def fit(count: int) -> ChannelReduction:
        if len(given) == count:
            return ChannelReduction(given)
        fitted = ChannelReduction.fit(rows, count - len(given), seed, method=options.reduction)
        return ChannelReduction(np.concatenate([given, fitted.components])) if len(given) else fitted

    fewest, enough = max(1, len(given)), fit(most)
    if options.count != "auto" or len(given) == most:
        return enough
    while fewest < most:
        middle = (fewest + most) // 2
        reduction = fit(middle)
        if reduction.coverage(sample) >= options.coverage:
            most, enough = middle, reduction
        else:
            fewest = middle + 1
    return enough


def _stability(reduction: ChannelReduction, given: int, rows: np.ndarray, seed: int, method: str) -> np.ndarray:
    """Return the similarity (K,) of components to those of fits with different seeds. The first `given` components are
    not fitted and have similarity 1.
    """
    if given == len(reduction.components):
        return np.ones(given)
    fitted = ChannelReduction(reduction.components[given:])
    return np.concatenate([np.ones(given), stability(fitted, rows, seed, method)])


def page_baseline(subject: Subject, layer: PageLayer, batch: int) -> Baseline:
    """Return the baseline that the page's options select for a layer, computed as in `fit_features`."""
    chosen, _ = divide_observations(subject.options_of(ReductionOptions), len(subject.observations.observations))
    return _baseline(subject.options_of(PathOptions).baseline, _starts(subject, layer, chosen, batch))


def _starts(subject: Subject, layer: PageLayer, chosen: np.ndarray, batch: int) -> np.ndarray | None:
    """Return the activations (n, h, w, c) at the baseline, or None if it does not depend on the chosen observations."""
    agent, path = subject.agent, subject.options_of(PathOptions)

    def observed(indices: np.ndarray) -> tuple[np.ndarray, State]:
        return np.asarray(subject.observations.observations[indices]), states_of(subject, indices)

    if used_baseline(agent, path.baseline) == "mean":
        batches = (observed(chosen[part]) for part in slices(len(chosen), batch))
        return mean_activations(agent, layer.full_name, batches)
    if path.baseline == "median":
        return agent.activations(median(observed(_spread(chosen, MEDIAN_OBSERVATIONS))[0])[None], layer.full_name)
    if path.baseline == "expected":
        drawn = draw(len(chosen), subject.options_of(ReductionOptions).fit_steps, subject.options.seed)
        observations, states = observed(np.sort(chosen[drawn]))
        return agent.activations(observations, layer.full_name, states)
    return None


def _baseline(name: str, starts: np.ndarray | None) -> Baseline:
    if starts is None or name == "zero-layer":
        return name
    return ExpectedBaseline(starts) if name == "expected" else starts


def _some_positions(attribution: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return attribution (n, count, c) at random positions of each observation, or at all positions if there are fewer.

    The fit draws far fewer rows than a layer has positions, so `count` positions suffice, and they bound the memory.
    """
    rows = attribution.reshape(len(attribution), -1, attribution.shape[-1])
    if rows.shape[1] <= max(count, 1):
        return rows
    positions = np.argsort(rng.random(rows.shape[:2]), axis=1)[:, : max(count, 1)]
    return np.take_along_axis(rows, positions[:, :, None], axis=1)


def _attribution(subject: Subject, layer: PageLayer, chosen: np.ndarray, baseline: Baseline) -> Attribution:
    path = subject.options_of(PathOptions)
    attribution = attribute(
        subject.agent,
        subject.observations.observations[chosen],
        layer.full_name,
        [subject.output_kind],
        steps=subject.options_of(ReductionOptions).fit_steps,
        quadrature=path.quadrature,
        state=states_of(subject, chosen),
        baseline=baseline,
        linear_prefix=path.linear_prefix,
    )
    if not np.isfinite(attribution.values).all():
        raise ClarityError(f"attribution to layer {layer.name} is not finite; look for NaN in the agent's parameters")
    return attribution


def states_of(subject: Subject, chosen: slice | np.ndarray) -> State:
    """Return the agent's states before some of the extra observations, or None for an agent without a state."""
    states = subject.observations.states
    return None if states is None else tuple(np.asarray(part[chosen]) for part in states)


def _sides(attribution: Attribution) -> np.ndarray:
    """Return sums of magnitudes (2, 2): of the attribution and of the activations (rows), over the activations above
    and below 0 (columns). All sums are 0 if no activation is below 0.
    """
    if attribution.activations.min() >= 0:
        return np.zeros((2, 2))
    sides = [attribution.activations > 0, attribution.activations < 0]
    return np.array(
        [
            [float(np.abs(values).sum(where=side, dtype=np.float64)) for side in sides]
            for values in (attribution.values[0], attribution.activations)
        ]
    )


def _side_weights(sums: np.ndarray) -> tuple[float, float]:
    attribution, activations = sums
    per_unit = np.divide(attribution, activations, out=np.zeros(2), where=activations > 0)
    if not per_unit.any():
        return 1.0, 0.0
    # fixed, because the sums depend on the sizes of batches
    above, below = np.round(per_unit / per_unit.max(), 4).tolist()
    return above, below


def fitted_on(options: ReductionOptions, count: int) -> int:
    """Return the number of observations that the reduction is fitted to."""
    return len(divide_observations(options, count)[0])


def measured_on(options: ReductionOptions, count: int) -> int:
    """Return the number of held-out observations on which the error is measured."""
    return min(ERROR_OBSERVATIONS, math.ceil(count * options.held_out))
