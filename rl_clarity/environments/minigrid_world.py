"""List and edit the objects of the grid in states of MiniGrid's environments. MiniGrid draws the states."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.worlds import Position, WorldObject

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
USUAL_COLORS = {"wall": "grey", "goal": "green", "lava": "red"}
"""Colors that are omitted from the names of types, by kind of object."""
TERRAIN = ("wall", "floor")
OPEN, CLOSED, LOCKED = range(3)
FORWARD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Direction (x, y) in which the player looks, by MiniGrid's number of the direction. The y axis points downward."""
WHOLE_GRID = {"RGBImgObsWrapper", "FullyObsWrapper", "SymbolicObsWrapper"}
"""Wrappers whose observations show the whole grid instead of what the player sees."""
IMAGES = {"RGBImgObsWrapper", "RGBImgPartialObsWrapper", "AddRenderObservation"}
"""Wrappers that draw an image. Other observations are arrays of cells, whose first axis is the grid's x."""

OTHER_VARIABLES = {
    *("grid", "carrying", "agent_pos", "agent_dir"),
    *("width", "height", "render_mode", "highlight", "tile_size", "agent_pov", "screen_size", "render_size"),
    *("see_through_walls", "agent_view_size"),
}
"""Variables that `_variables` omits. Some of them have separate entries in a state. The others determine only how a
state is shown."""
CARRIED = -1
"""Index that stands for the object that the player carries. Other objects are identified by their index in the grid."""

Thing = list[Any]
"""An object in a cell, as in the JSON of a state: [type, color, state of a door, contents of a box]."""

Place = tuple[int, int]
"""The x and y coordinates of a cell. The y axis points downward."""


def type_name(thing: Thing) -> str:
    """Return the name of an object's type, such as `red door`, `yellow key`, `goal` or `lava`."""
    kind, color = thing[:2]
    return str(kind) if color == USUAL_COLORS.get(kind) else f"{color} {kind}"


TYPES = {
    type_name([kind, color]): (kind, color)
    for kind in ("wall", "floor", "door", "key", "ball", "box", "goal", "lava")
    for color in (COLORS if kind != "lava" else ("red",))
}


