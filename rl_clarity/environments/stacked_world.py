"""Worlds of stacked frames. An edit changes an object in each of the frames that the agent sees."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.environments.worlds import Position, World, WorldObject, follow, restore
from rl_clarity.environments.wrappers import FrameStack, Wrapper

Found = tuple[WorldObject | None, ...]
"""An object in each frame, the oldest first. It is None for frames without the object."""


class StackedWorld:
    """A world of stacked frames. It wraps the world of single frames, and stacks the frames that this world draws, like
    `FrameStack`.

    A state contains the states of the inner world for the last `count` frames, or for fewer frames at the start of an
    episode. The objects of a state are those of its newest frame. An edit also changes them in the earlier frames in
    which `follow` finds them.
    """

    def __init__(self, world: World, count: int, padding: str) -> None:
        self.world, self.exact, self.types = world, world.exact, world.types
        self._count, self._padding = count, padding
        # Consecutive states share all frames but one.
        self._objects = functools.lru_cache(maxsize=2 * count)(world.objects)
        self._recent: list[deque[bytes]] = []
        self._steps = -1

    def states(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment, including the frames before it.

        Raises WorldError if this method was not called in each step of the episodes that are being played.
        """
        inner = self._frame_stack(environment)
        if inner.steps != self._steps + 1 and inner.ages.any():
            raise WorldError(
                "a state of stacked frames includes the frames of earlier steps: call states() in every step"
            )
        self._steps = inner.steps
        if len(self._recent) != inner.num_envs:
            self._recent = [deque(maxlen=self._count) for _ in range(inner.num_envs)]
        for recent, age, state in zip(self._recent, inner.ages, self.world.states(environment), strict=True):
            if age == 0:
                recent.clear()
            recent.append(state)
        return [_join(recent) for recent in self._recent]

    def restore(self, environment: VectorEnvironment, states: Sequence[bytes]) -> np.ndarray:
        """Restore the newest frame of a state in each environment, and the earlier frames in its stack. Return the
        stacked observations.

        Raises WorldError in the same cases as `restore` of the inner world.
        """
        inner = self._frame_stack(environment)
        stacks = [_split(state) for state in states]
        restore(self.world, inner.environment, [frames[-1] for frames in stacks])
        observations = self.draw(states)
        inner.continue_from(observations, np.array([len(frames) - 1 for frames in stacks]))
        self._recent = [deque(frames[:-1], maxlen=self._count) for frames in stacks]
        self._steps = inner.steps - 1
        return observations

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        """List the objects of the newest frame that the inner world lists."""
        *earlier, newest = _split(state)
        items = self._objects(newest, terrain=terrain)
        found: list[list[WorldObject | None]] = [[item] for item in items]
        followed = items
        for frame in reversed(earlier):
            followed = follow(followed, self._objects(frame, terrain=terrain))
            by_number = {item.number: item for item in followed}
            for item, frames in zip(items, found, strict=True):
                frames.insert(0, by_number.get(item.number))
        return [dataclasses.replace(item, handle=tuple(frames)) for item, frames in zip(items, found, strict=True)]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        """Return the state without some of its objects, in all its frames."""
        frames = _split(state)
        present = [[item.handle[i] for item in objects if _check(item, frames)[i]] for i in range(len(frames))]
        return _join(self.world.without(frame, some) for frame, some in zip(frames, present, strict=True))

    def moved(self, state: bytes, item: WorldObject, to: Position) -> bytes:
        """Return the state after moving the center of an object to another position in the newest frame.

        In earlier frames the object is moved by the same distance.
        """
        x, y = to[0] - item.center[0], to[1] - item.center[1]
        return self._edited(
            state, item, lambda frame, it: self.world.moved(frame, it, (it.center[0] + x, it.center[1] + y))
        )

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        """Return the state after replacing an object with an object of a different type at the same position, in all
        its frames.
        """
        return self._edited(state, item, lambda frame, it: self.world.replaced(frame, it, type))

    def inserted(self, state: bytes, type: str, at: Position) -> bytes:
        """Return the state after inserting an object of the given type at the same position in all its frames."""
        return _join(self.world.inserted(frame, type, at) for frame in _split(state))

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw the observations (n, H, W, count * C) uint8 of n states, with the newest frame last."""
        stacks = [_split(state) for state in states]
        rows = {frame: i for i, frame in enumerate(dict.fromkeys(frame for stack in stacks for frame in stack))}
        drawn = self.world.draw([*rows])
        frames = np.zeros((len(states), self._count, *drawn.shape[1:]), np.uint8)
        for stacked, stack in zip(frames, stacks, strict=True):
            images = drawn[[rows[frame] for frame in stack]]
            stacked[-len(stack) :] = images
            if self._padding == "first":
                stacked[: -len(stack)] = images[0]
        return np.concatenate([*frames.swapaxes(0, 1)], axis=-1)

    def draw_full(self, states: Sequence[bytes]) -> np.ndarray:
        """Draw images (n, H', W', 3) uint8 of the newest frames of n states at full resolution."""
        return self.world.draw_full([_split(state)[-1] for state in states])

    def close(self) -> None:
        """Close the inner world."""
        self.world.close()

    def _frame_stack(self, environment: VectorEnvironment) -> FrameStack:
        inner = environment
        while isinstance(inner, Wrapper) and not isinstance(inner, FrameStack):
            inner = inner.environment
        if not isinstance(inner, FrameStack) or (inner.count, inner.padding) != (self._count, self._padding):
            raise WorldError(f"the environment does not stack {self._count} frames with padding={self._padding!r}")
        return inner

    def _edited(self, state: bytes, item: WorldObject, edit: Callable[[bytes, WorldObject], bytes]) -> bytes:
        frames = _split(state)
        found = _check(item, frames)
        return _join(frame if it is None else edit(frame, it) for frame, it in zip(frames, found, strict=True))


def _check(item: WorldObject, frames: Sequence[bytes]) -> Found:
    """Return the object as it is in each frame, or None for frames without it. Raises WorldError for an object from a
    different state.
    """
    found: Found = item.handle
    if not isinstance(found, tuple) or len(found) != len(frames):
        raise WorldError(f"the state has no {item.type} at {item.box}: pass objects of the same state")
    return found


def _join(frames: Iterable[bytes]) -> bytes:
    """Return the bytes of a state: the number of frames, their lengths, and the frames, the oldest first."""
    parts = [*frames]
    return struct.pack(f"<{1 + len(parts)}Q", len(parts), *map(len, parts)) + b"".join(parts)


def _split(state: bytes) -> list[bytes]:
    """Return the frames of a state, the oldest first. Raises WorldError for a damaged state."""
    try:
        (count,) = struct.unpack_from("<Q", state)
        lengths = struct.unpack_from(f"<{count}Q", state, 8) if count <= len(state) else ()
    except struct.error:
        count, lengths = 0, ()
    ends = 8 * (1 + count) + np.cumsum(lengths, dtype=np.int64)
    if not lengths or ends[-1] != len(state):
        raise WorldError(f"the {len(state)} bytes that begin with {state[:16]!r} are not a state of stacked frames")
    return [state[end - length : end] for end, length in zip(ends.tolist(), lengths, strict=True)]
