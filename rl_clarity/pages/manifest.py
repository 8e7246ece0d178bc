"""The manifest of a page: its agents, recordings, and the sections of analyses. docs/page-format.md describes the
format.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rl_clarity.agents.protocol import FrameRegion
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.keys import JsonObject, to_plain
from rl_clarity.base.parsing import check_minimum, check_option, hidden, unknown_option
from rl_clarity.pages.files import ChunkName, ExtraImageName, ImageName
from rl_clarity.pages.schema import as_dicts
from rl_clarity.pages.sections import Section, StoredSection

FORMAT, VERSION = "rl-clarity-page", 2
GRAPH_COLORS = {"v": "green", "action": "red", "action_group": "orange", "advantage": "blue"}
_LENGTH = re.compile(r"\d*\.?\d+(em|rem|px|%|vw|vh|ch)")
_COLOR_CODE = re.compile(r"#([0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|[a-z]+\([-0-9a-z.,%/ ]+\)")


@dataclass(frozen=True)
class ObservationInfo:
    """Size of the observations, in pixels, and of the frames that are shown."""

    height: int
    width: int
    channels: int
    frame_height: int
    frame_width: int
    stack: int = 1
    aligned: bool = True
    """Whether the frames show the same view as the observations."""
    region: FrameRegion | None = None
    """The region of a frame that an observation shows; None for the whole frame."""


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
class ActionFactor:
    """A factor of an action: a discrete choice, a switch, or a number (a continuous action). Its outputs are
    consecutive entries of `actions`.
    """

    kind: Literal["choice", "switch", "number"]
    label: str
    first: int
    """Index of the factor's first output."""
    outputs: int
    """Number of the factor's outputs: a logit for each option of a choice, the logit of a switch being on, or the mean
    of a number and, if there are two outputs, the logarithm of its standard deviation."""
    low: float | None = None
    high: float | None = None
    std: float | None = None
    """Standard deviation of a number, if it does not depend on the observation; 0 for a deterministic policy."""
    squashed: bool = False
    """Whether the action is the hyperbolic tangent of a number, scaled to the range from `low` to `high`."""


@dataclass(frozen=True)
class AgentInfo:
    """An agent of the page."""

    network: str
    kind: Literal["policy", "action_values"]
    has_value: bool
    """Whether the agent has a value function."""
    recurrent: bool
    num_actions: int
    observation: ObservationInfo
    actions: Sequence[ActionInfo]
    """The actions if an action is a single choice, otherwise the outputs of all factors."""
    action_groups: Sequence[ActionGroup]
    equivalent_actions: Sequence[Sequence[int]] = ()
    """Groups of actions that have the same effect."""
    id: str = "agent-1"
    factors: Sequence[ActionFactor] | None = None
    """The factors of an action; None if an action is a single choice."""


@dataclass(frozen=True)
class RecordingInfo:
    """A recording of an agent's play."""

    env_name: str
    agent: str = "agent-1"
    id: str = "recording-1"
    name: str | None = None
    """Name of the run, on a page that shows several runs."""


