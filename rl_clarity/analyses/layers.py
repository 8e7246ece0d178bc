"""The layers that a page explains, which several analyses share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from rl_clarity.agents.capabilities import is_vector, parallel_calls
from rl_clarity.agents.protocol import Agent, Score
from rl_clarity.agents.sites import INPUT, feature_maps, layer_labels
from rl_clarity.analyses.analysis import Subject, SubjectOptions
from rl_clarity.analyses.attribution import attribute
from rl_clarity.analyses.attribution.baselines import AUTO, BASELINES
from rl_clarity.analyses.attribution.layers import choose_layers
from rl_clarity.analyses.attribution.quadrature import DEFAULT_RULE, DEFAULT_STEPS, RULES
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_minimum, check_option, find_part
from rl_clarity.base.registry import OptionRegistries
from rl_clarity.base.threads import prefetch
from rl_clarity.jobs.tasks import Piece
from rl_clarity.pages.files import slugs
from rl_clarity.pages.results import open_results
from rl_clarity.reduction.methods import REDUCTIONS
from rl_clarity.visualization.colors import channel_hues, extended_hues, input_hues

MOST_INPUTS = 32
"""Largest size of a vector whose inputs count as features. The inputs of longer vectors are reduced to features."""
MOST_FEATURES = 16
"""Largest number of features of a layer with `features.count="auto"`."""
MEMORY_HINT = "leave the layer out (layers.discard_first_n), explain fewer outputs, or use a machine with more memory"


@dataclass(frozen=True)
class LayersOptions:
    """Which layers are explained, and the name of the input."""

    name_contains_one_of: tuple[str, ...] | None = None
    """Only layers whose name (`2b`, `block1`) or full name contains one of these strings."""
    op_is_one_of: tuple[str, ...] | None = None
    """Only layers with these kinds of operation; in a network without ReLUs, `relu` selects its other activation
    functions. By default, the layers through which every path passes: ReLUs, or in a residual network the outputs of
    the residual blocks."""
    bottleneck_only: bool = True
    """Only layers such that every path to them from an earlier convolution passes through a bottleneck of the
    network."""
    discard_first_n: int = 0
    """Leave out the first n layers, which take longest and are often the least informative."""
    input: bool = False
    """Also show gradients with respect to the input."""
    input_name: str = "input"
    """Name of the input."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "discard_first_n")


@dataclass(frozen=True)
class ReductionOptions:
    """How the channels of a layer are reduced to features."""

    reduction: str = "nmf"
    """How channels are reduced to features: by non-negative matrix factorization (`nmf`), by the most active channels
    (`units`), or by a reduction from an installed package, which must not have negative components."""
    components: str | None = None
    """Components that come before the fitted components and are included in `count`: an .npz file with an array
    (K, channels) without negative entries under each layer's name, or the directory of a page of the same agent, whose
    features are used."""
    match: str | None = None
    """Directory of an earlier page: a fitted feature with a cosine similarity of at least 0.8 to one of its features
    keeps the number, color and name that this feature has there. Cannot be combined with `components`."""
    count: int | Literal["auto"] = 8
    """Number of features to which a layer is reduced; `auto` for the fewest, up to 16, that reach `coverage`."""
    coverage: float = 0.9
    """Share of the attribution that features must cover with `count="auto"`, on observations held out of the fit."""
    held_out: float = 0.1
    """Share of the extra observations that the reduction is not fitted to: its error is measured on them."""
    fit_steps: int = DEFAULT_STEPS
    """Number of points on the path of the attribution to which the reduction is fitted."""
    fit_observations: int | None = 1024
    """Number of extra observations to whose attribution the reduction is fitted; None for all."""

    registries: ClassVar[OptionRegistries] = {"reduction": REDUCTIONS}
    input_files: ClassVar[tuple[str, ...]] = ("components", "match")

    @property
    def page(self) -> str | None:
        """Directory of the page whose features keep their numbers and colors, or None."""
        given = self.components is not None and Path(self.components).is_dir()
        return self.components if given else self.match

    def __post_init__(self) -> None:
        check_minimum(self, 1, "fit_steps", "fit_observations")
        if self.count != "auto":
            check_minimum(self, 1, "count")
        both = self.match is not None and self.components is not None
        check_option(self, "match", not both, "cannot be combined with features.components")
        check_option(self, "coverage", 0 < self.coverage <= 1, "must be above 0 and at most 1")
        check_option(self, "held_out", 0 <= self.held_out < 1, "must be from 0 to below 1")


