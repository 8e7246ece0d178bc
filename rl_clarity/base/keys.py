"""Cache keys: hashes of everything that determines a result, so that only identical results are reused."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import rl_clarity
from rl_clarity.base.errors import DependencyError
from rl_clarity.base.quiet import keras_backend

COMPUTING = (
    *("keras", "tensorflow", "tensorflow-cpu", "jax", "torch", "numpy", "scikit-learn"),
    *("gymnasium", "procgen-mirror", "ale-py"),
)
"""Packages whose versions can change the numbers on a page."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object from a file, such as metadata or a manifest. Its values are checked where they are used."""

version = cache(importlib.metadata.version)


def cache_key(value: Any) -> str:
    """Return the SHA-256 of a value that `to_plain` can convert. Equal values have equal keys."""
    return hashlib.sha256(as_json(_whole_numbers(to_plain(value))).encode()).hexdigest()


def as_json(value: Any) -> str:
    """Return compact JSON with sorted keys for a value that `to_plain` can convert."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"))


def _whole_numbers(value: Any) -> Any:
    """Return a JSON value with integers in place of equal floats, because a number that is 4 in Python can be 4.0 on
    the command line.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value


def package_versions() -> dict[str, str]:
    """Return the versions of this package and of the installed packages that can affect numerical results."""
    versions = {"rl-clarity": rl_clarity.__version__}
    for package in COMPUTING:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def code_version() -> str:
    """Return the hash of the package's Python sources, the versions of packages that can affect numerical results, and
    the name of the Keras backend.

    Plug-ins are not included. A cache key has to include `Registry.source(name)` for each plug-in on which the result
    depends.
    """
    digest = hashlib.sha256()
    with contextlib.suppress(DependencyError):  # PyTorch agents do not need Keras
        digest.update(keras_backend().encode())
    digest.update(as_json(package_versions()).encode())
    digest.update(_sources())
    return digest.hexdigest()


@cache
def _sources() -> bytes:
    """Return the hash of the package's Python sources, which are read once per process."""
    root = Path(rl_clarity.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.digest()


def to_plain(value: Any, *, finite: bool = False) -> Any:
    """Convert dataclasses, mappings, sequences, paths, NumPy scalars and arrays to values that JSON can represent.

    With `finite`, NaN and infinite numbers become None. Raises TypeError for other types.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) or not finite else None
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, finite=finite) for item in value]
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")
