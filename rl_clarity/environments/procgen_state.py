"""Find out what ended an episode of CoinRun from the saved state of the game (Procgen's `get_state`).

A state is a sequence of little-endian 32-bit numbers and of texts, each after its length, in the order in which
Procgen's `Game::serialize`, `BasicAbstractGame::serialize` and `Entity::serialize` write them
(https://github.com/openai/procgen, `procgen/src`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OPTIONS, FACTS, VIEW = 17, 15, 19
"""How many numbers precede the first random generator, precede the entities, and lie between the entities and
the grid."""
ENTITY = 31
"""Number of values of an entity: x, y, vx, vy, rx, ry; its type; others."""
PLAYER, SAW, ENEMY = 0, 2, 5
LAVA = (17, 18)
NAMES = {SAW: "saw", ENEMY: "enemy"}


@dataclass(frozen=True)
class GameState:
    """Positions of objects in a game, in cells of its grid, whose origin is at the bottom left."""

    boxes: np.ndarray  # (n, 6) float32: x, y, vx, vy of the center, half the width and half the height
    types: np.ndarray  # (n,) int32
    grid: np.ndarray  # (height, width) int32: types of static objects


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def numbers(self, count: int, kind: str = "<i4") -> np.ndarray:
        values = np.frombuffer(self._data, kind, count, self._at)
        self._at += 4 * count
        return values

    def number(self) -> int:
        return int(self.numbers(1)[0])

    def skip_text(self) -> None:
        length = self.number()
        self._at += length


def read_state(data: bytes) -> GameState:
    """Read the saved state of any game of Procgen."""
    reader = _Reader(data)
    reader.number()  # version
    reader.skip_text()  # name
    reader.numbers(OPTIONS)
    for _ in range(2):  # random generators of levels and of the game
        reader.number()
        reader.skip_text()
    reader.numbers(FACTS + 1)
    entities = reader.numbers(reader.number() * ENTITY).reshape(-1, ENTITY)
    reader.numbers(VIEW + 1)
    reader.skip_text()  # random generator of images
    reader.numbers(9)
    width, height = reader.number(), reader.number()
    grid = reader.numbers(reader.number()).reshape(height, width)
    return GameState(entities[:, :6].view("<f4"), entities[:, 6], grid)


def what_killed(data: bytes) -> str:
    """Return what killed the player of CoinRun, `saw`, `enemy` or `lava`, from the state before the last step.

    This is the object that the player was closest to touching, because the player moves by less than two cells in a
    step.
    """
    state = read_state(data)
    x, y, vx, vy, rx, ry = state.boxes[state.types == PLAYER][0]
    rows, columns = np.nonzero(np.isin(state.grid, LAVA))
    lava = np.column_stack([columns + 0.5, rows + 0.5, np.full((len(rows), 2), 0), np.full((len(rows), 2), 0.5)])
    dangers = np.isin(state.types, list(NAMES))
    boxes = np.concatenate([state.boxes[dangers], lava])
    names = [*(NAMES[kind] for kind in state.types[dangers].tolist()), *["lava"] * len(lava)]
    if not names:
        return "death"
    # Distance between the boxes, before and after the player's last move.
    moves = np.linspace(0, 1, 5)[:, None]
    apart_x = np.abs(boxes[:, 0] - (x + moves * vx)) - boxes[:, 4] - rx
    apart_y = np.abs(boxes[:, 1] - (y + moves * vy)) - boxes[:, 5] - ry
    distances = np.hypot(np.maximum(apart_x, 0), np.maximum(apart_y, 0)).min(axis=0)
    return names[int(distances.argmin())]
