"""Changes between JSON values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_clarity.viewer.changes import changes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=8,
)


def applied(before: Any, change: dict[str, Any]) -> Any:
    """The value after a change, as the front end computes it."""
    if "keys" in change:
        kept = {key: value for key, value in before.items() if key not in change["removed"]}
        return kept | {key: applied(before.get(key), one) for key, one in change["keys"].items()}
    if "items" in change:
        items = before[: change["length"]] + [None] * (change["length"] - len(before))
        for index, one in change["items"].items():
            items[int(index)] = applied(items[int(index)], one)
        return items
    return change["value"]


@given(VALUES, VALUES)
def test_applying_json_changes_gives_the_new_value(before: Any, after: Any) -> None:
    change = changes(before, after)
    if change is None:
        assert before == after
        assert repr(before) == repr(after) or isinstance(before, dict | list)
    else:
        assert applied(before, change) == after


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ([1, 2], [1, 2, 3], {"length": 3, "items": {"2": {"value": 3}}}),
        ([1, 2], [1], {"length": 1, "items": {}}),
        ({"a": 1}, {"b": 1}, {"keys": {"b": {"value": 1}}, "removed": ["a"]}),
        (1, True, {"value": True}),
    ],
)
def test_json_changes_contain_only_what_differs(before: Any, after: Any, change: dict[str, Any]) -> None:
    assert changes(before, after) == change
