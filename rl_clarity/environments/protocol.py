"""The vectorized protocol of environments.

N environments step together. When an episode ends, its environment starts the next episode in the same step, as in
Procgen. So if `firsts[i]` is true, observation i is the first one of a new episode.
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
    firsts: np.ndarray  # (N,) bool: whether the observation is the first of an episode
    truncated: np.ndarray  # (N,) bool: whether an episode ended by truncation, not by termination
    final_observations: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Last observations of episodes that ended, by index of the environment, if they are known."""
    new_games: np.ndarray | None = None
    """(N,) bool: whether the new episode is also the start of a new game, for games with an episode for each life. None
    if every episode is a game."""
    game_returns: np.ndarray | None = None
    """(N,) float64: returns of the games that ended, if `rewards` are not the rewards of the game. None if returns are
    sums of `rewards`."""
    idle: np.ndarray | None = None
    """(N,) bool: true for environments that only reset in this step and ignored the action. None if there are none."""
    action_masks: np.ndarray | None = None
    """(N, A) bool: which of the A actions are valid in the current states, or None if all are."""
    held_inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(N, ...) float32: the numeric entries of a dictionary of observations besides the image, by name."""
    final_held_inputs: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """The held inputs that belong to `final_observations`, by index of the environment."""
    ends: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What the environment reports about episodes that ended, by index of the environment. The entry `cause` is the
    cause of the end."""


class VectorEnvironment(Protocol):
    """N environments of the same kind, which are seeded when they are made."""

    num_envs: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    action_combos: tuple[Combo, ...]
    """The buttons that each action presses. If an action is not a single choice, this tuple is empty, and the
    environment has an attribute `action_factors` with the factors of an action (`rl_clarity.agents.actions`)."""

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
        """Return the state of the environments as plain arrays, or None if it cannot be restored."""
        ...

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore the state of environments made with the same arguments, without a reset."""
        ...


def snapshot(environment: VectorEnvironment) -> dict[str, np.ndarray] | None:
    """Return the state of environments as plain arrays, or None if it cannot be restored."""
    return environment.snapshot() if isinstance(environment, Resumable) else None


@runtime_checkable
class HasImageLayout(Protocol):
    """An environment that converts its observations from a different range or layout."""

    @property
    def layout(self) -> ImageLayout:
        """The layout of the observations, which determines how they are converted to images."""
        ...


@runtime_checkable
class HasLevels(Protocol):
    """An environment that reports which levels it plays."""

    def level_seeds(self) -> np.ndarray:
        """Return the seeds (N,) of the levels that are being played."""
        ...


@runtime_checkable
class HasInfos(Protocol):
    """An environment that reports facts about its states, which may include facts that cannot be observed."""

    def infos(self) -> Sequence[Mapping[str, Any]]:
        """Return a dict of facts about the current state of each of the N environments."""
        ...


@runtime_checkable
class WatchesEnds(Protocol):
    """An environment that reports the causes of the ends of episodes only on request, because finding them
    takes time.
    """

    def watch_ends(self, watched: np.ndarray) -> None:
        """From now on, report in `Step.ends` why episodes end in the environments for which `watched` (N,) bool is
        true.
        """
        ...


def combo_from_meaning(meaning: str) -> Combo:
    """Return the buttons that an action presses, from its name: ("UP", "RIGHT", "FIRE") for `UPRIGHTFIRE`, () for
    `NOOP`. Any other name stands for a single button of this name.
    """
    if meaning.upper() in ("NOOP", ""):
        return ()
    buttons = tuple(_BUTTONS.findall(meaning.upper()))
    return buttons if "".join(buttons) == meaning.upper() else (meaning,)


def numbered_combos(num_actions: int) -> tuple[Combo, ...]:
    """Return labels for actions whose meanings are not known: ("0",), ("1",), ..."""
    return tuple((str(action),) for action in range(num_actions))
