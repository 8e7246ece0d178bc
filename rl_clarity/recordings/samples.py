"""Arrays of what an agent observed and did: N trajectories of T steps, and M extra observations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rl_clarity.base.errors import SamplesError
from rl_clarity.environments.protocol import Combo
from rl_clarity.recordings.world_states import WorldStates


class RaggedArray:
    """An array (N, T, ...) whose N rows have different lengths and are read when they are indexed: `array[row, steps]`.

    A row is an array (T, ...) or anything that can be indexed like one. `shape` has the length of the longest row.
    """

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows
        self.shape: tuple[int, ...] = (len(rows), max(map(len, rows)), *rows[0].shape[1:])
        self.dtype: np.dtype = rows[0].dtype

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        row, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(row, slice):
            return RaggedArray(self._rows[row])
        return np.asarray(self._rows[row][tuple(rest)] if rest else self._rows[row])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.stack([np.asarray(row, dtype) for row in self._rows])

    def row_length(self, row: int) -> int:
        return len(self._rows[row])


@dataclass(frozen=True)
class Trajectories:
    """T consecutive steps of N environments. At step t the agent observed `observations[:, t]` and took `actions[:,
    t]`.

    If trajectories have different lengths, all arrays are `RaggedArray`s.
    """

    observations: np.ndarray  # (N, T, H, W, C) uint8; for vectors, (N, T, 1, 1, n) float32
    actions: np.ndarray  # (N, T) int, or (N, T, factors) if an action is not a single choice
    rewards: np.ndarray  # (N, T) float32: of the action at t (returned with observation t + 1)
    firsts: np.ndarray  # (N, T) bool: the observation is the first of an episode
    truncated: np.ndarray | None = None  # (N, T) bool: the episode was truncated by a time limit after step t
    final_values: np.ndarray | None = None  # (N, T) float32: value of the state in which it was truncated, else 0
    policy_logits: np.ndarray | None = None  # (N, T, A) float32: outputs of all factors of an action
    values: np.ndarray | None = None  # (N, T) float32
    q_values: np.ndarray | None = None  # (N, T, A) float32
    states: tuple[np.ndarray, ...] | None = None  # each (N, T, ...): state *before* the step, resets included
    observations_full: np.ndarray | None = None  # (N, T, H', W', 3) uint8: rendered frames
    action_combos: tuple[Combo, ...] | None = None  # buttons of each action, if the environment names them
    dones: np.ndarray | None = None  # (N, T) bool: the environment ended the episode after step t
    world_states: WorldStates | None = None  # of the environment before each step, where it can be edited
    causes: tuple[tuple[int, int, str], ...] | None = None  # environment, last step and cause of each episode's end

    def __len__(self) -> int:
        return len(self.actions)

    def steps(self, trajectory: int) -> int:
        """Return the number of steps of a trajectory."""
        actions: Any = self.actions
        return actions.row_length(trajectory) if isinstance(actions, RaggedArray) else actions.shape[1]

    def episode_numbers(self, trajectory: int) -> np.ndarray:
        """Return a number (T,) for each step that identifies its episode. Numbers increase within a trajectory and from
        one trajectory to the next.
        """
        return (trajectory << 32) + np.cumsum(np.asarray(self.firsts[trajectory], bool))

    def select(self, trajectory: int) -> Trajectories:
        """Return a single trajectory as arrays (1, T, ...)."""
        rows = slice(trajectory, trajectory + 1)
        arrays = {name: array[rows] for name, array in to_arrays(self).items()}
        causes = None if self.causes is None else tuple((0, t, cause) for i, t, cause in self.causes if i == trajectory)
        return dataclasses.replace(from_arrays(Trajectories, arrays), action_combos=self.action_combos, causes=causes)


@dataclass(frozen=True)
class Observations:
    """Extra observations, many steps apart, from which features are computed."""

    observations: np.ndarray  # (M, H, W, C) uint8
    states: tuple[np.ndarray, ...] | None = None  # each (M, ...): state before the observation
    observations_full: np.ndarray | None = None  # (M, H', W', 3) uint8
    ages: np.ndarray | None = None  # (M,) int: steps since the episode began
    episodes: np.ndarray | None = None  # (M,) int: number of the episode
    trajectory_frames: np.ndarray | None = None  # (M, 2) int: trajectory and frame that it was taken from, or -1, -1

    @classmethod
    def none(cls, shape: Sequence[int]) -> Observations:
        """Return an empty set of observations of shape (H, W, C), for pages that do not use extra observations."""
        return cls(np.zeros((0, *shape), np.uint8))


SamplesT = TypeVar("SamplesT", Trajectories, Observations)

_STATE = "states."
_NOT_ARRAYS = ("action_combos", "world_states", "causes")


def to_arrays(samples: Trajectories | Observations) -> dict[str, np.ndarray]:
    """Return the arrays by name, without those that are None. Parts of a state are `states.0`, `states.1`, ..."""
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(samples):
        value = getattr(samples, field.name)
        if field.name == "states":
            arrays |= {f"{_STATE}{i}": part for i, part in enumerate(value or ())}
        elif value is not None and field.name not in _NOT_ARRAYS:
            arrays[field.name] = value
    return arrays


def from_arrays(kind: type[SamplesT], arrays: Mapping[str, np.ndarray]) -> SamplesT:
    """Build samples from arrays by name, the inverse of `to_arrays`. Raises SamplesError for wrong or missing names."""
    parts = sorted((name for name in arrays if name.startswith(_STATE)), key=lambda name: int(name[len(_STATE) :]))
    states = tuple(arrays[name] for name in parts) or None
    others = {name: array for name, array in arrays.items() if name not in parts}
    fields = dataclasses.fields(kind)
    unknown = others.keys() - {field.name for field in fields if field.name not in _NOT_ARRAYS}
    missing = {field.name for field in fields if field.default is dataclasses.MISSING} - others.keys()
    if unknown or missing:
        problem = (
            f"lack {', '.join(sorted(missing))}" if missing else f"have unknown arrays: {', '.join(sorted(unknown))}"
        )
        raise SamplesError(f"{kind.__name__.lower()} {problem}")
    values: dict[str, Any] = {**others, "states": states}
    return kind(**values)
