"""Attribution averaged over many paths, as in Understanding RL Vision (2020).

A straight path moves all features together, so features that can replace each other share the attribution that either
would get alone. Here each path moves one half of the reduced channels early and the other half late. The mean over the
possible halves treats all channels alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol, runtime_checkable

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.protocol import Agent, Score, State
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, Baseline, ExpectedBaseline, layer_baseline
from rl_clarity.analyses.attribution.quadrature import check_count
from rl_clarity.base.errors import OptionError


@runtime_checkable
class Reduction(Protocol):
    """The members of a channel reduction that `multi_path_attribution` needs."""

    @property
    def components(self) -> np.ndarray: ...

    def transform(self, x: np.ndarray) -> np.ndarray: ...


def multi_path_attribution(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    reduction: Reduction,
    output: Score = "value",
    steps: int = 10,
    max_paths: int | None = None,
    rng: np.random.Generator | None = None,
    state: State = None,
    baseline: Baseline = DEFAULT_BASELINE,
) -> np.ndarray:
    """Return the attribution (B, h, w, c) of a score to a layer, averaged over paths in the reduced channels.

    Args:
        observations: (B, H, W, C) uint8, or other numbers from 0 to 255
        layer: a name from `select_layers`
        reduction: a `ChannelReduction` of the layer
        output: "value", an action's index (its logit), or a sequence of indices (the sum of their logits)
        steps: number of points on each path
        max_paths: number of random paths; None for all paths (70 for 8 channels)
        rng: generator that draws the paths; `np.random.default_rng(0)` if None
        state: the state of a recurrent agent before the observations, held fixed; its initial state if None
        baseline: the start of the paths; see `integrated_gradients`, except "expected"

    The attribution along a path is a sum over its steps: the change of the activations in a step, times the gradient at
    the end of the step.

    Raises OptionError for an object that is not an agent, an unknown layer or output, an invalid state, `steps`,
    `max_paths` or `baseline`, and a reduction that does not fit the layer; SamplesError for observations of the wrong
    shape or range.
    """
    return multi_path_attributions(
        agent,
        observations,
        layer,
        reduction,
        [output],
        steps=steps,
        max_paths=max_paths,
        rng=rng,
        state=state,
        baseline=baseline,
    )[0]


def multi_path_attributions(
    agent: Agent,
    observations: np.ndarray,
    layer: str,
    reduction: Reduction,
    outputs: Sequence[Score],
    *,
    steps: int = 10,
    max_paths: int | None = None,
    rng: np.random.Generator | None = None,
    state: State = None,
    baseline: Baseline = DEFAULT_BASELINE,
) -> np.ndarray:
    """Return the attribution (S, B, h, w, c) of several scores along the same paths; see `multi_path_attribution`.

    The scores share their forward passes, and the attribution of a sum of scores is the sum of theirs.
    """
    agent = require(agent, "activations", "tails", for_="attribution along many paths")
    check_count("steps", steps)
    if not isinstance(reduction, Reduction):
        raise OptionError(
            f"reduction={reduction!r} must be a ChannelReduction, or have the attributes components and transform"
        )
    if max_paths is not None:
        check_count("max_paths", max_paths)
    activations = agent.activations(observations, layer, state).astype(np.float64)
    components = np.asarray(reduction.components, np.float64)
    if components.shape[-1] != activations.shape[-1]:
        raise OptionError(
            f"the reduction has {components.shape[-1]} channels, but layer {layer!r} has {activations.shape[-1]}; "
            "fit a reduction to this layer's attribution"
        )
    # Use float64, because rounding a path's points can cross a kink and change the result by 1e-4.
    start = layer_baseline(agent, baseline, observations, layer, state)
    if isinstance(start, ExpectedBaseline):
        raise OptionError(
            "baseline='expected' has no single starting point, which paths in the reduced channels require"
        )
    difference = activations if start is None else activations - start.astype(np.float64)
    if start is None:
        weights = np.asarray(reduction.transform(difference), np.float64)  # (B, h, w, K)
    else:  # activations may be below the baseline
        positive, negative = np.maximum(difference, 0), np.maximum(-difference, 0)
        weights = np.asarray(reduction.transform(positive) - reduction.transform(negative), np.float64)
    residual = difference - weights @ components
    total = np.zeros((len(outputs), *activations.shape))
    halves = _draw_halves(len(components), max_paths, rng)
    for tail in agent.tails(observations, layer, list(outputs), state):
        for early in halves:
            before = np.zeros(difference[tail.rows].shape)
            for i in range(1, int(steps) + 1):
                alpha = i / steps
                pace = np.full(len(components), alpha**2)
                pace[list(early)] = 1 - (1 - alpha) ** 2
                point = (weights[tail.rows] * pace) @ components + alpha * residual[tail.rows]
                position = point if start is None else point + np.broadcast_to(start, activations.shape)[tail.rows]
                total[:, tail.rows] += (point - before) * tail.gradients(position.astype(np.float32))
                before = point
    total /= len(halves)
    return total.astype(np.float32)


def _draw_halves(channels: int, count: int | None, rng: np.random.Generator | None) -> list[tuple[int, ...]]:
    """Return the channels that move early on each path, for all paths or for `count` random ones."""
    early_halves = list(_early_halves(channels))
    if count is None or count >= len(early_halves):
        return early_halves
    rng = rng or np.random.default_rng(0)
    return [early_halves[i] for i in rng.choice(len(early_halves), int(count), replace=False)]


def _early_halves(channels: int) -> Iterator[tuple[int, ...]]:
    """Yield the channels that move early on each path. Each split into halves gives two paths, one for each order."""
    half = channels // 2
    for chosen in combinations(range(channels), half):
        if channels % 2 == 0 and 0 not in chosen:
            continue  # the same split as its complement
        yield chosen
        yield tuple(sorted(set(range(channels)) - set(chosen)))
