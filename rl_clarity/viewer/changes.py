"""Changes between two JSON values, so that an open page does not need to load a long manifest again."""

from __future__ import annotations

from typing import Any

VALUE, KEYS, REMOVED, LENGTH, ITEMS = "value", "keys", "removed", "length", "items"
"""Keys of a change: `value` is a new value; `keys` are changes of an object by key, and `removed` its removed keys;
`length` is the new length of a list, and `items` are its changes by index."""


def changes(before: Any, after: Any) -> dict[str, Any] | None:
    """Return the changes from one JSON value to another, as a JSON value, or None if the two are equal.

    `applyChanges` in `svelte_src/data/changes.js` applies them.
    """
    if before == after and type(before) is type(after):
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        found = {key: changes(before[key], value) for key, value in after.items() if key in before}
        new = {key: {VALUE: value} for key, value in after.items() if key not in before}
        changed = {key: change for key, change in found.items() if change is not None}
        return {KEYS: changed | new, REMOVED: [key for key in before if key not in after]}
    if isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip(before, after, strict=False))
        items = {str(i): change for i, (old, now) in pairs if (change := changes(old, now)) is not None}
        items |= {str(i): {VALUE: after[i]} for i in range(len(before), len(after))}
        return {LENGTH: len(after), ITEMS: items}
    return {VALUE: after}
