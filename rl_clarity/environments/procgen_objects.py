"""The names of the types of objects in Procgen's games, by their numbers in the games' sources
(`procgen/src/games`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EXPLOSION, TRAIL = "explosion", "trail"
COMMON = {**dict.fromkeys(range(54, 59), EXPLOSION), 59: TRAIL}
"""Names of the types of entities that all games have."""
TERRAIN = frozenset({"wall", "dirt", "road", "water"})
"""Names of the types of objects that are terrain, such as ground and walls."""


@dataclass(frozen=True)
class GameObjects:
    """Names of the types of objects in a game."""

    entities: Mapping[int, str] = field(default_factory=dict)
    """Names of entities, which have a position of their own, by their number."""
    cells: Mapping[int, str] = field(default_factory=dict)
    """Names of objects that fill cells of the grid, by their number."""
    joined: frozenset[str] = frozenset()
    """Names of cells that form one object with neighboring cells of the same name."""
    required: frozenset[str] = frozenset()
    """Names of entities that the game needs when it reads a state. They are made invisible instead of removed."""
    sizes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Half the width and half the height of new entities in cells, by name. Both are half a cell for other names."""
    trail: str = ""
    """Name of the entities that leave a trail. The trail is removed with its entity."""

    def entity_name(self, kind: int) -> str:
        """Return the name of an entity's type. Unknown types are named by their number."""
        return self.entities.get(kind) or COMMON.get(kind) or f"type {kind}"

    def cell_name(self, kind: int) -> str:
        """Return the name of a cell's type. Unknown types are named by their number."""
        return self.cells.get(kind) or f"cell type {kind}"


HIDDEN_CELLS: Mapping[str, frozenset[int]] = {"coinrun": frozenset({19}), "climber": frozenset({19})}
"""Numbers of cells that are not drawn, but make enemies turn around."""

GAME_OBJECTS: Mapping[str, GameObjects] = {
    "bigfish": GameObjects({2: "fish"}),
    "bossfight": GameObjects(
        {
            1: "player bullet",
            2: "boss",
            3: "shield",
            4: "bullet",
            5: "bullet trail",
            6: "reflected bullet",
            7: "meteor",
        },
        required=frozenset({"boss", "shield"}),
        sizes={"boss": (3.0, 3.0), "player bullet": (0.25, 0.25), "meteor": (0.6, 0.6)},
    ),
    "caveflyer": GameObjects(
        {1: "goal", 2: "meteor", 3: "target", 4: "player bullet", 5: "enemy", 9: "exhaust"},
        {8: "wall"},
        sizes={"player bullet": (0.1, 0.25)},
    ),
    "chaser": GameObjects(
        {2: "large orb", 4: "egg", 6: "enemy"}, {5: "wall", 1002: "orb"}, sizes={"large orb": (0.4, 0.4)}
    ),
    "climber": GameObjects({1: "coin", 5: "enemy"}, {15: "wall", 16: "wall"}, sizes={"coin": (0.3, 0.3)}),
    "coinrun": GameObjects(
        {2: "saw", 5: "enemy", 20: "crate"},
        {1: "coin", 15: "wall", 16: "wall", 17: "lava", 18: "lava"},
        joined=frozenset({"lava"}),
        trail="enemy",
    ),
    "dodgeball": GameObjects(
        {1: "wall", 3: "player ball", 4: "enemy", 5: "exit", 6: "enemy ball", 8: "dust cloud"},
        sizes={"enemy": (0.75, 0.75), "player ball": (0.375, 0.375), "enemy ball": (0.375, 0.375)},
    ),
    "fruitbot": GameObjects(
        {1: "wall", 3: "key", 4: "bad food", 7: "fruit", 10: "door", 11: "lock", 12: "present"},
        sizes={"key": (0.25, 0.25), "lock": (0.25, 0.45)},
    ),
    "heist": GameObjects(
        {1: "door", 2: "key", 9: "gem", 11: "key on ring"},
        {51: "wall"},
        sizes={"key": (0.375, 0.375), "gem": (0.375, 0.375)},
    ),
    "jumper": GameObjects(
        {1: "carrot", 2: "spike"},
        {6: "wall", 7: "wall"},
        required=frozenset({"carrot"}),
        sizes={"spike": (0.23, 0.4)},
    ),
    "leaper": GameObjects(
        {1: "log", 4: "car", 5: "finish line"},
        {2: "road", 3: "water"},
        sizes={"log": (0.45, 0.45), "car": (0.5, 0.25)},
    ),
    "maze": GameObjects({}, {2: "cheese", 51: "wall"}),
    "miner": GameObjects(
        {5: "enemy", 6: "exit"}, {1: "boulder", 2: "diamond", 3: "boulder", 4: "diamond", 9: "dirt", 10: "wall"}
    ),
    "ninja": GameObjects(
        {1: "mushroom", 7: "throwing star"},
        {6: "bomb", 14: "fire", 20: "wall"},
        joined=frozenset({"fire"}),
        sizes={"throwing star": (0.25, 0.25)},
    ),
    "plunder": GameObjects(
        {1: "cannonball", 2: "wanted ship", 3: "legend", 6: "panel", 7: "ship"},
        sizes={"cannonball": (0.25, 0.25), "ship": (1.0, 1.0)},
    ),
    "starpilot": GameObjects(
        {
            1: "player bullet",
            2: "bullet",
            3: "turret bullet",
            4: "flyer",
            5: "meteor",
            6: "cloud",
            7: "turret",
            8: "fast flyer",
            9: "finish line",
        },
        sizes={"meteor": (2.0, 2.0), "cloud": (2.0, 2.0), "turret": (2.0, 2.0)},
    ),
}
