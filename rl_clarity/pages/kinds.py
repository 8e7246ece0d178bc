"""Kinds of pages declare which analyses a page consists of, and how it is drawn.

`svelte_src/pages/` has a folder for each kind that the page's script knows. Other kinds declare their layout, which is
written into the manifest, and the script draws it.
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
"""Names of the fields and parameters of the address that all pages have."""


@dataclass(frozen=True)
class PageField:
    """A field that a reader selects on a page. The panel `controls` shows it, and custom panels use it."""

    name: str
    """Name in the selection, and in the page's address."""
    type: FieldType
    label: str = ""
    """Label of its control; empty for none."""
    default: str | float | bool | None = None
    """Initial value; None for the first option, the lowest number, false or an empty text."""
    options: Sequence[str] = ()
    """Values of a choice."""
    least: float | None = None
    """Lowest value of a number."""
    most: float | None = None
    """Highest value of a number."""
    whole: bool = False
    """Whether a number is an integer."""
    count: int | None = None
    """Number of values of an index. They start at 0, and readers count from 1."""
    place: bool = False
    """Whether the browser's back button undoes a change."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name in RESERVED:
            raise OptionError(f"name={self.name!r} of a page's field must be an identifier that pages do not use yet")
        if self.type not in get_args(FieldType):
            raise OptionError(
                f"type={self.type!r} of the field {self.name!r} is none of {', '.join(get_args(FieldType))}"
            )
        if self.type == "choice" and (not self.options or self.default not in (None, *self.options)):
            raise OptionError(f"the choice {self.name!r} needs options, and default={self.default!r} among them")
        if self.type == "number" and self.least is None and self.default is None:
            raise OptionError(f"the number {self.name!r} needs a default, or its lowest value, least")
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

    With `slots` the page's script needs no code for it, because the manifest contains the layout and everything else
    that is declared here.
    """

    analyses: tuple[str, ...]
    """Kinds of the analyses of each agent, in the order of their sections."""
    joint: tuple[str, ...] = ()
    """Kinds of the analyses of all agents together."""
    title: str = "{env_name}, {network}"
    """Title of the page, unless an option gives one."""
    slots: Mapping[Slot, Sequence[str]] | None = None
    """Panels, and kinds of sections, by slot: `navigation` on the left, `main`, `legend` on the right, `tabs` below
    these, of which one is shown at a time, and `aside`, panels that open over the page. None for a kind that the page's
    script knows."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the slots for screen readers, and `skip`, the label of the link to the main slot."""
    fields: Sequence[PageField] = ()
    """Fields that a reader selects, in addition to the current step and the fields of panels of an agent's page."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keyboard keys that change a field to its next value, with the field's name."""
    tour: Sequence[tuple[str, str, str]] = ()
    """Stops of the tour: panel, title and text."""

    def __post_init__(self) -> None:
        for slot in self.slots or ():
            if slot not in get_args(Slot):
                raise OptionError(f"slots has {slot!r}, which is none of {', '.join(get_args(Slot))}")
        names = [field.name for field in self.fields]
        for key, name in self.keys.items():
            if name not in names:
                raise OptionError(
                    f"keys[{key!r}] is {name!r}, which is none of the fields: {', '.join(names) or 'none'}"
                )

    def page(self, absent: Collection[str] = ()) -> dict[str, object] | None:
        """Return the layout for the manifest, or None for a kind that the page's script knows.

        `absent` are kinds of sections that the page does not have: slots leave them out.
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
            title="{env_name}, {network}: why it fails, what it pursues",
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
                ("timeline", "Timeline", "The episodes in which failures were looked for, as a filmstrip."),
                ("failures", "Failures", "Why each of the worst episodes ended, and until when that could be avoided."),
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
