"""Registries to which users can add entries: analyses, formats, networks, kinds of environments, saliency methods, ...

An entry is an object, or a string `module:attribute` that is imported when the entry is first used. Installed packages
add entries (plug-ins) with entry points of the registry's group. Programs and notebooks call `register`. Listing names
does not import anything.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from rl_clarity.base.errors import ClarityError, OptionError

T = TypeVar("T")
PACKAGE = Path(__file__).resolve().parents[1]
PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


class Registry(Generic[T]):
    """A registry of objects by name: built-in entries, entries of installed plug-ins, and entries that `register` adds.

    A registered entry overrides a built-in entry, which overrides an entry point, if their names are the same.
    """

    def __init__(
        self,
        group: str,
        builtin: Mapping[str, str | T],
        *,
        noun: str = "entry",
        error: type[ClarityError] = OptionError,
    ) -> None:
        self.group = group
        self.noun = noun
        self._error = error
        self._builtin = dict(builtin)
        self._registered: dict[str, str | T] = {}
        self._loaded: dict[str, T] = {}
        self._broken: set[str] = set()
        """Names of entries about which `find` has already warned."""

    def register(self, name: str, value: str | T) -> None:
        """Add or replace an entry. `value` is the object, or `module:attribute`."""
        self._registered[name] = value
        self._forget(name)

    def unregister(self, name: str) -> None:
        """Remove an entry that `register` added. A built-in entry of the same name becomes visible again."""
        self._registered.pop(name, None)
        self._forget(name)

    def get(self, name: str) -> T:
        """Return the object of an entry. Raises the registry's error for an unknown name or a broken plug-in."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __getitem__(self, name: str) -> T:
        return self.get(name)

    def find(self, name: str) -> T | None:
        """Return the object of an entry, or None for an unknown name and for an entry that cannot be loaded.

        An entry that cannot be loaded causes a warning instead of an error, because the user may not have asked for it.
        The warning is shown once.
        """
        if name in self._broken or name not in self:
            return None
        try:
            return self.get(name)
        except self._error as error:
            self._broken.add(name)
            warnings.warn(f"{error}; this entry is skipped", RuntimeWarning, stacklevel=2)
            return None

    def check(self, option: str, names: Iterable[str]) -> None:
        """Raise the registry's error if an option's value `names` contains a name that is not registered. Nothing is
        imported.
        """
        for name in names:
            if name not in self:
                raise self._error(f"{option}={name!r} is not one of {', '.join(self)}")

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries: first built-in entries, then those that `register` added, then plug-ins."""
        return tuple(dict.fromkeys((*self._builtin, *self._registered, *self.plugins())))

    def plugins(self) -> tuple[str, ...]:
        """Return the names of the entries of installed packages."""
        known = {*self._builtin, *self._registered}
        return tuple(point.name for point in self._entry_points() if point.name not in known)

    def added(self) -> tuple[str, ...]:
        """Return the names of the entries that are not built-in."""
        return tuple(name for name in self.names() if name not in self._builtin)

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._builtin or name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def source(self, name: str) -> str:
        """Return a hash, for cache keys, of the source code of an entry, or "" for a built-in entry that was not
        replaced.

        The hash covers the files that define the object. For code without a file (in a notebook or `exec`), it covers
        the compiled code, and the functions and plain values to which the code refers. It is the same in every process.
        """
        if name in self._builtin and name not in self._registered:
            return ""
        return source_hash(self.get(name))

    def _forget(self, name: str) -> None:
        self._loaded.pop(name, None)
        self._broken.discard(name)

    def _load(self, name: str) -> T:
        value = self._registered.get(name, self._builtin.get(name))
        if value is None:
            plugin = next((point for point in self._entry_points() if point.name == name), None)
            if plugin is None:
                raise self._error(self._unknown(name))
        elif isinstance(value, str):
            plugin = EntryPoint(name, value, self.group)
        else:
            return value
        try:
            return cast(T, plugin.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module can also raise SystemExit
            if name in self._builtin and name not in self._registered:
                raise
            raise self._error(
                f"the {self.noun} {name!r} ({plugin.value}) cannot be loaded: {type(error).__name__}: {error}; "
                "update or uninstall the package that provides it"
            ) from error

    def _entry_points(self) -> Iterable[EntryPoint]:
        return _entry_points(self.group, tuple(sys.path))

    def _unknown(self, name: str) -> str:
        names = self.names()
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown {self.noun} {name!r}; {hint}available: {', '.join(names) or 'none'}"


OptionRegistries: TypeAlias = Mapping[str, Registry[Any]]
"""Type of the class variable `registries` of a class of options. It maps each option that names entries to the registry
of these entries."""


def option_sources(options: object) -> dict[str, str]:
    """Return hashes, for cache keys, of the source code and files to which options refer: the source code of registry
    entries that are not built-in, and the files named by the options that `input_files` of their class lists.

    If an option that names entries is None, it stands for all entries. Raises the registry's error for an entry that
    cannot be loaded, and OptionError for a file that cannot be read.
    """
    sources = {}
    for kind in type(options).__mro__:
        for option, registry in vars(kind).get("registries", {}).items():
            value = getattr(options, option)
            names = [value] if isinstance(value, str) else filter(registry.find, registry) if value is None else value
            for name in names:
                if name in registry and (source := registry.source(name)):
                    sources[f"{option}.{name}"] = source
        for option in vars(kind).get("input_files", ()):
            if (path := getattr(options, option)) is not None:
                sources[option] = hashlib.sha256(read_input(option, path)).hexdigest()
    return sources


def read_input(option: str, path: str) -> bytes:
    """Return the contents of the file that an option names. If the option names a directory, read the page
    `interface.html` in it. Raises OptionError if the file cannot be read.
    """
    try:
        return (Path(path, "interface.html") if Path(path).is_dir() else Path(path)).read_bytes()
    except OSError as error:
        raise OptionError(f"{option}={path!r} cannot be read: {error.strerror}") from None


def source_hash(value: Any) -> str:
    """Return the hash of a function or any other object, including its source code; see `Registry.source`."""
    digest = hashlib.sha256()
    for part in _parts(value, {}):
        digest.update(part.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()


@functools.lru_cache
def _entry_points(group: str, path: tuple[str, ...]) -> Iterable[EntryPoint]:
    """Return the entry points of the packages on `path`, which must be `sys.path`. They are cached, because the search
    takes milliseconds.
    """
    return entry_points(group=group)


def _parts(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Yield strings that change whenever a value or its source code changes."""
    if isinstance(value, PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # keep it alive, so that no other object gets its id
    yield f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value, seen)
    elif isinstance(value, types.CodeType):
        yield from _parts((value.co_code, value.co_names, value.co_consts), seen)
    elif isinstance(value, type):
        yield from _class_parts(value, seen)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
        yield from _file_parts(getattr(value, "__file__", None))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(map(repr, value))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield from _parts(key, seen)
            yield from _parts(value[key], seen)
    elif isinstance(value, staticmethod | classmethod | types.MethodType):
        yield from _parts((value.__func__, getattr(value, "__self__", None)), seen)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), seen)
    elif isinstance(value, property):
        yield from _parts((value.fget, value.fset), seen)
    elif hasattr(value, "tobytes"):  # an array
        yield hashlib.sha256(value.tobytes()).hexdigest()
    else:
        yield from _parts((type(value), getattr(value, "__dict__", None)), seen)


