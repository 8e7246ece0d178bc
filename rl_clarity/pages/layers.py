"""The parts of a page that show a layer's attribution: coded channels, totals and, if asked for, rendered pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.pages.chunks import Chunk, encode_chunk
from rl_clarity.pages.frames import film_strips
from rl_clarity.pages.layout import Layout, number_text
from rl_clarity.pages.manifest import LayerEntry, ReductionInfo
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.pages.pictures import sheet, to_bytes
from rl_clarity.pages.trajectories import FILM_COLUMNS
from rl_clarity.visualization.colors import page_colors
from rl_clarity.visualization.quantization import quantize
from rl_clarity.visualization.rendering import DIRECTIONS, Direction, render_attribution


@dataclass(frozen=True)
class LayerFacts:
    """What is known of a layer when all is done."""

    name: str
    slug: str
    full_name: str
    shape: tuple[int, int, int]  # (h, w, c)
    hues: np.ndarray  # (K, 3)
    scales: Mapping[str, Sequence[float]]
    """For each output, one a trajectory: `attribution_scale`."""
    effects: Mapping[str, Sequence[float]]
    """For each output, the mean contribution of each channel, and of the residual."""
    nmf: ReductionInfo | None = None
    is_input: bool = False
    """The network's input: its channels are its colours; no residual, no features."""
    feature_pictures: Sequence[tuple[float, float]] = ()
    """Density and zoom of the pictures of features that were written."""
    optimized: bool = False
    """Images optimised for each channel were written."""
    attribution_pictures: bool = False
    """The original's pictures of attribution were written."""


def attribution_chunk(
    layout: Layout,
    slug: str,
    output: str,
    trajectory: int,
    segment: int,
    channels: np.ndarray,
    residual: np.ndarray | None = None,
) -> Chunk:
    """A segment's reduced attribution (n, h, w, K) and residual (n, h, w, 1), in units of attribution, as a chunk."""
    values = channels if residual is None else np.concatenate([channels, residual], axis=-1)
    codes, scales = quantize(values)
    name = layout.attribution(slug, output, trajectory, segment)
    return encode_chunk(name, {"codes": codes, "scales": scales})


def write_totals(
    files: PageFiles,
    slug: str,
    trajectory: int,
    totals: Mapping[str, np.ndarray],
    gaps: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write, by output, a trajectory's totals (T, K + 1, 2) and what its completeness gap is made of (T, 3).

    The three numbers are the sum of the unreduced attribution, s(a) - s(0), and s(a).
    """
    arrays: dict[str, np.ndarray | bytes] = {}
    for output, values in totals.items():
        arrays[f"totals.{output}"] = values.astype(np.float32)
    for output, values in (gaps or {}).items():
        arrays[f"gap.{output}"] = values.astype(np.float32)
    files.write_chunk(files.layout.totals(slug, trajectory), arrays)


def write_attribution_pictures(
    files: PageFiles,
    slug: str,
    output: str,
    trajectory: int,
    segment: int,
    channels: np.ndarray,
    residual: np.ndarray | None,
    scale: float,
    hues: np.ndarray,
    scrub_range: tuple[float, float],
) -> None:
    """Write the original's pictures of a segment: every direction and selection, as a film and as a strip."""
    has_residual = residual is not None
    for name, direction, channel in selections(channels.shape[-1], has_residual):
        rendered = render_attribution(channels, residual, direction=direction, channel=channel, scale=scale, hues=hues)
        pictures = to_bytes(rendered)
        film = files.layout.attribution_picture(slug, output, name, trajectory, segment)
        files.write_picture(film, sheet(pictures, FILM_COLUMNS))
        strip = files.layout.attribution_scrub(slug, output, name, trajectory, segment)
        files.write_picture(strip, film_strips(pictures, scrub_range))


def selections(channels: int, residual: bool) -> Iterator[tuple[str, Direction, str | int]]:
    """Name, direction and channel of each rendered picture: 33 for eight channels and a residual."""
    chosen: list[tuple[str, str | int]] = [("prin", "prin")]
    chosen += [("all", "all"), ("res", "res")] if residual else []
    chosen += [(str(channel + 1), channel) for channel in range(channels)]
    for direction in DIRECTIONS:
        for name, channel in chosen:
            yield f"{direction}-{name}", direction, channel


def layer_entry(layout: Layout, layer: LayerFacts, outputs: Sequence[str], steps: Sequence[int]) -> LayerEntry:
    """What the manifest says of a layer, its attribution of `outputs` on trajectories of so many steps."""
    slug, channels = layer.slug, range(len(layer.hues))
    height, width, depth = layer.shape
    entry = LayerEntry(
        name=layer.name,
        slug=slug,
        full_name=layer.full_name,
        kind="input" if layer.is_input else "layer",
        height=height,
        width=width,
        depth=depth,
        channels=len(channels),
        colors=page_colors(layer.hues),
        hues=layer.hues.tolist(),
        thumbnails=[] if layer.is_input else [layout.thumbnail(slug, channel) for channel in channels],
        features=None if layer.is_input else layout.grids(slug),
        nmf=layer.nmf,
        effects=layer.effects,
        scales=layer.scales,
        totals=[layout.totals(slug, trajectory) for trajectory in range(len(steps))],
        attribution={output: _segments(layout, steps, partial(layout.attribution, slug, output)) for output in outputs},
    )
    return dataclasses.replace(entry, **_pictures(layout, layer, outputs, steps))


def _pictures(layout: Layout, layer: LayerFacts, outputs: Sequence[str], steps: Sequence[int]) -> dict[str, Any]:
    """Names of the pictures that a page has only where they were asked for."""
    slug, channels = layer.slug, range(len(layer.hues))
    names: dict[str, Any] = {}
    if layer.feature_pictures:
        names["feature_pictures"] = {
            f"{number_text(density)} x {number_text(zoom)}": [
                layout.feature_picture(slug, channel, density, zoom) for channel in channels
            ]
            for density, zoom in layer.feature_pictures
        }
    if layer.optimized:
        names["optimized"] = [layout.optimized(slug, channel) for channel in channels]
    if layer.attribution_pictures:
        chosen = [name for name, _, _ in selections(len(channels), residual=not layer.is_input)]
        for key, name_of in _RENDERED.items():
            by_output = {output: partial(name_of, layout, slug, output) for output in outputs}
            names[key] = {
                output: {name: _segments(layout, steps, partial(of, name)) for name in chosen}
                for output, of in by_output.items()
            }
    return names


_RENDERED = {"attribution_pictures": Layout.attribution_picture, "attribution_scrubs": Layout.attribution_scrub}


def _segments(layout: Layout, steps: Sequence[int], name_of: Callable[[int, int], str]) -> list[list[str]]:
    """A name for each segment of each trajectory."""
    return [
        [name_of(trajectory, segment) for segment in range(len(layout.segments(count)))]
        for trajectory, count in enumerate(steps)
    ]
