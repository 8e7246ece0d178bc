"""Integrated gradients with respect to the input.

Axiomatic Attribution for Deep Networks (Sundararajan, Taly and Yan, 2017; arXiv 1703.01365).
"""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.integrated_gradients import Attribution, attribute
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.attribution.saliency import (
    SaliencyMethod,
    SaliencyOutput,
    SaliencyOutputs,
    as_outputs,
    linear_scores,
    network_input,
    unlisted,
)
from rl_clarity.base.errors import OptionError

BASELINES = ("black", "blurred")


def input_attribution(
    agent: Agent,
    observations: np.ndarray,
    outputs: list[SaliencyOutput],
    *,
    baseline: str | np.ndarray = "black",
    steps: int = 16,
    state: State = None,
) -> Attribution:
    """Return integrated gradients of several outputs, with their completeness errors.

    See `input_integrated_gradients`.
    """
    agent = require(agent, "forward", "tails", for_="integrated gradients of the input")
    if isinstance(baseline, str) and baseline not in BASELINES:
        raise OptionError(f"baseline={baseline!r} must be {' or '.join(map(repr, BASELINES))}, or an image")
    images = network_input(agent, observations, state)
    if isinstance(baseline, str):
        start = np.zeros_like(images)
        if baseline == "blurred":
            start = PerturbationGrid.for_shape(*images.shape[1:3]).blurred(images)
    else:
        start = np.asarray(baseline, np.float32) / np.float32(255)
    scores = linear_scores(agent, outputs, observations, state)
    return attribute(
        agent, observations, INPUT, scores, steps=steps, quadrature="midpoint", state=state, baseline=start
    )


def input_integrated_gradients(
    agent: Agent,
    observations: np.ndarray,
    output: SaliencyOutputs = "value",
    *,
    baseline: str | np.ndarray = "black",
    steps: int = 16,
    state: State = None,
) -> np.ndarray:
    """Return integrated gradients of an output with respect to the input, (B, H, W, C) float32.

    Args:
        observations: (B, H, W, C) as the agent takes them
        output: "policy" (the logits, weighted by their values at the observation), "value", or any other score; a list
            of S outputs gives (S, B, H, W, C)
        baseline: "black"; "blurred", the observation under the blur of `perturbation_saliency`; or an image
            (H, W, C) or (B, H, W, C) from 0 to 255
        steps: number of points on the path, by the midpoint rule
        state: the state of a recurrent agent before the observations, held fixed; its initial state if None

    As `steps` grows, the sum of the result over an observation approaches the output at the observation minus the
    output at the baseline; `input_attribution` also returns the remaining completeness error. Stacked frames are on the
    last axis: sum over it for a single map, or over the channels of one frame for a map of that frame.

    Raises OptionError for an object that is not an agent, an unknown output or baseline, an invalid state, and `steps`
    below 1; SamplesError for observations of the wrong shape or range.
    """
    result = input_attribution(agent, observations, as_outputs(output), baseline=baseline, steps=steps, state=state)
    return unlisted(result.values, output)


INPUT_INTEGRATED_GRADIENTS = SaliencyMethod(
    "input gradients, integrated",
    "The magnitude of the gradient's integral along the line from a black observation, times the observation "
    "(Sundararajan et al. 2017, arXiv 1703.01365).",
    input_attribution,
    {"baseline": "black", "steps": 16},
    passes=16,
)
