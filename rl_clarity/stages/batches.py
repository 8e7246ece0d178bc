"""How many frames are worked on together: what memory holds, decided beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.sites import feature_maps
from rl_clarity.errors import ClarityError
from rl_clarity.stages.plan import Plan, PlannedLayer, outputs_to_compute

MOST = 64
"""Frames of a segment, and of a batch of gradients."""
PATHS = 3
"""What the points of paths in reduced channels take, and one score's sum along them, as so many scores."""
ALONG_PATHS = 16
"""Frames whose paths are followed together, at most."""
USUAL_BYTES = 2**30
"""What one computation of gradients takes at most, however much there is: the same batches wherever that is at hand."""
SHARE = 0.4
"""Of the memory at hand, what one computation may take: its results, for all outputs of a segment, stand beside it."""


def gradient_bytes(agent: Agent, layer: PlannedLayer, scores: int) -> int:
    """Memory that one frame takes while scores are differentiated with respect to a layer.

    Six arrays of every score's gradient, a share of what the backward pass keeps, and the largest layer twice: so it
    was measured with TensorFlow, on the safe side.
    """
    sizes = [math.prod(site.shape) for site in feature_maps(agent.sites)] or [0]
    return 4 * (6 * scores * math.prod(layer.shape) + sum(sizes) // 4 + 2 * max(sizes))


def frames_at_once(agent: Agent, layer: PlannedLayer, scores: int, memory: int) -> int:
    """Frames, a power of two, whose gradients are computed together in so much memory (bytes).

    Raises ClarityError where not even one frame has room.
    """
    one = gradient_bytes(agent, layer, scores)
    if one > memory:
        raise ClarityError(
            f"one frame's gradients at layer {layer.name} take about {one / 1e6:,.0f} MB; {memory / 1e6:,.0f} MB of "
            "memory are at hand: leave the layer out (layer_kwargs), explain fewer outputs, or find more memory"
        )
    at_most = min(USUAL_BYTES, SHARE * memory) / one
    return min(MOST, 1 << max(0, int(at_most).bit_length() - 1))


def held_scores(plan: Plan) -> int:
    """Scores whose gradients are held together, and what paths in reduced channels take beside them, as scores.

    Paths are followed in float64, and each score's sum along them is, too: half as much as its gradients take.
    """
    scores = len(outputs_to_compute(plan))
    return scores if plan.options.attr_max_paths is None else scores + PATHS + scores // 2


def activations_at_once(layer: PlannedLayer, most: int, memory: int) -> int:
    """Observations, at most so many, whose activations are held together."""
    return max(1, min(most, int(min(USUAL_BYTES / 4, SHARE * memory) / (4 * 4 * math.prod(layer.shape)))))


def parts(count: int, size: int) -> Iterator[slice]:
    """Slices of so many, one after another."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
