"""Worlds in which objects cannot be removed, because only their boxes are known: they are painted over."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, cast

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.worlds import Position, World, WorldObject, restore

RING = 2
"""Width, in pixels, of the ring around a box. The box is painted with the median of this ring."""
Box = tuple[float, float, float, float]


class KnowsBoxes(Protocol):
    """States that can be drawn, with the boxes of their objects: the parts of `World` that do not edit."""

    types: tuple[str, ...]

    def states(self, environment: VectorEnvironment) -> list[bytes]: ...

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]: ...

    def draw(self, states: Sequence[bytes]) -> np.ndarray: ...

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray: ...

    def close(self) -> None: ...


class PaintedWorld:
    """States whose objects are painted over with the median of what surrounds their boxes.

    What such an object hid is not known, and the surroundings of a box can contain other objects: `exact` is false.
    """

    exact = False

    def __init__(self, world: KnowsBoxes) -> None:
        self.world, self.types = world, world.types

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        return [_join(state, []) for state in self.world.states(environment)]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Bring each environment to its state, and return its observations (N, H, W, C).

        Raises WorldError for painted states, which the game does not have, and if the inner world cannot restore.
        """
        split = [_split(state) for state in states]
        if any(painted for _, painted in split):
            raise WorldError("play cannot continue from a state whose objects are painted over")
        return restore(cast(World, self.world), environment, [inner for inner, _ in split])

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state, visible or not, without the player and objects that are painted over."""
        inner, painted = _split(state)
        return [item for item in self.world.objects(inner, terrain=terrain) if item.pixels not in painted]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state with some of its objects painted over."""
        inner, painted = _split(state)
        return _join(inner, [*painted, *(item.pixels for item in objects)])

    def moved(self, state: bytes, item: WorldObject, to: Position) -> NoReturn:
        """Raise WorldError."""
        raise _not_edited("moved")

    def replaced(self, state: bytes, item: WorldObject, type: str) -> NoReturn:
        """Raise WorldError."""
        raise _not_edited("replaced")

    def inserted(self, state: bytes, type: str, at: Position) -> NoReturn:
        """Raise WorldError."""
        raise _not_edited("inserted")

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw observations (n, H, W, C) uint8 of states."""
        return self._painted(self.world.draw, states)

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images of human scale (n, H', W', 3) uint8 of states."""
        return self._painted(self.world.draw_full, states)

    def close(self) -> None:
        """Close what draws the states."""
        self.world.close()

    def _painted(self, draw: Any, states: Sequence[bytes]) -> np.ndarray:
        split = [_split(state) for state in states]
        images = np.array(draw([inner for inner, _ in split]))
        for image, (_, boxes) in zip(images, split, strict=True):
            for box in boxes:
                paint_over(image, box)
        return images


def paint_over(image: np.ndarray, box: Box) -> None:
    """Fill a box of an image (H, W, C) with the median of the pixels around it; `box` as `WorldObject.pixels`."""
    height, width = image.shape[:2]
    left, top = (max(0, int(np.floor(share * size))) for share, size in zip(box[:2], (width, height), strict=True))
    right, bottom = (
        min(size, int(np.ceil(share * size))) for share, size in zip(box[2:], (width, height), strict=True)
    )
    if left >= right or top >= bottom:
        return
    ring = np.zeros((height, width), bool)
    ring[max(0, top - RING) : bottom + RING, max(0, left - RING) : right + RING] = True
    ring[top:bottom, left:right] = False
    around = image[ring] if ring.any() else image.reshape(-1, image.shape[-1])
    image[top:bottom, left:right] = np.median(around, axis=0)


def _not_edited(what: str) -> WorldError:
    return WorldError(
        f"objects of this environment cannot be {what}: only their boxes are known, so that they can be painted over"
    )


def _join(state: bytes, boxes: Sequence[Box]) -> bytes:
    return struct.pack("<Q", len(state)) + state + json.dumps(boxes).encode()


def _split(state: bytes) -> tuple[bytes, list[Box]]:
    """Return a state of the inner world, and the boxes that are painted over. Raises WorldError for a damaged state."""
    try:
        (length,) = struct.unpack_from("<Q", state)
        boxes = json.loads(state[8 + length :])
        painted = [(float(a), float(b), float(c), float(d)) for a, b, c, d in boxes]
    except (struct.error, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WorldError(f"{state[:16]!r}... is not a state whose objects are painted over") from error
    return state[8 : 8 + length], painted
