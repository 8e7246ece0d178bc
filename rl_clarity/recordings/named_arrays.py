"""Samples as arrays by name, which is how they are recorded and stored; a state's parts are `states.0`, `states.1`.

What is no array (the actions' names) is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from rl_clarity.errors import SamplesError
from rl_clarity.recordings.samples import Observations, Trajectories

Samples = TypeVar("Samples", Trajectories, Observations)

_STATE = "states."
_NO_ARRAYS = ("action_combos",)


def to_arrays(samples: Trajectories | Observations) -> dict[str, np.ndarray]:
    """Arrays of samples by name, without those that are None."""
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(samples):
        value = getattr(samples, field.name)
        if field.name == "states":
            arrays |= {f"{_STATE}{i}": part for i, part in enumerate(value or ())}
        elif value is not None and field.name not in _NO_ARRAYS:
            arrays[field.name] = value
    return arrays


def from_arrays(kind: type[Samples], arrays: Mapping[str, np.ndarray]) -> Samples:
    """Put samples together from arrays by name; raises `SamplesError` if they do not make such samples."""
    parts = sorted((name for name in arrays if name.startswith(_STATE)), key=lambda name: int(name[len(_STATE) :]))
    states = tuple(arrays[name] for name in parts) or None
    rest = {name: array for name, array in arrays.items() if name not in parts}
    fields = dataclasses.fields(kind)
    unknown = rest.keys() - {field.name for field in fields if field.name not in _NO_ARRAYS}
    missing = {field.name for field in fields if field.default is dataclasses.MISSING} - rest.keys()
    if unknown or missing:
        problem = f"lack {', '.join(sorted(missing))}" if missing else f"have the unknown {', '.join(sorted(unknown))}"
        raise SamplesError(f"arrays of {kind.__name__.lower()} {problem}")
    named: dict[str, Any] = {**rest, "states": states}
    return kind(**named)
