"""Cache keys: equal inputs have equal keys, and everything that can change a result changes its key."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.base import keys
from rl_clarity.base.keys import cache_key, code_version, to_plain


@dataclass(frozen=True)
class Options:
    path: Path
    values: tuple[float, ...]


def test_equal_values_have_equal_cache_keys() -> None:
    assert cache_key({"a": 1, "b": (2, 3)}) == cache_key({"b": [2, 3], "a": 1})
    assert cache_key({"a": 1}) != cache_key({"a": 2})
    assert cache_key({"width": 4, "widths": (1, 2.5)}) == cache_key({"width": 4.0, "widths": [1.0, 2.5]})
    assert cache_key([math.inf, 0.5]) != cache_key([math.nan, 0.5])


def test_package_versions_change_the_code_version(monkeypatch: pytest.MonkeyPatch) -> None:
    current = code_version()
    assert code_version() == current
    monkeypatch.setattr(keys, "version", lambda package: "99")
    assert code_version() != current


def test_the_keras_backend_changes_the_code_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keras", raising=False)  # once Keras is imported, its backend cannot change
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    current = code_version()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    assert code_version() == current
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert code_version() != current


def test_values_are_converted_to_json() -> None:
    value = {1: Options(Path("a/b"), (1.5, math.inf)), "array": np.arange(2), "scalar": np.float32(0.5), "none": None}
    plain = {"1": {"path": "a/b", "values": [1.5, math.inf]}, "array": [0, 1], "scalar": 0.5, "none": None}
    assert to_plain(value) == plain
    assert to_plain(value, finite=True)["1"]["values"] == [1.5, None]


def test_values_that_json_cannot_represent_are_rejected() -> None:
    with pytest.raises(TypeError, match="set"):
        to_plain({"layers": {1, 2}})
