"""Find out what killed the player of a Procgen game by playing the last step again without some of the objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.procgen_world import ProcgenWorld
from rl_clarity.environments.worlds import WorldObject

DEATH = "death"
"""The cause of a death that no object explains."""
TOUCHING = 0.5
"""Largest distance, in cells, from the player's center to the box of an object that counts as touched."""


class Deaths:
    """Finds the object that killed the player, from the saved state before the last step.

    Saved states contain the random numbers of the game, so that the step has the same result when it is played again.
    The cause of a death is the nearest object that kills the player when all other objects are removed. If the player
    dies even without objects, the cause is the type of terrain (water, a wall) without which the player survives.
    """

    def __init__(self, world: ProcgenWorld, open_game: Callable[[], Any]) -> None:
        """`open_game()` makes a single Procgen environment of the world's game."""
        self._world, self._open_game = world, open_game
        self._game: Any = None

    def cause(self, state: bytes, action: int) -> str:
        """Return the type of the object that ends the episode when `action` is taken in a state, or `death` if it is
        not found.
        """
        try:
            items = sorted(self._world.objects(state), key=_distance)
        except WorldError:
            return DEATH
        if not items or not self._ends(state, action):
            return DEATH
        things, terrain = ([item for item in items if item.terrain == kind] for kind in (False, True))
        if self._ends(self._world.without(state, things), action):
            return self._cause_in(state, action, terrain, things)
        for item in things:
            if self._ends(self._world.without(state, [other for other in things if other is not item]), action):
                return item.type
        return things[0].type if _distance(things[0]) <= TOUCHING else DEATH

    def close(self) -> None:
        """Close the environment in which steps are played again."""
        if self._game is not None:
            self._game.close()

    def _cause_in(
        self, state: bytes, action: int, terrain: Sequence[WorldObject], things: Sequence[WorldObject]
    ) -> str:
        """Return the cause of a death that occurs even if all of `things` are removed."""
        for type in dict.fromkeys(item.type for item in terrain):
            of_type = [item for item in terrain if item.type == type]
            if not self._ends(self._world.without(state, [*things, *of_type]), action):
                return type
        kept: Collection[str] = self._world.required
        return next((item.type for item in things if item.type in kept and _distance(item) <= TOUCHING), DEATH)

    def _ends(self, state: bytes, action: int) -> bool:
        """Take an action in a state, and return whether this ends the episode."""
        if self._game is None:
            self._game = self._open_game()
        self._game.call_c_func("set_state", 0, state, len(state))
        self._game.act(np.array([action], np.int32))
        return bool(self._game.observe()[2][0])


def _distance(item: WorldObject) -> float:
    """Return the distance between the player's center and the box of an object."""
    left, bottom, right, top = item.box
    x, y = item.center[0] - item.offset[0], item.center[1] - item.offset[1]
    return float(np.hypot(max(left - x, 0, x - right), max(bottom - y, 0, y - top)))
