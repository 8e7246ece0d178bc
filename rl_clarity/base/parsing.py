"""Convert keyword arguments to options, which are frozen dataclasses."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import json
import os
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.base.renamed import current_option

Options = TypeVar("Options")
Function = TypeVar("Function", bound=Callable[..., Any])
AGENT = (
    "instead of a TensorFlow graph and the names of its outputs, pass an agent, such as "
    "rl_clarity.load_agent(checkpoint), or a KerasAgent or TorchAgent of your network"
)
REPLACED = dict.fromkeys(("model_bytes", "policy_logits_name", "value_function_name"), AGENT)
"""Advice for options of understanding-rl-vision that were replaced."""
LARGEST = 2**31 - 1
"""The largest count or seed, because Procgen's seeds and the arrays of some libraries use signed 32-bit integers."""
WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """The class of options for an analysis, or a kind of environment, that has no options."""


def parse(
    kind: type[Options],
    values: Mapping[str, Any] | Options | None,
    where: str = "",
    base: Options | None = None,
) -> Options:
    """Convert keyword arguments to options. Options that are missing from `values` are taken from `base`, or get their
    defaults if `base` is None. `where` is the prefix of option names in error messages.

    Raises OptionError for an unknown key (with the most similar known key as a suggestion), and for a value of the
    wrong type.
    """
    if isinstance(values, kind):
        return values
    if values is None:
        return kind() if base is None else base
    if not isinstance(values, Mapping):
        raise OptionError(f"{where.rstrip('.') or kind.__name__}={values!r} must be a dict of options")
    hints = get_type_hints(kind)
    known = [field.name for field in visible_fields(kind)]
    converted = {}
    for given, value in values.items():
        key = current_option(str(given), known)
        if key not in known and not (key in hints and isinstance(value, Hidden)):
            raise unknown_option(where + key, option_names(kind), where)
        value = value.value if isinstance(value, Hidden) else value
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            converted[key] = parse(hints[key], value, f"{where}{key}.", getattr(kind() if base is None else base, key))
        else:
            converted[key] = _convert(value, hints[key], where + key)
    with qualified(kind, where):
        return kind(**converted) if base is None else dataclasses.replace(base, **converted)  # type: ignore[type-var]


def hidden(default: Any) -> Any:
    """Return a dataclass field that can be set only by its name in understanding-rl-vision
    (`pages/original_options.py`).
    """
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: {**default}, metadata={"hidden": True})
    return dataclasses.field(default=default, metadata={"hidden": True})


@dataclasses.dataclass(frozen=True)
class Hidden:
    """Wraps the value of a hidden field, so that `parse` accepts it."""

    value: Any


def visible_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields that users may set. `kind` is a class of options, or an instance of one."""
    return [field for field in dataclasses.fields(kind) if not field.metadata.get("hidden")]


def option_names(kind: type) -> list[str]:
    """Return the names of all options of a class. The options of a field that is itself a class of options are named
    `field.name`.
    """
    names = []
    hints = get_type_hints(kind)
    for field in visible_fields(kind):
        part = hints[field.name]
        parts = option_names(part) if isinstance(part, type) and dataclasses.is_dataclass(part) else []
        names += [f"{field.name}.{name}" for name in parts] or [field.name]
    return names


def find_part(options: object, kind: type[Options]) -> Options | None:
    """Return the field of a page's options that is an instance of the class `kind`, or None if there is none."""
    return next((part for part in vars(options).values() if isinstance(part, kind)), None)


@contextlib.contextmanager
def qualified(kind: Any, where: str) -> Iterator[None]:
    """If an OptionError is raised in the block, and its message begins with the name of a field of the class `kind`,
    put `where` in front of the message.
    """
    try:
        yield
    except OptionError as error:
        if where and re.match("|".join(field.name for field in dataclasses.fields(kind)), error.message):
            raise OptionError(where + error.message) from None
        raise


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert strings from a command line to numbers, booleans, None, or lists and dicts in JSON. Other strings stay
    unchanged.
    """
    return {key: _typed(value) if isinstance(value, str) else value for key, value in values.items()}


def check_arguments(function: Function) -> Function:
    """Wrap a function so that an argument that contradicts its type hint raises OptionError with the argument's name
    and value.

    Only type hints for numbers, strings, paths, arrays, classes and containers of these are checked.
    """
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}

    @functools.wraps(function)
    def checked(*positional: Any, **keywords: Any) -> Any:
        if not hints:
            hints.update(_hints(function, signature))
        try:
            arguments = signature.bind(*positional, **keywords).arguments
        except TypeError:
            return function(*positional, **keywords)  # raises the TypeError with the function's name
        for name, value in arguments.items():
            kind = signature.parameters[name].kind
            if kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                problem = _mismatch(value, hints[name])
                if problem:
                    raise OptionError(f"{name}={_short(value)} must be {problem}")
        return function(*positional, **keywords)

    return cast(Function, checked)


def _hints(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the type hints of a function, with Any for names that exist only for type checkers."""
    hints = {}
    for name, parameter in signature.parameters.items():
        hints[name] = Any if parameter.annotation is parameter.empty else parameter.annotation
        if isinstance(parameter.annotation, str):
            try:
                hints[name] = eval(parameter.annotation, function.__globals__)
            except NameError:
                hints[name] = Any
    return hints


