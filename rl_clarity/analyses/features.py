"""The features of a layer: its channel reduction, and the observations to which each reduced channel responds most."""

from __future__ import annotations

import dataclasses
import functools
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import is_vector, parallel_calls, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.chosen_baseline import STAGE as BASELINE_STAGE
from rl_clarity.analyses.chosen_baseline import choice_inputs, with_chosen_baseline
from rl_clarity.analyses.feature_facts import (
    describe_features,
    measure_receptive_field,
    observation_episodes,
    write_facts,
)
from rl_clarity.analyses.feature_fit import (
    FIT_POSITIONS,
    LayerFeatures,
    fit_features,
    fitted_on,
    measured_on,
    states_of,
)
from rl_clarity.analyses.feature_names import FeatureNameOptions, check_feature_names, layer_feature_names
from rl_clarity.analyses.feature_section import (
    AtlasEntry,
    CoveredAttribution,
    FeaturesSection,
    LayerFeaturesEntry,
    ReductionErrors,
)
from rl_clarity.analyses.given_components import check_components, check_match, earlier_names
from rl_clarity.analyses.layers import (
    MEMORY_HINT,
    PageLayer,
    PathOptions,
    ReductionOptions,
    gradient_bytes,
    gradient_piece,
    is_inputs,
    page_layers,
    sample_frames,
    task_size,
)
from rl_clarity.analyses.numeric_inputs import vector_names
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_minimum, check_option, hidden
from rl_clarity.base.progress import Report, subrange
from rl_clarity.base.threads import in_threads, prefetch, thread_count
from rl_clarity.jobs.spool import HELD_BYTES, Spool
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import (
    ChunkName,
    ExtraImageName,
    ImageName,
    PageFiles,
    check_subdirectories,
    number_text,
    path_in,
)
from rl_clarity.pages.images import newest_frames, to_bytes
from rl_clarity.pages.schema import read
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.matching import feature_ids
from rl_clarity.reduction.nmf import FIT_ROWS, check_reduction
from rl_clarity.reduction.stability import FITS, ROWS
from rl_clarity.visualization.dataset_examples import Examples, dataset_grids, thumbnail
from rl_clarity.visualization.feature_facts import feature_facts
from rl_clarity.visualization.optimization import STEPS, optimize_images
from rl_clarity.visualization.patches import draw_grid, draw_thumbnail

ATLAS = "atlas"
"""Name of the task that writes the atlas of extra observations."""
THUMBNAIL_BYTES = 30_000
FIT_PART = 10
"""Divisor of the number of rows of a fit: the forecast measures a fit to a tenth of them."""
MEASURED_STEPS = 4
"""Number of optimization steps that the forecast measures."""


@dataclass(frozen=True)
class FeatureImageOptions:
    """Options of images of features."""

    thumbnail_patches: int = 4
    """Number of patches along each side of a thumbnail."""
    thumbnail_width: float = 4
    """Width of the patches in a thumbnail, in layer positions."""
    images: bool = False
    """Also write images of the dataset examples."""
    optimized: bool = False
    """Also create, for each feature, an image that maximizes its activation."""
    features_subdir: str = hidden("features/")
    thumbnails_subdir: str = hidden("thumbnails/")

    def __post_init__(self) -> None:
        check_minimum(self, 1, "thumbnail_patches")
        check_option(self, "thumbnail_width", self.thumbnail_width > 0, "must be above 0")
        check_subdirectories(self)


@dataclass(frozen=True)
class FeatureOptions(FeatureImageOptions, FeatureNameOptions, ReductionOptions):
    """Features to which the channels of a layer are reduced."""

    def __post_init__(self) -> None:
        for part in (ReductionOptions, FeatureNameOptions, FeatureImageOptions):
            part.__post_init__(self)


@dataclass(frozen=True)
class ExampleOptions:
    """Dataset examples of features."""

    densities: tuple[float, ...] = (0.125, 0.25, 0.5, 1)
    """Densities of the grid of dataset examples, in cells per layer position."""
    density: float | None = None
    """Density when the page opens; by default the lowest one with at least 3 x 3 patches."""
    widths: tuple[float, ...] = (1, 2, 4, 8)
    """Widths of the patches, in layer positions."""
    width: float = 4
    """Width when the page opens."""
    observations_subdir: str = hidden("observations/")
    features_grids_subdir: str = hidden("features_grids/")

    def __post_init__(self) -> None:
        for name, offered, default in (("densities", self.densities, "density"), ("widths", self.widths, "width")):
            check_option(
                self, name, bool(offered) and min(offered) > 0, "must have at least one number, and all must be above 0"
            )
            chosen = getattr(self, default)
            check_option(self, default, chosen is None or chosen in offered, f"must be in {name}={offered}")
        check_subdirectories(self)


