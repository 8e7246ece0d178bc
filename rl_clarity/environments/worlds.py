"""Worlds: environments whose states can be listed as objects, edited, and drawn again.

Where an object can be taken out of a state and the frame drawn again, the effect of the object on an agent is measured,
not estimated. A kind of environment offers this as `EnvironmentKind.world`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

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
    """Its center relative to the player's, in cells."""
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
    """Whether removed objects are drawn as if they had never been there; else they are painted over."""
    types: tuple[str, ...]
    """Names of the types that objects can have."""

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        ...

    def objects(self, state: bytes) -> list[WorldObject]:
        """List the objects of a state, visible or not, without the player."""
        ...

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object of another state."""
        ...

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state with the center of an object at another position, in cells."""
        ...

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state with an object of another type in the place of one.

        Raises WorldError for an unknown type.
        """
        ...

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state with one more object. Raises WorldError for an unknown type."""
        ...

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw observations (n, H, W, C) uint8 of states; unedited ones are bit for bit what was observed."""
        ...

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images of human scale (n, H', W', 3) uint8 of states."""
        ...

    def close(self) -> None:
        """Close what draws the states."""
        ...


def follow(before: Sequence[WorldObject], after: Sequence[WorldObject], reach: float = 2.0) -> list[WorldObject]:
    """Return the objects of a step with the numbers that they had one step earlier; new ones get new numbers.

    Objects of a type are matched in the order of their distance, up to `reach` cells, each once.
    """
    fresh = max((item.number for item in before), default=-1) + 1
    pairs = sorted(
        (np.hypot(*np.subtract(old.center, new.center)), i, j)
        for i, old in enumerate(before)
        for j, new in enumerate(after)
        if old.type == new.type
    )
    numbers: dict[int, int] = {}
    used: set[int] = set()
    for distance, i, j in pairs:
        if distance <= reach and i not in used and j not in numbers:
            numbers[j] = before[i].number
            used.add(i)
    unmatched = iter(range(fresh, fresh + len(after)))
    return [
        dataclasses.replace(item, number=numbers[j] if j in numbers else next(unmatched))
        for j, item in enumerate(after)
    ]
