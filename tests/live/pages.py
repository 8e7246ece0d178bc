"""Small pages with the agents behind them, whose activations and states are simple."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from rl_clarity.agents.protocol import State
from rl_clarity.environments import KINDS, EnvironmentSpec
from rl_clarity.environments.kinds import EnvironmentKind
from rl_clarity.environments.worlds import WorldObject
from rl_clarity.live import LiveNetwork, parse_request
from rl_clarity.pages.results import open_results
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.recordings.world_states import BLOCK, WorldStates, compress
from tests.fakes import TinyAgent

SHAPE = (16, 16, 3)
STEPS = 70
"""A segment of 64 steps and a short one."""
LAYER = "2a"
Json = dict[str, Any]


def tiny_agent(kind: str = "policy") -> TinyAgent:
    return TinyAgent(kind, SHAPE, 4, patch=4)


class SquareWorld:
    """States are an image and two squares on it, of the types `coin` and `saw`, as bytes."""

    exact = True
    types = ("coin", "saw")
    boxes = ((2, 3, 6, 7), (9, 8, 12, 13))
    """Left, top, right and bottom of each square."""

    def state(self, image: np.ndarray, shown: Sequence[int] = (1, 1)) -> bytes:
        return bytes(shown) + image.tobytes()

    def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
        return [
            WorldObject(self.types[i], i, box, (0, 0), _shares(box), False, False, i)
            for i, box in enumerate(self.boxes)
            if state[i]
        ]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        removed = {item.handle for item in objects}
        return bytes(0 if i in removed else state[i] for i in range(2)) + state[2:]

    def draw(self, states: Sequence[bytes]) -> np.ndarray:
        images = np.stack([np.frombuffer(state, np.uint8, offset=2).reshape(SHAPE) for state in states])
        for image, state in zip(images, states, strict=True):
            for item in self.objects(state):
                left, top, right, bottom = self.boxes[item.number]
                image[top:bottom, left:right] = 60 + 150 * item.number
        return images

    def close(self) -> None:
        pass


def _shares(box: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    left, top, right, bottom = (edge / SHAPE[0] for edge in box)
    return left, top, right, bottom


WORLD = SquareWorld()
BEHIND = np.random.default_rng(0).integers(0, 256, (STEPS, *SHAPE), np.uint8)
"""What is behind the squares at each step."""
EVERY = 4
"""The squares of every fourth step are removed."""


def write_page(directory: Path, agent: Any = None, **options: Any) -> Path:
    """Write the page of an agent, `tiny_agent()` by default, that plays from the middle of an episode, and begins
    another one at step 40.

    Agents with observations of another shape than `SHAPE` see noise, without objects.
    """
    KINDS.register("squares", EnvironmentKind(make=lambda *_, **__: None, world=lambda name, options: WORLD))  # type: ignore[arg-type,return-value]
    try:
        return _write_page(directory, agent or tiny_agent(), options)
    finally:
        KINDS.unregister("squares")


def _write_page(directory: Path, agent: Any, options: Json) -> Path:
    rng, has_squares = np.random.default_rng(1), tuple(agent.observation_shape) == SHAPE
    states_of_world = [WORLD.state(image) for image in BEHIND]
    observations = WORLD.draw(states_of_world)[None]
    if not has_squares:
        observations = rng.integers(0, 256, (1, STEPS, *agent.observation_shape), np.uint8)
    firsts = np.zeros((1, STEPS), bool)
    firsts[0, 40] = True
    state: State = None if agent.initial_state(1) is None else (rng.normal(size=(1, 6)).astype(np.float32),)
    outputs, states = [], []
    for step in range(STEPS):
        reset = None if state is None else (np.where(firsts[:, step, None], np.float32(0), state[0]),)
        states.append(reset)
        outputs.append(agent.forward(observations[:, step], reset))
        state = outputs[-1].state
    arrays = {name: [getattr(one, name) for one in outputs] for name in ("policy_logits", "values", "q_values")}
    recorded: Json = {name: None if parts[0] is None else np.stack(parts, axis=1) for name, parts in arrays.items()}
    played = Trajectories(
        observations,
        rng.integers(0, 4, (1, STEPS)),
        rng.normal(size=(1, STEPS)).astype(np.float32),
        firsts,
        states=None if state is None else (np.stack([one[0] for one in states if one is not None], axis=1),),
        world_states=WorldStates.of(
            EnvironmentSpec("squares", "squares"),
            1,
            [compress(states_of_world[start : start + BLOCK]) for start in range(0, STEPS, BLOCK)],
        )
        if has_squares
        else None,
        **recorded,
    )
    defaults: Json = {
        "features": {"count": 3},
        "ablation": {"every": 4},
        "objects": {"every": EVERY, "last_steps": 0} if has_squares else {"every": None},
        "layers": {"name_contains_one_of": [LAYER]},
    }
    rl_clarity.generate(agent, played, observations[0, ::4], directory, **defaults | options)
    return directory


def open_network(directory: Path, kind: str = "policy") -> LiveNetwork:
    return LiveNetwork(open_results(directory), tiny_agent(kind))


def ask(network: LiveNetwork, kind: str, **values: Any) -> Json:
    return network.answer(parse_request(kind, json.dumps(values).encode()))


def values_of(answer: Json, when: str) -> np.ndarray:
    return np.asarray(answer[when]["values"])