def _function_parts(function: types.FunctionType, seen: dict[int, Any]) -> Iterator[str]:
    code = function.__code__
    yield f"{function.__module__}.{function.__qualname__}"
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    yield from _parts([function.__defaults__, function.__kwdefaults__, cells], seen)
    if Path(code.co_filename).is_file():
        yield from _file_parts(code.co_filename)
    else:  # in a notebook or `exec`: the code, and the values of the global names that it uses
        yield from _parts([code, [function.__globals__.get(name) for name in code.co_names]], seen)


def _class_parts(value: type, seen: dict[int, Any]) -> Iterator[str]:
    yield f"{value.__module__}.{value.__qualname__}"
    if value.__module__ in sys.builtin_module_names:
        return
    module = sys.modules.get(value.__module__)
    path = getattr(module, "__file__", None)
    if path is not None and getattr(module, value.__qualname__, None) is value:
        yield from _file_parts(path)
    else:
        ignored = ("__dict__", "__weakref__", "__static_attributes__", "__firstlineno__")
        yield from _parts({name: member for name, member in vars(value).items() if name not in ignored}, seen)
    yield from _parts(value.__bases__, seen)


def _file_parts(path: str | None) -> Iterator[str]:
    """Yield the hash of a source file. Files of this package are skipped, because `code_version` covers them."""
    if path is not None and not Path(path).resolve().is_relative_to(PACKAGE):
        yield hashlib.sha256(Path(path).read_bytes()).hexdigest()
