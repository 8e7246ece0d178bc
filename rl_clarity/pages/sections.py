"""Sections of a page, which contain the data that analyses show. A kind of section is a dataclass that declares the
structure of its data.

The text under a field is its documentation. From these classes `python -m scripts.make_sections` writes
docs/page-format.md, the types for reading pages (`rl_clarity/pages/section_types.py`), and the types of the front end
(`svelte_src/data/sections.d.ts`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, Literal

from rl_clarity.base.errors import SectionError
from rl_clarity.pages.files import ChunkName, ImageName
from rl_clarity.pages.schema import as_dicts, check_hints

GenericPanel = Literal["lines", "maps", "images", "table", "bars", "scatter"]
"""Names of panels that can draw a section of any analysis."""


@dataclass(frozen=True, kw_only=True)
class SectionData:
    """The data of a section. A subclass is a frozen dataclass whose fields are the keys of the data."""

    kind: ClassVar[str]
    """Name of the kind of section. It determines the panel."""
    title: ClassVar[str]
    version: ClassVar[int] = 1
    panel: ClassVar[GenericPanel | None] = None
    """The generic panel that draws the data if the page has no panel for the section's kind."""
    module: ClassVar[str | None] = None
    """JavaScript source of a panel for this kind, which calls `rlClarity.panel(kind, mount)`."""

    caption: str | None = None
    """Text above a generic or custom panel."""


@dataclass(frozen=True)
class Note:
    """A paragraph that explains a method."""

    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """A section, with the agent that it belongs to."""

    data: SectionData
    notes: Sequence[Note] = ()
    agent: str = "agent-1"
    recording: str = "recording-1"
    folder: str = ""
    """Directory of the section's files. Names in `data` are relative to it."""

    @property
    def kind(self) -> str:
        """Name of the kind of section."""
        return self.data.kind

    @property
    def module(self) -> str | None:
        """JavaScript source of a panel."""
        return self.data.module

    def to_dict(self) -> dict[str, object]:
        """Return the section as dicts and lists for the manifest. Values that are None and empty notes are left out."""
        data = as_dicts(self.data)
        section = {
            "agent": self.agent,
            "data": _in_folder(data, self.folder) if self.folder else data,
            "kind": self.data.kind,
            "notes": as_dicts(self.notes) or None,
            "panel": self.data.panel,
            "recording": self.recording,
            "title": self.data.title,
            "version": self.data.version,
        }
        return {key: value for key, value in section.items() if value is not None}


@dataclass(frozen=True)
class StoredSection:
    """A stored section of a single episode: dicts and lists, in which file names are `ChunkName` and `ImageName`."""

    values: Mapping[str, object]
    """The section as `Section.to_dict` returned it. Its only trajectory is the episode."""
    trajectory: int
    """Index of the trajectory on the page that shows it."""
    agent: str = "agent-1"
    recording: str = "recording-1"

    @property
    def kind(self) -> str:
        """Name of the kind of section."""
        return str(self.values["kind"])

    @property
    def module(self) -> None:
        """JavaScript source of a panel, which is not stored."""

    def to_dict(self) -> dict[str, object]:
        """Return the section as the manifest contains it."""
        place = {"agent": self.agent, "recording": self.recording, "trajectory": self.trajectory}
        return {**self.values, **place}


def _in_folder(value: object, folder: str) -> object:
    """Return a copy of dicts and lists in which a folder is prepended to names of files."""
    if isinstance(value, ChunkName | ImageName):
        return type(value)(f"{folder}/{value}")
    if isinstance(value, Mapping):
        return {key: _in_folder(item, folder) for key, item in value.items()}
    return [_in_folder(item, folder) for item in value] if isinstance(value, list) else value


# --- generic panels --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line of the generic panel `lines`."""

    key: str
    """Name of the array."""
    label: str
    color: str | None = None
    limits: tuple[float, float] | None = None
    """Limits of the line's axis; by default its smallest and largest value."""
    points: bool | None = None
    """Whether each value is marked with a point. This suits lines with values at few steps."""


