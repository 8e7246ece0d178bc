"""Sanity checks of saliency methods: do maps depend on what the network learned, and do they show what affects the
output?

- Randomized weights (Sanity Checks for Saliency Maps, Adebayo et al., 2018; arXiv 1810.03292): layers are randomized
  from the outputs down. The maps of a method that explains the network should then change.
- Deletion and insertion (Petsiuk et al., 2018; arXiv 1806.07421): removing pixels in the order of a good map changes
  the output faster than removing them in a random order.
- Completeness: the attribution of methods that integrate along a path should add up to the change of the output.
- The hint test (Visualizing and Understanding Atari Agents, Greydanus et al., 2018; arXiv 1711.00138), with
  `rl_clarity.ActionHints`: the maps of an agent that was trained to look at hints should lie on the hints.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np

from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.capabilities import has, is_vector, require
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import find_site
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, OBSERVED_BASELINES, check_baseline
from rl_clarity.analyses.attribution.deletion import compare_orders
from rl_clarity.analyses.attribution.integrated_gradients import Attribution, attribute
from rl_clarity.analyses.attribution.layers import choose_layers
from rl_clarity.analyses.attribution.perturbation import PerturbationGrid
from rl_clarity.analyses.attribution.quadrature import check_count
from rl_clarity.analyses.attribution.saliency import SaliencyMethod, SaliencyOutput, linear_scores, shared_values
from rl_clarity.analyses.checks.report import MethodReport, Randomization, SanityReport
from rl_clarity.analyses.given_components import page_features
from rl_clarity.analyses.saliency import METHODS, pixel_maps
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.progress import Report
from rl_clarity.recordings.arrays import as_trajectories
from rl_clarity.recordings.recording import Recording
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.reduction import ChannelReduction

RANDOMIZED_FRAMES = 16
"""Number of frames whose maps are computed again for every randomized layer."""
PATH_STEPS = 16
SSIM_SIGMA = 1.5
LAST_PART = re.compile(r"(/|\.|\[')[^/.\[]*$")
"""Pattern of the last component of a parameter's name: `kernel` in `pi/1a/kernel`, `weight` in `network.0.weight`."""


