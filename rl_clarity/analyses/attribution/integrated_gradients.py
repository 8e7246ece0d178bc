"""Integrated gradients of an output with respect to a layer.

Axiomatic Attribution for Deep Networks (Sundararajan, Taly and Yan, 2017), with a hidden layer in the place of the
input and 0 as the baseline: the activations a times the mean gradient of the score s on the straight line from 0 to a.
Summed over positions and channels it tends to s(a) - s(0) as the steps grow; what is missing is the completeness gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.checks import check_agent
from rl_clarity.agents.protocol import Agent, Output, State
from rl_clarity.analyses.attribution.quadrature import quadrature as quadrature_rule
from rl_clarity.threads import in_threads


@dataclass(frozen=True)
class Attribution:
    """Attribution of S scores to a layer, and what it should add up to."""

    values: np.ndarray  # (S, B, h, w, c)
    activations: np.ndarray  # (B, h, w, c)
    scores: np.ndarray  # (S, B)
    scores_at_zero: np.ndarray  # (S, B)

    @property
    def totals(self) -> np.ndarray:
        """Sums (S, B) over positions and channels."""
        sums = in_threads(lambda values: values.sum(axis=(1, 2, 3), dtype=np.float64), self.values)
        return np.asarray(sums, np.float32)

    @property
    def completeness_gap(self) -> np.ndarray:
        """(S, B): sum of the attribution less s(a) - s(0)."""
        return self.totals - (self.scores - self.scores_at_zero)


def attribute(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    outputs: Sequence[Output] = ("value",),
    *,
    steps: int = 10,
    quadrature: str = "riemann",
    state: State = None,
) -> Attribution:
    """Integrated gradients of several scores, which share their forward passes; see `integrated_gradients`."""
    check_agent(agent, ("path_gradients",))
    points, weights = quadrature_rule(quadrature, steps)
    path = agent.path_gradients(observations, layer, points, weights, list(outputs), state)
    values = np.empty_like(path.gradients)
    in_threads(
        lambda score: np.multiply(path.activations, path.gradients[score], out=values[score]), range(len(values))
    )
    return Attribution(values, path.activations, path.scores, path.scores_at_zero)


def integrated_gradients(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    output: Output = "value",
    steps: int = 10,
    quadrature: str = "riemann",
    state: State = None,
) -> np.ndarray:
    """Attribution (B, h, w, c) of one score to a layer.

    Parameters
    ----------
    observations: (B, H, W, C) uint8, or other numbers from 0 to 255
    layer: a name that `select_layers` gives
    output: "value", an action's index (its logit), or a sequence of indices (the sum of their logits)
    steps: points on the path; 1 with `riemann` is gradient x activation
    quadrature: "riemann" (the original's right sum), "midpoint", "graded-midpoint" or "gauss-legendre"
    state: of a recurrent agent before the observations, held fixed; its initial state if None

    Raises OptionError for an agent, a layer, an output, a quadrature, a state or a number that is none; SamplesError
    for observations of another shape or range.
    """
    return attribute(agent, observations, layer, (output,), steps=steps, quadrature=quadrature, state=state).values[0]
