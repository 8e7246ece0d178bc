"""Worlds in which objects cannot be removed, because only their boxes are known. The objects are painted over
instead.
"""

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
    """A world that draws states and knows the boxes of their objects. It has those methods of `World` that do not edit
    states.
    """

    types: tuple[str, ...]

    def states(self, environment: VectorEnvironment) -> list[bytes]: ...

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]: ...

    def draw(self, states: Sequence[bytes]) -> np.ndarray: ...

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray: ...

    def close(self) -> None: ...


class PaintedWorld:
    """A world whose objects are painted over with the median color of the pixels around their boxes.

    It is not `exact`, because it is not known what an object hides, and other objects can be near its box.
    """

    exact = False

    def __init__(self, world: KnowsBoxes) -> None:
        self.world, self.types = world, world.types

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        return [_join(state, []) for state in self.world.states(environment)]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore a state in each of the N environments, and return the observations (N, H, W, C).

        Raises WorldError if objects of a state are painted over, because the game has no such state, and if the inner
        world cannot restore states.
        """
        split = [_split(state) for state in states]
        if any(painted for _, painted in split):
            raise WorldError("play cannot continue from a state whose objects are painted over")
        return restore(cast(World, self.world), environment, [inner for inner, _ in split])

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of a state that the inner world lists, without those that are painted over."""
        inner, painted = _split(state)
        return [item for item in self.world.objects(inner, terrain=terrain) if item.pixels not in painted]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state after painting over some of its objects."""
        inner, painted = _split(state)
        return _join(inner, [*painted, *(item.pixels for item in objects)])

    def moved(self, state: bytes, item: WorldObject, to: Position) -> NoReturn:
        """Raise WorldError, because objects can only be painted over."""
        raise _not_edited("moved")

    def replaced(self, state: bytes, item: WorldObject, type: str) -> NoReturn:
        """Raise WorldError, because objects can only be painted over."""
        raise _not_edited("replaced")

    def inserted(self, state: bytes, type: str, at: Position) -> NoReturn:
        """Raise WorldError, because objects can only be painted over."""
        raise _not_edited("inserted")

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, H, W, C) uint8 of n states."""
        return self._painted(self.world.draw, states)

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images (n, H', W', 3) uint8 of n states at full resolution."""
        return self._painted(self.world.draw_full, states)

    def close(self) -> None:
        """Close the inner world."""
        self.world.close()

    def _painted(self, draw: Any, states: Sequence[bytes]) -> np.ndarray:
        split = [_split(state) for state in states]
        images = np.array(draw([inner for inner, _ in split]))
        for image, (_, boxes) in zip(images, split, strict=True):
            for box in boxes:
                paint_over(image, box)
        return images


def paint_over(image: np.ndarray, box: Box) -> None:
    """Fill a box of an image (H, W, C) with the median of the pixels around it. `box` is as in `WorldObject.pixels`."""
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
        f"objects of this environment cannot be {what}, but only painted over, because only their boxes are known"
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
        raise WorldError(f"{state[:16]!r}... is not a state of a world whose objects are painted over") from error
    return state[8 : 8 + length], painted