@dataclass(frozen=True)
class CheckedFrames:
    """The frames, from all trajectories, on which methods are checked."""

    observations: np.ndarray  # (B, H, W, C)
    state: State
    """The state before the observations."""
    trajectories: np.ndarray  # (B,)
    steps: np.ndarray  # (B,)

    @property
    def spread(self) -> slice:
        """Slice of at most 16 evenly spaced frames, whose maps are computed again for every randomized layer."""
        return slice(0, None, -(-len(self.observations) // RANDOMIZED_FRAMES))

    def __getitem__(self, part: slice) -> CheckedFrames:
        state = None if self.state is None else tuple(array[part] for array in self.state)
        return CheckedFrames(self.observations[part], state, self.trajectories[part], self.steps[part])


def sanity_checks(
    agent: Agent,
    trajectories: Trajectories | Recording | Mapping[str, object],
    methods: Sequence[str] | None = None,
    frames: int = 64,
    seed: int = 0,
    output: SaliencyOutput = "policy",
    baseline: str = DEFAULT_BASELINE,
) -> SanityReport:
    """Check saliency methods on frames of an agent's play.

    Args:
        agent: an agent with gradients; only the weights of a `KerasAgent`, `TorchAgent` or `JaxAgent` are randomized
        trajectories: see `generate`
        methods: names of saliency methods ("perturbation", "jacobian", ...), or "integrated_gradients LAYER"; by
            default all methods, and integrated gradients of every layer
        frames: number of frames, evenly spaced over the trajectories; at most 16 of them are used with random weights
        seed: seed of random weights, random pixel orders and bootstrap intervals
        output: "policy", "value", or any other score
        baseline: the baseline of integrated gradients with respect to layers; see `integrated_gradients`

    Raises OptionError for an object that is not an agent with gradients, an agent that observes vectors, an unknown
    method, output or baseline, and `frames` below 1; SamplesError for samples that do not fit the agent.
    """
    check_baseline("baseline", baseline)
    chosen = chosen_methods(agent, methods, frames)
    checked = choose_frames(as_trajectories(agent, trajectories), int(frames))
    reports = {
        report.method: report
        for group in shared_passes(find_methods(agent, chosen, baseline, checked.observations))
        for report, _ in check_methods(agent, group, checked, output, seed)
    }
    return SanityReport(output, len(checked.observations), [reports[name] for name in chosen])


def chosen_methods(agent: Agent, methods: Sequence[str] | None, frames: int, page: str | None = None) -> list[str]:
    """Return the names of the methods to check, by default all of them.

    Raises OptionError for the same reasons as `sanity_checks`, and for a page of a different network.
    """
    agent = require(agent, "forward", "gradients", "tails", for_="sanity_checks")
    check_count("frames", frames)
    if is_vector(agent):
        raise OptionError(
            "sanity checks compare maps of images, but the agent observes vectors; rl_clarity.run shows the "
            "attribution to each input, in the layer 'input'"
        )
    layers = layer_methods(agent, page=page)
    if methods is None:
        return [*filter(METHODS.find, METHODS), *layers]
    for name in methods:
        if name not in METHODS and name not in layers:
            raise OptionError(f"methods={name!r} is not one of {', '.join((*METHODS, *layers))}")
    return list(methods)


def shared_passes(methods: Mapping[str, SaliencyMethod]) -> list[dict[str, SaliencyMethod]]:
    """Group methods by name, so that the methods of a group share their evaluations of the network."""
    groups: list[dict[str, SaliencyMethod]] = []
    for name, method in methods.items():
        group = next((one for one in groups if method.shares_passes(next(iter(one.values())))), None)
        if group is None:
            groups.append({name: method})
        else:
            group[name] = method
    return groups


def check_methods(
    agent: Agent,
    named: Mapping[str, SaliencyMethod],
    frames: CheckedFrames,
    output: SaliencyOutput,
    seed: int,
    report: Report = lambda share: None,
) -> list[tuple[MethodReport, np.ndarray]]:
    """Check the methods of a group from `shared_passes`.

    Returns a report for each method, with its maps (S + 1, b, H, W) of the b frames `frames[frames.spread]`: first the
    maps of the trained agent, then those of S agents in which more and more layers are random.
    """
    methods = list(named.values())
    few, observations, state = frames[frames.spread], frames.observations, frames.state
    values = shared_values(methods, agent, observations, [output], state)
    trained = [pixel_maps(agent, *pair)[0] for pair in zip(methods, values, strict=True)]
    errors = [_relative_error(one) if isinstance(one, Attribution) else None for one in values]
    maps, count = [[one[frames.spread]] for one in trained], len(randomized_layers(agent))
    stages: list[list[Randomization]] = [[] for _ in methods]
    for number, (layer, randomized) in enumerate(_randomized(agent, seed), start=1):
        others = shared_values(methods, randomized, few.observations, [output], few.state)
        for i, (method, other) in enumerate(zip(methods, others, strict=True)):
            maps[i].append(pixel_maps(randomized, method, other)[0])
            signed = _signed_correlation(values[i], other, frames.spread)
            stages[i].append(Randomization(layer, *_agreement(maps[i][0], maps[i][-1]), signed))
        report(number / (count + 1))
    reports = []
    for i, name in enumerate(named):
        deletion, insertion = (
            compare_orders(agent, observations, trained[i], output, insertion=insertion, state=state, seed=seed)
            for insertion in (False, True)
        )
        reports.append((MethodReport(name, stages[i], deletion, insertion, errors[i]), np.stack(maps[i])))
    return reports


def find_methods(
    agent: Agent,
    names: Sequence[str],
    baseline: str = DEFAULT_BASELINE,
    observations: np.ndarray | None = None,
    page: str | None = None,
) -> dict[str, SaliencyMethod]:
    """Return the methods with these names, which `chosen_methods` has checked. See `layer_methods`."""
    layers = layer_methods(agent, baseline, observations, page)
    return {name: layers.get(name) or METHODS.get(name) for name in names}


def layer_methods(
    agent: Agent,
    baseline: str = DEFAULT_BASELINE,
    observations: np.ndarray | None = None,
    page: str | None = None,
) -> dict[str, SaliencyMethod]:
    """Return saliency methods that attribute an output to layers, by name.

    They are `integrated_gradients LAYER` for each layer of the agent and, if `page` is not None, `features LAYER` for
    each layer of the page: the attribution to the page's features, without the residual.

    Baselines that depend on other observations are computed from `observations`. Raises OptionError for a page of a
    different network.
    """
    parameters: dict[str, Any] = {"steps": PATH_STEPS, "quadrature": "midpoint", "baseline": baseline}
    if baseline in OBSERVED_BASELINES:
        parameters["baseline_observations"] = observations
    methods = {
        f"integrated_gradients {layer.name}": SaliencyMethod(
            f"integrated gradients {layer.name}", "", partial(_attribute, layer.site.name, None), parameters
        )
        for layer in choose_layers(agent)
    }
    for name, features in ({} if page is None else page_features(page)).items():
        site, channels = find_site(agent.sites, name), features.reduction.components.shape[1]
        if site.shape[-1] != channels:
            raise OptionError(
                f"page={page!r} is a page of a different network: its layer {name} has {channels} channels, but the "
                f"agent's layer has {site.shape[-1]}"
            )
        function = partial(_attribute, site.name, features.reduction)
        methods[f"features {name}"] = SaliencyMethod(f"features {name}", "", function, parameters)
    return methods


def _attribute(
    layer: str,
    reduction: ChannelReduction | None,
    agent: Agent,
    observations: np.ndarray,
    outputs: list[SaliencyOutput],
    **options: Any,
) -> Attribution:
    """Return the attribution to the channels of a layer, or to the features of a reduction, without the residual."""
    scores = linear_scores(agent, outputs, observations, options["state"])
    attribution = attribute(agent, observations, layer, scores, **options)
    if reduction is None:
        return attribution
    return replace(attribution, values=np.stack([reduction.signed_transform(one)[0] for one in attribution.values]))


def choose_frames(trajectories: Trajectories, frames: int) -> CheckedFrames:
    """Return at most `frames` frames, evenly spaced over all trajectories. Raises SamplesError if there are none."""
    ends = np.cumsum([trajectories.steps(row) for row in range(len(trajectories))], dtype=int)
    total = int(ends[-1]) if len(ends) else 0
    if not total:
        raise SamplesError("the trajectories contain no frames")
    chosen = np.unique(np.linspace(0, total - 1, min(frames, total)).round().astype(int))
    rows = np.searchsorted(ends, chosen, side="right")
    steps = chosen - np.concatenate([[0], ends])[rows]

    def at(array: np.ndarray) -> np.ndarray:
        return np.stack([np.asarray(array[row, step]) for row, step in zip(rows, steps, strict=True)])

    states = trajectories.states
    state = None if states is None else tuple(map(at, states))
    return CheckedFrames(at(trajectories.observations), state, rows, steps)


def randomized_layers(agent: Agent) -> dict[str, list[str]]:
    """Return the names of each layer's parameters, from the outputs down; empty if parameters cannot be set."""
    layers: dict[str, list[str]] = {}
    if has(agent, "other_parameters"):
        for name in cast(BatchedAgent, agent).parameters():
            if not name.startswith("edits/"):
                layers.setdefault(LAST_PART.sub("", name), []).append(name)
    return dict(reversed(layers.items()))


def _randomized(agent: Agent, seed: int) -> Generator[tuple[str, Agent]]:
    """Yield the name of each layer, and the agent with parameters randomized from the outputs down to this layer.

    Each parameter is drawn from a normal distribution with its trained mean and standard deviation, so activations keep
    their scale.
    """
    rng = np.random.default_rng(seed)
    randomized: dict[str, np.ndarray] = {}
    layers = randomized_layers(agent)
    settable = cast(BatchedAgent, agent)
    trained = dict(settable.parameters()) if layers else {}
    for layer, names in layers.items():
        for name in names:
            array = np.asarray(trained[name])
            if array.dtype.kind == "f":
                randomized[name] = rng.normal(array.mean(), array.std(), array.shape).astype(array.dtype)
        with settable.other_parameters(randomized) as other:
            yield layer, other


@contextmanager
def all_randomized(agent: Agent, seed: int) -> Iterator[Agent]:
    """Context manager for an agent with random parameters. Raises OptionError if the parameters cannot be set."""
    count = len(randomized_layers(agent))
    if not count:
        raise OptionError("the parameters of this agent cannot be set")
    stages = _randomized(agent, seed)
    try:
        yield next(islice(stages, count - 1, None))[1]
    finally:
        stages.close()


def _agreement(trained: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the mean rank correlation and the mean structural similarity of pairs of maps (B, H, W)."""
    similarities = [structural_similarity(_scaled(a), _scaled(b)) for a, b in zip(trained, other, strict=True)]
    return float(np.mean(_rank_correlations(trained, other))), float(np.mean(similarities))


def _signed_correlation(
    trained: np.ndarray | Attribution, other: np.ndarray | Attribution, spread: slice
) -> float | None:
    """Return the mean absolute rank correlation of signed attribution, or None for methods without `Attribution`.

    `trained` is for all frames, and `other`, the attribution of a randomized agent, only for the frames `spread`. The
    absolute value is used, because random heads may flip all signs.
    """
    if not (isinstance(trained, Attribution) and isinstance(other, Attribution)):
        return None
    pair = trained.values[0, spread].sum(axis=-1), other.values[0].sum(axis=-1)
    return float(np.mean(np.abs(_rank_correlations(*pair))))


def _rank_correlations(first: np.ndarray, second: np.ndarray) -> list[float]:
    """Return Spearman's rank correlation of each pair of maps (B, h, w), or 0 if one of them is constant."""
    from scipy.stats import spearmanr

    return [
        0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(spearmanr(a.ravel(), b.ravel()).statistic)
        for a, b in zip(first, second, strict=True)
    ]


def _scaled(image: np.ndarray) -> np.ndarray:
    peak = image.max()
    return np.asarray(image / peak if peak > 0 else image, np.float64)


def structural_similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Return the SSIM (Wang, Bovik, Sheikh and Simoncelli, 2004) of two images (H, W) from 0 to 1, with Gaussian
    windows.
    """
    from scipy.ndimage import gaussian_filter

    def local(x: np.ndarray) -> np.ndarray:
        return np.asarray(gaussian_filter(x, SSIM_SIGMA, truncate=3.5))

    mean_a, mean_b = local(a), local(b)
    variance_a, variance_b = local(a * a) - mean_a**2, local(b * b) - mean_b**2
    covariance = local(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    return float((luminance * (2 * covariance + c2) / (variance_a + variance_b + c2)).mean())


def _relative_error(attribution: Attribution) -> float:
    """Return the mean |completeness error|, relative to the mean |difference from the baseline|."""
    difference = np.abs(attribution.scores - attribution.scores_at_baseline).mean()
    return float(np.abs(attribution.completeness_error).mean() / difference) if difference else 0.0


def hint_share(maps: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Return the share (B,) of each map's total magnitude that lies in a region, such as `ActionHints.region`.

    The share is 0 for a map that is 0 everywhere.

    Args:
        maps: (B, H, W) or (B, H, W, C), of any sign; or (B, gh, gw) from `perturbation_saliency` with its default sizes
        region: (H, W) bool, the pixels of the observation that belong to the region

    Raises SamplesError for maps of the wrong shape.
    """
    region = np.asarray(region, bool)
    grid = PerturbationGrid.for_shape(*region.shape)
    mass = np.abs(maps)
    if mass.ndim == 4:
        mass = mass.sum(axis=-1)
    elif mass.shape[1:] == grid.shape:
        mass = grid.upsample(mass)
    if mass.shape[1:] != region.shape:
        raise SamplesError(
            f"maps have the shape {np.shape(maps)}; a region of shape {region.shape} needs (B, *{region.shape})"
        )
    inside, total = mass[:, region].sum(axis=1), mass.sum(axis=(1, 2))
    return np.divide(inside, total, out=np.zeros(len(mass)), where=total > 0)
