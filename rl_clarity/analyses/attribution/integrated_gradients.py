"""Integrated gradients of an output with respect to a layer.

Axiomatic Attribution for Deep Networks (Sundararajan, Taly and Yan, 2017), with a hidden layer in place of the input.
Attribution is the difference of the activations a from the baseline b, times the mean gradient of the score s on the
straight line from b to a. As the number of points grows, the sum of attribution over positions and channels approaches
s(a) - s(b); the remaining difference is the completeness error.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Score, State, Tail
from rl_clarity.agents.scores import rows_of_score
from rl_clarity.analyses.attribution.baselines import (
    DEFAULT_BASELINE,
    Baseline,
    ExpectedBaseline,
    layer_baseline,
)
from rl_clarity.analyses.attribution.baselines import rows as states_at
from rl_clarity.analyses.attribution.quadrature import DEFAULT_RULE, DEFAULT_STEPS
from rl_clarity.analyses.attribution.quadrature import quadrature as quadrature_rule
from rl_clarity.analyses.attribution.refinement import (
    DEFAULT_REFINEMENT,
    TIMES,
    added_points,
    check_refinement,
    is_midpoint_rule,
    refine,
)
from rl_clarity.base.errors import OptionError
from rl_clarity.base.renamed import RenamedAttribute
from rl_clarity.base.threads import in_threads

ORIGINAL_PATH: Mapping[str, Any] = types.MappingProxyType(
    {"steps": 10, "quadrature": "riemann", "baseline": "zero-layer", "linear_prefix": False}
)
"""Arguments with which `integrated_gradients` gives the same results as understanding-rl-vision."""
PREFIX_COST = 3
"""Approximate cost of computing the network's linear prefix once, in evaluations of the network."""


@dataclass(frozen=True)
class Attribution:
    """The attribution of S scores to a layer.

    The sum of `values` over positions and channels should equal `scores` - `scores_at_baseline`.
    """

    values: np.ndarray  # (S, B, h, w, c)
    activations: np.ndarray  # (B, h, w, c)
    scores: np.ndarray  # (S, B)
    scores_at_baseline: np.ndarray  # (S, B)
    refined: np.ndarray | None = None  # (S, B) int: factor by which refinement multiplied the points; None without it

    @property
    def totals(self) -> np.ndarray:
        """Sums (S, B) of the attribution over positions and channels."""
        axes = tuple(range(1, self.activations.ndim))
        sums = in_threads(lambda values: values.sum(axis=axes, dtype=np.float64), self.values)
        return np.asarray(sums, np.float32)

    @property
    def completeness_error(self) -> np.ndarray:
        """(S, B): the sum of the attribution, minus the difference of the scores that it should equal."""
        return self.totals - (self.scores - self.scores_at_baseline)

    completeness_gap = RenamedAttribute("completeness_error")


def attribute(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    outputs: Sequence[Score] = ("value",),
    *,
    steps: int = DEFAULT_STEPS,
    quadrature: str = DEFAULT_RULE,
    state: State = None,
    baseline: Baseline = DEFAULT_BASELINE,
    baseline_observations: np.ndarray | None = None,
    seed: int = 0,
    linear_prefix: bool = True,
    refinement: int = DEFAULT_REFINEMENT,
    error_limits: Sequence[float | None] | None = None,
) -> Attribution:
    """Return integrated gradients of several scores, which share forward passes and points.

    See `integrated_gradients`. `error_limits` has the `error_limit` of each score, or None to add no points for that
    score. The result for a score does not depend on the other scores.
    """
    agent = require(agent, "tails", for_="integrated gradients")
    points, weights = quadrature_rule(quadrature, steps)
    check_refinement("refinement", refinement)
    tails = iter(agent.tails(observations, layer, list(outputs), state))
    first = next(tails)  # checks the observations before a baseline is computed from them
    start = layer_baseline(
        agent, baseline, observations, layer, state, others=baseline_observations, count=len(points), seed=seed
    )
    numbers = np.arange(len(observations))
    expected = isinstance(start, ExpectedBaseline)
    nested = is_midpoint_rule(points, weights) and not expected

    def explain(
        tail: Tail, rows: np.ndarray, path: tuple[np.ndarray, np.ndarray], at_baseline: np.ndarray | None = None
    ) -> Attribution:
        own = start[rows] if isinstance(start, np.ndarray) and len(start) > 1 else start
        return _attribute_batch(tail, *path, own, linear_prefix, at_baseline)

    def attribute_refined(tail: Tail) -> Attribution:
        result = explain(tail, numbers[tail.rows], (points, weights))
        if error_limits is None or refinement == 1:
            return result

        def compute(scores: np.ndarray, chosen: np.ndarray, factor: int) -> Attribution:
            rows = numbers[tail.rows][chosen]
            path = added_points(points, weights, factor) if nested else quadrature_rule(quadrature, factor * steps)
            part = tail.select(scores, chosen) if hasattr(tail, "select") else None
            if part is None:
                some = [rows_of_score(outputs[score], rows, len(rows)) for score in scores]
                tails = agent.tails(np.asarray(observations)[rows], layer, some, states_at(state, rows))
                finer = _joined([explain(one, rows[one.rows], path) for one in tails])
            else:
                known = None if expected else result.scores_at_baseline[scores][:, chosen]
                finer = explain(part, rows, path, known)
            if nested:
                for values, score in zip(finer.values, scores, strict=True):
                    values += result.values[score, chosen] / TIMES
            return finer

        return replace(result, refined=refine(result, error_limits, refinement, compute))

    return _joined([attribute_refined(tail) for tail in chain([first], tails)])


