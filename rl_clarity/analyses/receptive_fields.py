"""Measure the receptive fields of any agent's layers: the part of an observation on which each position depends.

The rows and columns of an observation are replaced by noise one at a time: activations that change depend on them. This
needs neither gradients nor knowledge of the network. Not every dependence is visible for every image, so the
extent is the largest over all positions, channels and images. Most of a receptive field hardly matters (Luo et al.,
Understanding the Effective Receptive Field, 2016); its effective part is the central part with 95 % of the change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.jobs.tasks import slices

IMAGES = 4
"""Number of observations that are changed."""
LINES = 96
"""Largest number of rows, and of columns, that are replaced separately; larger observations are divided into this many
stripes."""
EFFECTIVE = 0.95
NOTICEABLE = 1e-6
"""Changes up to this share of the largest change count as rounding errors."""


@dataclass(frozen=True)
class ReceptiveField:
    """The extent of a receptive field around the center of a position, in pixels of the observation."""

    height: float
    width: float
    effective_height: float
    effective_width: float


def receptive_field(
    agent: Agent,
    site: str,
    observations: np.ndarray,
    state: State = None,
    *,
    batch: int = 128,
    seed: int = 0,
) -> ReceptiveField:
    """Measure the receptive field of a layer (h, w, c) at observations (n, H, W, C) uint8.

    Fields that extend beyond the observation are measured by the part inside, so the result is at most twice the
    observation's size.
    """
    rng = np.random.default_rng([seed, 2])
    extents = [_extent(agent, site, observations, state, axis, batch, rng) for axis in (1, 2)]
    (height, effective_height), (width, effective_width) = extents
    return ReceptiveField(height, width, effective_height, effective_width)


def _extent(
    agent: Agent, site: str, observations: np.ndarray, state: State, axis: int, batch: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the full and the effective extent along an axis of the observations."""
    size = observations.shape[axis]
    edges = np.unique(np.linspace(0, size, min(size, LINES) + 1).round().astype(int))  # edges of the stripes
    influence = _influence(agent, site, observations, state, axis, edges, batch, rng)  # (stripes, positions)
    centers = (np.arange(influence.shape[1]) + 0.5) * size / influence.shape[1]
    near, far = (np.abs(edges[part, None] - centers) for part in (slice(None, -1), slice(1, None)))
    reach = np.maximum(near, far)  # distance from a position's center to the farther edge of a stripe
    changed = influence > NOTICEABLE * influence.max(initial=0)
    if not changed.any():
        return 0.0, 0.0
    order = np.argsort(reach, axis=None, kind="stable")
    shares = np.cumsum(influence.ravel()[order], dtype=np.float64)
    effective = reach.ravel()[order][np.searchsorted(shares, EFFECTIVE * shares[-1])]
    return min(2.0 * reach[changed].max(), 2.0 * size), min(2.0 * effective, float(size))


def _influence(
    agent: Agent,
    site: str,
    observations: np.ndarray,
    state: State,
    axis: int,
    edges: np.ndarray,
    batch: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how much activations change when each stripe of the observations is replaced by noise.

    The result (stripes, positions along the axis) has absolute changes, summed over the other axes.
    """
    total: np.ndarray | None = None
    for index in range(len(observations)):
        original = observations[index : index + 1]
        noise = rng.integers(0, 256, original.shape, dtype=np.uint8)
        one = None if state is None else tuple(np.asarray(part[index : index + 1]) for part in state)
        before = agent.activations(original, site, one)
        for part in slices(len(edges) - 1, batch):
            images = np.repeat(original, part.stop - part.start, axis=0)
            for image, start, stop in zip(images, edges[part], edges[1:][part], strict=True):
                lines = (slice(start, stop), slice(None))[:: 1 if axis == 1 else -1]
                image[lines] = noise[0][lines]
            states = None if one is None else tuple(np.repeat(values, len(images), axis=0) for values in one)
            change = np.abs(agent.activations(images, site, states) - before)  # (n, h, w, c)
            sums = change.sum(axis=(2, 3) if axis == 1 else (1, 3), dtype=np.float64)
            total = np.zeros((len(edges) - 1, sums.shape[1])) if total is None else total
            total[part] += sums
    assert total is not None
    return total