@dataclass(frozen=True)
class ProvenanceGroup:
    """Facts about how the page was made. They contain no times, paths or user names, so that repeating a run gives an
    identical page.
    """

    group: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Manifest:
    id: str
    kind: str
    title: str
    agents: Sequence[AgentInfo]
    recordings: Sequence[RecordingInfo]
    sections: Sequence[Section | StoredSection]
    view: Mapping[str, object]
    numpy_precision: int
    provenance: Sequence[ProvenanceGroup] = ()
    complete: bool = True
    missing: Sequence[str] = ()
    pending: Sequence[str] | None = None
    """Titles of sections that an unfinished page does not yet have; None if there are none."""
    page: Mapping[str, Any] | None = None
    """The layout of a page whose kind is not built into the page's script (`PageKind.page`)."""
    format: str = field(default=FORMAT, init=False)
    version: int = field(default=VERSION, init=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as dicts and lists, without fields that are None."""
        manifest: dict[str, Any] = as_dicts(dataclasses.replace(self, sections=()))
        return manifest | {"sections": [section.to_dict() for section in self.sections]}


@dataclass(frozen=True)
class ViewOptions:
    """Appearance of the page when it opens."""

    speed: float = 12.0
    """Frames per second during playback."""
    attribution_weight: float = 0.9
    """Opacity of attribution over the observation."""
    attribution_colors: Literal["strongest", "mixed"] = "strongest"
    """Color of a position: that of its `strongest` feature, or the colors of all features `mixed`. With `mixed`, the
    page opens as in understanding-rl-vision: without the residual, and with logits as outputs."""
    single_channels: bool = True
    """Show a single feature while the pointer is over it."""
    video_height: str = hidden("16em")
    video_width: str = hidden("16em")
    policy_display_height: str = hidden("2em")
    policy_display_width: str = hidden("40em")
    navigator_width: str = hidden("24em")
    scrubber_height: str = hidden("4em")
    scrubber_width: str = hidden("48em")
    scrubber_visible_duration: int = hidden(256)
    legend_item_height: str = hidden("6em")
    legend_item_width: str = hidden("6em")
    feature_viewer_height: str = hidden("40em")
    feature_viewer_width: str = hidden("40em")
    graph_colors: Mapping[str, str] = hidden(GRAPH_COLORS)
    trajectory_color: str = hidden("blue")

    def __post_init__(self) -> None:
        check_minimum(self, 1, "scrubber_visible_duration")
        check_option(self, "speed", 0 < self.speed < float("inf"), "must be a number above 0")
        for name in VIEW_LENGTHS:
            valid = bool(_LENGTH.fullmatch(getattr(self, name)))
            check_option(self, name, valid, "must be a length, such as '16em' or '200px'")
        for name, color in {"trajectory_color": self.trajectory_color, **self.graph_colors}.items():
            if not _is_color(color):
                raise OptionError(f"color {color!r} of {name} must be a CSS color such as '#0050a0' or 'rgb(0 80 160)'")
        check_option(self, "attribution_weight", 0 <= self.attribution_weight <= 1, "must be from 0 to 1")
        known = ("strongest", "mixed")
        check_option(self, "attribution_colors", self.attribution_colors in known, "must be 'strongest' or 'mixed'")
        for key in self.graph_colors:
            if key not in GRAPH_COLORS:
                raise unknown_option(f"graph_colors.{key}", [*GRAPH_COLORS])

    def view(self) -> dict[str, object]:
        """Return the field `view` of the manifest."""
        view = {field.name: getattr(self, field.name) for field in dataclasses.fields(ViewOptions)}
        view["video_speed"] = view.pop("speed")
        return {**view, "graph_colors": {**GRAPH_COLORS, **self.graph_colors}}


VIEW_LENGTHS = tuple(name for name in ViewOptions.__dataclass_fields__ if name.endswith(("_height", "_width")))


def file_names(value: object, kind: type = str) -> Iterator[str]:
    """Yield all file names of a type (`ChunkName`, `ImageName`) in a section's data, or in a manifest as dicts."""
    if isinstance(value, ChunkName | ImageName):
        if isinstance(value, kind):
            yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from file_names(getattr(value, field.name), kind)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from file_names(item, kind)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from file_names(item, kind)


def without_extra_images(value: Any) -> Any:
    """Return the manifest without images that the page does not show, and without lists and dicts that become empty."""
    if isinstance(value, Mapping):
        fields = {key: without_extra_images(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item or not value[key]}
    if isinstance(value, list):
        parts = [(item, without_extra_images(item)) for item in value if not isinstance(item, ExtraImageName)]
        return [kept for item, kept in parts if kept or not item]
    return value


def provenance_group(name: str, facts: Mapping[str, object]) -> ProvenanceGroup:
    """Return facts as the page lists them: text unchanged, and other values as JSON. None values are left out."""
    items = [(key, value) for key, value in facts.items() if value is not None]
    texts = [value if isinstance(value, str) else json.dumps(to_plain(value), sort_keys=True) for _, value in items]
    return ProvenanceGroup(name, [(key, text) for (key, _), text in zip(items, texts, strict=True)])


def section_data(manifest: JsonObject, kind: str) -> dict[str, Any]:
    """Return the data of the first section of a kind, in a manifest as dicts. Raises ClarityError if there is none."""
    for section in manifest["sections"]:
        if section["kind"] == kind:
            data: dict[str, Any] = section["data"]
            return data
    kinds = ", ".join(section["kind"] for section in manifest["sections"])
    raise ClarityError(f"the page has no section {kind!r}; it has {kinds or 'none'}")


def _is_color(text: str) -> bool:
    from PIL import ImageColor  # also accepts the color names of CSS

    return text.lower() in ImageColor.colormap or _COLOR_CODE.fullmatch(text) is not None
