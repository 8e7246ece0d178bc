"""Deletion and insertion: how fast an output changes when pixels are removed or restored in the order of a map.

RISE: Randomized Input Sampling for Explanation of Black-box Models (Petsiuk, Das and Saenko, 2018; arXiv 1806.07421).
Removed pixels are blurred, as in perturbation saliency. Removing pixels in the order of a good map changes the output
faster than removing them in a random order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_clarity.agents.capabilities import action_factors
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import INPUT
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.attribution.quadrature import check_count
from rl_clarity.analyses.attribution.saliency import (
    SaliencyOutput,
    head_columns,
    network_input,
    output_differences,
    results_at,
)
from rl_clarity.base.errors import SamplesError
from rl_clarity.base.statistics import Interval, bootstrap_interval

STEPS = 16


def deletion_area(
    agent: Agent,
    observations: np.ndarray,
    maps: np.ndarray,
    output: SaliencyOutput = "policy",
    *,
    steps: int = STEPS,
    insertion: bool = False,
    state: State = None,
) -> np.ndarray:
    """Return the area (B,) under the curve of an output's change while pixels are blurred in descending order of a map.

    The change is |s(I) - s(I')| between the observation I and the blurred one I'. For "policy", it is the Euclidean
    norm of the change of the logits (or action values). At step i of `steps`, a share i / steps of the pixels is
    blurred. The area is the mean change over the steps, divided by the change when all pixels are blurred (1 if that
    change is 0). It is about 0.5 if the output changes in proportion to the number of blurred pixels.

    Args:
        observations: (B, H, W, C) as the agent takes them
        maps: (B, H, W), large where the output depends on the pixel
        output: "policy", "value", or any other score
        steps: number of steps
        insertion: start from the blurred observation and restore pixels; the change is relative to this start
        state: the state of a recurrent agent before the observations; its initial state if None

    Raises OptionError for an object that is not an agent, an unknown output, and `steps` below 1; SamplesError for maps
    of the wrong shape.
    """
    check_count("steps", steps)
    images = network_input(agent, observations, state)
    if np.shape(maps) != images.shape[:3]:
        raise SamplesError(f"maps have the shape {np.shape(maps)}; the observations need {images.shape[:3]}")
    blurred = PerturbationGrid.for_shape(*images.shape[1:3]).blurred(images)
    start, end = (blurred, images) if insertion else (images, blurred)
    ranks = pixel_ranks(maps)
    pixels = ranks[0].size
    results, columns = head_columns(agent.forward(observations, state, write={INPUT: start}))
    changes = []
    for step in range(1, int(steps) + 1):
        removed = ranks < round(step * pixels / steps)
        mixed = np.where(removed[..., None], end, start)
        after = results_at(agent, observations, mixed, state)[:, None]
        change = output_differences([output], results, columns, after, action_factors(agent))[0, :, 0]
        changes.append(np.sqrt(2 * change))
    curve = np.stack(changes, axis=1)  # (B, steps)
    last = curve[:, -1]
    return np.where(last > 0, curve.mean(axis=1) / np.where(last > 0, last, 1), 1.0)


def pixel_ranks(maps: np.ndarray) -> np.ndarray:
    """Return the rank of each pixel (B, H, W), 0 for the largest value. Equal values are ranked row by row."""
    flat = np.reshape(maps, (len(maps), -1))
    order = np.argsort(-flat, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(flat.shape[1])[None], axis=1)
    return ranks.reshape(np.shape(maps))


def random_maps(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return maps (B, H, W) of random numbers, which give each frame a random order of pixels."""
    return rng.random(tuple(shape), np.float32)


def center_maps(shape: Sequence[int]) -> np.ndarray:
    """Return maps (B, H, W) whose values decrease with the distance from the center of the frame."""
    count, height, width = shape
    rows, columns = np.ogrid[:height, :width]
    distance = np.hypot(rows - (height - 1) / 2, columns - (width - 1) / 2)
    return np.broadcast_to(-distance, (count, height, width))


def compare_orders(
    agent: Agent,
    observations: np.ndarray,
    maps: np.ndarray,
    output: SaliencyOutput = "policy",
    *,
    steps: int = STEPS,
    insertion: bool = False,
    state: State = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Compare the deletion area of `maps` with that of a random pixel order and that of an order from the center
    outward.

    Returns the mean and its interval for `area` and for the paired differences `above_random` and `above_center`: the
    area for the map's order minus the area for the other order. Positive differences mean that the map's order changes
    the output faster. `seed` is the seed of the random order and the bootstrap; the other arguments are those of
    `deletion_area`.
    """
    rng = np.random.default_rng(seed)
    shape = np.shape(maps)

    def area(order: np.ndarray) -> np.ndarray:
        return deletion_area(agent, observations, order, output, steps=steps, insertion=insertion, state=state)

    own = area(maps)
    differences = {"above_random": own - area(random_maps(shape, rng)), "above_center": own - area(center_maps(shape))}
    return {name: bootstrap_interval(values, rng) for name, values in {"area": own, **differences}.items()}