def _mismatch(value: Any, hint: Any) -> str | None:
    """Return a description of the values that a type hint allows, or None if the value fits."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        is_path = any(one is Path or get_origin(one) is os.PathLike for one in arguments)  # a path may be a string
        problems = [_mismatch(value, one) for one in arguments if not (is_path and one is str)]
        return None if None in problems else " or ".join(filter(None, problems))
    if hint in (None, type(None)):
        return None if value is None else "None"
    if origin is Literal:
        return None if value in arguments else " or ".join(map(repr, arguments))
    if (origin or hint) is Sequence:
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            return "a sequence"
        items = value if isinstance(value, Sequence) else ()  # other iterables may be exhausted by iterating
        problem = next(filter(None, (_mismatch(item, argument) for item in items for argument in arguments)), None)
        return problem and f"a sequence in which each item is {problem}"
    if (origin or hint) in _TYPES:
        accepts, description = _TYPES[origin or hint]
        return None if accepts(value) else description
    if isinstance(hint, type) and hint is not Any and not getattr(hint, "_is_protocol", False):
        return None if isinstance(value, hint) else f"a {hint.__name__}"
    return None


def _is_numeric(value: Any) -> bool:
    try:
        return isinstance(value, np.ndarray) or np.asarray(value).dtype.kind in "biufc"
    except ValueError:  # rows of different lengths are no array
        return False


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and "\0" not in os.fspath(value)


_TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a string"),
    bool: (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    int: (lambda value: hasattr(value, "__index__") and not isinstance(value, bool), "an integer"),
    float: (lambda value: hasattr(value, "__float__"), "a number"),
    os.PathLike: (_is_path, "a path"),
    Path: (_is_path, "a path"),
    Mapping: (lambda value: isinstance(value, Mapping), "a dict"),
    np.ndarray: (_is_numeric, "an array of numbers"),
}


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def path_text(value: Any, name: str) -> str:
    """Return a path or URL as a string. Raises OptionError, with the argument's name, for other types."""
    try:
        text = os.fspath(value)
    except TypeError:
        raise OptionError(f"{name}={value!r} must be a path") from None
    if not isinstance(text, str) or "\0" in text:
        raise OptionError(f"{name}={value!r} must be a path that is a string without null characters")
    return text


def check_minimum(options: Any, minimum: float, *names: str) -> None:
    """Raise OptionError for options that are below the minimum, and for integers above LARGEST. Options may be None."""
    for name in names:
        value = getattr(options, name)
        check_option(options, name, value is None or value >= minimum, f"must be at least {minimum}")
        check_option(options, name, not isinstance(value, int) or value <= LARGEST, f"must be at most {LARGEST}")


def check_option(options: Any, name: str, valid: bool, requirement: str) -> None:
    """Raise OptionError with the option's name and value, unless `valid` is true."""
    if not valid:
        raise OptionError(f"{name}={getattr(options, name)!r} {requirement}")


def unknown_option(name: str, known: Sequence[str], where: str = "") -> OptionError:
    """Return the error for a key that is not among `known`."""
    if name in REPLACED:
        return OptionError(f"unknown option {name!r}: {REPLACED[name]}")
    short = name.rpartition(".")[2]
    for words in (known, [one.rpartition(".")[2] for one in known]):
        near = difflib.get_close_matches(short, words, n=1, cutoff=0.6)
        if near:
            return OptionError(f"unknown option {name!r}; did you mean {where + known[words.index(near[0])]!r}?")
    return OptionError(f"unknown option {name!r}; available options: {', '.join(known)}")


def _typed(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return json.loads(text) if text[:1] in "-0123456789[{" else text
    except ValueError:
        return text


def _convert(value: Any, hint: Any, name: str) -> Any:
    """Convert a value to a field's type: lists to tuples, dicts to option classes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        words = [word for argument in arguments if get_origin(argument) is Literal for word in get_args(argument)]
        if isinstance(value, str) and words:
            _check_word(value, words, name)
            return value
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
        raise OptionError(f"{name}={value!r} must be a function")
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


def _check_word(value: str, words: Sequence[str], name: str) -> None:
    """Raise OptionError for a string that is not one of the words that an option accepts in addition to numbers."""
    if value not in words:
        raise OptionError(f"{name}={value!r} must be a number or {' or '.join(map(repr, words))}")


def _number(value: Any, hint: type, name: str) -> Any:
    try:
        number = hint(value)
        if isinstance(value, bool | str) or number != value:
            raise ValueError
    except (TypeError, ValueError):
        kind = "an integer" if hint is int else "a number"
        raise OptionError(f"{name}={value!r} must be {kind}") from None
    return number