def _joined(parts: Sequence[Attribution]) -> Attribution:
    if len(parts) == 1:  # without a copy, which would take as long as the product
        return parts[0]
    refined = [part.refined for part in parts if part.refined is not None]
    return Attribution(
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.activations for part in parts]),
        np.concatenate([part.scores for part in parts], axis=1),
        np.concatenate([part.scores_at_baseline for part in parts], axis=1),
        np.concatenate(refined, axis=1) if refined else None,
    )


def _attribute_batch(
    tail: Tail,
    points: np.ndarray,
    weights: np.ndarray,
    baseline: np.ndarray | ExpectedBaseline | None,
    linear_prefix: bool,
    at_baseline: np.ndarray | None = None,
) -> Attribution:
    """Return the attribution of a batch for a baseline (n or 1, *shape).

    `at_baseline` contains the scores (S, n) at the baseline, if they are known.
    """
    if isinstance(baseline, ExpectedBaseline):
        return _attribute_expected(tail, points, weights, baseline, linear_prefix)
    activations = tail.values
    along_path = getattr(tail, "linear_path_gradients", tail.path_gradients) if linear_prefix else tail.path_gradients
    gradients = along_path(points.tolist(), weights.tolist(), baseline)
    values = np.empty_like(gradients)

    def multiply(pair: tuple[np.ndarray, np.ndarray]) -> None:
        gradient, product = pair
        difference = activations if baseline is None else np.subtract(activations, baseline, out=product)
        np.multiply(difference, gradient, out=product)

    in_threads(multiply, zip(gradients, values, strict=True))
    if at_baseline is None:
        shape = activations.shape
        at_baseline = tail.scores(scale=0) if baseline is None else tail.scores(np.broadcast_to(baseline, shape))
    return Attribution(values, activations, tail.scores(), at_baseline)


def _attribute_expected(
    tail: Tail, points: np.ndarray, weights: np.ndarray, baseline: ExpectedBaseline, linear_prefix: bool
) -> Attribution:
    """Return the sum of the attributions from several baselines, among which the points on the path are divided."""
    values: np.ndarray | None = None
    at_baseline = np.float64(0)
    for start, mine, shares in baseline.divide(points, weights):
        result = _attribute_batch(tail, mine, shares, start, linear_prefix and len(mine) > PREFIX_COST)
        values = result.values if values is None else np.add(values, result.values, out=values)
        at_baseline = at_baseline + shares.sum() * result.scores_at_baseline
    assert values is not None
    return Attribution(values, tail.values, tail.scores(), np.asarray(at_baseline, np.float32))


def integrated_gradients(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    output: Score = "value",
    steps: int = DEFAULT_STEPS,
    quadrature: str = DEFAULT_RULE,
    state: State = None,
    baseline: Baseline = DEFAULT_BASELINE,
    linear_prefix: bool = True,
    *,
    baseline_observations: np.ndarray | None = None,
    seed: int = 0,
    refinement: int = DEFAULT_REFINEMENT,
    error_limit: float | None = None,
) -> np.ndarray:
    """Return the attribution (B, h, w, c) of one score to a layer.

    The defaults are those of pages, which can also choose the baseline by measured effects of objects. `ORIGINAL_PATH`
    has the arguments that reproduce understanding-rl-vision.

    Args:
        observations: (B, H, W, C) uint8, or other numbers from 0 to 255
        layer: a name from `select_layers`, or the name of any other site of the agent
        output: "value", an action's index (its logit), a sequence of indices (the sum of their logits), or weights by
            "value" or index (a linear combination)
        steps: number of points on the path; 1 point with "riemann" and "zero-layer" is gradient x activation
        quadrature: "graded-midpoint", "midpoint", "gauss-legendre", or "riemann", the right Riemann sum of
            understanding-rl-vision
        state: the state of a recurrent agent before the observations, held fixed; its initial state if None
        baseline: the start of the path: "zero-layer", activations of 0; "zero-input", the activations at an image of
            zeros; "blur", the activations at the blurred observation ("mean" for vectors, which cannot be blurred);
            "narrow-blur", the same with a blur of a third of the width; "median", the activations at the median of each
            pixel; "mean", the mean activations; "expected", the activations at random observations, one for each point
            on the path (expected gradients); or an array of activations (h, w, c) or (B, h, w, c)
        linear_prefix: compute the linear operations that follow the layer once instead of at each point, if the agent
            supports it; the result is the same up to rounding and the small constant in L2 pooling
        baseline_observations: (M, H, W, C) observations from which "mean", "median" and "expected" are computed, in the
            initial state of a recurrent agent; by default `observations`, of which there should then be many
        seed: seed with which "expected" draws observations
        refinement: largest factor by which the number of points on a path may grow while its completeness error is
            above `error_limit`: a power of three, or 1 to add no points
        error_limit: completeness error above which points are added; None to add none. Pages use
            `Results.error_limit`, 5 % of the output's range over all steps of the page

    Raises OptionError for an object that is not an agent, an unknown layer, output, quadrature or baseline, an invalid
    state, and an invalid number of `steps`, `refinement` or `error_limit`; SamplesError for observations of the wrong
    shape or range.
    """
    if error_limit is not None and not error_limit > 0:
        raise OptionError(f"error_limit={error_limit!r} must be positive")
    return attribute(
        agent,
        observations,
        layer,
        (output,),
        steps=steps,
        quadrature=quadrature,
        state=state,
        baseline=baseline,
        baseline_observations=baseline_observations,
        seed=seed,
        linear_prefix=linear_prefix,
        refinement=refinement,
        error_limits=None if error_limit is None else [error_limit],
    ).values[0]
