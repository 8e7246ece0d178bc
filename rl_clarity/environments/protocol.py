"""The vectorized protocol of environments.

N environments step together. When an episode ends, its environment starts the next episode in the same step, as in
Procgen, so the observation returned with `firsts[i]` is the first of the new episode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rl_clarity.environments.images import ImageLayout

Combo = tuple[str, ...]
"""The buttons that an action presses, such as ("LEFT", "UP"), or () for no button."""
_BUTTONS = re.compile("UP|DOWN|LEFT|RIGHT|FIRE")


@dataclass(frozen=True)
class Step:
    """Observations, rewards and flags of N environments after a reset or a step."""

    observations: np.ndarray  # (N, H, W, C) uint8
    rewards: np.ndarray  # (N,) float32, of the last action; zeros after a reset
    firsts: np.ndarray  # (N,) bool: the observation is the first of an episode
    truncated: np.ndarray  # (N,) bool: firsts after an episode that was truncated, not terminated
    final_observations: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Last observations of episodes that ended, by environment, if they are known."""
    new_games: np.ndarray | None = None
    """(N,) bool: whether a new episode also starts a new game, if a game has an episode for each life. None if every
    episode is a game."""
    game_returns: np.ndarray | None = None
    """(N,) float64: returns of the games that ended, if rewards differ from the game's rewards. None if returns are
    sums of rewards."""
    idle: np.ndarray | None = None
    """(N,) bool: true for environments that only reset and ignored the action. None if there are none."""
    action_masks: np.ndarray | None = None
    """(N, A) bool: actions that are valid in this state, or None if all are."""
    held_inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(N, ...) float32: what a dictionary of observations has beside the image, by name."""
    final_held_inputs: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """The held inputs that belong to `final_observations`, by environment."""
    ends: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What the environment reports about episodes that ended, by environment; `cause` is the cause of the end."""


class VectorEnvironment(Protocol):
    """N environments of one kind, which are seeded when they are made."""

    num_envs: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    action_combos: tuple[Combo, ...]
    """The buttons of each action. Environments whose actions are not one choice have an empty tuple here, and an
    attribute `action_factors`, what an action consists of (`rl_clarity.agents.actions`)."""

    def reset(self) -> Step: ...

    def step(self, actions: np.ndarray) -> Step: ...

    def render(self) -> np.ndarray:
        """Return images (N, H', W', 3) uint8 of the current states, for environments made with `full_resolution=True`.

        `step` does not return them, because an image can cost as much as many steps.
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
    """An environment that converts its images from another range or layout."""

    @property
    def layout(self) -> ImageLayout:
        """How observations are converted to images."""
        ...


@runtime_checkable
class HasLevels(Protocol):
    """An environment that reports which levels it plays."""

    def level_seeds(self) -> np.ndarray:
        """Return seeds (N,) of the levels that are played."""
        ...


@runtime_checkable
class HasInfos(Protocol):
    """An environment that reports more about its states, such as what cannot be observed."""

    def infos(self) -> Sequence[Mapping[str, Any]]:
        """Return for each of the N environments what it reports about its current state, by name."""
        ...


@runtime_checkable
class WatchesEnds(Protocol):
    """An environment that reports what ends episodes only on request, because finding the cause takes time."""

    def watch_ends(self, watched: np.ndarray) -> None:
        """Report in `Step.ends` from now on what ends the episodes of these environments (N,) bool."""
        ...


def combo_from_meaning(meaning: str) -> Combo:
    """Return the buttons of an action: ("UP", "RIGHT", "FIRE") for `UPRIGHTFIRE`, () for `NOOP`. Any other text is the
    name of one button.
    """
    if meaning.upper() in ("NOOP", ""):
        return ()
    buttons = tuple(_BUTTONS.findall(meaning.upper()))
    return buttons if "".join(buttons) == meaning.upper() else (meaning,)


def numbered_combos(num_actions: int) -> tuple[Combo, ...]:
    """Return the labels of actions without known meanings: ("0",), ("1",), ..."""
    return tuple((str(action),) for action in range(num_actions))
