"""Boxes of objects in Atari games, which OCAtari reads from the memory of the games.

OCAtari: Object-Centric Atari 2600 Reinforcement Learning Environments (Delfosse, Blüml, Gregori, Sztwiertnia and
Kersting, 2024; arXiv 2306.08649). Only its functions that read memory are used, with the memory of this package's
emulator, because OCAtari's environments preprocess frames differently. Objects are painted over, because it is not
known how to remove them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import zip_longest
from typing import Any

import numpy as np

from rl_clarity.base.errors import DependencyError, WorldError
from rl_clarity.environments.atari_world import GAMES, HEIGHT, WIDTH, AtariStates, Box, Memory, describe, union
from rl_clarity.environments.worlds import WorldObject

# fmt: off
KNOWN = (
    "alien", "amidar", "asterix", "asteroids", "atlantis", "bowling", "boxing", "choppercommand", "crazyclimber",
    "demonattack", "donkeykong", "doubledunk", "freeway", "frostbite", "gopher", "icehockey", "jamesbond",
    "kangaroo", "krull", "kungfumaster", "montezumarevenge", "mspacman", "namethisgame", "phoenix", "privateeye",
    "roadrunner", "seaquest", "skiing", "spaceinvaders", "stargunner", "tennis", "upndown", "venture",
    "videopinball",
)
# fmt: on
"""Supported games, by the names of OCAtari's modules. Their boxes depend only on the memory, and in random play with
OCAtari 2.2.1 at least nine of ten boxes contained something that differs from its surroundings."""
PLAYERS: Mapping[str, str] = {"doubledunk": "Player_Small", "freeway": "Chicken"}
"""Class of the player's object, for games where it is not `Player`. If a state has no such object, offsets are relative
to the center of the screen."""
CALLS = 3
"""Number of times that OCAtari reads the memory of a frame. In some games, one call finds an object, and only the next
call sets its position."""
Slot = tuple[str, Box]
"""The type of an object, and its box."""


class OcatariBoxes(AtariStates):
    """The states of an Atari game, and the boxes of the objects in them."""

    def __init__(self, game: str, emulator: Any, observe: Callable[[np.ndarray], np.ndarray]) -> None:
        """`game` is the name of a ROM. Raises WorldError for games whose objects are not known, and DependencyError if
        OCAtari is not installed.
        """
        super().__init__(game, emulator, observe)
        name = game.replace("_", "")
        if name not in KNOWN:
            raise WorldError(
                f"the objects of {game} are not known. Objects can be removed in {', '.join(GAMES)}; with the "
                f"extra `ocatari`, they can also be painted over in {', '.join(KNOWN)}"
            )
        self._module = _module(name)
        self._player = _type_name(PLAYERS.get(name, "Player"))
        self.types = tuple(map(_type_name, self._module.MAX_NB_OBJECTS))

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, including the player, which has the offset (0, 0).

        A box contains the object in all frames that the screen shows.
        """
        slots = [self._slots(memory) for memory in self._memories(state)]
        if not slots:
            return []
        found: list[Slot] = []
        for frames in zip_longest(*slots):
            shown = [slot for slot in frames if slot is not None]
            for type in dict.fromkeys(type for type, _ in shown):
                box = union([box for name, box in shown if name == type])
                assert box is not None
                found.append((type, box))
        boxes = [box for type, box in found if type == self._player]
        player = boxes[0] if boxes else (0, 0, WIDTH, HEIGHT)
        return [describe(number, type, box, type, player, moves=False) for number, (type, box) in enumerate(found)]

    def _slots(self, memory: Memory) -> list[Slot | None]:
        """Return OCAtari's slots for objects, with None for empty slots. Raises WorldError if OCAtari fails."""
        items = self._module._init_objects_ram(False)
        try:
            with np.errstate(over="ignore"):  # arithmetic of bytes
                for _ in range(CALLS):
                    self._module._detect_objects_ram(items, memory, False)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise WorldError(f"OCAtari cannot read the memory of {self._game} ({error!r})") from error
        return [_slot(item) for item in items]


def _slot(item: Any) -> Slot | None:
    if not item:
        return None
    left, top, width, height = map(int, item.xywh)
    if width <= 0 or height <= 0:
        return None
    return _type_name(item.category), (left, top, left + width, top + height)


def _type_name(category: str) -> str:
    """Return the name of a type for OCAtari's category: `player missile` for `PlayerMissile` and `Player_Missile`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", category).lower()


def _module(name: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # or importing OCAtari prints a greeting
    try:
        return import_module(f"ocatari.ram.{name}")
    except ImportError as error:
        raise DependencyError(
            f"finding the objects of {name} needs OCAtari, which is not installed ({error}): "
            'pip install "rl-clarity[ocatari]". OCAtari needs numpy < 2'
        ) from error
