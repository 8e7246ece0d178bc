"""Worlds: environments whose states can be listed as objects, edited, and drawn again.

If an object can be taken out of a state and the frame drawn again, the effect of the object on an agent is measured and
not estimated. A kind of environment offers this as `EnvironmentKind.world`.
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
"""x to the right and y upward, in cells of the world."""


@dataclass(frozen=True)
class WorldObject:
    """Something in a state of a world, other than the player."""

    type: str
    """Name of its type: `saw`, `coin`, ..."""
    number: int
    """Number among the objects of the state; `follow` carries it from one step to the next."""
    box: tuple[float, float, float, float]
    """Left, bottom, right and top, in cells of the world."""
    offset: Position
    """Center of the object relative to the player's center, in cells."""
    pixels: tuple[float, float, float, float]
    """Left, top, right and bottom in the observation, as shares of its width and height. Values outside 0 to 1
    are out of view."""
    moves: bool = False
    """Whether it moves by itself."""
    terrain: bool = False
    """Whether it is part of the ground and the walls."""
    handle: Any = None
    """Where the world finds it in the state."""

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
    """States of one environment. Edits return a new state; `draw` shows what the agent would observe."""

    exact: bool
    """Whether states are drawn as if removed objects had never been there. Otherwise the objects are painted over."""
    types: tuple[str, ...]
    """Names of the types that objects can have."""

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        ...

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, visible or not, without the player. With `terrain=False` terrain, which can be
        large, is left out.
        """
        ...

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object of another state."""
        ...

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state with the center of an object at another position, in cells."""
        ...

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Replace an object by one of another type in the same place, and return the state.

        Raises WorldError for an unknown type.
        """
        ...

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state with one more object. Raises WorldError for an unknown type."""
        ...

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw observations (n, H, W, C) uint8 of states. Unedited states give exactly what was observed."""
        ...

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images of human scale (n, H', W', 3) uint8 of states."""
        ...

    def close(self) -> None:
        """Close what draws the states."""
        ...


@runtime_checkable
class Restores(Protocol):
    """A world whose states can be restored, so that environments continue from them."""

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Bring each environment to its state, without a reset, and return what it observes (N, H, W, C) uint8.

        The same actions then lead to the same observations, rewards and ends as from the state that was saved, random
        numbers of the environment included. Raises WorldError for a state from which it cannot continue.
        """
        ...


@runtime_checkable
class HasBackgrounds(Protocol):
    """A world that can draw its states without the background."""

    def without_background(self, state: bytes) -> bytes:
        """Return the state, drawn with a black background."""
        ...


def restore(world: World, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
    """Bring each environment to its state and return its observations (N, H, W, C), as `Restores.restore`.

    Raises WorldError for a world that cannot restore states, and if there is not one state for each environment.
    """
    if not isinstance(world, Restores):
        raise WorldError(
            f"play cannot continue from states of {type(world).__name__}: it has no method `restore` "
            "(see docs/extending.md)"
        )
    if len(states) != environment.num_envs:
        raise WorldError(f"{len(states)} states cannot be restored in {environment.num_envs} environments")
    return world.restore(environment, states)


def follow(
    before: Sequence[WorldObject], after: Sequence[WorldObject], reach: float = 2.0, fresh: int | None = None
) -> list[WorldObject]:
    """Return the objects of a step with the numbers that they had one step earlier. New objects get new numbers.

    Objects of the same type are matched, the closest pairs first, up to `reach` cells apart, and each at most once. New
    numbers start at `fresh`, by default after the largest number of the step before.
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
    """Return the numbers of objects in the same place as an object of their type before, by their index in `after`."""
    places: defaultdict[tuple[str, Position], list[int]] = defaultdict(list)
    for item in reversed(before):
        places[item.type, item.center].append(item.number)
    return {j: places[item.type, item.center].pop() for j, item in enumerate(after) if places[item.type, item.center]}
