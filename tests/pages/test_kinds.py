"""Kinds of pages that describe themselves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.base.resources import svelte_source_directory
from rl_clarity.pages.kinds import PAGE_KINDS, RESERVED, PageField, PageKind


def test_only_the_debug_page_type_describes_its_own_layout() -> None:
    assert [name for name in PAGE_KINDS if PAGE_KINDS.get(name).page() is not None] == ["debug"]  # described by itself


def test_a_page_type_describes_its_layout_as_json() -> None:
    fields = (
        PageField("method", "choice", "Method", options=("a", "b")),
        PageField("sure", "number", default=0.5, most=1),
    )
    kind = PageKind(
        ("trajectories",),
        slots={"main": ("timeline",)},
        fields=fields,
        keys={"x": "method"},
        tour=[("timeline", "T", "t")],
    )
    assert json.loads(json.dumps(kind.page())) == {
        "slots": {"main": ["timeline"]},
        "labels": {},
        "fields": [
            {"name": "method", "type": "choice", "label": "Method", "options": ["a", "b"]},
            {"name": "sure", "type": "number", "default": 0.5, "most": 1},
        ],
        "keys": [{"keys": ["x"], "field": "method", "text": "Method"}],
        "tour": [["timeline", "T", "t"]],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frame", "flag"), "name='frame'.*that is not in use"),
        (("a b", "flag"), "name='a b'"),
        (("x", "date"), "type='date'.*choice, flag"),
        (("x", "choice"), "'x' needs options"),
        (("x", "choice", "", "c", ("a",)), "default='c'"),
        (("x", "number"), "needs a default"),
        (("x", "index"), "needs count"),
    ],
)
def test_invalid_page_controls_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PageField(*arguments)


def test_unknown_layout_slots_and_key_bindings_are_refused() -> None:
    slots: Any = {"middle": ()}
    with pytest.raises(OptionError, match=r"slots has 'middle'.*main"):
        PageKind((), slots=slots)
    with pytest.raises(OptionError, match=r"keys\['x'\] is 'size'.*not one of the fields: method"):
        PageKind((), slots={}, fields=(PageField("method", "flag"),), keys={"x": "size"})


def test_names_of_controls_that_all_pages_have_are_reserved() -> None:
    sources = svelte_source_directory()
    text = (sources / "pages" / "agent" / "fields.js").read_text() + (
        sources / "kit" / "page" / "fields.js"
    ).read_text()
    names = set(re.findall(r'\b(?:name|key): "(\w+)"', text))
    assert names > {"layer", "palette", "name"}
    assert names <= set(RESERVED)
