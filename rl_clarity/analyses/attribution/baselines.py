"""Baselines: the activations with which a layer's activations are compared in attribution.

Attribution adds up to the difference between the output at the layer's activations and the output at the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rl_clarity.agents.capabilities import is_vector
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.base.errors import OptionError, SamplesError

BLURS = {"blur": 6 / 64, "narrow-blur": 2 / 64}
"""Standard deviations of the blurs, as shares of the observation's height. Blurs wider than `blur`, and narrower blurs
down to 3/64, predict the effects of objects about as well as `blur`."""
BATCH = 64
"""Number of observations per batch when activations are averaged."""


@dataclass(frozen=True)
class ExpectedBaseline:
    """A layer's activations at K observations, among which the points on a path are divided.

    Expected gradients (Erion, Janizek, Sturmfels, Lundberg and Lee, 2021; arXiv 1906.10670) are the mean of integrated
    gradients over several baselines. Here each point on the path uses only one of the K baselines, so expected
    gradients cost as much as integrated gradients from a single baseline.
    """

    activations: np.ndarray  # (K, *shape)

    def divide(self, points: np.ndarray, weights: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the activations (1, *shape) at each observation, with its points and their weights.

        Observations without a point are left out. Points are assigned to the observations in order, then in reverse
        order, and so on, so that no observation always gets earlier points on the path than another.
        """
        order = np.arange(len(self.activations))
        owners = np.resize(np.concatenate([order, order[::-1]]), len(points))
        for number in np.unique(owners):
            yield self.activations[number : number + 1], points[owners == number], weights[owners == number]


Baseline: TypeAlias = str | np.ndarray | ExpectedBaseline
AUTO = "auto"
"""Page option that chooses the baseline from which attribution best predicts the measured effects of objects."""
DEFAULT_BASELINE = "blur"
"""The baseline from which attribution agrees best, over the included agents, with the effects of removing objects from
the game; docs/migration.md has the numbers. The baseline depends only on the observation."""
OBSERVED_BASELINES = ("mean", "median", "expected")
"""Baselines that depend on observations other than the explained one."""
BASELINES = ("zero-layer", "zero-input", *BLURS, *OBSERVED_BASELINES)


def check_baseline(name: str, baseline: Baseline) -> None:
    """Raise OptionError if `baseline` is an unknown name. `name` is the name of the option in the message."""
    if isinstance(baseline, str) and baseline not in BASELINES:
        raise OptionError(f"{name}={baseline!r} must be one of {', '.join(BASELINES)}")


def used_baseline(agent: Agent, baseline: str) -> str:
    """Return `baseline`, or "mean" in place of a blur if the agent observes vectors, which cannot be blurred."""
    return "mean" if baseline in BLURS and is_vector(agent) else baseline


def layer_baseline(
    agent: Agent,
    baseline: Baseline,
    observations: np.ndarray,
    layer: str,
    state: State = None,
    *,
    others: np.ndarray | None = None,
    count: int = 1,
    seed: int = 0,
) -> np.ndarray | ExpectedBaseline | None:
    """Return the baseline of a layer (B or 1, *shape), or None for zeros.

    Args:
        baseline: a name (see `integrated_gradients`), activations (shape) or (B, *shape), or an `ExpectedBaseline`
        others: observations (M, H, W, C) from which "mean", "median" and "expected" are computed, in the initial state
            of a recurrent agent; by default `observations` in their states
        count: number of observations that "expected" draws
        seed: seed with which "expected" draws observations

    Raises OptionError for an unknown name, and for activations that do not fit the layer's shape; SamplesError for
    observations of the wrong shape, and if `others` is empty.
    """
    check_baseline("baseline", baseline)
    observations = np.asarray(observations)
    if others is not None and (np.ndim(others) != 4 or not len(others) or others.shape[1:] != observations.shape[1:]):
        raise SamplesError(
            f"baseline_observations have the shape {np.shape(others)}; at least one observation of the "
            f"shape {observations.shape[1:]} is needed"
        )
    if not isinstance(baseline, str):
        return _checked(agent, baseline, observations, layer, state)
    seen, states = (observations, state) if others is None else (others, None)
    if baseline == "zero-layer":
        return None
    if observations.ndim != 4 and not is_vector(agent):
        raise SamplesError(f"observations have the shape {observations.shape}; (B, H, W, C) is needed")
    name = used_baseline(agent, baseline)
    if name in BLURS:
        last = observations.shape[1:] == tuple(agent.observation_shape)
        images = observations if last else np.moveaxis(observations, 1, -1)
        return agent.activations(blurred(images, BLURS[name]), layer, state)
    if name == "mean":
        return mean_activations(agent, layer, _batches(seen, states))
    if baseline == "expected":
        chosen = draw(len(seen), count, seed)
        return ExpectedBaseline(agent.activations(seen[chosen], layer, rows(states, chosen)))
    image = median(seen) if baseline == "median" else np.zeros_like(observations[0])
    return agent.activations(np.repeat(image[None], 1 if state is None else len(observations), axis=0), layer, state)


