"""Worlds of Breakout and Pong: objects are removed in the memory of the game, and the emulator draws the frame again.

An edited frame is drawn by restoring the state of the emulator before the frame, changing bytes of its memory (RAM),
and emulating the frame. The changed bytes may also affect the rest of the frame. Such changes are not part of an
object's effect, so only the boxes of removed objects are copied from the edited frame. With frame pooling, both frames
that an observation shows are drawn, each from the unedited state before it. The addresses in memory were found by
changing each byte.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.worlds import Position, WorldObject
from rl_clarity.environments.wrappers import unwrapped

HEIGHT, WIDTH = 210, 160
CELL = 8
"""Width and height of a cell of the world, in pixels of the screen."""
Box = tuple[int, int, int, int]
"""Left, top, right and bottom of an object on the screen, in pixels."""
Memory = np.ndarray
"""The bytes (128,) uint8 of a game's memory after a frame."""
Bit = tuple[int, int]
"""The address of a byte of memory, and the mask of one of its bits."""
BRICK_ROWS, BRICK_COLUMNS = 6, 18


@dataclass(frozen=True)
class Sprite:
    """An object that the game draws in front of the background."""

    box: Callable[[Memory], Box | None]
    """A function that returns the box of the sprite, or None if the sprite is not shown."""
    edit: Callable[[Memory], Mapping[int, int]]
    """A function that returns values for bytes of memory, by address, with which the game does not draw the sprite in
    its box."""
    moves: bool = True


@dataclass(frozen=True)
class AtariObjects:
    """The objects that can be found in a game's memory."""

    sprites: Mapping[str, Sprite]
    has_bricks: bool = False


def _breakout_ball(memory: Memory) -> Box | None:
    left, top = int(memory[99]) - 49, int(memory[101]) + 9
    return (left, top, left + 2, top + 4) if memory[101] else None


def _breakout_paddle(memory: Memory) -> Box:
    left = int(memory[72]) - 47
    return left, 189, left + 16, 193


def _breakout_paddle_elsewhere(memory: Memory) -> Mapping[int, int]:
    """Return an edit that moves the paddle to the other end of the screen, because the game always draws it."""
    return {70: 186, 72: 55} if memory[72] > 107 else {70: 10, 72: 191}


def _pong_ball(memory: Memory) -> Box | None:
    left, top = int(memory[49]) - 49, int(memory[54]) - 15
    return (left, top, left + 2, top + 6) if memory[54] else None


def _pong_paddle(left: int, address: int) -> Callable[[Memory], Box | None]:
    def box(memory: Memory) -> Box | None:
        top = int(memory[address]) - 15
        return (left, max(top, FIELD[0]), left + 4, min(top + 18, FIELD[1])) if top + 18 > FIELD[0] else None

    return box


PLAYER = "paddle"
FIELD = 34, 194
"""The first row of Pong's field, and the first row below the field."""
GAMES: Mapping[str, AtariObjects] = {
    "breakout": AtariObjects(
        {
            "ball": Sprite(_breakout_ball, lambda _: {101: 0}),
            PLAYER: Sprite(_breakout_paddle, _breakout_paddle_elsewhere, moves=False),
        },
        has_bricks=True,
    ),
    "pong": AtariObjects(
        {
            "ball": Sprite(_pong_ball, lambda _: {11: 16}),
            PLAYER: Sprite(_pong_paddle(140, 51), lambda _: {60: 0}, moves=False),
            "enemy paddle": Sprite(_pong_paddle(16, 50), lambda _: {21: 0}),
        }
    ),
}


