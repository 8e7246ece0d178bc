"""Serialize Python values as JSON that is safe inside a script element."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_SURROGATE = re.compile("[\ud800-\udfff]")  # an unpaired surrogate, which UTF-8 cannot represent


def to_json(value: Any, precision: int | None = None) -> str:
    """Serialize a value as JSON whose text is safe in a script element.

    Supports mappings, sequences, numpy arrays and numpy scalars. Floats keep `precision` significant figures (all if
    None); NaN and infinities, which JSON lacks, become null. Raises TypeError for other types.
    """
    text = json.dumps(_plain(value, precision), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: Any, precision: int | None) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return _rounded(value, precision)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, precision) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, precision) for item in value]
    raise TypeError(
        f"props may contain text, numbers, sequences, mappings and numpy arrays, not {type(value).__name__}: {value!r}"
    )


def _rounded(value: float, precision: int | None) -> float | int | None:
    if not math.isfinite(value):
        return None
    if precision is not None:
        value = float(f"{value:.{precision}g}")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
