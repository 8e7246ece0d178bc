"""The vectorized protocol of all environments.

N environments step together. When an episode ends, the environment starts the next one in the same step, as Procgen
does: the observation returned with `firsts[i]` is the first of the new episode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rl_clarity.environments.images import ImageLayout

Combo = tuple[str, ...]
"""The buttons that one action presses: ("LEFT", "UP"), () for none."""
_BUTTONS = re.compile("UP|DOWN|LEFT|RIGHT|FIRE")


@dataclass(frozen=True)
class Step:
    """Observations, rewards and flags of N environments after a reset or a step."""

    observations: np.ndarray  # (N, H, W, C) uint8
    rewards: np.ndarray  # (N,) float32, of the last action; zeros after a reset
    firsts: np.ndarray  # (N,) bool: the observation is the first of an episode
    truncated: np.ndarray  # (N,) bool: firsts after an episode that was truncated, not terminated
    final_observations: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Last observations of episodes that ended, by environment, where they are known."""
    new_games: np.ndarray | None = None
    """(N,) bool: firsts that also start a game, where a game has several episodes (one per life); None: all do."""
    game_returns: np.ndarray | None = None
    """(N,) float64: returns of the games that ended, where rewards are not the game's own; None: sums of rewards."""
    idle: np.ndarray | None = None
    """(N,) bool: environments that only reset and ignored the action; None: no environment did."""
    action_masks: np.ndarray | None = None
    """(N, A) bool: actions that are valid in this state; None: all are."""
    ends: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What the environment says about episodes that ended, by environment; `cause` is what ended them."""


class VectorEnvironment(Protocol):
    """N environments of one kind, seeded when they are made."""

    num_envs: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    action_combos: tuple[Combo, ...]
    """One per action."""

    def reset(self) -> Step: ...

    def step(self, actions: np.ndarray) -> Step: ...

    def render(self) -> np.ndarray:
        """Return the images of human scale (N, H', W', 3) uint8 of the current states, if made with
        `full_resolution=True`.

        Separate from `step`, as one image can cost as much as many steps.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """An environment whose state can be saved and restored, so that training resumes exactly."""

    def snapshot(self) -> dict[str, np.ndarray] | None:
        """Return the state of the environments as plain arrays; None if they cannot be restored."""
        ...

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore the state of environments made with the same arguments, without a reset."""
        ...


def snapshot(environment: VectorEnvironment) -> dict[str, np.ndarray] | None:
    """Return the state of environments; None if they cannot be restored."""
    return environment.snapshot() if isinstance(environment, Resumable) else None


@runtime_checkable
class HasImageLayout(Protocol):
    """An environment that converts images of another range or layout."""

    @property
    def layout(self) -> ImageLayout:
        """How observations are converted."""
        ...


@runtime_checkable
class HasLevels(Protocol):
    """An environment that says which levels it plays."""

    def level_seeds(self) -> np.ndarray:
        """Return seeds (N,) of the levels that are played."""
        ...


@runtime_checkable
class WatchesEnds(Protocol):
    """An environment that finds out what ends episodes only on request, as this takes time."""

    def watch_ends(self, watched: np.ndarray) -> None:
        """From now on, say in `Step.ends` what ends the episodes of these environments (N,) bool."""
        ...


def combo_from_meaning(meaning: str) -> Combo:
    """Return the buttons of one action: `UPRIGHTFIRE` is ("UP", "RIGHT", "FIRE"), `NOOP` is (), other words are one
    button.
    """
    if meaning.upper() in ("NOOP", ""):
        return ()
    buttons = tuple(_BUTTONS.findall(meaning.upper()))
    return buttons if "".join(buttons) == meaning.upper() else (meaning,)


def numbered_combos(num_actions: int) -> tuple[Combo, ...]:
    """Return the labels of actions without known meanings: ("0",), ("1",), ..."""
    return tuple((str(action),) for action in range(num_actions))
