"""Jacobian saliency: the squared gradient of an output with respect to the input.

Dueling Network Architectures for Deep Reinforcement Learning (Wang et al., 2016) visualized agents by the Jacobian of
their outputs. For the policy, the output is half the sum of squared logits, as in Greydanus et al. (2018).
"""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.saliency import (
    SaliencyMethod,
    SaliencyOutputs,
    as_outputs,
    linear_scores,
    unlisted,
)


def jacobian_saliency(
    agent: Agent,
    observations: np.ndarray,
    output: SaliencyOutputs = "policy",
    *,
    state: State = None,
) -> np.ndarray:
    """Return the squared gradient of an output with respect to the network's input, observations / 255.

    Args:
        observations: (B, H, W, C) as the agent takes them
        output: "policy" (the gradient of 1/2 |logits|^2), "value", or any other score; a list of S outputs gives
            (S, B, H, W, C)
        state: the state of a recurrent agent before the observations, held fixed; its initial state if None

    Returns (B, H, W, C) float32. Raises OptionError for an object that is not an agent, an unknown output or an invalid
    state; SamplesError for observations of the wrong shape or range.
    """
    agent = require(agent, "forward", "gradients", for_="Jacobian saliency")
    scores = linear_scores(agent, as_outputs(output), observations, state)
    return unlisted(np.square(agent.gradients(observations, INPUT, scores, state=state)), output)


JACOBIAN = SaliencyMethod(
    "Jacobian",
    "The squared gradient of the output with respect to the input (Wang et al. 2016, arXiv 1511.06581); for the "
    "policy, of half the sum of its squared logits.",
    jacobian_saliency,
)
