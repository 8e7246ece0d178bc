"""The manifest: what docs/page-format.md says stands in a page, as dataclasses. A field that is None is left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.options import ViewOptions

FORMAT, VERSION = "rl-clarity-page", 1
_NULLS = {"nmf", "features"}
"""Fields whose absence is written as null."""
RENDERED = ("feature_pictures", "attribution_pictures", "attribution_scrubs")
"""A layer's pictures that the page composes for itself, written for people where they ask for them."""


@dataclass(frozen=True)
class AgentInfo:
    network: str
    kind: str  # "policy" or "action_values"
    recurrent: bool
    num_actions: int


@dataclass(frozen=True)
class ObservationInfo:
    """What the network sees, and what of it is shown."""

    height: int
    width: int
    channels: int
    frame_height: int
    frame_width: int
    stack: int = 1


@dataclass(frozen=True)
class ActionInfo:
    label: str
    combo: Sequence[str]
    color: str


@dataclass(frozen=True)
class ActionGroup:
    label: str
    actions: Sequence[int]


@dataclass(frozen=True)
class OutputInfo:
    """A score that has attribution."""

    id: str
    kind: str  # "value", "action", "group" or "greedy"
    label: str
    action: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class TrajectoryEntry:
    steps: int
    series: str
    scrub: Sequence[str]
    frames: Sequence[str]
    pictures: Sequence[str]


@dataclass(frozen=True)
class ScrubInfo:
    steps: int
    height: int
    step_width: int


@dataclass(frozen=True)
class ReductionInfo:
    """How much of the attribution the reduced channels hold."""

    error: float
    fitted_on: int
    error_held_out: float | None = None


@dataclass(frozen=True)
class LayerEntry:
    name: str
    slug: str
    full_name: str
    kind: str  # "layer" or "input"
    height: int
    width: int
    depth: int
    channels: int
    colors: Sequence[str]
    hues: Sequence[Sequence[float]]
    thumbnails: Sequence[str]
    effects: Mapping[str, Sequence[float]]
    scales: Mapping[str, Sequence[float]]
    totals: Sequence[str]
    attribution: Mapping[str, Sequence[Sequence[str]]]
    features: str | None = None
    nmf: ReductionInfo | None = None
    feature_pictures: Mapping[str, Sequence[str]] | None = None
    optimized: Sequence[str] | None = None
    attribution_pictures: Mapping[str, Mapping[str, Sequence[Sequence[str]]]] | None = None
    attribution_scrubs: Mapping[str, Mapping[str, Sequence[Sequence[str]]]] | None = None


@dataclass(frozen=True)
class Bookmark:
    trajectory: int
    frame: int
    advantage: float


@dataclass(frozen=True)
class Bookmarks:
    high: Sequence[Bookmark] = ()
    low: Sequence[Bookmark] = ()


@dataclass(frozen=True)
class AtlasInfo:
    """Pictures of the extra observations that dataset examples use."""

    count: int
    pictures: Sequence[str]
    columns: int
    per_picture: int
    height: int
    width: int
    indices: Sequence[int]
    origins: Sequence[tuple[int, int] | None]


@dataclass(frozen=True)
class ProvenanceGroup:
    """Facts about what made the page: no times, paths or user names, so that the same run makes the same page."""

    group: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Manifest:
    id: str
    title: str
    env_name: str
    agent: AgentInfo
    observation: ObservationInfo
    actions: Sequence[ActionInfo]
    action_groups: Sequence[ActionGroup]
    outputs: Sequence[OutputInfo]
    trajectories: Sequence[TrajectoryEntry]
    segment: int
    scrub: ScrubInfo
    film: Mapping[str, int]
    layers: Sequence[LayerEntry]
    bookmarks: Bookmarks
    observations: AtlasInfo
    view: Mapping[str, Any]
    numpy_precision: int
    provenance: Sequence[ProvenanceGroup] = ()
    complete: bool = True
    missing: Sequence[str] = ()
    format: str = field(default=FORMAT, init=False)
    version: int = field(default=VERSION, init=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, as the page reads them."""
        plain: dict[str, Any] = _plain(self)
        return plain


def view_of(options: ViewOptions, *, single_channels: bool) -> dict[str, Any]:
    """The manifest's `view`: layout and colours, from the options."""
    view = {one.name: getattr(options, one.name) for one in dataclasses.fields(ViewOptions)}
    graph_colors = {**ViewOptions().graph_colors, **options.graph_colors}
    return {**view, "graph_colors": graph_colors, "single_channels": single_channels}


def chunk_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Names of all chunks of a manifest (as plain dicts)."""
    for trajectory in manifest["trajectories"]:
        yield trajectory["series"]
        yield from trajectory["frames"]
    for layer in manifest["layers"]:
        yield from layer["totals"]
        if layer.get("features"):
            yield layer["features"]
        for segments in layer["attribution"].values():
            yield from _leaves(segments)


def picture_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Names of all pictures of a manifest (as plain dicts)."""
    for trajectory in manifest["trajectories"]:
        yield from trajectory["scrub"]
        yield from trajectory["pictures"]
    for layer in manifest["layers"]:
        yield from layer["thumbnails"]
        for key in ("optimized", *RENDERED):
            yield from _leaves(layer.get(key) or [])
    yield from manifest["observations"]["pictures"]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {name: _plain(item) for name, item in sorted(pairs) if item is not None or name in _NULLS}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
