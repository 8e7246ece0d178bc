"""One vectorised protocol for every kind of environment.

N environments step together; an environment whose episode ends begins the next one at once, as Procgen does: the
observation returned with `firsts[i]` is the first of the new episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

Combo = tuple[str, ...]
"""The buttons that are pressed together for one action: ("LEFT", "UP"), () for none."""


@dataclass(frozen=True)
class Step:
    """What N environments show after a reset or a step."""

    observations: np.ndarray  # (N, H, W, C) uint8
    rewards: np.ndarray  # (N,) float32, of the action just taken; zeros after a reset
    firsts: np.ndarray  # (N,) bool: the observation begins an episode
    truncated: np.ndarray  # (N,) bool: firsts, because time ran out rather than because the episode ended
    final_observations: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Last observation of episodes cut by time, by environment, where the environment tells it."""
    new_games: np.ndarray | None = None
    """(N,) bool: firsts that begin a game too, where a game has several episodes, as one a life; None: all of them."""
    idle: np.ndarray | None = None
    """(N,) bool: environments that only began an episode, whatever the action; None: none of them."""


class VectorEnvironment(Protocol):
    """N environments of one kind, seeded when made."""

    num_envs: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    action_combos: tuple[Combo, ...]
    """One a action."""

    def reset(self) -> Step: ...

    def step(self, actions: np.ndarray) -> Step: ...

    def render(self) -> np.ndarray:
        """Human-scale pictures (N, H', W', 3) uint8 of what is observed now, if the environment was made to have them.

        Apart from `step` since a picture can cost as much as many steps.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """What an environment also has if it can be put back to where it stood: training then goes on exactly."""

    def snapshot(self) -> dict[str, np.ndarray] | None:
        """Where the environments stand, in plain arrays; None if these cannot be put back."""
        ...

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Put environments that were made alike to where those stood, without a reset."""
        ...


def snapshot(environment: VectorEnvironment) -> dict[str, np.ndarray] | None:
    """Where environments stand; None if they cannot be put back there."""
    return environment.snapshot() if isinstance(environment, Resumable) else None


@dataclass(frozen=True)
class EnvironmentSpec:
    """What to make: the part of a checkpoint's metadata (or of a user's options) that says where the agent plays."""

    kind: str = "procgen"
    """`procgen`, `coinrun_old`, `atari` or `gymnasium`."""
    name: str = ""
    """Game or Gymnasium id, as given; kinds other than gymnasium ignore case."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the kind: `num_levels`, `frame_stack`, `use_sticky_actions`, ..."""
    epsilon_greedy: float = 0.0
    """Share of actions replaced by uniformly random ones."""
    reward_scale: float = 1.0
