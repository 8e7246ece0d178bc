"""Find free places around the player, at which objects can be placed in a state of a world."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rl_clarity.environments.worlds import WorldObject

PLACES = {"left": (-1, 0), "right": (1, 0), "above": (0, 1), "below": (0, -1)}
"""Direction of each place from the player: (right, up)."""
ROTATIONS = ((1, 0, 0, 1), (0, -1, 1, 0), (-1, 0, 0, -1), (0, 1, -1, 0))
"""Rotations (a, b, c, d), the matrices ((a, b), (c, d)), from offsets of objects to directions of the world. In worlds
that show what is in front of the player, offsets are relative to the direction that the player faces."""
ROOM = 0.45
"""A place is free only if its distance from the box of every object is larger than this, in cells."""


@dataclass(frozen=True)
class Layout:
    """The objects of a state, and the player's position, which is computed from them."""

    objects: Sequence[WorldObject]

    def of_types(self, types: Collection[str]) -> list[WorldObject]:
        """Return the objects of these types."""
        return [item for item in self.objects if item.type in types]

    def free_place(
        self, direction: tuple[int, int], distance: float, ignored: Collection[str]
    ) -> tuple[float, float] | None:
        """Return the center of a place, in cells. Return None if an object is there, or if the state has no objects.

        Objects of the `ignored` types do not make a place occupied.
        """
        if not self.objects:
            return None
        (x, y), rotation = self._player
        a, b, c, d = ROTATIONS[rotation]
        right, up = (distance * part for part in direction)
        at = (x + a * right + b * up, y + c * right + d * up)
        left, bottom, rightmost, top = self._boxes.T
        near = (left - ROOM < at[0]) & (at[0] < rightmost + ROOM) & (bottom - ROOM < at[1]) & (at[1] < top + ROOM)
        taken = any(self.objects[i].type not in ignored for i in np.flatnonzero(near).tolist())
        return None if taken else at

    @property
    def turned(self) -> bool:
        """Whether the player has turned, so that offsets are rotated relative to the world's directions."""
        return bool(self.objects) and self._player[1] != 0

    @cached_property
    def _boxes(self) -> np.ndarray:
        return np.array([item.box for item in self.objects])

    @cached_property
    def _player(self) -> tuple[tuple[float, float], int]:
        """The player's position, and the index of the rotation in `ROTATIONS` that applies to offsets."""
        boxes = self._boxes
        centers = (boxes[:, :2] + boxes[:, 2:]) / 2
        offsets = np.array([item.offset for item in self.objects])
        spreads = []
        for a, b, c, d in ROTATIONS:
            places = centers - offsets @ np.array([[a, c], [b, d]])
            spreads.append((float(np.ptp(places, axis=0).max()), places[0]))
        best = min(range(len(ROTATIONS)), key=lambda i: (round(spreads[i][0], 3), i))
        place = spreads[best][1]
        return (float(place[0]), float(place[1])), best
