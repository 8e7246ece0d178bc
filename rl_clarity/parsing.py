"""Keywords as a user gives them, made into frozen options of the right types."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rl_clarity.errors import OptionError

Options = TypeVar("Options")
AGENT = (
    "where understanding-rl-vision took a TensorFlow graph and the names of its outputs, an agent is given: "
    "rl_clarity.load_agent(checkpoint), or KerasAgent or TorchAgent of a network of your own"
)
REPLACED = dict.fromkeys(("model_bytes", "policy_logits_name", "value_function_name"), AGENT)
"""Options of understanding-rl-vision in whose place something else stands."""
WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse(kind: type[Options], given: Mapping[str, Any] | Options | None, where: str = "") -> Options:
    """Options from keywords.

    Raises OptionError for an unknown key, naming the nearest known one, and for a value of a wrong type.
    """
    if isinstance(given, kind):
        return given
    if given is None:
        return kind()
    if not isinstance(given, Mapping):
        raise OptionError(f"{where.rstrip('.') or kind.__name__}={given!r} must be a dict of options")
    hints = get_type_hints(kind)
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {}
    for key, value in given.items():
        if key not in known:
            raise unknown_option(where + str(key), known)
        values[key] = _convert(value, hints[key], where + key)
    return kind(**values)


def typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was written on a command line, as values: numbers, true, false, none, lists in brackets, or else text."""
    return {key: _typed(value) if isinstance(value, str) else value for key, value in given.items()}


def unknown_option(name: str, known: Sequence[str]) -> OptionError:
    """The error for a key that is none of `known`."""
    if name in REPLACED:
        return OptionError(f"unknown option {name!r}: {REPLACED[name]}")
    near = difflib.get_close_matches(name.split(".")[-1], known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known ones are {', '.join(known)}"
    return OptionError(f"unknown option {name!r}{hint}")


def _typed(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return json.loads(text) if text[:1] in "-0123456789[" else text
    except ValueError:
        return text


def _convert(value: Any, hint: Any, name: str) -> Any:
    """The value as the field's type has it: lists become tuples, dicts become option classes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return parse(hint, value, f"{name}.")
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise OptionError(f"{name}={value!r} must be a sequence")
        return tuple(_convert(item, arguments[0], name) for item in value)
    if origin is Mapping and not isinstance(value, Mapping):
        raise OptionError(f"{name}={value!r} must be a dict")
    if origin is Callable and not callable(value):
        raise OptionError(f"{name}: {value!r} must be a function")
    if hint is bool:
        if not isinstance(value, bool):
            raise OptionError(f"{name}={value!r} must be True or False")
        return value
    if hint in (int, float):
        return _number(value, hint, name)
    if hint is Path:
        if not isinstance(value, str | os.PathLike):
            raise OptionError(f"{name}={value!r} must be a path")
        return Path(value)
    if hint is str and not isinstance(value, str):
        raise OptionError(f"{name}={value!r} must be a string")
    return value


def _number(value: Any, hint: type, name: str) -> Any:
    try:
        number = hint(value)
        if isinstance(value, bool | str) or number != value:
            raise ValueError
    except (TypeError, ValueError):
        kind = "a whole number" if hint is int else "a number"
        raise OptionError(f"{name}={value!r} must be {kind}") from None
    return number
