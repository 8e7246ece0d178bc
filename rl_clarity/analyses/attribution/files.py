"""The files that attribution writes, and the section of the page that describes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.quadrature import DEFAULT_STEPS
from rl_clarity.analyses.attribution.refinement import DEFAULT_REFINEMENT, check_refinement
from rl_clarity.analyses.features import finished_layer
from rl_clarity.analyses.layers import PageLayer, PathOptions
from rl_clarity.base.parsing import check_minimum, hidden
from rl_clarity.jobs.tasks import Results
from rl_clarity.pages.chunks import Chunk, encode_chunk
from rl_clarity.pages.files import ChunkName, ExtraImageName, PageFiles, check_subdirectories, path_in, segments
from rl_clarity.pages.sections import SectionData
from rl_clarity.visualization.colors import page_colors
from rl_clarity.visualization.quantization import quantize
from rl_clarity.visualization.rendering import DIRECTIONS, Direction
from rl_clarity.visualization.totals import (
    effect_spread,
    mean_effects,
    output_decomposition,
    unexplained_shares,
    variance_share,
)

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True)
class AttributionOptions(PathOptions):
    """Options of attribution to layers."""

    steps: int = DEFAULT_STEPS
    """Number of points on the path of integrated gradients; `refinement` adds points where the completeness error is
    large."""
    refinement: int = DEFAULT_REFINEMENT
    """Largest factor by which the number of points may grow at steps whose completeness error is above 5 % of the
    output's range: a power of three, or 1 to add no points. Paths in the reduced channels (`max_paths`), and the paths
    of the attribution that features are fitted to, get no additional points."""
    max_paths: int | None = None
    """Average over this many random paths in the reduced channels; None uses only the straight path."""
    policy: bool = False
    """Also attribute the logit (or action value) of every action, and the sum of each action group. If an action is not
    a single choice, these outputs are always attributed."""
    images: bool = False
    """Also write rendered images, like understanding-rl-vision."""
    attribution_subdir: str = hidden("attribution/")
    attribution_scrub_subdir: str = hidden("attribution_scrub/")
    attribution_totals_subdir: str = hidden("attribution_totals/")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum(self, 1, "steps", "max_paths")
        check_refinement("refinement", self.refinement)
        check_subdirectories(self)


@dataclass(frozen=True)
class OutputInfo:
    """An output that is attributed."""

    id: str
    """`value`, `action-3`, `group-0` or `greedy`."""
    kind: Literal["value", "action", "group", "greedy"]
    """`greedy` is the best action value or the largest logit. It replaces the value for agents without a value."""
    label: str
    action: int | None = None
    group: int | None = None
    error_limit: float | None = None
    """Completeness error above which points are added to the path (`attribution.refinement`): 5 % of the output's range
    over all steps. Absent if the output does not vary, and in older pages."""


@dataclass(frozen=True)
class UnexplainedVariance:
    """Shares of an output's variance that attribution does not explain; with `variance_share`, they add up to 1."""

    baseline: float
    """Share due to the output at the baseline. This output varies if the baseline depends on the observation (`blur`),
    or if paths from the observation to the output bypass the layer."""
    memory: float
    completeness_error: float


@dataclass(frozen=True)
class LayerEntry:
    """A layer in the section, with K features."""

    name: str
    """Short name."""
    slug: str
    """Name of the layer in file names and URLs."""
    full_name: str
    """Name of the layer's site in the network."""
    kind: Literal["layer", "input"]
    """The features of a layer of kind `input` are its color channels. Such a layer has no residual and no completeness
    error."""
    height: int
    width: int
    depth: int
    channels: int
    """Number of features K."""
    colors: Sequence[str]
    """Color of each feature, such as `#ff0000`."""
    hues: Sequence[Sequence[float]]
    """Red, green and blue of each feature's hue, with unit L2 norm."""
    effects: Mapping[str, Sequence[float]]
    """By output, the mean contribution of each feature over all steps, followed by that of the residual; empty until
    attribution is computed."""
    scales: Mapping[str, Sequence[float]]
    """By output, the value that is shown at full brightness in each trajectory."""
    totals: Sequence[ChunkName]
    """The chunk of totals of each trajectory."""
    attribution: Mapping[str, Sequence[Sequence[ChunkName]]]
    """By output, the chunk of each segment of each trajectory. Groups have no chunks, because their attribution is the
    sum of their actions' attribution (pages of earlier versions have chunks of groups)."""
    effect_spread: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By output, the 10th and 90th percentiles over all steps of each contribution, in the order of `effects`; empty
    until attribution is computed, absent in older pages."""
    limits: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By output, the value that is shown at full opacity in each trajectory if each position has the color of its
    strongest feature; 99.25 % of the positions do not exceed it. Keys such as `action-3-less-mean` are for an action's
    attribution minus the policy's mean attribution over actions. Empty until attribution is computed."""
    label: str | None = None
    """Label that the page shows instead of `name`. Residual blocks have labels such as `block 2, 16 x 16 x 32`. Layers
    whose names a framework generated (`features.4`, `Relu_2`) have labels such as `conv 3` or `block 2, conv 3`."""
    variance_share: Mapping[str, float | None] | None = None
    """By output, the share of its variance over all steps that attribution explains, 1 - var(output - features -
    residual) / var(output); null for an output that does not vary. Absent for the input, and until attribution is
    computed."""
    unexplained: Mapping[str, UnexplainedVariance | None] | None = None
    """By output, the causes of the remaining variance; absent where `variance_share` is absent."""
    bypassed: bool | None = None
    """true if paths from the observation to the output bypass the layer, such as the skip connections around a ReLU
    inside a residual block."""
    refined: Mapping[str, float] | None = None
    """By output, the share of the steps whose path has additional points. Absent for the input, and until attribution
    is computed."""
    incomplete: Mapping[str, float] | None = None
    """For each output with an `error_limit`, the share of the steps whose completeness error is above the limit. Absent
    for the input, and until attribution is computed."""
    images: Mapping[str, Mapping[str, Sequence[Sequence[ExtraImageName]]]] | None = None
    """With `attribution.images`, by output and selection, the image of each segment of each trajectory. A selection,
    such as `pos-prin`, has a sign (`abs`, `pos` or `neg`) and names what is drawn: all features (`prin`), features and
    residual (`all`), the residual (`res`), or one feature (`1`, `2`, ...)."""
    scrubs: Mapping[str, Mapping[str, Sequence[Sequence[ExtraImageName]]]] | None = None
    """By output and selection, the filmstrip of each of `images`."""


