"""Check, read and write the values of sections by the type hints of their dataclasses.

A field is a key of a JSON object. An underscore at the end of its name, as in `return_`, is omitted there. If a field's
default is None, the key is omitted for None; otherwise, None is written as null. A key that has a default, or may be
null, may be missing in data that is read.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, NotRequired, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from rl_clarity.base.errors import SectionError

T = TypeVar("T")
SCALARS: Mapping[type, tuple[type, str]] = {
    bool: (bool, "true or false"),
    str: (str, "text"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
}
"""Types of single values, with the Python types that are accepted and their names in messages."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of an object."""

    name: str
    attribute: str
    """Name of the field of the dataclass."""
    hint: object
    required: bool = True
    """Whether the key is always written, even if its value is None."""


@functools.cache
def keys(kind: type) -> tuple[Key, ...]:
    """Return the keys of the objects that a dataclass or a TypedDict describes."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        return tuple(
            Key(name, name, _present(hint), get_origin(hint) is not NotRequired) for name, hint in hints.items()
        )
    return tuple(
        Key(field.name.removesuffix("_"), field.name, hints[field.name], field.default is not None)
        for field in dataclasses.fields(kind)
    )


def _present(hint: object) -> object:
    """Return the type of a key's value, without `NotRequired`."""
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


def is_object(hint: object) -> bool:
    """Return whether a type hint is a dataclass or a TypedDict."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or is_typeddict(hint))


def alternatives(hint: object) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def read(kind: type[T], value: object, where: str) -> T:
    """Convert a value to a type: JSON to dataclasses, and text to the types of file names.

    Dataclasses in the value are checked and converted, too. `where` is the name of the value in errors. Raises
    SectionError, which names the part of the value that has the wrong type.
    """
    return cast(T, _read(value, kind, where))


def check_hints(kind: type) -> None:
    """Raise SectionError for a dataclass with a field that cannot be represented in JSON."""
    for key in keys(kind):
        _check_hint(key.hint, f"{kind.__name__}.{key.attribute}", (kind,))


def as_dicts(value: Any) -> Any:
    """Convert dataclasses to dicts and lists, sorted by key. File names keep their types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((key, getattr(value, key.attribute)) for key in sorted(keys(type(value)), key=lambda key: key.name))
        return {key.name: as_dicts(item) for key, item in pairs if item is not None or key.required}
    if isinstance(value, Mapping):
        return {str(key): as_dicts(item) for key, item in value.items()}
    return [as_dicts(item) for item in value] if isinstance(value, list | tuple) else value


def _read(value: object, hint: object, where: str) -> object:
    options = alternatives(hint)
    if len(options) > 1:
        return _read_union(value, options, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        _require(value is None, where, "null")
    elif origin is Literal:
        _require(value in arguments, where, " or ".join(map(repr, arguments)))
    elif origin is Sequence:
        items = _list(value, where)
        if arguments[0] in (int, float) and {*map(type, items)} <= {arguments[0]}:
            return [*items]  # most lists are of numbers; reading each alone takes a hundred times as long
        return [_read(item, arguments[0], f"{where}[{index}]") for index, item in enumerate(items)]
    elif origin is tuple:
        items = _list(value, where)
        _require(len(items) == len(arguments), where, f"a list of {len(arguments)}")
        pairs = enumerate(zip(items, arguments, strict=True))
        return tuple(_read(item, argument, f"{where}[{index}]") for index, (item, argument) in pairs)
    elif origin is Mapping:
        _require(isinstance(value, Mapping), where, "an object")
        pairs_of = cast(Mapping[object, object], value).items()
        return {str(key): _read(item, arguments[1], f"{where}.{key}") for key, item in pairs_of}
    elif is_object(hint):
        return _read_object(value, cast(type, hint), where)
    elif isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        _require(isinstance(value, str), where, "the name of a file")
        return value if isinstance(value, hint) else hint(value)
    elif hint is not object:
        accepted, name = SCALARS[cast(type, hint)]
        _require(isinstance(value, accepted) and (hint is bool or not isinstance(value, bool)), where, name)
    return value


def _read_object(value: object, kind: type, where: str) -> object:
    if dataclasses.is_dataclass(value):
        _require(isinstance(value, kind), where, kind.__name__)
        made = cast(Any, value)
        read_fields = {
            key.attribute: _read(getattr(made, key.attribute), key.hint, f"{where}.{key.attribute}")
            for key in keys(cast(type, type(made)))
        }
        return dataclasses.replace(made, **read_fields)
    _require(isinstance(value, Mapping), where, "an object")
    found = {}
    for key in keys(kind):
        if key.name in cast(Mapping[str, object], value):
            found[key.attribute] = _read(cast(Mapping[str, object], value)[key.name], key.hint, f"{where}.{key.name}")
        elif key.required and not _has_default(kind, key):
            if type(None) not in alternatives(key.hint):
                raise SectionError(f"{where}.{key.name} is missing")
            found[key.attribute] = None
    return kind(**found)


def _has_default(kind: type, key: Key) -> bool:
    if is_typeddict(kind):
        return False
    (field,) = (field for field in dataclasses.fields(kind) if field.name == key.attribute)
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _read_union(value: object, options: Sequence[object], where: str) -> object:
    """Return the value as the first type of a union that fits. If none does, the error for the first type is raised."""
    errors = []
    for option in sorted(options, key=lambda option: option is type(None)):
        try:
            return _read(value, option, where)
        except SectionError as error:
            errors.append(error)
    raise errors[0]


def _list(value: object, where: str) -> Sequence[object]:
    _require(isinstance(value, list | tuple), where, "a list")
    return cast(Sequence[object], value)


def _require(valid: bool, where: str, kind: str) -> None:
    if not valid:
        raise SectionError(f"{where} must be {kind}")


def _check_hint(hint: object, where: str, seen: tuple[object, ...]) -> None:
    origin, arguments = get_origin(hint), get_args(hint)
    if len(alternatives(hint)) > 1 or origin in (Sequence, tuple):
        parts: tuple[object, ...] = arguments
    elif origin is Mapping and arguments[0] is str:
        parts = arguments[1:]
    elif is_object(hint):
        parts = ()
        if hint not in seen:
            for key in keys(cast(type, hint)):
                _check_hint(key.hint, f"{where}.{key.attribute}", (*seen, hint))
    else:
        parts = ()
        known = hint in SCALARS or hint in (object, None, type(None)) or origin is Literal
        if not known and not (isinstance(hint, type) and issubclass(hint, str)):
            raise SectionError(
                f"{where} has the type {hint}, which JSON cannot represent: use bool, int, float, str, ChunkName, "
                "ImageName, Literal, a dataclass, Sequence, tuple, or Mapping[str, ...] of these"
            )
    for part in parts:
        _check_hint(part, where, seen)
