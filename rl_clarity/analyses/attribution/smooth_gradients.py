"""SmoothGrad: gradients with respect to the input, averaged over noisy copies of the observation.

SmoothGrad: removing noise by adding noise (Smilkov, Thorat, Kim, Viégas and Wattenberg, 2017; arXiv 1706.03825).
"""

from __future__ import annotations

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.quadrature import check_count
from rl_clarity.analyses.attribution.saliency import (
    SaliencyMethod,
    SaliencyOutputs,
    as_outputs,
    linear_scores,
    network_input,
    unlisted,
)
from rl_clarity.base.errors import OptionError


def smooth_gradients(
    agent: Agent,
    observations: np.ndarray,
    output: SaliencyOutputs = "value",
    *,
    samples: int = 16,
    noise: float = 0.1,
    seed: int = 0,
    state: State = None,
) -> np.ndarray:
    """Return the mean gradient of an output over noisy copies of the observations, (B, H, W, C) float32.

    Args:
        observations: (B, H, W, C) as the agent takes them
        output: see `jacobian_saliency`; a list of S outputs gives (S, B, H, W, C)
        samples: number of copies; the expected result does not depend on it
        noise: standard deviation of the Gaussian noise, as a share of each observation's range of values
        seed: seed of the noise, which does not depend on the other observations of the batch
        state: the state of a recurrent agent before the observations, held fixed; its initial state if None

    Raises OptionError for an object that is not an agent, an unknown output, and invalid `state`, `samples` or `noise`;
    SamplesError for observations of the wrong shape or range.
    """
    agent = require(agent, "forward", "gradients", for_="smooth_gradients")
    check_count("samples", samples)
    if not 0 <= noise < np.inf:
        raise OptionError(f"noise={noise!r} must be at least 0")
    outputs = as_outputs(output)
    images = network_input(agent, observations, state)
    axes = tuple(range(1, images.ndim))
    sigma = noise * (images.max(axis=axes, keepdims=True) - images.min(axis=axes, keepdims=True))
    rng = np.random.default_rng(seed)
    total = np.zeros((len(outputs), *images.shape), np.float64)
    for _ in range(int(samples)):
        noisy = images + sigma * rng.standard_normal(images.shape[1:], np.float32)
        scores = linear_scores(agent, outputs, observations, state, noisy)
        total += agent.gradients(observations, INPUT, scores, values=noisy, state=state)
    return unlisted(np.asarray(total / samples, np.float32), output)


SMOOTH_GRADIENTS = SaliencyMethod(
    "SmoothGrad",
    "The magnitude of the mean gradient over noisy copies of the observation (Smilkov et al. 2017, arXiv 1706.03825).",
    smooth_gradients,
    {"samples": 16, "noise": 0.1, "seed": 0},
    passes=16,
)