def _checked(
    agent: Agent, baseline: np.ndarray | ExpectedBaseline, observations: np.ndarray, layer: str, state: State
) -> np.ndarray | ExpectedBaseline:
    shape = agent.activations(observations[:1], layer, rows(state, slice(1))).shape[1:]
    if isinstance(baseline, ExpectedBaseline):
        found, fits = baseline.activations.shape, baseline.activations.shape[1:] == shape
    else:
        baseline = np.asarray(baseline, np.float32)
        found, fits = baseline.shape, baseline.shape in (shape, (1, *shape), (len(observations), *shape))
    if not fits:
        raise OptionError(f"baseline has the shape {found}, but layer {layer!r} has the shape {shape}")
    return baseline[None] if isinstance(baseline, np.ndarray) and baseline.shape == shape else baseline


def rows(state: State | np.ndarray, part: slice | np.ndarray) -> State:
    """Return the rows `part` of a recurrent state. An array is treated as a state that consists of this array."""
    parts = (state,) if isinstance(state, np.ndarray) else state
    return None if parts is None else tuple(np.asarray(values[part]) for values in parts)


def _batches(observations: np.ndarray, states: State) -> Iterator[tuple[np.ndarray, State]]:
    for start in range(0, len(observations), BATCH):
        part = slice(start, start + BATCH)
        yield observations[part], rows(states, part)


def mean_activations(agent: Agent, layer: str, batches: Iterable[tuple[np.ndarray, State]]) -> np.ndarray:
    """Return the mean (1, *shape) of a layer's activations over batches of observations and their states."""
    total: np.ndarray | float = 0.0
    count = 0
    for observations, state in batches:
        activations = agent.activations(observations, layer, state)
        total = total + activations.sum(axis=0, keepdims=True, dtype=np.float64)
        count += len(observations)
    return np.asarray(total / count, np.float32)


def draw(available: int, count: int, seed: int) -> np.ndarray:
    """Return the indices of `count` random observations, or of all if there are fewer."""
    return np.random.default_rng(seed).permutation(available)[:count]


def median(observations: np.ndarray) -> np.ndarray:
    """Return the median of each pixel (H, W, C), with the dtype of the observations."""
    return _as_type(np.median(observations, axis=0), observations)


def blurred(observations: np.ndarray, sigma: float) -> np.ndarray:
    """Blur each channel of the observations (B, H, W, C) with a Gaussian. Return them with their original dtype.

    `sigma` is the standard deviation of the blur, as a share of the height.
    """
    count, height, width, channels = observations.shape
    down, across = blur_matrices(height, width, sigma)
    values = down @ observations.reshape(count, height, width * channels).astype(np.float32)
    return _as_type(across @ values.reshape(count, height, width, channels), observations)


def blur_matrices(height: int, width: int, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices (H, H) and (W, W) float32 that blur the columns and the rows of an image."""
    from scipy.ndimage import gaussian_filter1d

    down, across = (
        gaussian_filter1d(np.eye(size, dtype=np.float32), sigma * height, axis=0) for size in (height, width)
    )
    return down, across


def _as_type(values: np.ndarray, observations: np.ndarray) -> np.ndarray:
    return (values if observations.dtype.kind == "f" else np.rint(values)).astype(observations.dtype)