@dataclass(frozen=True)
class LinesSection(SectionData):
    """Tracks on the time axis of the filmstrip."""

    panel = "lines"
    trajectories: Sequence[ChunkName]
    """For each trajectory, a chunk of float32 (T) arrays."""
    series: Sequence[Line]


@dataclass(frozen=True)
class MapGrid:
    """Rows and columns of maps."""

    height: int
    width: int


@dataclass(frozen=True)
class TrajectoryMaps:
    """Maps along a trajectory."""

    scale: float
    """Value that is shown at full brightness."""
    segments: Sequence[ChunkName]
    """For each segment of the section `trajectories`, a chunk of `codes` int8 (n, h, w, 1) and `scales` float32 (n), in
    the same encoding as attribution."""


@dataclass(frozen=True)
class MapsSection(SectionData):
    """Maps over the observation of the current step, without smoothing."""

    panel = "maps"
    grid: MapGrid
    sign: Literal["positive", "both"]
    trajectories: Sequence[TrajectoryMaps]
    label: str | None = None
    color: str | None = None


@dataclass(frozen=True)
class PanelImage:
    """An image of the generic panel `images`. Clicking it goes to its step."""

    image: ImageName
    label: str
    trajectory: int | None = None
    frame: int | None = None


@dataclass(frozen=True)
class ImagesSection(SectionData):
    """Images in rows."""

    panel = "images"
    images: Sequence[PanelImage]
    columns: int | None = None
    """Number of images in a row; by default as many as fit."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    key: str
    label: str
    frame: bool | None = None
    """Whether the column's numbers are frames of the row's trajectory, counted from 0. They are shown as links, counted
    from 1."""


def columns_with_values(
    labels: Mapping[str, str], rows: Sequence[Mapping[str, object]], frames: Sequence[str] = ()
) -> list[Column]:
    """Return the columns in which at least one row has a value.

    `labels` are the labels of columns by key. `frames` are the keys of columns whose numbers are frames.
    """
    return [
        Column(key, label, True if key in frames else None)
        for key, label in labels.items()
        if any(row.get(key) is not None for row in rows)
    ]


@dataclass(frozen=True)
class TableSection(SectionData):
    """A table that can be sorted."""

    panel = "table"
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]
    """Values by the column's key; a row with `trajectory` and `frame` links to the step."""


@dataclass(frozen=True)
class Bar:
    """A bar, with an interval."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    color: str | None = None


@dataclass(frozen=True)
class BarsSection(SectionData):
    """Bars."""

    panel = "bars"
    bars: Sequence[Bar]
    unit: str | None = None


@dataclass(frozen=True)
class ScatterSection(SectionData):
    """Points, one for each step."""

    panel = "scatter"
    chunk: ChunkName
    """`x`, `y` float32 (n) and `trajectory`, `frame` int32 (n)."""
    x: str
    """Label of the x axis."""
    y: str


PANELS: Mapping[str, type[SectionData]] = {
    **{"lines": LinesSection, "maps": MapsSection, "images": ImagesSection},
    **{"table": TableSection, "bars": BarsSection, "scatter": ScatterSection},
}
"""The section classes that generic panels draw."""


def check_section_class(section: type, where: str) -> None:
    """Raise SectionError for a class that does not correctly declare a section. `where` is the name of its analysis."""
    undecorated = inspect.get_annotations(section) and "__dataclass_fields__" not in vars(section)
    if not issubclass(section, SectionData) or undecorated:
        raise SectionError(f"{where}: {section.__name__} must be a dataclass and a subclass of SectionData")
    for name in ("kind", "title"):
        if not isinstance(getattr(section, name, None), str):
            raise SectionError(f"{where}: {section.__name__}.{name} is missing; it must be a string")
    check_hints(section)
    if section.panel is not None and not issubclass(section, PANELS[section.panel]):
        needed = PANELS[section.panel]
        required = {field.name for field in fields(needed) if field.default is MISSING}
        missing = required - {field.name for field in fields(section)}
        raise SectionError(
            f"{where}: {section.__name__} is drawn by the panel {section.panel!r}, but is not a subclass of "
            f"{needed.__name__}" + (f" and lacks the fields {', '.join(sorted(missing))}" if missing else "")
        )