class AtariStates:
    """The states of one game. A separate emulator draws them."""

    def __init__(self, game: str, emulator: Any, observe: Callable[[np.ndarray], np.ndarray]) -> None:
        """`emulator` must have loaded the game. `observe` converts screens (n, 210, 160, 3) to observations."""
        self._game, self._ale, self._observe = game, emulator, observe

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment. States of the first call, or from before the first action of a
        game, contain only the screen and no objects.

        Raises WorldError for environments of a different game.
        """
        inner: Any = unwrapped(environment)
        if getattr(inner, "game", None) != self._game:
            raise WorldError(f"the environment does not play {self._game}, the game of this world")
        return [_join(frames, screen, []) for frames, screen in (game.shown() for game in inner.watched_games())]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore a state in each of the N environments, and return the observations (N, H, W, C).

        The random generator of the emulator (for sticky actions) is restored, but not that of random frame skips.
        Raises WorldError for environments of a different game, for states that contain only the screen, and for edited
        states.
        """
        inner: Any = unwrapped(environment)
        if getattr(inner, "game", None) != self._game:
            raise WorldError(f"the environment does not play {self._game}, the game of this world")
        split = [_split(state) for state in states]
        for i, (frames, _, removed) in enumerate(split):
            if not frames or removed:
                why = "is edited only in the image" if removed else "contains only the screen"
                raise WorldError(f"play cannot continue from state {i} of {self._game}, which {why}")
        for game, (frames, _, _) in zip(inner.watched_games(), split, strict=True):
            game.continue_from(frames)
        screens = np.stack([game.screen for game in inner.watched_games()])
        return np.array(self._observe(screens))

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, H, W, C) uint8 of n states."""
        return self._observe(self.draw_full(states))

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the screens (n, 210, 160, 3) uint8 of n states."""
        screens = np.zeros((len(states), HEIGHT, WIDTH, 3), np.uint8)
        for screen, state in zip(screens, states, strict=True):
            screen[:] = self._screen(state)
        return screens

    def close(self) -> None:
        """Do nothing, because an emulator does not have to be closed."""

    def _screen(self, state: bytes) -> np.ndarray:
        frames, screen, removed = _split(state)
        return np.maximum.reduce([self._frame(*frame, removed) for frame in frames]) if frames else screen

    def _frame(self, saved: bytes, action: int, removed: Sequence[str]) -> np.ndarray:
        """Emulate a frame from the saved state before it, and return the screen after it, without the objects in
        `removed`.
        """
        return self._play(saved, action)[0]

    def _memories(self, state: bytes) -> list[Memory]:
        """Return the memory after each frame that the screen shows."""
        return [self._play(*frame)[1] for frame in _split(state)[0]]

    def _play(
        self, saved: bytes, action: int, edits: Mapping[int, int] | None = None, cleared: Sequence[Bit] = ()
    ) -> tuple[np.ndarray, Memory]:
        """Emulate a frame from the saved state before it, and return the screen (210, 160, 3) and the memory after it.
        Before the frame, the bits `cleared` of the memory are set to 0, and bytes are set to the values `edits` at
        their addresses.
        """
        import ale_py

        self._ale.restoreState(ale_py.ALEState(saved))
        memory = self._ale.getRAM()
        for at, bit in cleared:
            memory[at] &= 255 - bit
            self._ale.setRAM(at, int(memory[at]))
        for at, value in (edits or {}).items():
            self._ale.setRAM(at, value)
        self._ale.act(action)
        return self._ale.getScreenRGB(), self._ale.getRAM()


class AtariWorld(AtariStates):
    """The world of Breakout or Pong, whose objects are removed in the memory of the game."""

    exact = True

    def __init__(self, game: str, emulator: Any, observe: Callable[[np.ndarray], np.ndarray]) -> None:
        """The arguments are those of `AtariStates`; the game must be one of `GAMES`."""
        super().__init__(game, emulator, observe)
        self._names = GAMES[game]
        self.types = (*self._names.sprites, *(["brick"] if self._names.has_bricks else []))

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, including the player's paddle, which has the offset (0, 0). These games have no
        terrain.
        """
        memories, removed = self._memories(state), _split(state)[2]
        if not memories:
            return []
        memory = memories[-1]
        found = [
            (name, union([sprite.box(memory) for memory in memories]), name)
            for name, sprite in self._names.sprites.items()
        ]
        bricks = [(row, column) for row in range(BRICK_ROWS) for column in range(BRICK_COLUMNS)]
        for row, column in bricks if self._names.has_bricks else ():
            if any(memory[at] & bit for at, bit in brick_bits(row, column)):
                found.append(("brick", brick_box(row, column), f"brick {row} {column}"))
        player = self._names.sprites[PLAYER].box(memory) or (0, 0, WIDTH, HEIGHT)
        shown = [(type, box, handle) for type, box, handle in found if box is not None and handle not in removed]
        moving = {name for name, sprite in self._names.sprites.items() if sprite.moves}
        return [
            describe(number, type, box, handle, player, moves=handle in moving)
            for number, (type, box, handle) in enumerate(shown)
        ]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects. Raises WorldError for an object from a different game."""
        for item in objects:
            if item.type not in self.types or not isinstance(item.handle, str):
                raise WorldError(f"{self._game} has no {item.type}: pass objects of the same state")
        return self._edited(state, [item.handle for item in objects])

    def moved(self, state: bytes, item: WorldObject, to: Position) -> NoReturn:
        """Raise WorldError, because objects can only be removed."""
        raise _only_removed(self._game)

    def replaced(self, state: bytes, item: WorldObject, type: str) -> NoReturn:
        """Raise WorldError, because objects can only be removed."""
        raise _only_removed(self._game)

    def inserted(self, state: bytes, type: str, at: Position) -> NoReturn:
        """Raise WorldError, because objects can only be removed."""
        raise _only_removed(self._game)

    def _edited(self, state: bytes, names: Sequence[str]) -> bytes:
        frames, screen, removed = _split(state)
        return _join(frames, screen, [*removed, *names])

    def _frame(self, saved: bytes, action: int, removed: Sequence[str]) -> np.ndarray:
        """Emulate a frame from the saved state before it, and return the screen after it, without the objects in
        `removed`.
        """
        screen, memory = self._play(saved, action)
        if not removed:
            return screen
        edits: dict[int, int] = {}
        boxes: list[Box] = []
        cleared: list[Bit] = []
        for name in removed:
            if name in self._names.sprites:
                sprite = self._names.sprites[name]
                box = sprite.box(memory)
                edits |= sprite.edit(memory)
                boxes += [] if box is None else [box]
            else:
                row, column = map(int, name.split()[1:])
                boxes.append(brick_box(row, column))
                cleared += brick_bits(row, column)
        edited = self._play(saved, action, edits, cleared)[0]
        screen = screen.copy()
        for left, top, right, bottom in boxes:
            place = slice(max(top, 0), bottom), slice(max(left, 0), right)
            screen[place] = edited[place]
        return screen