@dataclass(frozen=True)
class PathOptions:
    """The path of integrated gradients, for attribution and for the attribution to which features are fitted."""

    quadrature: str = DEFAULT_RULE
    """Quadrature rule of integrated gradients: `graded-midpoint`, `gauss-legendre`, `midpoint` or `riemann`."""
    baseline: str = AUTO
    """What attribution is measured against: activations of 0 (`zero-layer`), those at an image of zeros (`zero-input`)
    or at the blurred observation (`blur`, or `narrow-blur` for a third of its width), their mean over the observations
    that the reduction is fitted to (`mean`), those at the median of these observations (`median`), or those at some of
    them, one for each point on the path (`expected`). `auto` chooses the one of `blur`, `narrow-blur`, `zero-input` and
    `mean` that predicts the measured effects of objects best, or `blur` if the effects are not known or the candidates
    do not differ clearly."""
    linear_prefix: bool = True
    """Compute the linear operations that follow a layer once, instead of at every point of the path. This is faster,
    and changes attribution only by rounding errors and by the small constant in L2 pooling."""

    registries: ClassVar[OptionRegistries] = {"quadrature": RULES}

    def __post_init__(self) -> None:
        known = (AUTO, *BASELINES)
        check_option(self, "baseline", self.baseline in known, f"must be one of {', '.join(known)}")


@dataclass(frozen=True)
class PageLayer:
    """A layer, and its label on the page."""

    name: str
    slug: str
    full_name: str
    shape: tuple[int, int, int]  # (h, w, c)
    channels: int
    """Number of features: the requested number, or with `count="auto"` the largest possible one; at most c."""
    is_input: bool = False
    label: str | None = None
    """Label that the page shows instead of the layer's name, for a residual block and for a layer whose name was
    generated by a framework."""
    bypassed: bool = False
    """Whether some path from the observation to the outputs bypasses the layer."""
    earlier: str | None = None
    """Directory of an earlier page; the features of the layer keep the colors that they have there."""

    @functools.cached_property
    def hues(self) -> np.ndarray:
        """Hues (K, 3) of the features: red, green and blue, of unit L2 norm."""
        if self.is_input:
            return input_hues(self.channels)
        if self.earlier is not None and self.name in (results := open_results(self.earlier)).layers:
            return extended_hues(np.array(results.layer(self.name)["hues"], np.float32), self.channels)
        return channel_hues(self.channels)


def page_layers(agent: Agent, page: SubjectOptions) -> tuple[PageLayer, ...]:
    """Return the layers that a page with these options explains.

    Raises OptionError if the options select no layer, and if the name of the input is also the name of a layer.
    """
    options = find_part(page, LayersOptions) or LayersOptions()
    reduction = find_part(page, ReductionOptions) or ReductionOptions()
    most = reduction.count
    chosen = choose_layers(
        agent,
        name_contains_one_of=options.name_contains_one_of,
        op_is_one_of=options.op_is_one_of,
        bottleneck_only=options.bottleneck_only,
        discard_first_n=options.discard_first_n,
    )
    names = [layer.name for layer in chosen]
    if options.input or is_vector(agent):
        if options.input_name in names:
            raise OptionError(
                f"layers.input_name={options.input_name!r} is also the name of a layer; choose a different name"
            )
        names = [options.input_name, *names]
    page_slugs = dict(zip(names, slugs(names), strict=True))
    layers = []
    if is_vector(agent):
        name, shape = options.input_name, agent.observation_shape
        channels = shape[-1] if shape[-1] <= MOST_INPUTS else min(MOST_FEATURES if most == "auto" else most, shape[-1])
        layers.append(PageLayer(name, page_slugs[name], INPUT, shape, channels))
    elif options.input:
        name, shape = options.input_name, agent.observation_shape
        layers.append(PageLayer(name, page_slugs[name], name, shape, shape[-1], is_input=True))
    for layer, label in zip(chosen, layer_labels(agent.sites, chosen), strict=True):
        channels = min(MOST_FEATURES if most == "auto" else most, layer.shape[-1])
        names_and_sizes = (layer.name, page_slugs[layer.name], layer.site.name, layer.shape, channels)
        layers.append(PageLayer(*names_and_sizes, label=label, bypassed=layer.site.bypassed, earlier=reduction.page))
    return tuple(layers)


