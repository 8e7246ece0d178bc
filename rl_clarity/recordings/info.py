"""Read numbers from what an environment reports about its state (`info`), to record them with each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.protocol import HasInfos
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.environments.wrappers import unwrapped
from rl_clarity.recordings.blocks import check_name

OBJECTS = "objects"
"""Name that selects the numbers of `object_numbers`, if the objects in the environment's states can be listed."""
Info = Mapping[str, Any]


class InfoNumbers:
    """Reads chosen numbers from `info`, which environments report with an observation. A missing number is NaN.

    Args:
        names: Names in `info`. Their values are numbers, or arrays whose shape does not change.

    Raises:
        OptionError: `names` is a string, or contains a name that a field of a recording cannot have.
    """

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise OptionError(f"info={names!r} must be a list of names, such as [{names!r}]")
        try:
            for name in names:
                check_name(f"info.{name}")
        except SamplesError as error:
            raise OptionError(f"info={list(names)}: {error.message}") from None
        self._names = tuple(names)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._others: set[str] = set()
        self._reads = 0

    def read(self, infos: Sequence[Info]) -> dict[str, np.ndarray]:
        """Return arrays (N, ...) float64 by name from the reports of N environments.

        Raises SamplesError for a value that is neither a number nor an array of numbers.
        """
        self._reads += 1
        if self._names:
            self._others.update(name for info in infos for name in info)
        result: dict[str, np.ndarray] = {}
        for name in self._names:
            values = [_number(name, info[name]) if name in info else None for info in infos]
            known = [value for value in values if value is not None]
            if known:
                self._shapes[name] = known[-1].shape
            missing = np.full(self._shapes.get(name, ()), np.nan)
            result[name] = np.stack([missing if value is None else value for value in values])
        return result

    def check_found(self) -> None:
        """Raise SamplesError for a name that no report has contained so far. Nothing is checked before the second
        report, because the report of a reset may lack names.
        """
        unknown = [name for name in self._names if name not in self._shapes]
        if unknown and self._reads > 1:
            others = ", ".join(sorted(map(str, self._others))) or "nothing"
            raise SamplesError(
                f"info={unknown[0]!r}: the environment's info never contained this name; it contained {others}"
            )


def _number(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SamplesError(
            f"info[{name!r}] of the environment is {value!r:.60}, which is neither a number nor an array of numbers; "
            f"leave {name!r} out of info="
        )
    return array.astype(np.float64)


class EnvironmentInfo:
    """Reads chosen numbers of vector environments before each step; see `RecordOptions.info`.

    Raises OptionError if names other than `objects` are chosen and the environments report no `info`. Raises WorldError
    if `objects` is chosen and the objects in the environments' states cannot be listed.
    """

    def __init__(self, spec: EnvironmentSpec, environment: VectorEnvironment, names: Sequence[str]) -> None:
        self._environment = environment
        self._world = make_world(spec) if OBJECTS in names else None
        others = [name for name in names if name != OBJECTS]
        self._numbers = InfoNumbers(others)
        inner = unwrapped(environment)
        if others and not isinstance(inner, HasInfos):
            raise OptionError(
                f"info={others[0]!r} cannot be recorded, because the environment {spec.name} reports no info; "
                f"{OBJECTS!r} may be available"
            )
        self._reports: HasInfos | None = inner if isinstance(inner, HasInfos) else None

    def read(self) -> dict[str, np.ndarray]:
        """Return the chosen numbers (N, ...) of the current states, by name."""
        numbers = {} if self._reports is None else self._numbers.read(self._reports.infos())
        if self._world is not None:
            rows = [
                object_numbers(self._world.objects(state, terrain=False), self._world.types)
                for state in self._world.states(self._environment)
            ]
            numbers |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
        return numbers

    def check_found(self) -> None:
        """Raise SamplesError for a name that the environment has not reported so far."""
        self._numbers.check_found()

    def close(self) -> None:
        """Close the world that lists the objects."""
        if self._world is not None:
            self._world.close()


def object_numbers(objects: Sequence[WorldObject], types: Sequence[str]) -> dict[str, float]:
    """Return numbers that describe the objects of each type, by name. `objects.TYPE.visible` is 1 if an object of the
    type is in view, and 0 otherwise. `objects.TYPE.distance`, `.dx` and `.dy` are the distance and the offset from the
    player to the nearest object of the type, in cells. They are NaN if there is no such object.
    """
    result: dict[str, float] = {}
    for type in types:
        same = [item for item in objects if item.type == type]
        dx, dy = min((item.offset for item in same), key=lambda at: np.hypot(*at), default=(np.nan, np.nan))
        numbers = {"visible": any(item.in_view for item in same), "distance": np.hypot(dx, dy), "dx": dx, "dy": dy}
        name = f"{OBJECTS}.{type.replace(' ', '_')}"
        result |= {f"{name}.{key}": float(value) for key, value in numbers.items()}
    return result