def describe(number: int, type: str, box: Box, handle: str, player: Box, *, moves: bool) -> WorldObject:
    """Return the `WorldObject` for a box. Both `box` and the player's box `player` are in pixels of the screen."""
    left, top, right, bottom = map(float, box)
    x, y = (left + right) / 2, (top + bottom) / 2
    offset = (x - (player[0] + player[2]) / 2) / CELL, ((player[1] + player[3]) / 2 - y) / CELL
    cells = (left / CELL, (HEIGHT - bottom) / CELL, right / CELL, (HEIGHT - top) / CELL)
    pixels = (left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT)
    return WorldObject(type, number, cells, offset, pixels, moves, False, handle)


def union(boxes: Sequence[Box | None]) -> Box | None:
    """Return the smallest box that contains all `boxes` that are not None, or None if all are None."""
    shown = [box for box in boxes if box is not None]
    if not shown:
        return None
    left, top, right, bottom = zip(*shown, strict=True)
    return min(left), min(top), max(right), max(bottom)


def brick_box(row: int, column: int) -> Box:
    """Return the box of a brick of Breakout. Rows are counted from the bottom."""
    left, top = 8 + 8 * column, 87 - 6 * row
    return left, top, left + 8, top + 6


def brick_bits(row: int, column: int) -> list[Bit]:
    """Return the address and the bit of each half of a brick of Breakout. Rows are counted from the bottom.

    A row is stored in the six registers of the playfield (PF0, PF1 and PF2 of each half), each of whose bits is four
    pixels wide. The bits of PF1 are in descending order.
    """
    bits = []
    for x in (8 + 8 * column, 12 + 8 * column):
        half, place = divmod(x // 4, 20)
        if place < 4:
            register, bit = 0, 4 + place
        elif place < 12:
            register, bit = 1, 11 - place
        else:
            register, bit = 2, place - 12
        bits.append((30 - 18 * half - 6 * register + row, 1 << bit))
    return bits


def _only_removed(game: str) -> WorldError:
    return WorldError(f"objects of {game} can be removed, but not edited in any other way")


def _join(frames: Sequence[tuple[bytes, int]], screen: np.ndarray, removed: Sequence[str]) -> bytes:
    """Return the bytes of a state: a line of JSON, then the emulator's saved state before each frame or, without
    frames, the compressed screen.
    """
    header = {"frames": [[len(saved), action] for saved, action in frames], "removed": [*removed]}
    rest = b"".join(saved for saved, _ in frames) or zlib.compress(np.ascontiguousarray(screen).tobytes(), 1)
    return json.dumps(header).encode() + b"\n" + rest


def _split(state: bytes) -> tuple[list[tuple[bytes, int]], np.ndarray, list[str]]:
    """Return the frames, the screen (empty if there are frames) and the handles of the removed objects.

    Raises WorldError for damaged states.
    """
    line, _, rest = state.partition(b"\n")
    try:
        header = json.loads(line)
        frames = []
        for length, action in header["frames"]:
            frames.append((rest[:length], int(action)))
            rest = rest[length:]
        screen: np.ndarray = np.zeros(0, np.uint8)
        if not frames:
            screen = np.frombuffer(zlib.decompress(rest), np.uint8).reshape(HEIGHT, WIDTH, 3)
        return frames, screen, [str(name) for name in header["removed"]]
    except (ValueError, TypeError, KeyError, zlib.error, RecursionError) as error:
        raise WorldError(f"{state[:30]!r}... is not a state of an Atari game") from error