class MiniGridEditor:
    """Edits states of a MiniGrid environment.

    A state is JSON. It contains the grid, the player, the object that the player carries, the number of steps, the
    state of the random generator, and all other variables of the environment that contain numbers, strings, positions
    or objects of the grid. Episodes continue from a restored state exactly as they originally did, unless the
    environment has variables of other types.
    """

    types = tuple(TYPES)
    continues = True

    def __init__(self, environment: Any, wrappers: Sequence[Any]) -> None:
        """`wrappers` are the wrappers that change the observations of the environment, the innermost first."""
        self._seen: int | None = environment.agent_view_size
        """Width and height of the partial view in cells, or None for the whole grid."""
        self._transposed = True
        for wrapper in wrappers:
            names = {base.__name__ for base in type(wrapper).__mro__}
            if names & WHOLE_GRID or ("AddRenderObservation" in names and not environment.agent_pov):
                self._seen = None
            elif "ViewSizeWrapper" in names:
                self._seen = wrapper.agent_view_size
            elif names & IMAGES:
                self._seen = environment.agent_view_size
            self._transposed = self._transposed and not names & IMAGES

    def save(self, environment: Any) -> bytes:
        """Return the state of an environment. Raises WorldError if it contains objects of types that MiniGrid does not
        define.
        """
        x, y = environment.agent_pos
        state = {
            "size": [environment.grid.width, environment.grid.height],
            "player": [int(x), int(y), int(environment.agent_dir)],
            "carried": _thing(environment.carrying),
            "cells": [_thing(item) for item in environment.grid.grid],
            **_variables(environment),
        }
        return json.dumps(state, separators=(",", ":")).encode()

    def restore(self, environment: Any, state: bytes) -> Any:
        """Restore a state in an environment, and return its observation, a dictionary."""
        from minigrid.core.grid import Grid

        read = _read(state)
        grid = Grid(*read["size"])
        grid.grid = [_make(thing) for thing in read["cells"]]
        environment.grid, environment.carrying = grid, _make(read["carried"])
        *position, environment.agent_dir = read["player"]
        environment.agent_pos = tuple(position)
        _set_variables(environment, read)
        return environment.gen_obs()

    def objects(self, state: bytes) -> list[WorldObject]:
        """List the objects of the grid, followed by the object that the player carries.

        In a partial view, offsets are relative to the direction in which the player looks: to the right, and forward.
        """
        read = _read(state)
        return [self._describe(read, number, *item) for number, item in enumerate(_things(read))]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object from a different state."""
        read = _read(state)
        for item in objects:
            _take(read, item)
        return _write(read)

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving an object to the cell at a position. Raises WorldError for a cell that is not
        free.
        """
        read = _read(state)
        thing = _take(read, item)
        _put(read, thing, to)
        return _write(read)

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type in the same cell.

        Raises WorldError for an unknown type, and for an object that the player carries.
        """
        if item.handle is None:
            raise WorldError(f"the {item.type} cannot be replaced, because the player carries it")
        return self.inserted(self.without(state, [item]), type, item.center)

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type. A new door is closed.

        Raises WorldError for an unknown type, and for a cell that is not free.
        """
        if type not in TYPES:
            raise WorldError(f"MiniGrid has no objects of type {type!r}; available types: {', '.join(TYPES)}")
        read = _read(state)
        kind, color = TYPES[type]
        _put(read, [kind, color, CLOSED if kind == "door" else OPEN, None], at)
        return _write(read)

    def _describe(self, read: Mapping[str, Any], number: int, thing: Thing, place: Place | None) -> WorldObject:
        (width, height), (player_x, player_y, direction) = read["size"], read["player"]
        x, y = (player_x, player_y) if place is None else place
        right, down = x - player_x, y - player_y
        columns, rows, column, row = width, height, x, y
        if self._seen is not None:
            dx, dy = FORWARD[direction]
            right, down = down * dx - right * dy, -(right * dx + down * dy)
            columns = rows = self._seen
            column, row = self._seen // 2 + right, self._seen - 1 + down
        left, top, end, bottom = column / columns, row / rows, (column + 1) / columns, (row + 1) / rows
        return WorldObject(
            type_name(thing),
            number,
            (float(x), float(height - 1 - y), float(x + 1), float(height - y)),
            (float(right), float(-down)),
            (top, left, bottom, end) if self._transposed else (left, top, end, bottom),
            terrain=thing[0] in TERRAIN,
            handle=place,
        )


def _variables(environment: Any) -> dict[str, Any]:
    """Return the remaining variables that determine how an episode continues, as JSON values: variables with plain
    values, variables that contain objects (by index), and the state of the random generator.
    """
    values, objects = dict[str, Any](), dict[str, Any]()
    places = {id(item): index for index, item in enumerate(environment.grid.grid) if item is not None}
    if environment.carrying is not None:
        places[id(environment.carrying)] = CARRIED
    for name, value in vars(environment).items():
        if name in OTHER_VARIABLES:
            continue
        if id(value) in places:
            objects[name] = places[id(value)]
        elif isinstance(value, list) and value and all(id(item) in places for item in value):
            objects[name] = [places[id(item)] for item in value]
        else:
            value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
            items = [np.asarray(item).tolist() for item in value] if isinstance(value, tuple | list) else [value]
            if all(type(item) in (bool, int, float, str) for item in items):
                values[name] = items if isinstance(value, tuple | list) else value
    return {"values": values, "objects": objects, "random": environment.np_random.bit_generator.state}


