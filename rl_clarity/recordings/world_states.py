"""States of the environment before each step of trajectories, compressed as differences from one step to the next.

A state of a game takes tens of thousands of bytes, much of it random numbers that do not compress, but little of it
changes in a step.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import SamplesError
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment
from rl_clarity.environments.kinds import make_world

BLOCK = 64
"""Number of steps that are compressed, and read, together."""
LEVEL = 3
_HEADER = np.dtype([("size", "<u4"), ("split", "<u4")])


@dataclass(frozen=True)
class WorldStates:
    """Saved states of N environments before each of T steps. A `World` with the same specification can draw them."""

    spec: EnvironmentSpec
    count: int
    """Number of trajectories, N."""
    data: np.ndarray  # (bytes,) uint8: blocks of each trajectory's first steps, of their next steps, ...
    ends: np.ndarray  # (blocks,) int64: where they end

    @classmethod
    def of(cls, spec: EnvironmentSpec, count: int, blocks: Sequence[bytes]) -> WorldStates:
        """Join compressed blocks, in the order of `data`."""
        ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
        return cls(spec, count, np.frombuffer(b"".join(blocks), np.uint8), ends)

    def read(self, trajectory: int, steps: Sequence[int]) -> list[bytes]:
        """Return the states before the given steps of a trajectory. Each block is read only once if the steps are in
        ascending order.

        Raises SamplesError if the states are damaged.
        """
        states: list[bytes] = []
        number, block = -1, list[bytes]()
        for step in steps:
            if step // BLOCK != number:
                number = step // BLOCK
                block = self._read_block(number * self.count + trajectory)
            states.append(block[step % BLOCK])
        return states

    def joined(self, steps: int) -> WorldStates:
        """Return the states before the first `steps` steps of all trajectories, joined to a single trajectory."""
        states = [state for trajectory in range(self.count) for state in self.read(trajectory, range(steps))]
        blocks = [compress(states[start : start + BLOCK]) for start in range(0, len(states), BLOCK)]
        return WorldStates.of(self.spec, 1, blocks)

    def _read_block(self, index: int) -> list[bytes]:
        start = int(self.ends[index - 1]) if index else 0
        try:
            return _decode(zlib.decompress(self.data[start : int(self.ends[index])].tobytes()))
        except (zlib.error, ValueError, IndexError) as error:
            raise SamplesError(f"saved states of the environment are damaged ({error}); collect new samples") from error


class WorldStatesWriter:
    """Compresses the states of N environments step by step. The compressed states are kept in memory, where they take
    little space.

    Raises WorldError for an environment whose states cannot be edited.
    """

    def __init__(self, spec: EnvironmentSpec, count: int) -> None:
        self._spec, self._world = spec, make_world(spec)
        self._waiting: list[list[bytes]] = [[] for _ in range(count)]
        self._blocks: list[bytes] = []

    def current(self, environment: VectorEnvironment) -> list[bytes]:
        """Return the current state of each environment."""
        return self._world.states(environment)

    def add(self, states: Sequence[bytes]) -> None:
        """Append the state of each environment before the next step."""
        for waiting, state in zip(self._waiting, states, strict=True):
            waiting.append(state)
        if len(self._waiting[0]) == BLOCK:
            self._flush()

    def finish(self) -> WorldStates:
        """Return the states of all steps, and close the world."""
        self._world.close()
        if self._waiting[0]:
            self._flush()
        return WorldStates.of(self._spec, len(self._waiting), self._blocks)

    def _flush(self) -> None:
        self._blocks += [compress(states) for states in self._waiting]
        self._waiting = [[] for _ in self._waiting]


def compress(states: Sequence[bytes]) -> bytes:
    """Compress at most `BLOCK` consecutive states to a block."""
    return zlib.compress(_encode(states), LEVEL)


def _encode(states: Sequence[bytes]) -> bytes:
    """Return a block: for each state its size, the byte at which it is split, and its difference from the previous
    state.

    The part in front of the split is compared with the beginning of the previous state, and the rest with its end,
    because bytes can be inserted or removed in between.
    """
    header, parts = np.zeros(len(states), _HEADER), []
    before = np.zeros(0, np.uint8)
    for i, state in enumerate(states):
        after = np.frombuffer(state, np.uint8)
        split = _split(before, after)
        header[i] = len(after), split
        parts.append(_differences(before, after, split).tobytes())
        before = after
    return len(states).to_bytes(4, "little") + header.tobytes() + b"".join(parts)


def _decode(block: bytes) -> list[bytes]:
    count = int.from_bytes(block[:4], "little")
    header = np.frombuffer(block, _HEADER, count, 4)
    states, at = list[bytes](), 4 + header.nbytes
    before = np.zeros(0, np.uint8)
    for size, split in header.tolist():
        before = _differences(before, np.frombuffer(block, np.uint8, size, at), split)
        states.append(before.tobytes())
        at += size
    return states


def _split(before: np.ndarray, after: np.ndarray) -> int:
    """Return where to split a state, so that the fewest bytes differ."""
    shared = min(len(before), len(after))
    if len(before) == len(after):
        return shared
    front = before[:shared] != after[:shared]
    back = before[len(before) - shared :] != after[len(after) - shared :]
    differing = np.concatenate([[0], np.cumsum(front)]) + np.concatenate([np.cumsum(back[::-1])[::-1], [0]])
    return int(differing.argmin())


def _differences(before: np.ndarray, after: np.ndarray, split: int) -> np.ndarray:
    """Return the bitwise XOR (n,) uint8 of a state and the previous state. Applied to its own result, the function
    returns the state.
    """
    shared = min(len(before), len(after))
    rest = shared - split
    result = after.copy()
    result[:split] ^= before[:split]
    result[len(after) - rest :] ^= before[len(before) - rest :]
    return result