def is_inputs(layer: PageLayer) -> bool:
    """Return whether a layer is an observed vector whose inputs count as its features."""
    return layer.shape[:2] == (1, 1) and layer.full_name == INPUT and layer.channels == layer.shape[-1]


def gradient_bytes(agent: Agent, shape: Sequence[int], scores: int) -> int:
    """Return the bytes per frame that are needed to differentiate scores with respect to a layer of shape (h, w, c).

    If the agent computes several batches at once, this includes one frame of each batch. The formula is an upper bound
    that was measured with TensorFlow: six arrays of the size of each score's gradient, a part of what the backward pass
    stores, and twice the largest layer.
    """
    sizes = [math.prod(site.shape) for site in feature_maps(agent.sites)] or [0]
    return parallel_calls(agent) * 4 * (6 * scores * math.prod(shape) + sum(sizes) // 4 + 2 * max(sizes))


def parallel_tasks(agent: Agent, outputs: int) -> int:
    """Return the number of tasks to run in parallel if each task attributes `outputs` outputs.

    It is one more than the number of threads that should call the agent, because one task prepares or writes. With
    several outputs, which take much memory, or with a single thread, it is the number of threads.
    """
    calls = parallel_calls(agent)
    return calls + 1 if calls > 1 and outputs == 1 else calls


def task_size(layer: PageLayer, frames: int) -> float:
    """Return the amount of work on some frames of a layer, relative to that of other layers."""
    height, width, depth = layer.shape
    return frames * (300 + height * width * depth / 64)


def sample_frames(sample: Subject, count: int) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
    """Return at most `count` observations (n, H, W, C) of a sample's first trajectory, and the states before them."""
    steps = slice(0, min(count, sample.trajectories.actions.shape[1]))
    return np.asarray(sample.trajectories.observations[0, steps]), sample.states(0, steps)


def gradient_piece(
    sample: Subject,
    layer: PageLayer,
    scores: Sequence[Score],
    batch: int,
    frames: float,
    steps: int,
    linear_prefix: bool,
    baseline: str,
) -> tuple[Piece, Callable[[], np.ndarray]]:
    """Return a `Piece` that integrates gradients of a batch, and a function that returns its attribution.

    The forecast extrapolates the time to `frames` frames. The function returns the attribution (n, h, w, c) of the
    first score, computed at a single point of the path.
    """
    seen, state = sample_frames(sample, batch)
    calls = parallel_calls(sample.agent)

    def integrate(steps: int) -> np.ndarray:
        name = layer.full_name
        path: Any = {"baseline": baseline, "linear_prefix": linear_prefix}
        result = attribute(sample.agent, seen, name, scores, steps=steps, state=state, **path)
        return result.values[0]

    def integrate_at_once() -> None:
        for _ in prefetch(integrate, [steps] * calls, calls):
            pass

    at_one_point = functools.cache(partial(integrate, 1))
    name = f"gradients {layer.full_name} {list(scores)} {len(seen)} {steps} {linear_prefix} {baseline}"
    return Piece(integrate_at_once, frames / len(seen) / calls, at_one_point, name), at_one_point
