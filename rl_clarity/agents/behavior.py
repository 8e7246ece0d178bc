"""Check with a few images that a network's gradients describe its outputs, and that observations in a batch do not
affect each other.

Attribution assumes that the same observation always has the same outputs, whatever else is in the batch, and that
gradients show how the outputs change. If a network samples, normalizes over the batch, or detaches or rounds its
outputs, its explanation is wrong, but nothing fails.
"""

from __future__ import annotations

import warnings

import numpy as np

from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.capabilities import is_vector
from rl_clarity.agents.protocol import Score
from rl_clarity.base.errors import OptionError

FRAMES = 4
PATHS, POINTS = 2, 8
"""Number of short lines from one image toward another, and of points on each line at which gradients are computed."""
LENGTH = 0.02
"""Length of a line as a fraction of the distance between two images. Lines are short because gradients of max pooling
jump between images."""
DISAGREEMENT = 0.3
"""Largest accepted difference between the change of an output and the integral of its gradient, relative to the largest
change."""
EXACT = 1e-6
"""Gradients are compared with changes only if the relative precision of the outputs (epsilon) is below this."""
ANYWAY = ". To explain the network anyway, pass check=False"


def check_behavior(agent: BatchedAgent, epsilon: float) -> None:
    """Raise OptionError for outputs that are random, depend on the rest of the batch, or have no gradient.

    Warn about outputs that do not depend on the observations, and about outputs whose gradients disagree with their
    changes.

    Args:
        agent: agent to check, which is run on 4 images of noise, and differentiated at 16 points between them
        epsilon: relative precision of the agent's outputs
    """
    frames = noise(agent, FRAMES)
    results = _heads(agent, frames)
    again, alone = _heads(agent, frames), _heads(agent, frames[:1])
    for head, values in results.items():
        rounding = 20 * epsilon * np.abs(values).max(initial=0) + 0.01 * values.std(axis=0).max(initial=0)
        change = np.abs(values - again[head]).max(initial=0)
        if change > rounding:
            raise OptionError(
                f"the network's {head} change by {change:.2g} when the same observations are computed again: they are "
                "random, so explanations would be, too. Call dropout with training=self.training, and return "
                f"logits in place of samples{ANYWAY}"
            )
        change = np.abs(values[:1] - alone[head]).max(initial=0)
        if change > rounding:
            raise OptionError(
                f"the network's {head} for an observation change by {change:.2g} with the rest of its batch. "
                "Normalize each observation separately, or with running statistics, like nn.BatchNorm2d in "
                f"evaluation mode{ANYWAY}"
            )
    _check_gradients(agent, frames, results, epsilon)


def noise(agent: BatchedAgent, count: int) -> np.ndarray:
    """Return observations (count, H, W, C) of noise: random bytes for images, standard normal values for vectors."""
    rng, shape = np.random.default_rng(0), (count, *agent.observation_shape)
    return rng.normal(size=shape).astype(np.float32) if is_vector(agent) else rng.integers(0, 256, shape, np.uint8)


def _heads(agent: BatchedAgent, frames: np.ndarray) -> dict[str, np.ndarray]:
    """Return the heads (B, n) in float64, with 0 in place of values that are not finite (masked actions)."""
    sites = agent.forward(frames, read=agent.heads).sites
    return {head: np.where(np.isfinite(sites[head]), sites[head], 0).astype(np.float64) for head in agent.heads}


def _check_gradients(agent: BatchedAgent, frames: np.ndarray, results: dict[str, np.ndarray], epsilon: float) -> None:
    """Compare changes of a weighted sum of the outputs of each head with integrals of its gradient."""
    rng = np.random.default_rng(1)
    start = frames[:PATHS].astype(np.float32)
    step = np.float32(LENGTH) * (frames[PATHS : 2 * PATHS] - start)
    weights: dict[str, np.ndarray] = {}
    for head, values in results.items():
        spread = np.ptp(values, axis=0)
        varies = spread > 4 * epsilon * np.abs(values).max(axis=0)
        if varies.any():
            weights[head] = rng.uniform(0.5, 1.5, len(spread)) * varies / np.where(varies, spread, 1)
        else:
            warnings.warn(
                f"the network's {head} are the same for {FRAMES} images of noise, so their attribution is 0 there",
                stacklevel=4,
            )
    if not weights:
        return
    scores: list[Score] = [{"value": w[0]} if head == "values" else dict(enumerate(w)) for head, w in weights.items()]
    points = np.concatenate([start + part * step for part in (np.arange(POINTS, dtype=np.float32) + 0.5) / POINTS])
    gradients = agent.gradients(points, "input", scores).astype(np.float64)  # (S, POINTS x PATHS, H, W, C)
    mean = gradients.reshape(len(scores), POINTS, PATHS, -1).mean(axis=1)
    predicted = np.einsum("spn,pn->sp", mean, step.reshape(PATHS, -1) / agent.input_scale.unit)
    before, after = _heads(agent, start), _heads(agent, start + step)
    for (head, one), gradient, expected in zip(weights.items(), gradients, predicted, strict=True):
        if not np.any(gradient):
            raise OptionError(
                f"the network's {head} change with the observations, but their gradient is 0, so every attribution "
                "would be 0, too: they are detached (.detach(), torch.no_grad(), .item(), .numpy()), rounded or an "
                f"argmax. Return them with their gradient{ANYWAY}"
            )
        change = (after[head] - before[head]) @ one
        if epsilon < EXACT and not np.abs(expected - change).max() <= DISAGREEMENT * np.abs(change).max():
            warnings.warn(
                f"the network's {head} change by {change[0]:.2g} between two images, but their gradients predict "
                f"{expected[0]:.2g}, so attribution may be wrong. Part of the network is detached or rounded, or has a "
                "custom gradient",
                stacklevel=4,
            )
