"""Labels of recorded steps: actions, rewards, and values that the environment reported, at the same step or at other
steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rl_clarity.base.errors import OptionError
from rl_clarity.states.data import StateData

MOST_CLASSES = 16
"""Labels that are integers with at most this many different values are classes; other labels are numbers."""
FEWEST_EPISODES = 2
"""A class must occur in this many episodes, so that a probe can be fitted on one and tested on another."""
_TEXT = re.compile(r"(?P<name>.+?)(\[(?P<index>\d+)\])?(@(?P<step>[1-9]\d*)|(?P<shift>[+-][1-9]\d*))?")

Labels = Sequence[str] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Label:
    """A label: a value for each of n steps, some of which may be unknown."""

    name: str
    values: np.ndarray  # (n,) float64; NaN where unknown
    classes: np.ndarray | None
    """Values (K,) of the classes, or None for a numeric label."""

    @property
    def kind(self) -> Literal["binary", "classes", "number"]:
        if self.classes is None:
            return "number"
        return "binary" if len(self.classes) == 2 else "classes"

    @property
    def targets(self) -> np.ndarray:
        """(n, C) targets of a regression: the numeric value (C = 1), or an indicator of each class; 0 where unknown."""
        if self.classes is None:
            return np.nan_to_num(self.values)[:, None]
        return (self.values[:, None] == self.classes).astype(np.float64)


def read_labels(data: StateData, rows: np.ndarray, labels: Labels | None) -> tuple[list[Label], dict[str, str]]:
    """Return the labels at some rows of `data`, and the reasons for skipped labels, by name. See `rl_clarity.probe`.

    Raises OptionError for labels that do not exist, have the wrong length, or have only one value. Default labels
    (`labels=None`) with such a problem are skipped instead.
    """
    named: Mapping[str, Any]
    if labels is None:
        named = dict.fromkeys(_defaults(data))
    elif isinstance(labels, Mapping):
        named = labels
    else:
        named = dict.fromkeys(labels)
    if not named:
        raise OptionError("labels is empty; name at least one label, such as 'action+1'")
    found, skipped = [], {}
    for name, given in named.items():
        try:
            values = _values(data, name) if given is None else _given(data, name, given)
            found.append(make_label(name, values[rows], data.episode[rows]))
        except OptionError as error:
            if labels is not None:
                raise
            skipped[name] = error.message
    if not found:
        raise OptionError(f"no label can be probed: {'; '.join(skipped.values())}")
    return found, skipped


def make_label(name: str, values: np.ndarray, episodes: np.ndarray) -> Label:
    """Return a label with values (n,) at steps of the episodes (n,). Classes that occur in only one episode become
    unknown.

    Raises OptionError if the label has fewer than two values, or occurs in fewer than two episodes.
    """
    known = np.isfinite(values)
    distinct = np.unique(values[known])
    if len(distinct) < 2:
        what = f"is {distinct[0]:g} at all probed steps" if len(distinct) else "is not known at any probed step"
        raise OptionError(f"label {name!r} {what}; a probe needs at least two values")
    if len(np.unique(episodes[known])) < FEWEST_EPISODES:
        raise OptionError(f"label {name!r} is known in only one episode; it must be in at least {FEWEST_EPISODES}")
    if len(distinct) > MOST_CLASSES or (distinct != np.rint(distinct)).any():
        return Label(name, np.where(known, values, np.nan), None)
    common = np.array([one for one in distinct if len(np.unique(episodes[values == one])) >= FEWEST_EPISODES])
    if len(common) < 2:
        raise OptionError(
            f"label {name!r} has the values {', '.join(f'{one:g}' for one in distinct)}, but only {len(common)} of "
            f"them occur in at least {FEWEST_EPISODES} episodes; at least two such values are needed"
        )
    return Label(name, np.where(np.isin(values, common), values, np.nan), common)


def _defaults(data: StateData) -> list[str]:
    """Return the names of the default labels: numbers that the environment reported, at the same and at the first step,
    and the next action and reward.
    """
    names = []
    for name, array in data.recording[int(data.episode[0])].info.items():
        if array.ndim == 1 and not name.endswith((".dx", ".dy")):
            names.append(name)
            series = data.sequences(_values(data, name))
            if (np.nanmax(series, axis=1, initial=-np.inf) > np.nanmin(series, axis=1, initial=np.inf)).any():
                names.append(f"{name}@1")
    return [*names, *(["action+1"] if data.actions.ndim == 1 else []), "reward+1"]


def _values(data: StateData, text: str) -> np.ndarray:
    series = _series(data, text, None)
    if series is not None:
        return series
    match = _TEXT.fullmatch(text)
    assert match is not None  # any text matches as a name
    series = _series(data, match["name"], match["index"])
    if series is None:
        known = ["action", "reward", "return", *data.recording[int(data.episode[0])].info]
        raise OptionError(
            f"label {text!r}: the recording has no {match['name']!r}; it has {', '.join(known)}. NAME@1 is the value "
            "at the first step, NAME+4 the value 4 steps later, and NAME-4 the value 4 steps earlier. rl-clarity "
            "record --info records more values"
        )
    rows = np.arange(len(data))
    if match["step"]:
        step = int(match["step"]) - 1
        return np.where(data.length > step, series[np.minimum(rows - data.time + step, len(data) - 1)], np.nan)
    shift = int(match["shift"] or 0)
    inside = (data.time + shift >= 0) & (data.time + shift < data.length)
    return np.where(inside, series[np.clip(rows + shift, 0, len(data) - 1)], np.nan)


def _series(data: StateData, name: str, index: str | None) -> np.ndarray | None:
    """Return the values (n,) that have this name, or None if the recording has no such values."""
    if name in ("action", "reward", "return"):
        array = {"action": data.actions, "reward": data.rewards, "return": data.returns}[name]
    else:
        parts = []
        for number in data.episode[data.starts]:
            info = data.recording[int(number)].info
            if name not in info:
                return None
            parts.append(np.asarray(info[name]))
        if len({part.shape[1:] for part in parts}) > 1:
            raise OptionError(f"label {name!r} has different shapes in different episodes")
        array = np.concatenate(parts)
    flat = np.asarray(array, np.float64).reshape(len(array), -1)
    if index is None and flat.shape[1] != 1:
        raise OptionError(
            f"label {name!r} has {flat.shape[1]} numbers at each step; choose one of them, such as {name}[0]"
        )
    if int(index or 0) >= flat.shape[1]:
        raise OptionError(
            f"label {name}[{index}] does not exist, because there are only {flat.shape[1]} numbers at each step"
        )
    return flat[:, int(index or 0)]


def _given(data: StateData, name: str, given: Any) -> np.ndarray:
    """Return values (n,) that the caller passed, either as values of all steps or as an array for each episode."""
    lengths = data.length[data.starts]
    try:
        if len(given) == len(lengths) and all(np.ndim(one) == 1 for one in given):
            wrong = [i for i, (one, length) in enumerate(zip(given, lengths, strict=True)) if len(one) != length]
            if wrong:
                i = wrong[0]
                raise OptionError(
                    f"label {name!r} has {len(given[i])} values for episode {i}, which has {lengths[i]} steps"
                )
            values = np.concatenate([np.asarray(one, np.float64) for one in given])
        else:
            values = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"label {name!r} must contain numbers: {error}") from None
    if values.shape != (len(data),):
        raise OptionError(
            f"label {name!r} has the shape {values.shape}; expected a value for each of {len(data)} steps, or a list "
            f"of {len(lengths)} arrays, one for each episode"
        )
    return values
