"""Read, change and write saved states of Procgen's games, which `get_state` returns.

A state is a sequence of little-endian 32-bit numbers and of strings, each string after its length, in the order in
which Procgen's `Game::serialize`, `BasicAbstractGame::serialize` and `Entity::serialize` write them
(https://github.com/openai/procgen, `procgen/src`). What a game writes after its grid is not interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import WorldError

OPTIONS, FACTS, VIEW = 17, 15, 19
"""Sizes of three sections of a state, in 32-bit numbers: the options before the random generators, the facts about the
game before the entities, and the view after the entities."""
USES_BACKGROUNDS = 4
"""Index of the option `use_backgrounds` among the OPTIONS."""
CENTER = 14
"""Index of the x coordinate of the view's center among the numbers of VIEW. The y coordinate follows it."""
SCREEN = 9
"""Number of 32-bit numbers between the random generator of images and the grid. The second to last is the number of
visible cells."""
ENTITY = 31
"""Number of 32-bit numbers of an entity. The constants below are the indices of those that are used."""
X, Y, VX, VY, RX, RY, TYPE, IMAGE_TYPE, IMAGE_THEME, ABSOLUTE, ALPHA = 0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 25
TIME = 13
"""Index of the number of steps since the episode began, among the numbers of FACTS."""
SPACE = 100
"""Type of an empty cell of the grid."""
PLAYER = 0


@dataclass(frozen=True)
class GameState:
    """A state of a game. Positions are in cells of the grid; the origin is at the bottom left."""

    head: bytes
    """The bytes before the entities."""
    entities: np.ndarray  # (n, 31) int32, of which some columns are float32
    middle: bytes
    """The bytes between the entities and the cells of the grid."""
    grid: np.ndarray  # (height, width) int32: types of things that do not move
    tail: bytes
    """The bytes that the game writes after its grid."""
    center: tuple[float, float]
    """Position (x, y) of the view's center."""
    visibility: float
    """Width and height of the view, in cells."""

    @property
    def numbers(self) -> np.ndarray:
        """The entities (n, 31) as float32, to read the columns x, y, vx, vy, rx, ry and alpha."""
        return self.entities.view("<f4")

    @property
    def boxes(self) -> np.ndarray:
        """(n, 6) float32: position x, y of the center, velocity vx, vy, and half the width and half the height of each
        entity.
        """
        return self.numbers[:, :6]

    @property
    def types(self) -> np.ndarray:
        """(n,) int32: the type of each entity."""
        return np.asarray(self.entities[:, TYPE])

    @property
    def player(self) -> int:
        """Index of the player, which is the last entity of the type PLAYER."""
        return int(np.flatnonzero(self.types == PLAYER)[-1])

    @property
    def time(self) -> int:
        """Number of steps since the episode, or the sequential level, began."""
        return int(np.frombuffer(self.head[-4 * (FACTS + 1) :], "<i4")[TIME])

    def to_bytes(self) -> bytes:
        """Return the state as bytes that Procgen reads."""
        cells = np.ascontiguousarray(self.grid, "<i4").tobytes()
        count = len(self.entities).to_bytes(4, "little")
        return self.head + count + self.entities.tobytes() + self.middle + cells + self.tail


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, count: int, kind: str = "<i4") -> np.ndarray:
        if count < 0 or self.at + 4 * count > len(self.data):
            raise WorldError(f"the saved state of the game ends after {len(self.data)} bytes, before its grid")
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += 4 * count
        return values

    def number(self) -> int:
        return int(self.numbers(1)[0])

    def skip_text(self) -> None:
        length = self.number()
        self.at += length


def without_background(data: bytes) -> bytes:
    """Return a saved state after setting the option `use_backgrounds` to false. Raises WorldError if the bytes end too
    early.
    """
    reader = _Reader(data)
    reader.number()  # version
    reader.skip_text()  # name
    at = reader.at + 4 * USES_BACKGROUNDS
    reader.numbers(OPTIONS)
    return data[:at] + (0).to_bytes(4, "little") + data[at + 4 :]


def read_state(data: bytes) -> GameState:
    """Read the saved state of any game of Procgen. Raises WorldError if the bytes end too early."""
    reader = _Reader(data)
    reader.number()  # version
    reader.skip_text()  # name
    reader.numbers(OPTIONS)
    for _ in range(2):  # random generators of levels and of the game
        reader.number()
        reader.skip_text()
    reader.numbers(FACTS + 1)
    head = data[: reader.at]
    entities = reader.numbers(reader.number() * ENTITY).reshape(-1, ENTITY)
    start = reader.at
    view = reader.numbers(VIEW + 1, "<f4")
    reader.skip_text()  # random numbers of images
    screen = reader.numbers(SCREEN, "<f4")
    width, height = reader.number(), reader.number()
    count = reader.number()
    middle = data[start : reader.at]
    grid = reader.numbers(count).reshape(height, width)
    center = float(view[CENTER]), float(view[CENTER + 1])
    return GameState(head, entities, middle, grid, data[reader.at :], center, float(screen[-2]))


def game_of(data: bytes) -> str:
    """Return the name of the game to which a state belongs. The result is meaningless for bytes that are not a
    state.
    """
    length = int.from_bytes(data[4:8], "little")
    return data[8 : 8 + length].decode("ascii", "replace")