@dataclass(frozen=True)
class AttributionSection(SectionData):
    """Attribution of outputs to layers."""

    kind = "attribution"
    title = "Attribution"
    outputs: Sequence[OutputInfo]
    layers: Sequence[LayerEntry]
    """The layers. The input is first, if it is included."""
    baseline: str | None = None
    """Baseline of attribution: `zero-input`, `mean`, `blur`, `narrow-blur`, `median` or `expected`; absent for
    activations of 0. If it was chosen by measured effects, the section `baseline` explains the choice."""
    opening: str | None = None
    """Name of the layer that the page opens with: the first one, which has the finest resolution. Absent in older
    pages, which open with the layer in the middle."""


def chunk_name(options: AttributionOptions, layer: PageLayer, output: str, trajectory: int, segment: int) -> ChunkName:
    return ChunkName(path_in(options.attribution_subdir, f"{layer.slug}/{trajectory + 1}/{output}-{segment + 1}.js"))


def totals_name(options: AttributionOptions, layer: PageLayer, trajectory: int) -> ChunkName:
    return ChunkName(path_in(options.attribution_totals_subdir, f"{layer.slug}/{trajectory + 1}/totals.js"))


def attribution_chunk(name: str, channels: np.ndarray, residual: np.ndarray | None = None) -> Chunk:
    """Return a chunk of a segment's reduced attribution (n, h, w, K) and residual (n, h, w, 1), both in units of
    attribution.
    """
    codes, scales = quantize(channels if residual is None else np.concatenate([channels, residual], axis=-1))
    return encode_chunk(name, {"codes": codes, "scales": scales})


def write_totals(files: PageFiles, name: str, sums: Mapping[str, np.ndarray]) -> None:
    """Write the chunk of totals of a trajectory of T steps.

    `sums` has arrays of each output: `totals.OUTPUT` (T, K + 1, 2), `peak.OUTPUT` (T, K, 2), `gap.OUTPUT` (T, 3) and
    `memory.OUTPUT` (T,). For a layer, it also has `activation` (T, K).
    """
    types = {"f": np.float32, "i": np.int32}
    files.write_chunk(name, {key: values.astype(types[values.dtype.kind]) for key, values in sums.items()})


def read_totals(
    subject: Subject, layer: PageLayer, trajectory: int, part: Literal["totals", "peak"] = "totals"
) -> dict[str, np.ndarray]:
    """Return the totals (T, K + 1, 2) along a trajectory by output, or the positions of the peaks (T, K, 2)."""
    arrays = _read_sums(subject, layer, trajectory)
    return {key.partition(".")[2]: values for key, values in arrays.items() if key.startswith(f"{part}.")}


def _read_sums(subject: Subject, layer: PageLayer, trajectory: int) -> dict[str, np.ndarray]:
    return subject.files.read_chunk(totals_name(subject.options_of(AttributionOptions), layer, trajectory))


def _decompositions(sums: Sequence[Mapping[str, np.ndarray]], output: str) -> list[dict[str, np.ndarray]]:
    """Return the decomposition of an output along each trajectory."""
    return [
        output_decomposition(one[f"totals.{output}"], one[f"gap.{output}"], one.get(f"memory.{output}")) for one in sums
    ]


def _unexplained(sums: Sequence[Mapping[str, np.ndarray]], output: str) -> UnexplainedVariance | None:
    shares = unexplained_shares(_decompositions(sums, output))
    return None if shares is None else UnexplainedVariance(**shares)


