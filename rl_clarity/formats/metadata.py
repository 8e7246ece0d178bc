"""Check the checkpoint metadata that the package uses. The checks are the same for all formats, and are made when a
file is read.

`find_problem` also checks the metadata of recordings (`recordings/metadata.py`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rl_clarity.base.errors import CheckpointError, OptionError
from rl_clarity.formats.safe_files import MAX_DEPTH, brief

Check = tuple[str, Callable[[Any], bool]]
"""A condition on a value: its description and its predicate."""
Schema = Mapping[str, "Check | Schema"]
"""The checks of a dict's values, by key. Values with other keys can be anything."""

MAX_TEXT = 200
MAX_STACK = 64
MAX_SIDE = 8192
MAX_SIZE = 65536
MAX_FIELDS = 1000
MAX_ACTIONS = 4096
MAX_CONTENT = 10_000
"""Maximum number of characters in a string, and of items in a list or dict. Strings, lists and dicts that are nested in
a value have the same limit."""
INTEGER_BITS = 64
SIMILARITY = 0.8


def is_integer(value: Any, largest: int) -> bool:
    """Return whether a value is a whole number from 1 to `largest`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= largest and value % 1 == 0


def is_number(value: Any, low: float, high: float) -> bool:
    """Return whether a value is a number from `low` to `high`. NaN is not accepted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


TEXT: Check = (
    f"text of at most {MAX_TEXT} printable characters",
    lambda value: isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable(),
)
PROBABILITY: Check = ("a number from 0 to 1", lambda value: is_number(value, 0, 1))
SIZE: Check = (f"an integer from 1 to {MAX_SIZE}", lambda value: is_integer(value, MAX_SIZE))
ACTION_COMBOS: Check = (
    f"a list of at most {MAX_ACTIONS} lists of strings (the buttons of each action), such as [['LEFT'], ['RIGHT'], []]",
    lambda value: (
        isinstance(value, list | tuple)
        and len(value) <= MAX_ACTIONS
        and all(isinstance(combo, list | tuple) and all(map(TEXT[1], combo)) for combo in value)
    ),
)
ANYTHING: Check = ("", lambda value: True)

FIELDS: Mapping[str, Check] = {
    "env_kind": TEXT,
    "env_name": TEXT,
    "env_id": TEXT,
    "library": TEXT,
    "cnn": TEXT,
    "activation": TEXT,
    "gamma": PROBABILITY,
    "lambda": PROBABILITY,
    "stack_channels": ANYTHING,
    "emb_size": SIZE,
    "use_lstm": ("true or false", lambda value: value in (0, 1)),
    "gru_units": (f"an integer from 0 to {MAX_SIZE}", lambda value: value == 0 or is_integer(value, MAX_SIZE)),
    "observation_shape": (
        f"three integers from 1 to {MAX_SIDE}: height, width, channels",
        lambda value: (
            isinstance(value, list | tuple) and len(value) == 3 and all(is_integer(side, MAX_SIDE) for side in value)
        ),
    ),
    "num_actions": SIZE,
    "action_combos": ACTION_COMBOS,
    "heads": ANYTHING,
    "input_divisor": ("a positive number", lambda value: is_number(value, math.ulp(0), 1e300)),
    "frame_stack": (f"an integer from 1 to {MAX_STACK}", lambda value: is_integer(value, MAX_STACK)),
    "frame_stack_padding": ("'zeros' or 'first'", lambda value: value in ("zeros", "first")),
    "epsilon_greedy": PROBABILITY,
    "training_step": ("a number of at least 0", lambda value: is_number(value, 0, 1e300)),
    "reward_scale": ("a finite number", lambda value: is_number(value, -1e300, 1e300)),
}
"""The checks of the metadata that the package reads, in addition to options of environments. The value None stands for
the default."""


def combine_metadata(
    in_file: Mapping[str, Any], overrides: Mapping[str, Any], options: Callable[[Mapping[str, Any]], Iterable[str]]
) -> dict[str, Any]:
    """Return a file's metadata, overridden by the caller's metadata. Both are checked.

    `options` is a function that returns the names of the environment options that the combined metadata may contain.

    Raises CheckpointError for an invalid value in the file. Raises OptionError for an invalid value in `overrides`, and
    for an unknown name that is so similar to a known name that it is probably a typing error.
    """
    if len(in_file) > MAX_FIELDS:
        raise CheckpointError(f"has {len(in_file)} metadata fields; at most {MAX_FIELDS} are allowed")
    for name, value in in_file.items():
        problem = None if name in overrides else find_problem(name, value, FIELDS)
        if problem:
            raise CheckpointError(
                f"its metadata {problem}; override it with {name}=VALUE (on the command line --metadata {name} VALUE)"
            )
    for name, value in overrides.items():
        problem = find_problem(name, value, FIELDS)
        if problem:
            raise OptionError(f"metadata {problem}")
    combined = {**in_file, **overrides}
    known = {*FIELDS, *in_file, *options(combined)}
    for name in overrides:
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=SIMILARITY)
        if near and name not in known:
            raise OptionError(f"unknown metadata {name!r}; did you mean {near[0]!r}?")
    return combined


def find_problem(name: str, value: Any, schema: Schema, path: str = "") -> str | None:
    """Return a message about an invalid value, such as `gamma=2 must be a number from 0 to 1`, or None if it
    is valid.
    """
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    check = schema.get(name, ANYTHING)
    if isinstance(check, Mapping):
        if isinstance(value, Mapping) and len(value) <= MAX_CONTENT:
            inner = (find_problem(key, item, check, f"{path}{name}.") for key, item in value.items())
            return next(filter(None, inner), None)
        check = (f"an object (a dict) of at most {MAX_CONTENT} items", lambda value: False)
    requirement, is_valid = check
    if not is_plain([name, value]):
        requirement = (
            f"at most {MAX_CONTENT} characters or items long and {MAX_DEPTH} levels deep, with valid Unicode and "
            f"integers of at most {INTEGER_BITS} bits"
        )
    elif is_valid(value):
        return None
    return f"{path}{name}={brief(value)} must be {requirement}"


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether the strings in a value are valid Unicode, and whether its strings, integers and containers are not
    too large.

    Values of other types are accepted.
    """
    if isinstance(value, str):
        return len(value) <= MAX_CONTENT and not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, int):
        return value.bit_length() <= INTEGER_BITS
    items = [*value, *value.values()] if isinstance(value, Mapping) else value
    if isinstance(items, list | tuple):
        return depth < MAX_DEPTH and len(items) <= MAX_CONTENT and all(is_plain(item, depth + 1) for item in items)
    return True
