"""Receptive fields: the part of an observation that one position of a layer depends on, measured on any agent.

One row, or column, of an observation after the other is replaced by noise; the activations that change depend on it.
That needs no gradients and no knowledge of the network. Not every dependence shows at every image, so the extent is the
largest over all positions, channels and images. Most of a receptive field hardly matters (Luo et al., Understanding the
Effective Receptive Field, 2016): its effective part is the central one that makes up 95 % of the change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.jobs.tasks import slices

IMAGES = 4
"""Observations that are changed."""
LINES = 96
"""Rows, and columns, that are replaced at most; those of larger observations are replaced together."""
EFFECTIVE = 0.95
NOTICEABLE = 1e-6
"""Smaller changes, relative to the largest, are errors of rounding."""


@dataclass(frozen=True)
class ReceptiveField:
    """Extent around the center of a position, in pixels of the observation."""

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

    Fields that reach beyond the observation are as large as the part inside allows to see: at most twice its size.
    """
    rng = np.random.default_rng([seed, 2])
    extents = [_extent(agent, site, observations, state, axis, batch, rng) for axis in (1, 2)]
    (height, effective_height), (width, effective_width) = extents
    return ReceptiveField(height, width, effective_height, effective_width)


def _extent(
    agent: Agent, site: str, observations: np.ndarray, state: State, axis: int, batch: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the full and effective extent along an axis of the observations."""
    size = observations.shape[axis]
    edges = np.unique(np.linspace(0, size, min(size, LINES) + 1).round().astype(int))  # of the stripes
    influence = _influence(agent, site, observations, state, axis, edges, batch, rng)  # (stripes, positions)
    centers = (np.arange(influence.shape[1]) + 0.5) * size / influence.shape[1]
    near, far = (np.abs(edges[part, None] - centers) for part in (slice(None, -1), slice(1, None)))
    reach = np.maximum(near, far)  # of a stripe from a position's center, to its farther edge
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
    """Return the absolute change (stripes, positions along the axis), summed over the rest, as each stripe becomes
    noise.
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
