"""Worlds: environments whose states can be edited and drawn again, and whose objects can be listed.

If an object can be removed from a state and the frame can be drawn again, the effect of the object on an agent can be
measured instead of estimated. A kind of environment provides its worlds with `EnvironmentKind.world`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.protocol import VectorEnvironment

Position = tuple[float, float]
"""A position (x, y) in cells of the world. The x axis points to the right and the y axis upward."""


@dataclass(frozen=True)
class WorldObject:
    """An object in a state of a world. The player is an object only in worlds of Atari games."""

    type: str
    """Name of the object's type: `saw`, `coin`, ..."""
    number: int
    """Number of the object among the objects of the state. `follow` keeps the number from one step to the next."""
    box: tuple[float, float, float, float]
    """Left, bottom, right and top, in cells of the world."""
    offset: Position
    """Center of the object relative to the player's center, in cells."""
    pixels: tuple[float, float, float, float]
    """Left, top, right and bottom in the observation, as shares of its width and height. Values outside 0 to 1
    are out of view."""
    moves: bool = False
    """Whether the object moves by itself."""
    terrain: bool = False
    """Whether the object is terrain, such as ground or a wall."""
    handle: Any = None
    """A value with which the world finds the object in the state."""

    @property
    def center(self) -> Position:
        """Return the center of the box, in cells."""
        left, bottom, right, top = self.box
        return (left + right) / 2, (bottom + top) / 2

    @property
    def in_view(self) -> bool:
        """Return whether the box overlaps the observation; the object can still be hidden by others."""
        left, top, right, bottom = self.pixels
        return left < 1 and right > 0 and top < 1 and bottom > 0


class World(Protocol):
    """Lists, edits and draws the states of an environment. Edits return a new state. `draw` returns what the agent
    would observe.
    """

    exact: bool
    """Whether states are drawn as if removed objects had never been there. Otherwise the objects are painted over."""
    types: tuple[str, ...]
    """Names of the types that objects can have."""

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        ...

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, visible or not. With `terrain=False`, objects that are terrain, of which there
        can be many, are omitted.
        """
        ...

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object from a different state."""
        ...

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving the center of an object to another position, in cells."""
        ...

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type at the same position.

        Raises WorldError for an unknown type.
        """
        ...

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type. Raises WorldError for an unknown type."""
        ...

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, H, W, C) uint8 of n states. The observation of an unedited state is exactly the one
        that the agent received.
        """
        ...

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images (n, H', W', 3) uint8 of n states at full resolution."""
        ...

    def close(self) -> None:
        """Close the environments that draw the states."""
        ...


@runtime_checkable
class Restores(Protocol):
    """A world whose states can be restored, so that environments continue from them."""

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore a state in each of the N environments, without a reset, and return the observations (N, H, W, C)
        uint8.

        The same actions then have the same results as after the state was saved: observations, rewards and ends of
        episodes, including random events. Raises WorldError for a state from which the environment cannot continue.
        """
        ...


@runtime_checkable
class HasBackgrounds(Protocol):
    """A world that can draw its states without the background."""

    def without_background(self, state: bytes) -> bytes:
        """Return the state after switching its background off, so that it is drawn with a black background."""
        ...


def restore(world: World, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
    """Restore a state in each of the N environments, and return the observations (N, H, W, C), as `Restores.restore`
    does.

    Raises WorldError if the world cannot restore states, and if the number of states differs from the number of
    environments.
    """
    if not isinstance(world, Restores):
        raise WorldError(
            f"play cannot continue from states of {type(world).__name__}, which has no method `restore` "
            "(see docs/extending.md)"
        )
    if len(states) != environment.num_envs:
        raise WorldError(
            f"cannot restore {len(states)} states in {environment.num_envs} environments: the numbers must be equal"
        )
    return world.restore(environment, states)


def follow(
    before: Sequence[WorldObject], after: Sequence[WorldObject], reach: float = 2.0, fresh: int | None = None
) -> list[WorldObject]:
    """Return the objects `after` a step with the numbers that they had `before` it. New objects get new numbers.

    Objects of the same type that are at most `reach` cells apart are matched, the closest pairs first and each object
    at most once. New numbers start at `fresh`, by default after the largest number in `before`.
    """
    numbers = _unmoved(before, after)
    used = set(numbers.values())
    waiting = [item for item in before if item.number not in used]
    pairs = sorted(
        (distance, old.number, j)
        for j, new in enumerate(after)
        if j not in numbers
        for old in waiting
        if old.type == new.type and (distance := math.dist(old.center, new.center)) <= reach
    )
    for _, number, j in pairs:
        if number not in used and j not in numbers:
            numbers[j] = number
            used.add(number)
    new_numbers = itertools.count(max((item.number for item in before), default=-1) + 1 if fresh is None else fresh)
    numbered = [(item, numbers[j] if j in numbers else next(new_numbers)) for j, item in enumerate(after)]
    return [item if item.number == number else dataclasses.replace(item, number=number) for item, number in numbered]


def _unmoved(before: Sequence[WorldObject], after: Sequence[WorldObject]) -> dict[int, int]:
    """Return the numbers of objects that are at the same position as an object of the same type in `before`, by their
    index in `after`.
    """
    places: defaultdict[tuple[str, Position], list[int]] = defaultdict(list)
    for item in reversed(before):
        places[item.type, item.center].append(item.number)
    return {j: places[item.type, item.center].pop() for j, item in enumerate(after) if places[item.type, item.center]}
