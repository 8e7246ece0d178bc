"""Read the values of single environments from those that a training loop passes to `Recorder.add`, and check them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.base.errors import SamplesError
from rl_clarity.recordings.blocks import check_type
from rl_clarity.recordings.episode_buffer import to_array
from rl_clarity.recordings.layout import CAUSE


class Values:
    """The values of a step, which are read one environment at a time.

    Functions among them are called when they are read. A function without a parameter is called once, for all
    environments. A function with a parameter is called for each recorded environment, with its index.
    """

    def __init__(self, values: Mapping[str, Any], per_environment: dict[str, bool]) -> None:
        """Store the values. `per_environment` maps the name of a function to whether it has a parameter; new functions
        are added to it.
        """
        self._values = {name: value for name, value in values.items() if value is not None}
        self._per_environment = per_environment

    def arrays(self, index: int | None) -> dict[str, np.ndarray]:
        """Return the values of an environment as arrays by name. `index` is None if there is only one environment."""
        values = {name: self._value(name, index) for name in self._values}
        return {name: to_array(name, value) for name, value in values.items() if value is not None}

    def _value(self, name: str, index: int | None) -> Any:
        value = self._values[name]
        if callable(value):
            if name not in self._per_environment:
                self._per_environment[name] = has_parameter(value)
            if self._per_environment[name]:
                return value(index or 0)
            value = self._values[name] = value()
        return item(value, index)


def has_parameter(function: Any) -> bool:
    """Return whether a function must be called with an argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.kind in positional and one.default is inspect.Parameter.empty for one in parameters)


def check_first_values(arrays: Mapping[str, np.ndarray], combos: Sequence[Any] | None) -> None:
    """Raise SamplesError if required values are missing at the first step of an episode, or if the number of outputs
    differs from the number of `combos` (action combinations). The other steps must have the same fields, so they are
    not checked again.
    """
    missing = [name for name in ("observations", "actions", "rewards") if name not in arrays]
    if missing:
        raise SamplesError(f"{', '.join(missing)} must not be None")
    for name in ("policy_logits", "q_values"):
        if combos and name in arrays and arrays[name].shape != (len(combos),):
            raise SamplesError(
                f"{name} has the shape {arrays[name].shape}, but action_combos in the recording's metadata has "
                f"{len(combos)} actions"
            )


def state_parts(name: str, state: Any) -> dict[str, Any]:
    """Return the parts of a state by name: `NAME.0`, `NAME.1`, ..."""
    if state is None:
        return {}
    parts = state if isinstance(state, tuple | list) else (state,)
    return {f"{name}.{i}": part for i, part in enumerate(parts)}


def item(value: Any, index: int | None) -> Any:
    """Return the value for one of several environments, or for the only environment if `index` is None. If a mapping
    lacks the environment, return None.
    """
    if index is None:
        return value
    return value.get(index) if isinstance(value, Mapping) else value[index]


def final_arrays(final: Mapping[str, Any], index: int | None) -> dict[str, np.ndarray]:
    """Return the final values of an environment as arrays (1, ...) by name. Values that do not exist are omitted."""
    values = {"final_observation": _final(final["observation"], index), "final_value": _final(final["value"], index)}
    parts = state_parts("final_states", final["state"])
    values |= {name: _final(part, index) for name, part in parts.items()}
    arrays = {name: to_array(name, value)[None] for name, value in values.items() if value is not None}
    cause = _final(final["cause"], index)
    if cause:
        arrays[CAUSE] = np.frombuffer(str(cause).encode(), np.uint8)[None]
    return {name: np.array(check_type(name, array)) for name, array in arrays.items()}


def _final(value: Any, index: int | None) -> Any:
    if callable(value):
        value = value()
    return None if value is None else item(value, index)