class FeaturesAnalysis(Analysis[FeatureOptions, FeaturesSection]):
    """Fits the features of each layer, and chooses their dataset examples."""

    kind = "features"
    version = 3
    needs_all = False

    def check(self, agent: Agent, options: FeatureOptions, page: SubjectOptions) -> None:
        check_reduction("features.reduction", options.reduction)
        check_feature_names(options, page_layers(agent, page))
        check_components(options, page_layers(agent, page))
        check_match(options, page_layers(agent, page))
        if options.optimized and is_vector(agent):
            raise OptionError(
                "features.optimized=True: features are visualized as images, but the agent observes vectors"
            )
        if options.optimized:
            require(agent, "gradient_of_direction", for_="features.optimized")

    def tasks(self, subject: Subject, options: FeatureOptions) -> Iterable[Task]:
        count = len(subject.observations.observations)
        examples = subject.options_of(ExampleOptions)
        shown = [examples.densities, examples.widths if options.images else None]
        for layer in feature_layers(subject):
            yield self.task(
                subject,
                self.task_name(layer.name),
                partial(find_features, subject, layer),
                [reduction_inputs(subject), subject.decisive(FeatureImageOptions), asdict(layer), shown],
                size=task_size(layer, count),
                after=(BASELINE_STAGE,),
                pieces=partial(_pieces, layer, count),
                output_bytes=THUMBNAIL_BYTES * layer.channels,
                frame_bytes=gradient_bytes(subject.agent, layer.shape, 1),
                held_bytes=_held_bytes(layer, count, fitted_on(options, count)),
                parallel=parallel_calls(subject.agent),
                memory_hint=MEMORY_HINT,
            )

    def sections(self, subject: Subject, options: FeatureOptions, results: Results) -> Iterable[FeaturesSection]:
        layers = {layer.slug: layer_entry(subject, layer, results) for layer in feature_layers(subject)}
        atlas = results.get(ATLAS)
        yield FeaturesSection(layers, None if atlas is None else read(AtlasEntry, atlas, ATLAS))


def feature_layers(subject: Subject) -> list[PageLayer]:
    """Return the layers that have features: all layers of the page except an image input."""
    return [layer for layer in page_layers(subject.agent, subject.options) if not layer.is_input]


def reduction_inputs(subject: Subject) -> list[object]:
    """Return everything that determines the channel reduction, in addition to agent and samples, for cache keys."""
    shared = {name: getattr(subject.options, name) for name in ("seed", "batch_size")}
    return [subject.decisive(ReductionOptions, PathOptions), shared, *choice_inputs(subject)]


def layer_entry(subject: Subject, layer: PageLayer, results: Results) -> LayerFeaturesEntry:
    """Return the section's entry for a layer. Fields that are not computed yet are None."""
    layer = finished_layer(layer, results)
    options, examples, channels = subject.options_of(FeatureOptions), subject.options_of(ExampleOptions), layer.channels
    names = layer_feature_names(options, layer)
    if is_inputs(layer):
        inputs = vector_names(subject.agent, subject.metadata)
        names = [name or own for name, own in zip(names, inputs, strict=True)]
    entry = LayerFeaturesEntry(
        [thumbnail_name(options, layer, channel) for channel in range(channels)],
        chunk=examples_name(examples, layer) if "examples" in subject.analyses else None,
        names=names if any(names) else None,
    )
    facts = results.get(FeaturesAnalysis.task_name(layer.name))
    if facts is None:
        return entry
    measured = {name: facts[name] for name in ("reduction", "statistics", "receptive_field", "ids", "matched")}
    if facts["names"] is not None:
        names = [name or earlier for name, earlier in zip(names, facts["names"], strict=True)]
        measured["names"] = names if any(names) else None
    measured |= results.get(f"examples/{layer.name}") or {}
    covered = CoveredAttribution(facts["next_feature"], _coverage(subject, layer, results))
    images = {
        f"{number_text(density)} x {number_text(width)}": [
            image_name(options, layer, channel, density, width) for channel in range(channels)
        ]
        for density in examples.densities
        for width in examples.widths
    }
    optimized = [optimized_name(options, layer, channel) for channel in range(channels)]
    return dataclasses.replace(
        entry,
        **measured,
        facts=covered,
        images=images if options.images else None,
        optimized=optimized if options.optimized else None,
    )