def _set_variables(environment: Any, read: Mapping[str, Any]) -> None:
    """Set the variables that `_variables` returned. Raises WorldError for values that the environment cannot have."""
    items = environment.grid.grid
    for index, item in enumerate(items):
        if item is not None:
            item.cur_pos = item.init_pos = (index % environment.grid.width, index // environment.grid.width)

    def at(index: Any) -> Any:
        return environment.carrying if index == CARRIED else items[index]

    known = set(vars(environment)) - OTHER_VARIABLES
    try:
        for name in known & set(read.get("values", {})):
            value = read["values"][name]
            setattr(environment, name, tuple(value) if isinstance(value, list) else value)
        for name in known & set(read.get("objects", {})):
            indices = read["objects"][name]
            setattr(environment, name, [at(index) for index in indices] if isinstance(indices, list) else at(indices))
        if "random" in read:
            environment.np_random.bit_generator.state = read["random"]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise WorldError(f"the variables of a MiniGrid state do not fit the environment ({error!r})") from error


def _thing(item: Any) -> Thing | None:
    if item is None:
        return None
    if item.type not in {kind for kind, _ in TYPES.values()}:
        raise WorldError(
            f"states with objects of type {item.type!r} cannot be saved, because MiniGrid does not define this type"
        )
    return [item.type, item.color, int(item.encode()[2]), _thing(getattr(item, "contains", None))]


def _make(thing: Thing | None) -> Any:
    """Return the MiniGrid object that a `Thing` describes, or None for an empty cell."""
    from minigrid.core import world_object

    if thing is None:
        return None
    kind, color, state, contents = thing
    if kind == "door":
        return world_object.Door(color, is_open=state == OPEN, is_locked=state == LOCKED)
    if kind == "box":
        return world_object.Box(color, _make(contents))
    made = {"wall": world_object.Wall, "floor": world_object.Floor, "key": world_object.Key}
    made |= {"ball": world_object.Ball, "goal": world_object.Goal}
    return world_object.Lava() if kind == "lava" else made[kind](color)


def _read(state: bytes) -> dict[str, Any]:
    """Return the content of a state. Raises WorldError for a damaged state."""
    try:
        read = json.loads(state)
        width, height = read["size"]
        x, y, direction = read["player"]
        things = [thing for thing in [*read["cells"], read["carried"]] if thing is not None]
        if not (
            len(read["cells"]) == width * height
            and 0 <= x < width
            and 0 <= y < height
            and direction in range(4)
            and all(_is_thing(thing) for thing in things)
        ):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WorldError(f"{bytes(state[:40])!r}... is not a MiniGrid state") from error
    return read


def _is_thing(thing: Any) -> bool:
    kind, color, state, contents = thing
    known = (kind, color) in TYPES.values() and state in (OPEN, CLOSED, LOCKED)
    return known and (contents is None or _is_thing(contents))


def _write(read: Mapping[str, Any]) -> bytes:
    return json.dumps(read, separators=(",", ":")).encode()


def _things(read: Mapping[str, Any]) -> Iterator[tuple[Thing, Place | None]]:
    """Yield each object with its cell, and the carried object with None."""
    width = read["size"][0]
    for index, thing in enumerate(read["cells"]):
        if thing is not None:
            yield thing, (index % width, index // width)
    if read["carried"] is not None:
        yield read["carried"], None


def _take(read: dict[str, Any], item: WorldObject) -> Thing:
    """Remove an object from the content of a state, and return it."""
    place, thing, index = item.handle, None, 0
    if place is None:
        thing = read["carried"]
    elif 0 <= (index := place[1] * read["size"][0] + place[0]) < len(read["cells"]):
        thing = read["cells"][index]
    if thing is None or type_name(thing) != item.type:
        raise WorldError(f"the state has no {item.type} at {item.box}: pass objects of the same state")
    if place is None:
        read["carried"] = None
    else:
        read["cells"][index] = None
    return thing


def _put(read: dict[str, Any], thing: Thing, at: Position) -> None:
    width, height = read["size"]
    x, y = int(at[0] // 1), int(height - 1 - at[1] // 1)
    if not (0 <= x < width and 0 <= y < height):
        raise WorldError(f"{tuple(at)!r} is outside the grid of {width} x {height} cells")
    present = read["cells"][y * width + x]
    if present is not None:
        raise WorldError(f"the cell at {tuple(at)!r} contains a {type_name(present)}, which must be removed first")
    read["cells"][y * width + x] = thing
