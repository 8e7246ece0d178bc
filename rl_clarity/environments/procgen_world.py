"""Worlds of Procgen. Objects are edited in the saved state of a game, and Procgen draws the edited state."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.procgen_objects import (
    COMMON,
    GAME_OBJECTS,
    HIDDEN_CELLS,
    TERRAIN,
    TRAIL,
    GameObjects,
)
from rl_clarity.environments.procgen_state import (
    ABSOLUTE,
    ALPHA,
    ENTITY,
    IMAGE_THEME,
    IMAGE_TYPE,
    PLAYER,
    RX,
    RY,
    SPACE,
    TYPE,
    VX,
    VY,
    GameState,
    X,
    Y,
    game_of,
    read_state,
    without_background,
)
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.worlds import Position, WorldObject
from rl_clarity.environments.wrappers import unwrapped

DRAWN_AT_ONCE, RENDERED_AT_ONCE = 32, 8
TRAIL_REACH = 1.5
"""Largest distance, in cells, at which a trail belongs to an entity that leaves trails."""
ENTITIES, CELLS = "entities", "cells"


class ProcgenWorld:
    """The world of one game. Separate environments, which are never stepped, draw its states.

    An edit changes the saved state. To remove objects, entities are omitted from the state, and cells of the grid
    become empty. Other numbers that depend on an object, such as the number of coins that complete a level, are not
    changed.
    """

    exact = True

    def __init__(self, game: str, open_games: Callable[[int, bool], Any]) -> None:
        """`open_games(count, full)` makes `count` Procgen environments of the game, which also render if `full` is
        true.
        """
        self.game = game
        self._open, self._games = open_games, dict[bool, Any]()
        self._names: GameObjects = GAME_OBJECTS[game]
        names = [*self._names.entities.values(), *self._names.cells.values(), *COMMON.values()]
        self.types = tuple(dict.fromkeys(names))
        self.required = self._names.required
        """Names of types that are made invisible instead of removed."""
        self._cells = functools.lru_cache(maxsize=4)(self._cells_of_grid)  # most steps of a level have the same grid

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment. Raises WorldError for environments of a different game."""
        inner: Any = unwrapped(environment)
        if getattr(inner, "game", None) != self.game:
            raise WorldError(f"the environment does not play {self.game}, the game of this world")
        return [bytes(state) for state in inner._env.get_state()]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore a state in each of the N environments, and return the observations (N, 64, 64, 3).

        Raises WorldError for environments and states of a different game, and if a restored state is not the same when
        it is saved again.
        """
        self.states(environment)
        inner: Any = unwrapped(environment)
        self._check_game(states)
        observations = inner.continue_from(states, [read_state(state).time for state in states])
        for i, (before, after) in enumerate(zip(states, self.states(environment), strict=True)):
            if before != after:
                raise WorldError(
                    f"state {i} of {self.game} cannot be restored exactly: saving it again gives a different state"
                )
        return np.array(observations)

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, visible or not, without the player: first entities, then cells."""
        read = read_state(state)
        entities = (item for item in self._entities(read) if terrain or item[0] not in TERRAIN)
        items = [*entities, *self._cells(read.grid.astype("<i4").tobytes(), read.grid.shape, terrain)]
        return [self._describe(read, i, *item) for i, item in enumerate(items)]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object from a different state."""
        read = read_state(state)
        grid, entities = read.grid.copy(), read.entities.copy()
        for item in objects:
            for row, column in self._find(read, item, CELLS):
                grid[row, column] = SPACE
        removed = [i for item in objects for i in self._find(read, item, ENTITIES)]
        required = [i for i in removed if self._names.entity_name(int(read.types[i])) in self._names.required]
        entities.view("<f4")[required, ALPHA] = 0
        kept = np.delete(entities, [i for i in removed if i not in required], axis=0)
        return _replace(read, kept, grid)

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving the center of an object to another position, in cells. Objects of the grid move
        by whole cells. Raises WorldError if this would move them out of the grid, and for an object from a different
        state.
        """
        read = read_state(state)
        grid, entities = read.grid.copy(), read.entities.copy()
        shift = np.subtract(to, item.center)
        for i in self._find(read, item, ENTITIES):
            entities.view("<f4")[i, [X, Y]] += shift.astype(np.float32)
        cells = np.array([*self._find(read, item, CELLS)], int).reshape(-1, 2)
        kinds = grid[cells[:, 0], cells[:, 1]]
        grid[cells[:, 0], cells[:, 1]] = SPACE
        target = cells + np.rint(shift[::-1]).astype(int)
        if ((target < 0) | (target >= grid.shape)).any():
            raise WorldError(
                f"to={to!r} moves the {item.type} outside the grid of {grid.shape[1]} x {grid.shape[0]} cells"
            )
        grid[target[:, 0], target[:, 1]] = kinds
        return _replace(read, entities, grid)

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type at the same position.

        Raises WorldError for an unknown type.
        """
        return self.inserted(self.without(state, [item]), type, item.center)

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type. A new entity is a copy of an entity of this
        type, if the state contains one.

        Raises WorldError for a type that the game does not have, and for a cell outside the grid.
        """
        read = read_state(state)
        grid, entities = read.grid.copy(), read.entities
        cell = next((kind for kind, name in self._names.cells.items() if name == type), None)
        kind = next((kind for kind, name in self._names.entities.items() if name == type), None)
        if kind is not None:
            entities = np.concatenate([entities, self._new_entity(read, kind, at)])
        elif cell is not None:
            column, row = int(np.floor(at[0])), int(np.floor(at[1]))
            if not (0 <= row < grid.shape[0] and 0 <= column < grid.shape[1]):
                raise WorldError(f"at={at!r} is outside the grid of {grid.shape[1]} x {grid.shape[0]} cells")
            grid[row, column] = cell
        else:
            raise WorldError(f"{self.game} has no objects of type {type!r}; available types: {', '.join(self.types)}")
        return _replace(read, entities, grid)

    def without_background(self, state: bytes) -> bytes:
        """Return the state after switching its background off, so that it is drawn with a black background."""
        return without_background(state)

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, 64, 64, 3) uint8 of n states."""
        return self._draw(states, full=False)

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images (n, 512, 512, 3) uint8 of n states."""
        return self._draw(states, full=True)

    def close(self) -> None:
        """Close the environments that draw the states."""
        for games in self._games.values():
            games.close()
        self._games.clear()

    def _draw(self, states: Sequence[bytes], *, full: bool) -> np.ndarray:
        self._check_game(states)
        if full not in self._games:
            self._games[full] = self._open(RENDERED_AT_ONCE if full else DRAWN_AT_ONCE, full)
        games, drawn = self._games[full], []
        for start in range(0, len(states), games.num):
            chunk = states[start : start + games.num]
            for i, state in enumerate(chunk):
                games.call_c_func("set_state", i, state, len(state))
            _, observations, _ = games.observe()
            images = [info["rgb"] for info in games.get_info()] if full else observations["rgb"]
            drawn.append(np.array(images[: len(chunk)]))
        size = 512 if full else 64
        return np.concatenate(drawn) if drawn else np.zeros((0, size, size, 3), np.uint8)

    def _check_game(self, states: Sequence[bytes]) -> None:
        for game in {game_of(state) for state in states} - {self.game}:  # Procgen would abort the process
            raise WorldError(f"the state is of the game {game!r:.40}, not of {self.game}, the game of this world")

    def _entities(self, read: GameState) -> Iterator[tuple[str, tuple[float, ...], bool, Any]]:
        """Yield a tuple for each entity except the player: its name, its box, whether it moves, and its handle."""
        names = [self._names.entity_name(int(kind)) for kind in read.types]
        numbers = read.numbers
        trails = self._trails(read, names)
        for i, name in enumerate(names):
            if read.types[i] == PLAYER or i in trails:
                continue
            indices = [i, *(k for k, source in trails.items() if source == i)]
            x, y, rx, ry = (float(numbers[i, column]) for column in (X, Y, RX, RY))
            moves = bool(numbers[i, VX] or numbers[i, VY])
            yield name, (x - rx, y - ry, x + rx, y + ry), moves, (ENTITIES, tuple(indices))

    def _trails(self, read: GameState, names: Sequence[str]) -> dict[int, int]:
        """Map the index of each trail to the index of the nearest entity that leaves trails. Trails without such an
        entity within TRAIL_REACH are omitted.
        """
        sources = [i for i, name in enumerate(names) if name == self._names.trail]
        places = read.numbers[:, [X, Y]]
        owners = {}
        for i, name in enumerate(names):
            if name == TRAIL and sources:
                distances = np.abs(places[sources] - places[i]).max(axis=1)
                if distances.min() <= TRAIL_REACH:
                    owners[i] = sources[int(distances.argmin())]
        return owners

    def _cells_of_grid(
        self, numbers: bytes, shape: tuple[int, int], terrain: bool
    ) -> Sequence[tuple[str, tuple[float, ...], bool, Any]]:
        """Return a tuple for each object of the grid: its name, its box, False (because it does not move), and its
        handle. Joined cells are one object.
        """
        grid = np.frombuffer(numbers, "<i4").reshape(shape)
        kinds: dict[str, list[int]] = defaultdict(list)
        for kind in set(np.unique(grid).tolist()) - HIDDEN_CELLS.get(self.game, frozenset()) - {SPACE, -1}:
            kinds[self._names.cell_name(kind)].append(kind)
        items = []
        for name in sorted(name for name in kinds if terrain or name not in TERRAIN):
            cells = [(int(row), int(column)) for row, column in np.argwhere(np.isin(grid, kinds[name]))]
            for group in _connected(cells) if name in self._names.joined else [[cell] for cell in cells]:
                rows, columns = zip(*group, strict=True)
                box = (float(min(columns)), float(min(rows)), float(max(columns) + 1), float(max(rows) + 1))
                items.append((name, box, False, (CELLS, tuple(group))))
        return items

    def _describe(self, read: GameState, number: int, name: str, box: Any, moves: bool, handle: Any) -> WorldObject:
        left, bottom, right, top = box
        player = read.numbers[read.player]
        offset = ((left + right) / 2 - float(player[X]), (bottom + top) / 2 - float(player[Y]))
        kind, members = handle
        if kind == ENTITIES and read.entities[members[0], ABSOLUTE]:
            pixels = (left, bottom, right, top)  # shares of the image, from its top left
        else:
            x, y = (center - read.visibility / 2 for center in read.center)
            shares = [(left - x), (right - x), (y + read.visibility - top), (y + read.visibility - bottom)]
            left, right, top, bottom = (share / read.visibility for share in shares)
            pixels = (left, top, right, bottom)
        return WorldObject(name, number, box, offset, pixels, moves, name in TERRAIN, handle)

    def _find(self, read: GameState, item: WorldObject, kind: str) -> Collection[Any]:
        """Return the entities (by index) or cells of which an object consists. Return an empty collection if the object
        does not consist of the given `kind` (ENTITIES or CELLS). Raises WorldError for an object from a different
        state.
        """
        try:
            where, members = item.handle
            if where == ENTITIES:
                names = [self._names.entity_name(int(read.types[i])) for i in members]
            else:
                names = [self._names.cell_name(int(read.grid[cell])) for cell in members]
        except (IndexError, TypeError, ValueError):
            names = []
        if not names or names[0] != item.type:
            raise WorldError(f"the state has no {item.type} at {item.box}: pass objects of the same state")
        return members if where == kind else ()

    def _new_entity(self, read: GameState, kind: int, at: Position) -> np.ndarray:
        """Return a new entity (1, 31) at a position. It is a copy of an entity of the same type, if there is one."""
        same = np.flatnonzero(read.types == kind)
        entity = read.entities[[int(same[0])]].copy() if len(same) else np.zeros((1, ENTITY), "<i4")
        numbers = entity.view("<f4")
        if not len(same):
            numbers[0] = _NEW_ENTITY.view("<f4")
            entity[0, [TYPE, IMAGE_TYPE]] = kind
            entity[0, IMAGE_THEME] = 0
            numbers[0, [RX, RY]] = self._names.sizes.get(self._names.entity_name(kind), (0.5, 0.5))
        numbers[0, [X, Y]] = at
        return entity


def _new_entity() -> np.ndarray:
    """Return an entity (31,) as Procgen's constructor creates it."""
    entity = np.zeros(ENTITY, "<i4")
    numbers = entity.view("<f4")
    entity[[16, 17, 19]] = -1  # times of fire, spawn and expiry
    entity[24] = 1  # erased out of bounds
    numbers[[21, ALPHA, 26, 28, 29]] = 1  # friction, alpha, health, rates of growth and decay
    numbers[27] = -100  # theta
    return entity


_NEW_ENTITY = _new_entity()


def _replace(read: GameState, entities: np.ndarray, grid: np.ndarray) -> bytes:
    """Return the bytes of a state after replacing its entities and its grid."""
    return dataclasses.replace(read, entities=np.ascontiguousarray(entities, "<i4"), grid=grid).to_bytes()


def _connected(cells: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return the connected groups of cells. Cells that share an edge are connected."""
    waiting, groups = set(cells), []
    while waiting:
        group, border = [], [min(waiting)]
        waiting.discard(border[0])
        while border:
            row, column = border.pop()
            group.append((row, column))
            near = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & waiting
            waiting -= near
            border += sorted(near)
        groups.append(sorted(group))
    return groups
