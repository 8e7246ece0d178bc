"""Metadata of checkpoints: what the package reads, checked once for all formats, where a file is read."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rl_clarity.errors import CheckpointError, OptionError
from rl_clarity.formats.safe_files import brief

Check = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words and as a predicate."""

MAX_TEXT = 200
MAX_STACK = 64
MAX_SIDE = 8192
MAX_SIZE = 65536
MAX_FIELDS = 1000
MAX_CONTENT = 10_000
"""Characters and items of a value, and of the values in it."""
INTEGER_BITS = 64
SIMILARITY = 0.8


def _integer(value: Any, largest: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= largest and value % 1 == 0


def _number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high  # not NaN


TEXT: Check = (
    f"text of at most {MAX_TEXT} printable characters",
    lambda value: isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable(),
)
PROBABILITY: Check = ("a number from 0 to 1", lambda value: _number(value, 0, 1))
SIZE: Check = (f"an integer from 1 to {MAX_SIZE}", lambda value: _integer(value, MAX_SIZE))
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
    "gru_units": (f"an integer from 0 to {MAX_SIZE}", lambda value: value == 0 or _integer(value, MAX_SIZE)),
    "observation_shape": (
        f"three integers from 1 to {MAX_SIDE}: height, width, channels",
        lambda value: (
            isinstance(value, list | tuple) and len(value) == 3 and all(_integer(side, MAX_SIDE) for side in value)
        ),
    ),
    "num_actions": SIZE,
    "action_combos": ANYTHING,
    "heads": ANYTHING,
    "input_divisor": ("a positive number", lambda value: _number(value, math.ulp(0), 1e300)),
    "frame_stack": (f"an integer from 1 to {MAX_STACK}", lambda value: _integer(value, MAX_STACK)),
    "frame_stack_padding": ("'zeros' or 'first'", lambda value: value in ("zeros", "first")),
    "epsilon_greedy": PROBABILITY,
    "training_step": ("a number from 0 on", lambda value: _number(value, 0, 1e300)),
    "reward_scale": ("a finite number", lambda value: _number(value, -1e300, 1e300)),
}
"""Metadata that the package reads, besides the options of environments; None stands for the default."""


def combine_metadata(
    in_file: Mapping[str, Any], overrides: Mapping[str, Any], options: Callable[[Mapping[str, Any]], Iterable[str]]
) -> dict[str, Any]:
    """Return a file's metadata, overridden by those of the caller, all of them checked.

    `options` returns the names of the options of environments that metadata may have.

    Raises CheckpointError for a value of the file, and OptionError for one of the caller, that is no valid one; and
    OptionError for names of the caller that are nearly, but not exactly, known ones: typing errors.
    """
    if len(in_file) > MAX_FIELDS:
        raise CheckpointError(f"has {len(in_file)} fields of metadata; at most {MAX_FIELDS} are read")
    for name, value in in_file.items():
        problem = None if name in overrides else _problem(name, value)
        if problem:
            raise CheckpointError(
                f"its metadata {name}={brief(value)} must be {problem}; override it with {name}=VALUE (on the command "
                f"line --metadata {name} VALUE)"
            )
    for name, value in overrides.items():
        problem = _problem(name, value)
        if problem:
            raise OptionError(f"metadata {name}={brief(value)} must be {problem}")
    combined = {**in_file, **overrides}
    known = {*FIELDS, *in_file, *options(combined)}
    for name in overrides:
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=SIMILARITY)
        if near and name not in known:
            raise OptionError(f"unknown metadata {name!r}; did you mean {near[0]!r}?")
    return combined


def _problem(name: str, value: Any) -> str | None:
    """What a value must be, if it is not."""
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    requirement, is_valid = FIELDS.get(name, ANYTHING)
    if not _is_plain([name, value]):
        return f"of at most {MAX_CONTENT} characters and items, with valid Unicode and integers of {INTEGER_BITS} bits"
    return None if is_valid(value) else requirement


def _is_plain(value: Any) -> bool:
    """Whether texts are Unicode, integers not too large, and containers small; values of other types are accepted."""
    if isinstance(value, str):
        return len(value) <= MAX_CONTENT and not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, int):
        return value.bit_length() <= INTEGER_BITS
    items = [*value, *value.values()] if isinstance(value, Mapping) else value
    if isinstance(items, list | tuple):
        return len(items) <= MAX_CONTENT and all(map(_is_plain, items))
    return True