def _coverage(subject: Subject, layer: PageLayer, results: Results) -> dict[str, float | None] | None:
    """Return, by output, the share of the magnitudes of attribution that the features cover.

    Return None until the attribution of all trajectories is computed.
    """
    count = len(subject.trajectories.actions)
    finished = [results.get(f"attribution/{layer.name}/{trajectory + 1}") for trajectory in range(count)]
    facts = [one for one in finished if one is not None]
    if len(facts) < count:
        return None
    sums = {output: np.sum([one["magnitudes"][output] for one in facts], axis=0) for output in facts[0]["magnitudes"]}
    return {output: _ratio(*parts) for output, parts in sums.items()}


def _ratio(features: float, everything: float) -> float | None:
    return float(features / everything) if everything else None


def thumbnail_name(options: FeatureOptions, layer: PageLayer, channel: int) -> ImageName:
    return ImageName(path_in(options.thumbnails_subdir, f"{layer.slug}/thumbnail-{channel + 1}.png"))


def image_name(options: FeatureOptions, layer: PageLayer, channel: int, density: float, width: float) -> ExtraImageName:
    place = f"density-{number_text(density)}-zoom-{number_text(width)}"
    return ExtraImageName(path_in(options.features_subdir, f"{layer.slug}/feature-{channel + 1}-{place}.png"))


def optimized_name(options: FeatureOptions, layer: PageLayer, channel: int) -> ImageName:
    return ImageName(path_in(options.features_subdir, f"{layer.slug}/optimized-{channel + 1}.png"))


def examples_name(options: ExampleOptions, layer: PageLayer) -> ChunkName:
    return ChunkName(path_in(options.features_grids_subdir, f"{layer.slug}/grids.js"))


def find_features(subject: Subject, layer: PageLayer, work: Work) -> TaskResult:
    """Fit the layer's reduction, choose its dataset examples, and write their images. `load_features` loads the
    results.
    """
    options, files, report = subject.options_of(FeatureOptions), subject.files, work.report
    subject = with_chosen_baseline(subject, work.results)
    features = fit_features(
        subject, layer, min(work.frames, subject.options.batch_size), work.threads, subrange(report, 0, 0.6)
    )
    layer = fitted_layer(layer, features)
    reduced = _reduced_activations(subject, layer, features, work.frames, subrange(report, 0.6, 0.8))
    frames = subject.observation_frames()
    names: list[str] = []
    grids = []
    densities = subject.options_of(ExampleOptions).densities
    choose = partial(_choose_examples, densities, options.thumbnail_patches)
    for part in slices(layer.channels, work.threads):  # only a few at a time, because each is large
        channels = range(part.start, part.stop)
        for channel, (examples, strongest) in zip(
            channels, in_threads(choose, [reduced.get(channel) for channel in channels]), strict=True
        ):
            grids.append(examples)
            names.append(_write_thumbnail(subject, layer, channel, strongest, frames))
            if options.images:
                names += write_grid_images(subject, layer, channel, examples, frames)
        report(0.8 + 0.2 * len(grids) / layer.channels)
    if options.optimized:
        names += write_optimized_images(subject, layer, features.reduction)
    facts = feature_facts(reduced.get, layer.channels, observation_episodes(subject))
    names.append(write_facts(files, layer, facts))
    by_density = dict(zip(densities, zip(*grids, strict=True), strict=True))
    features = dataclasses.replace(features, grids=by_density)
    files.directory.write(_data_name(layer), _pack(features))
    described = {
        "reduction": ReductionErrors(features.error, features.fitted_on, features.error_held_out),
        "features": layer.channels,
        "next_feature": features.next_feature,
        "statistics": describe_features(facts, features),
        "receptive_field": measure_receptive_field(subject, layer, work.frames),
        "ids": feature_ids(layer.full_name, features.reduction.components),
        "matched": features.matches,
        "names": features.matches and earlier_names(options, layer, features.matches),
    }
    return TaskResult(described, [*names, _data_name(layer)])


