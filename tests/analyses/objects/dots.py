"""A world of bright squares, an agent that adds up their brightness, and trajectories of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Outputs
from rl_clarity.analyses import Subject
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.kinds import EnvironmentKind
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.recordings.world_states import BLOCK, WorldStates, compress
from tests.analyses.subjects import make_subject
from tests.fakes import TinyAgent

SIZE, CELL, ACTIONS = 24, 4, 3
Dot = tuple[str, int, int, int]
"""Type, column, row and brightness; a later dot hides an earlier one in its cell."""


class DotWorld:
    """States are JSON lists of dots in a grid of 6 x 6 cells. Dots of the type `wall` are terrain."""

    exact = True
    types = ("coin", "saw", "wall")

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        dots = json.loads(state)
        items = [self._describe(i, *dot) for i, dot in enumerate(dots)]
        return [item for item in items if terrain or not item.terrain]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        removed = {item.handle for item in objects}
        return json.dumps([dot for i, dot in enumerate(json.loads(state)) if i not in removed]).encode()

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        images = np.zeros((len(states), SIZE, SIZE, 1), np.uint8)
        for image, state in zip(images, states, strict=True):
            for _, x, y, brightness in json.loads(state):
                if x >= 0 and y >= 0:
                    image[y * CELL : (y + 1) * CELL, x * CELL : (x + 1) * CELL] = brightness
        return images

    def close(self) -> None:
        pass

    def _describe(self, index: int, kind: str, x: int, y: int, _: int) -> WorldObject:
        cells = SIZE // CELL
        pixels = (x / cells, y / cells, (x + 1) / cells, (y + 1) / cells)
        return WorldObject(kind, index, (x, y, x + 1, y + 1), (x, y), pixels, kind == "saw", kind == "wall", index)


KIND: Any = EnvironmentKind(make=lambda *_, **__: None, world=lambda name, options: DotWorld())  # type: ignore[arg-type,return-value]


@dataclass(frozen=True)
class BrightnessAgent(TinyAgent):
    """An agent whose outputs are multiples of the brightness that it sees; a state adds to the first logit."""

    observation_shape: tuple[int, int, int] = (SIZE, SIZE, 1)
    num_actions: int = ACTIONS
    patch: int = 4

    def forward(self, observations: np.ndarray, state: Any = None, **_: Any) -> Outputs:
        seen = np.asarray(observations, np.float64).sum(axis=(1, 2, 3)) / (255 * CELL**2)
        logits = seen[:, None] * np.arange(self.num_actions)
        if state is not None:
            logits[:, 0] += 10 * state[0][:, 0] * seen
        logits = logits.astype(np.float32)
        if self.kind == "q":
            return Outputs(q_values=logits)
        return Outputs(logits, None if self.kind == "logits" else seen.astype(np.float32))


def dot_subject(
    episodes: Sequence[Sequence[Sequence[Dot]]],
    kind: str = "policy",
    memory: float = 0.0,
    observed: Any = None,
    **options: Any,
) -> Subject:
    """A subject with one trajectory, in which episodes of so many steps follow one another; the last one has not
    ended. `observed` are the dots that are seen, if they are not those of the states."""
    steps = [list(dots) for episode in episodes for dots in episode]
    states = [json.dumps(dots).encode() for dots in steps]
    images = DotWorld().draw([json.dumps(dots).encode() for dots in observed or steps])
    firsts = np.concatenate([np.arange(len(episode)) == 0 for episode in episodes])
    dones = np.append(firsts[1:], False)
    agent = BrightnessAgent(kind)
    zeros = np.zeros((1, len(steps)), np.float32)
    scores: dict[str, Any] = {
        name: zeros if name == "values" else np.zeros((1, len(steps), ACTIONS), np.float32) for name in agent.heads
    }
    blocks = [compress(states[start : start + BLOCK]) for start in range(0, len(states), BLOCK)]
    spec = EnvironmentSpec("dots", "dots")
    subject = make_subject(agent, **options)
    played = Trajectories(
        images[None],
        zeros.astype(int),
        zeros,
        firsts[None],
        dones=dones[None],
        states=(np.full((1, len(steps), 6), memory, np.float32),) if kind == "recurrent" else None,
        world_states=WorldStates.of(spec, 1, blocks),
        **scores,
    )
    return replace(subject, trajectories=played)
