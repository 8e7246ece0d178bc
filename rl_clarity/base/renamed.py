"""Keep old names of public functions, attributes and options working, with a DeprecationWarning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name was replaced. By default, the warning points at the caller of the function that calls
    `warn_renamed`.
    """
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=stacklevel)


class RenamedAttribute:
    """A class attribute that keeps the old name of a field, property or method working.

    `gap = RenamedAttribute("completeness")` lets `instance.gap` read `instance.completeness`.
    """

    def __init__(self, new: str) -> None:
        self._new = new
        self._old = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: object, owner: type) -> Any:
        warn_renamed(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(owner if instance is None else instance, self._new)


def renamed_arguments(**names: str) -> Callable[[Function], Function]:
    """Decorate a function so that it also accepts keyword arguments under their old names, which are passed as
    `old="new"`.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def accepting(*arguments: Any, **keywords: Any) -> Any:
            for old in names.keys() & keywords.keys():
                warn_renamed(f"{function.__qualname__}({old}=...)", f"{names[old]}=...")
                keywords[names[old]] = keywords.pop(old)
            return function(*arguments, **keywords)

        return cast(Function, accepting)

    return decorate


RENAMED_OPTIONS: Mapping[str, str] = {"film_interval": "clip_interval"}
"""New names of renamed options, by old name. Their meanings have not changed."""


def current_option(name: str, known: Collection[str]) -> str:
    """Return the new name of a renamed option, with a warning, if `known` contains the new name but not `name`.
    Otherwise return `name`.
    """
    new = RENAMED_OPTIONS.get(name)
    if new is None or name in known or new not in known:
        return name
    warn_renamed(f"option {name!r}", repr(new), stacklevel=4)
    return new