def fitted_layer(layer: PageLayer, features: LayerFeatures) -> PageLayer:
    """Return the layer with the number of features that were fitted, which varies with `features.count="auto"`."""
    return dataclasses.replace(layer, channels=len(features.reduction.components))


def finished_layer(layer: PageLayer, results: Results) -> PageLayer:
    """Return the layer with the number of features that were fitted, if the task that fits them is finished."""
    facts = results.get(f"features/{layer.name}")
    return layer if facts is None else dataclasses.replace(layer, channels=facts["features"])


def load_features(files: PageFiles, layer: PageLayer) -> LayerFeatures:
    """Return the results of `find_features`."""
    with np.load(io.BytesIO(files.directory.read(_data_name(layer)))) as arrays:
        held_out = float(arrays["error_held_out"])
        grids = {}
        for i, density in enumerate(arrays["densities"]):
            fields = (arrays[f"{name}.{i}"] for name in ("indices", "strengths", "centers"))
            grids[float(density)] = tuple(Examples(*values) for values in zip(*fields, strict=True))
        return LayerFeatures(
            ChannelReduction(arrays["components"]),
            float(arrays["error"]),
            int(arrays["fitted_on"]),
            None if np.isnan(held_out) else held_out,
            grids,
            arrays.get("starts"),
            float(arrays["next_feature"]),
            tuple(arrays["side_weights"].tolist()),
        )


def _data_name(layer: PageLayer) -> str:
    return f"{DIRECTORY}/features-{layer.slug}.npz"


def _pack(features: LayerFeatures) -> bytes:
    held_out = features.error_held_out
    arrays: dict[str, Any] = {
        "components": features.reduction.components,
        "error": np.float64(features.error),
        "error_held_out": np.float64(np.nan if held_out is None else held_out),
        "fitted_on": np.int64(features.fitted_on),
        "next_feature": np.float64(features.next_feature),
        "side_weights": np.array(features.side_weights),
        "densities": np.array(list(features.grids), np.float64),
    }
    for i, grids in enumerate(features.grids.values()):
        for name in ("indices", "strengths", "centers"):
            arrays[f"{name}.{i}"] = np.stack([getattr(grid, name) for grid in grids])
    if features.starts is not None:
        arrays["starts"] = features.starts
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _reduced_activations(
    subject: Subject, layer: PageLayer, features: LayerFeatures, batch: int, report: Report
) -> Spool:
    """Return a spool with a row for each feature: its strengths (M, h, w) on the M extra observations."""
    observations = subject.observations.observations
    reduced = Spool(len(observations), layer.shape[:2])
    parts = slices(len(observations), min(subject.options.batch_size, batch))

    def read(part: slice) -> tuple[slice, np.ndarray]:
        return part, subject.agent.activations(observations[part], layer.full_name, states_of(subject, part))

    for part, activations in prefetch(read, parts):
        for channel, values in enumerate(np.moveaxis(features.strengths(activations), -1, 0)):
            reduced.put(channel, part.start, values)
        report(part.stop / len(observations))
    return reduced


def _choose_examples(
    densities: Sequence[float], patches: int, activations: np.ndarray
) -> tuple[list[Examples], Examples]:
    """Return the examples of a feature's grids and of its thumbnail, from its activations (M, h, w)."""
    grids = dataset_grids(activations, densities)
    return grids, thumbnail(activations, patches)


def _write_thumbnail(
    subject: Subject, layer: PageLayer, channel: int, strongest: Examples, frames: np.ndarray
) -> ImageName:
    """Write the thumbnail of a channel, with patches no larger than the observation. Return its name."""
    options = subject.options_of(FeatureOptions)
    width = min(options.thumbnail_width, max(layer.shape[:2]))
    name = thumbnail_name(options, layer, channel)
    subject.files.write_image(name, to_bytes(draw_thumbnail(strongest, frames, layer.shape[:2], width)))
    return name


def write_grid_images(
    subject: Subject, layer: PageLayer, channel: int, grids: Sequence[Examples], frames: np.ndarray
) -> list[str]:
    """Write images of a channel's grids with patches of each width. Return their names."""
    options, examples = subject.options_of(FeatureOptions), subject.options_of(ExampleOptions)
    names: list[str] = []
    for density, grid in zip(examples.densities, grids, strict=True):
        for width in examples.widths:
            names.append(image_name(options, layer, channel, density, width))
            subject.files.write_image(names[-1], to_bytes(draw_grid(grid, frames, layer.shape[:2], width)))
    return names


