"""Kinds of pages, which declare the analyses that a page consists of, and how it is drawn.

`svelte_src/pages/` has a folder for each kind that is built into the page's script. Other kinds declare their layout,
which is written into the manifest and drawn by the script.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from rl_clarity.base.errors import OptionError
from rl_clarity.base.registry import Registry

Slot = Literal["navigation", "main", "legend", "tabs", "aside"]
FieldType = Literal["choice", "flag", "number", "index", "text"]
RESERVED = (
    *("layer", "trajectory", "frame", "rows", "channels", "residual", "mixed", "combined", "columns", "overlay"),
    *("grey", "smooth", "opacity", "threshold", "scale", "visible", "palette", "solo", "find", "box", "feature"),
    *("objects", "type", "object", "edit", "names", "name", "tab", "embed", "panel", "instead"),
)
"""Names that fields cannot have, because all pages use them for fields or for parameters of their address."""


@dataclass(frozen=True)
class PageField:
    """A field of the page's state that a reader can set in the panel `controls`, and that custom panels can use."""

    name: str
    """Name of the field in the page's state, and of its parameter in the page's address."""
    type: FieldType
    label: str = ""
    """Label of the field's control; empty for no label."""
    default: str | float | bool | None = None
    """Initial value. None is the first option, the lowest number, false or an empty text, depending on the type."""
    options: Sequence[str] = ()
    """Possible values of a choice."""
    least: float | None = None
    """Lowest value of a number."""
    most: float | None = None
    """Highest value of a number."""
    whole: bool = False
    """Whether a number is an integer."""
    count: int | None = None
    """Number of values of an index, which start at 0. The page shows them counted from 1."""
    place: bool = False
    """Whether the browser's back button undoes a change."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name in RESERVED:
            raise OptionError(f"name={self.name!r} of a page's field must be an identifier that is not in use")
        if self.type not in get_args(FieldType):
            raise OptionError(
                f"type={self.type!r} of the field {self.name!r} is not one of {', '.join(get_args(FieldType))}"
            )
        if self.type == "choice" and (not self.options or self.default not in (None, *self.options)):
            raise OptionError(
                f"the choice {self.name!r} needs options, and default={self.default!r} must be one of them"
            )
        if self.type == "number" and self.least is None and self.default is None:
            raise OptionError(f"the number {self.name!r} needs a default or a lowest value (least)")
        if self.type == "index" and not self.count:
            raise OptionError(f"the index {self.name!r} needs count, the number of its values")

    def to_dict(self) -> dict[str, object]:
        """Return the fields that differ from the defaults of the class, as JSON values."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }


@dataclass(frozen=True)
class PageKind:
    """A kind of page.

    With `slots`, the page's script needs no code for this kind, because the manifest contains the layout and everything
    else that is declared here.
    """

    analyses: tuple[str, ...]
    """Kinds of the analyses of each agent, in the order of their sections."""
    joint: tuple[str, ...] = ()
    """Kinds of the analyses of all agents together."""
    title: str = "{env_name}, {network}"
    """Template of the page's title, unless the option `title` is set."""
    slots: Mapping[Slot, Sequence[str]] | None = None
    """Panels, and kinds of sections, by slot: `navigation` on the left, `main`, `legend` on the right, `tabs` below
    these, one of which is shown at a time, and `aside` for panels that open over the page. None for a kind that is
    built into the page's script."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the slots for screen readers, and `skip`, the label of the link to the main slot."""
    fields: Sequence[PageField] = ()
    """Fields that a reader can set, in addition to the current step and the fields of panels of an agent's page."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Names of fields by keyboard key. Pressing the key changes the field to its next value."""
    tour: Sequence[tuple[str, str, str]] = ()
    """Stops of the page's tour, each with a panel, a title and a text."""

    def __post_init__(self) -> None:
        for slot in self.slots or ():
            if slot not in get_args(Slot):
                raise OptionError(f"slots has {slot!r}, which is not one of {', '.join(get_args(Slot))}")
        names = [field.name for field in self.fields]
        for key, name in self.keys.items():
            if name not in names:
                raise OptionError(
                    f"keys[{key!r}] is {name!r}, which is not one of the fields: {', '.join(names) or 'none'}"
                )

    def page(self, absent: Collection[str] = ()) -> dict[str, object] | None:
        """Return the layout for the manifest, or None for a kind that is built into the page's script.

        `absent` are kinds of sections that the page does not have. They are left out of the slots.
        """
        if self.slots is None:
            return None
        slots = {slot: [name for name in names if name not in absent] for slot, names in self.slots.items()}
        labels = {field.name: field.label or field.name for field in self.fields}
        return {
            "slots": slots,
            "labels": dict(self.labels),
            "fields": [field.to_dict() for field in self.fields],
            "keys": [{"keys": [key], "field": name, "text": labels[name]} for key, name in self.keys.items()],
            "tour": [list(stop) for stop in self.tour],
        }


PAGE_KINDS: Registry[PageKind] = Registry(
    "rl_clarity.page_kinds",
    {
        "agent": PageKind(
            (
                *("trajectories", "features", "attribution", "saliency", "state_map", "examples"),
                *("ablation", "objects", "findings", "baseline", "agreement", "behavior"),
            )
        ),
        "training": PageKind(
            ("trajectories", "saliency"), ("training", "updates"), "{env_name}: training of {network}"
        ),
        "check": PageKind(
            ("trajectories", "checks"),
            title="{env_name}, {network}: checks of saliency maps",
        ),
        "debug": PageKind(
            ("trajectories", "findings", "failures", "survival", "goals"),
            title="{env_name}, {network}: why the agent fails, what it pursues",
            slots={
                "navigation": ["trajectories"],
                "main": [
                    "findings",
                    "timeline",
                    "failure_tracks",
                    "verdicts",
                    "failure_clips",
                    "failures",
                    "failure_survival",
                    "survival",
                    "goal_images",
                    "goals",
                    "not_found",
                ],
                "aside": ["find", "notes", "trust", "help"],
            },
            labels={"skip": "Skip to the findings"},
            tour=[
                ("findings", "Findings", "Sentences that were tested. Click one to see the frame that shows it."),
                ("timeline", "Timeline", "The episodes that were searched for failures, as a filmstrip."),
                ("failures", "Failures", "Why the worst episodes ended, and how long their ends could be avoided."),
                ("goals", "What the agent follows", "What changes when an object is placed beside the player."),
            ],
        ),
        "memory": PageKind(
            (
                *("trajectories", "memory_matrix", "states", "memory_map", "windows", "interventions", "probes"),
                "simulator",
            ),
            title="{env_name}, {network}: memory",
        ),
    },
    noun="kind of page",
)
