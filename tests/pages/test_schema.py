"""Dataclasses of sections: values are checked by type hints, and read from and written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import pytest

from rl_clarity.base.errors import SectionError
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.schema import as_dicts, check_hints, read


@dataclass(frozen=True)
class Item:
    return_: float
    sign: Literal["both", "positive"]
    note: str | None
    label: str | None = None


@dataclass(frozen=True)
class Shelf:
    items: Sequence[Item]
    files: Mapping[str, Sequence[ChunkName]]
    place: tuple[int, int | None] = (0, None)


class Read(TypedDict):
    name: str
    size: NotRequired[int]


ITEM = {"return": 1, "sign": "both", "note": None}
SHELF: dict[str, Any] = {"items": [ITEM], "files": {"a": ["a/1.js"]}, "place": [3, None]}


def test_json_is_read_as_dataclasses_with_typed_file_names() -> None:
    shelf = read(Shelf, SHELF, "shelf")
    assert shelf == Shelf([Item(1, "both", None)], {"a": [ChunkName("a/1.js")]}, (3, None))
    assert isinstance(shelf.files["a"][0], ChunkName)


def test_null_is_written_unless_it_is_the_default() -> None:
    assert as_dicts(read(Shelf, SHELF, "shelf")) == SHELF


def test_keys_that_are_nullable_or_have_a_default_may_be_missing() -> None:
    assert read(Shelf, {"items": [{"return": 1, "sign": "both"}], "files": {}}, "shelf").items[0].note is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": [{**ITEM, "return": "1"}]}, r"shelf\.items\[0\]\.return must be a number"),
        ({"items": [{**ITEM, "return": True}]}, r"return must be a number"),
        ({"items": [{**ITEM, "sign": "left"}]}, r"sign must be 'both' or 'positive'"),
        ({"items": [{**ITEM, "note": 3}]}, r"note must be text"),
        ({"items": [{"sign": "both"}]}, r"shelf\.items\[0\]\.return is missing"),
        ({"items": {}}, r"shelf\.items must be a list"),
        ({"items": [[]]}, r"shelf\.items\[0\] must be an object"),
        ({"files": {"b": [3]}}, r"shelf\.files\.b\[0\] must be the name of a file"),
        ({"place": [1, 2, 3]}, r"shelf\.place must be a list of 2"),
    ],
)
def test_values_of_the_wrong_type_are_named_in_the_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SectionError, match=message):
        read(Shelf, {**SHELF, **change}, "shelf")


def test_values_of_dataclass_instances_are_checked_too() -> None:
    wrong: Any = "two"
    with pytest.raises(SectionError, match=r"shelf\.items\[0\]\.return_ must be a number"):
        read(Shelf, Shelf([Item(wrong, "both", None)], {}), "shelf")
    with pytest.raises(SectionError, match=r"shelf\.items\[0\] must be Item"):
        read(Shelf, Shelf([Shelf([], {})], {}), "shelf")  # type: ignore[list-item]


def test_numpy_numbers_are_accepted() -> None:
    assert read(Item, {**ITEM, "return": np.float32(2)}, "item").return_ == 2


def test_typed_dicts_are_checked() -> None:
    assert read(Read, {"name": "a", "other": 1}, "value") == {"name": "a"}
    with pytest.raises(SectionError, match=r"value\.size must be an integer"):
        read(Read, {"name": "a", "size": "b"}, "value")


def test_types_that_json_cannot_represent_are_refused() -> None:
    @dataclass(frozen=True)
    class Inner:
        values: np.ndarray

    @dataclass(frozen=True)
    class Outer:
        inner: Sequence[Inner]

    for name, kind in (("Inner", Inner), ("Outer", Outer)):  # hints are looked up in the module
        globals()[name] = kind
    with pytest.raises(SectionError, match=r"Outer\.inner\.values has the type .*ndarray"):
        check_hints(Outer)