def write_optimized_images(
    subject: Subject, layer: PageLayer, reduction: ChannelReduction, steps: int = STEPS
) -> list[str]:
    """Write, for each channel, an image that maximizes its activation. Return the names of the images."""
    norms = np.linalg.norm(reduction.components, axis=1, keepdims=True)
    directions = reduction.components / np.maximum(norms, 1e-12)
    rng = np.random.default_rng(subject.options.seed)
    shape = subject.agent.observation_shape
    agent = require(subject.agent, "gradient_of_direction", for_="features.optimized")
    optimized = optimize_images(agent.gradient_of_direction, layer.full_name, directions, shape, rng, steps=steps)
    images = newest_frames(np.round(optimized.images * 255).astype(np.uint8), subject.stack)
    options = subject.options_of(FeatureOptions)
    names = [optimized_name(options, layer, channel) for channel in range(layer.channels)]
    for name, image in zip(names, images, strict=True):
        subject.files.write_image(name, to_bytes(image / np.float32(255)))
    return [*names]


def _held_bytes(layer: PageLayer, observations: int, fitted: int) -> float:
    """Return the memory in bytes that `find_features` needs in addition to that of a batch.

    The memory first holds the rows of the fit, and later the activations of a few channels; the others are on disk.
    """
    positions = math.prod(layer.shape[:2])
    rows = 4 * layer.shape[2] * min(FIT_POSITIONS, fitted * positions)
    channel = 4 * positions * observations  # unpadded and padded
    return max(rows, min(HELD_BYTES, layer.channels * channel) + 2 * channel)


def _pieces(layer: PageLayer, observations: int, sample: Subject, frames: int) -> Iterable[Piece]:
    """Yield a `Piece` for each stage of `find_features`: attribution, fit, activations, examples, and images."""
    sample = with_chosen_baseline(sample, {})
    options, agent, threads = sample.options_of(FeatureOptions), sample.agent, thread_count()
    seen, state = sample_frames(sample, frames)
    seed, densities = sample.options.seed, sample.options_of(ExampleOptions).densities
    fitted, held_out = fitted_on(options, observations), measured_on(options, observations)
    path = sample.options_of(PathOptions)
    gradients, explain = gradient_piece(
        sample,
        layer,
        [sample.output_kind],
        frames,
        fitted + held_out,
        options.fit_steps,
        path.linear_prefix,
        path.baseline,
    )
    yield gradients
    values = np.nan_to_num(explain())  # the task reports attribution that is not finite
    if is_inputs(layer):
        reduction = ChannelReduction(np.eye(layer.channels, dtype=np.float32))
    else:
        rows = min(FIT_ROWS, 2 * fitted * math.prod(layer.shape[:2]))
        few = max(layer.channels, min(rows // FIT_PART, values.size // values.shape[-1]))
        fit = functools.cache(partial(ChannelReduction.fit, values, layer.channels, seed, max_rows=few))
        times = (rows + FITS * min(rows, ROWS)) / min(rows, few)
        yield Piece(fit, times, partial(ChannelReduction.fit, np.eye(4), 2))
        reduction = fit()
    read = partial(agent.activations, seen, layer.full_name, state)
    reduce = functools.cache(lambda: reduction.transform(np.maximum(read(), 0)))
    yield Piece(reduce, observations / len(seen), read)
    strengths = np.ascontiguousarray(reduce()[..., 0])
    choose = partial(dataset_grids, strengths, densities)
    yield Piece(choose, observations / len(seen) * layer.channels / threads)
    images = sample.observation_frames()
    strongest = thumbnail(strengths[: len(images)], options.thumbnail_patches)
    yield Piece(partial(_write_thumbnail, sample, layer, 0, strongest, images), layer.channels)
    if options.images:
        grids = dataset_grids(strengths[: len(images)], densities)
        yield Piece(partial(write_grid_images, sample, layer, 0, grids, images), layer.channels)
    if options.optimized:
        optimize = partial(write_optimized_images, sample, layer, reduction)
        yield Piece(partial(optimize, steps=MEASURED_STEPS), STEPS / MEASURED_STEPS, partial(optimize, steps=1))
