"""The files of attribution, and what the page's section says of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.images import image_names, selections
from rl_clarity.analyses.features import finished_layer
from rl_clarity.analyses.layers import PageLayer
from rl_clarity.jobs.tasks import Results
from rl_clarity.pages.chunks import Chunk, encode_chunk
from rl_clarity.pages.files import PageFiles, check_subdirectories, path_in, segments
from rl_clarity.pages.manifest import ChunkName, ExtraImageName
from rl_clarity.parsing import check_minimum
from rl_clarity.visualization.colors import page_colors
from rl_clarity.visualization.quantization import quantize
from rl_clarity.visualization.totals import effect_spread, mean_effects, output_account, variance_share


@dataclass(frozen=True)
class AttributionOptions:
    """Attribution to layers."""

    attr_integrate_steps: int = 5
    """Points on the path of integrated gradients."""
    attr_max_paths: int | None = None
    """Average over this many paths in the reduced channels; None uses the straight path alone."""
    attr_policy: bool = False
    """Also attribute every logit and action group."""
    attr_images: bool = False
    """Also write rendered images, as understanding-rl-vision does."""
    attribution_subdir: str = "attribution/"
    """Directory of attribution."""
    attribution_scrub_subdir: str = "attribution_scrub/"
    """Directory of film strips of rendered images."""
    attribution_totals_subdir: str = "attribution_totals/"
    """Directory of attribution summed over positions."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "attr_integrate_steps", "attr_max_paths")
        check_subdirectories(self)


@dataclass(frozen=True)
class OutputInfo:
    """An output that is attributed."""

    id: str
    kind: str  # "value", "action", "group" or "greedy"
    label: str
    action: int | None = None
    group: int | None = None


def chunk_name(options: AttributionOptions, layer: PageLayer, output: str, trajectory: int, segment: int) -> str:
    return path_in(options.attribution_subdir, f"{layer.slug}/{trajectory + 1}/{output}-{segment + 1}.js")


def totals_name(options: AttributionOptions, layer: PageLayer, trajectory: int) -> str:
    return path_in(options.attribution_totals_subdir, f"{layer.slug}/{trajectory + 1}/totals.js")


def attribution_chunk(name: str, channels: np.ndarray, residual: np.ndarray | None = None) -> Chunk:
    """A segment's reduced attribution (n, h, w, K) and residual (n, h, w, 1), in units of attribution, as a chunk."""
    codes, scales = quantize(channels if residual is None else np.concatenate([channels, residual], axis=-1))
    return encode_chunk(name, {"codes": codes, "scales": scales})


def write_totals(files: PageFiles, name: str, sums: Mapping[str, np.ndarray]) -> None:
    """Write totals (T, K + 1, 2), peaks (T, K, 2), gaps (T, 3) and memory (T,) along a trajectory."""
    types = {"f": np.float32, "i": np.int32}
    files.write_chunk(name, {key: values.astype(types[values.dtype.kind]) for key, values in sums.items()})


def read_totals(
    subject: Subject, layer: PageLayer, trajectory: int, part: Literal["totals", "peak"] = "totals"
) -> dict[str, np.ndarray]:
    """Totals (T, K + 1, 2), or positions of peaks (T, K, 2), along a trajectory, by output."""
    arrays = _read_sums(subject, layer, trajectory)
    return {key.partition(".")[2]: values for key, values in arrays.items() if key.startswith(f"{part}.")}


def _read_sums(subject: Subject, layer: PageLayer, trajectory: int) -> dict[str, np.ndarray]:
    return subject.files.read_chunk(totals_name(subject.options, layer, trajectory))


def _variance_share(sums: Sequence[Mapping[str, np.ndarray]], output: str) -> float | None:
    """Of an output along all trajectories."""
    return variance_share(
        [output_account(one[f"totals.{output}"], one[f"gap.{output}"], one.get(f"memory.{output}")) for one in sums]
    )


def layer_entry(subject: Subject, layer: PageLayer, outputs: Sequence[OutputInfo], results: Results) -> dict[str, Any]:
    """What the section says of a layer; scales and effects that are not known yet are 1 and absent."""
    layer = layer if layer.is_input else finished_layer(layer, results)
    options, trajectories = subject.options, range(len(subject.trajectories.actions))
    facts = [results.get(f"attribution/{layer.name}/{trajectory + 1}") for trajectory in trajectories]
    ids = [output.id for output in outputs]
    height, width, depth = layer.shape
    effects: dict[str, Any] = {}
    spread: dict[str, Any] = {}
    sums: list[dict[str, np.ndarray]] = []
    if all(facts):
        sums = [_read_sums(subject, layer, trajectory) for trajectory in trajectories]
        totals = {output: [one[f"totals.{output}"] for one in sums] for output in ids}
        effects = {output: mean_effects(by_trajectory).tolist() for output, by_trajectory in totals.items()}
        spread = {output: effect_spread(by_trajectory).tolist() for output, by_trajectory in totals.items()}
    entry = {
        "name": layer.name,
        "slug": layer.slug,
        "full_name": layer.full_name,
        "kind": "input" if layer.is_input else "layer",
        "height": height,
        "width": width,
        "depth": depth,
        "channels": layer.channels,
        "colors": page_colors(layer.hues),
        "hues": layer.hues.tolist(),
        **({"label": layer.label} if layer.label else {}),
        "effects": effects,
        "effect_spread": spread,
        "scales": {output: [1.0 if one is None else one["scales"][output] for one in facts] for output in ids},
        "limits": _limits([one for one in facts if one is not None], len(facts)),
        "totals": [ChunkName(totals_name(options, layer, trajectory)) for trajectory in trajectories],
        "attribution": {
            output: _by_segment(
                subject, lambda t, s, output=output: ChunkName(chunk_name(options, layer, output, t, s))
            )
            for output in (output.id for output in outputs if output.kind != "group")
        },
    }
    if all(facts) and not layer.is_input:
        entry["variance_share"] = {output: _variance_share(sums, output) for output in ids}
    if options.attr_images and all(facts):
        for index, key in enumerate(("images", "scrubs")):
            entry[key] = {
                output: {
                    name: _by_segment(
                        subject,
                        lambda t, s, output=output, name=name, index=index: ExtraImageName(
                            image_names(options, layer, output, name, t, s)[index]
                        ),
                    )
                    for name, _, _ in selections(layer.channels, residual=not layer.is_input)
                }
                for output in ids
            }
    return entry


def _limits(facts: Sequence[Mapping[str, Any]], count: int) -> dict[str, list[float]]:
    """What has full opacity in each trajectory, by output; empty while attribution of some trajectory is missing."""
    if len(facts) < count:
        return {}
    return {output: [one["limits"][output] for one in facts] for output in facts[0]["limits"]}


def _by_segment(subject: Subject, name: Any) -> list[list[str]]:
    """A name for each segment of each trajectory."""
    count, steps = subject.trajectories.actions.shape
    return [[name(trajectory, segment) for segment in range(len(segments(steps)))] for trajectory in range(count)]