def _incomplete_share(sums: Sequence[Mapping[str, np.ndarray]], output: str, limit: float) -> float:
    """Return the share of steps of all trajectories whose completeness error is above a limit."""
    return float(np.mean(incomplete_steps(np.concatenate([one[f"gap.{output}"] for one in sums]), limit)))


def incomplete_steps(gap: np.ndarray, limit: float | None) -> np.ndarray:
    """Return a mask (T,) of the steps whose completeness error is above a limit. If the limit is None, no step is
    marked.

    `gap` (T, 3) is the array of an output in the chunk of totals.
    """
    attribution, difference, _ = gap.T
    return np.abs(difference - attribution) > (math.inf if limit is None else limit)


def layer_entry(subject: Subject, layer: PageLayer, outputs: Sequence[OutputInfo], results: Results) -> LayerEntry:
    """Return the section's entry for a layer.

    Until attribution is computed for all trajectories, effects are empty, and unknown scales are 1.
    """
    layer = layer if layer.is_input else finished_layer(layer, results)
    options, trajectories = subject.options_of(AttributionOptions), range(len(subject.trajectories.actions))
    facts = [results.get(f"attribution/{layer.name}/{trajectory + 1}") for trajectory in trajectories]
    ids = [output.id for output in outputs]
    height, width, depth = layer.shape
    entry = LayerEntry(
        name=layer.name,
        slug=layer.slug,
        full_name=layer.full_name,
        kind="input" if layer.is_input else "layer",
        height=height,
        width=width,
        depth=depth,
        channels=layer.channels,
        colors=page_colors(layer.hues),
        hues=layer.hues.tolist(),
        label=layer.label or None,
        bypassed=layer.bypassed or None,
        effects={},
        scales={output: [1.0 if one is None else one["scales"][output] for one in facts] for output in ids},
        totals=[totals_name(options, layer, trajectory) for trajectory in trajectories],
        attribution={
            output.id: _by_segment(subject, partial(chunk_name, options, layer, output.id))
            for output in outputs
            if output.kind != "group"
        },
    )
    finished = [one for one in facts if one is not None]
    if len(finished) < len(facts):
        return entry
    sums = [_read_sums(subject, layer, trajectory) for trajectory in trajectories]
    totals = {output: [one[f"totals.{output}"] for one in sums] for output in ids}
    entry = replace(
        entry,
        effects={output: mean_effects(by_trajectory).tolist() for output, by_trajectory in totals.items()},
        effect_spread={output: effect_spread(by_trajectory).tolist() for output, by_trajectory in totals.items()},
        limits={output: [one["limits"][output] for one in finished] for output in finished[0]["limits"]},
    )
    if not layer.is_input:
        entry = replace(
            entry,
            variance_share={output: variance_share(_decompositions(sums, output)) for output in ids},
            unexplained={output: _unexplained(sums, output) for output in ids},
            refined={output: float(np.mean([one["refined"][output] for one in finished])) for output in ids},
            incomplete={
                output.id: _incomplete_share(sums, output.id, output.error_limit)
                for output in outputs
                if output.error_limit is not None
            },
        )
    if not options.images:
        return entry
    images, scrubs = (
        {
            output: {
                name: _by_segment(subject, partial(image, options, layer, output, name))
                for name, _, _ in selections(layer.channels, residual=not layer.is_input)
            }
            for output in ids
        }
        for image in (rendered_name, rendered_scrub_name)
    )
    return replace(entry, images=images, scrubs=scrubs)


def _by_segment(subject: Subject, name: Callable[[int, int], Name]) -> list[list[Name]]:
    """Return a name for each segment of each trajectory."""
    count, steps = subject.trajectories.rewards.shape
    return [[name(trajectory, segment) for segment in range(len(segments(steps)))] for trajectory in range(count)]


def selections(channels: int, residual: bool) -> Iterator[tuple[str, Direction, str | int]]:
    """Yield the name, sign and channel of each selection that is rendered: 33 for eight channels and a residual."""
    chosen: list[tuple[str, str | int]] = [("prin", "prin")]
    chosen += [("all", "all"), ("res", "res")] if residual else []
    chosen += [(str(channel + 1), channel) for channel in range(channels)]
    for direction in DIRECTIONS:
        for name, channel in chosen:
            yield f"{direction}-{name}", direction, channel


def rendered_name(
    options: AttributionOptions, layer: PageLayer, output: str, selection: str, trajectory: int, segment: int
) -> ExtraImageName:
    """Return the name of a segment's rendered images."""
    name = f"{layer.slug}/{trajectory + 1}/{output}-{selection}-{segment + 1}.png"
    return ExtraImageName(path_in(options.attribution_subdir, name))


def rendered_scrub_name(
    options: AttributionOptions, layer: PageLayer, output: str, selection: str, trajectory: int, segment: int
) -> ExtraImageName:
    """Return the name of the filmstrip of a segment's rendered images."""
    name = f"{layer.slug}/{trajectory + 1}/scrub-{output}-{selection}-{segment + 1}.png"
    return ExtraImageName(path_in(options.attribution_scrub_subdir, name))
