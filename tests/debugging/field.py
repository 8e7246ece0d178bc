"""A small world of things on a field, whose states can be edited and continued, and agents that are written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl_clarity.agents.protocol import Outputs
from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.worlds import WorldObject
from tests.fakes import TinyAgent

SIDE, TILE = 9, 4
COLORS = {
    "coin": (250, 210, 60),
    "mine": (200, 40, 40),
    "bee": (240, 130, 250),
    "stone": (120, 120, 120),
    "flower": (60, 220, 90),
}
PLAYER = (80, 120, 255)
MOVES = {"NOOP": (0, 0), "LEFT": (0, -1), "RIGHT": (0, 1), "UP": (-1, 0), "DOWN": (1, 0)}
"""Buttons of the actions, with the rows and columns that they move."""
Thing = list[Any]
"""Type, row and column."""
Setup = Callable[[np.random.Generator], Sequence[Thing]]


def cells(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Return different cells, the first of which is the player's."""
    return [(int(cell) // SIDE, int(cell) % SIDE) for cell in rng.permutation(SIDE * SIDE)[:count]]


def scattered(*types: str) -> Setup:
    """Return a function that places things anywhere."""

    def setup(rng: np.random.Generator) -> list[Thing]:
        player, *places = cells(rng, len(types) + 1)
        return [["player", *player], *([type, *place] for type, place in zip(types, places, strict=True))]

    return setup


DEFAULT = scattered("coin", "mine", "mine")


class FieldEditor:
    """Edits states of fields, which are JSON."""

    types = tuple(COLORS)
    continues = True

    def save(self, environment: Any) -> bytes:
        rng = environment.np_random.bit_generator.state
        return json.dumps([environment.things, environment.time, rng]).encode()

    def restore(self, environment: Any, state: bytes) -> np.ndarray:
        environment.things, environment.time, rng = json.loads(state)
        environment.np_random.bit_generator.state = rng
        return environment.draw()

    def objects(self, state: bytes) -> list[WorldObject]:
        (_, row, column), *things = json.loads(state)[0]
        return [
            WorldObject(
                type,
                number,
                box=(x, SIDE - 1 - y, x + 1, SIDE - y),
                offset=(x - column, row - y),
                pixels=(x / SIDE, y / SIDE, (x + 1) / SIDE, (y + 1) / SIDE),
                moves=type == "bee",
                handle=[type, y, x],
            )
            for number, (type, y, x) in enumerate(things)
        ]

    def without(self, state: bytes, objects: Sequence[WorldObject]) -> bytes:
        things, *rest = json.loads(state)
        gone = [item.handle for item in objects]
        return json.dumps([[thing for thing in things if thing not in gone], *rest]).encode()

    def moved(self, state: bytes, item: WorldObject, to: tuple[float, float]) -> bytes:
        return self.inserted(self.without(state, [item]), item.type, to)

    def replaced(self, state: bytes, item: WorldObject, type: str) -> bytes:
        return self.inserted(self.without(state, [item]), type, item.center)

    def inserted(self, state: bytes, type: str, at: tuple[float, float]) -> bytes:
        things, *rest = json.loads(state)
        if not (0 <= at[0] < SIDE and 0 <= at[1] < SIDE):
            raise WorldError(f"at={at!r} is not on the field")
        return json.dumps([[*things, [type, int(SIDE - at[1]), int(at[0])]], *rest]).encode()


class Field(gymnasium.Env[np.ndarray, Any]):
    """A player reaches the coin, which ends the episode with a reward; mines and bees end it without.

    Bees fly down a row at each step, and come again from the top. Time is limited.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it
    observation_space = spaces.Box(0, 255, (SIDE * TILE, SIDE * TILE, 3), np.uint8)
    action_space = spaces.Discrete(len(MOVES))
    state_editor = FieldEditor()

    def __init__(self, setup: Setup = DEFAULT, limit: int = 30) -> None:
        self._setup, self._limit = setup, limit
        self.things: list[Thing] = []
        self.time = 0

    def get_action_meanings(self) -> list[str]:
        return [*MOVES]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self.things, self.time = [*self._setup(self.np_random)], 0
        return self.draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, Any]:
        (_, row, column), *things = self.things
        down, right = [*MOVES.values()][int(action)]
        player = [min(max(row + down, 0), SIDE - 1), min(max(column + right, 0), SIDE - 1)]
        hit = ["bee", *player] in things  # by one that flies to where the player comes from
        things = [[type, (y + 1) % SIDE, x] if type == "bee" else [type, y, x] for type, y, x in things]
        self.things, self.time = [["player", *player], *things], self.time + 1
        touched = [type for type, *cell in things if cell == player]
        reached, died = "coin" in touched, "mine" in touched or "bee" in touched or hit
        cause = "mine" if "mine" in touched else "bee" if died else "coin" if reached else "time limit"
        cut = self.time >= self._limit and not (died or reached)
        return self.draw(), float(reached and not died), died or reached, cut, {"cause": cause}

    def draw(self) -> np.ndarray:
        image = np.zeros((SIDE, SIDE, 3), np.uint8)
        for type, *cell in [*self.things[1:], self.things[0]]:
            image[tuple(cell)] = COLORS.get(type, PLAYER)
        return image.repeat(TILE, axis=0).repeat(TILE, axis=1)


def field_spec(setup: Setup = DEFAULT, limit: int = 30) -> EnvironmentSpec:
    return EnvironmentSpec("gymnasium", "Field", {"factory": lambda: Field(setup, limit)})


CODE = np.array([65536, 256, 1])
NAMES = {int(CODE @ color): name for name, color in {**COLORS, "player": PLAYER}.items()}
"""Types by the number of their color."""
Seen = dict[str, list[tuple[int, int]]]
"""Rows and columns of what an observation shows, by type."""


def read(observation: np.ndarray) -> Seen:
    """Return the places of the player and of things in an observation (H, W, 3)."""
    codes = observation[::TILE, ::TILE].astype(int) @ CODE
    seen: Seen = {name: [] for name in NAMES.values()}
    for y, x in np.argwhere(codes).tolist():
        if name := NAMES.get(int(codes[y, x])):
            seen[name].append((y, x))
    return seen


@dataclass(frozen=True)
class Player(TinyAgent):
    """Walks to the nearest coin and around mines and bees, as `think` says; values are higher near a coin."""

    observation_shape: tuple[int, int, int] = (SIDE * TILE, SIDE * TILE, 3)
    num_actions: int = len(MOVES)
    pursued: tuple[str, ...] = ("coin",)
    avoided: tuple[str, ...] = ("mine", "bee")
    noise: float = 0.02
    """Probability that is spread over all actions."""

    @property
    def metadata(self) -> dict[str, Any]:
        return {"env_kind": "gymnasium", "env_name": "Field", "gamma": 0.9, "lambda": 0.95}

    def forward(self, observations: np.ndarray, state: Any = None, **_: Any) -> Outputs:
        thoughts = [self.think(read(observation)) for observation in np.asarray(observations)]
        values = np.array([value for _, value in thoughts], np.float32)
        return Outputs(np.log(np.stack([self._policy(preferred) for preferred, _ in thoughts])), values)

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        """Return the actions that are preferred, and the value."""
        if not seen["player"]:
            return range(self.num_actions), 0.0
        player = seen["player"][0]
        goals = [place for type in self.pursued for place in seen[type]]
        danger = self.danger(seen)
        distances = {a: self.distance(step(player, a), goals) for a in range(self.num_actions)}
        safe = [a for a in range(self.num_actions) if step(player, a) not in danger] or [*range(self.num_actions)]
        nearest = min(distances[a] for a in safe)
        return [a for a in safe if distances[a] == nearest], 0.9 ** self.distance(player, goals) if goals else 0.0

    def danger(self, seen: Seen) -> list[tuple[int, int]]:
        """Return the cells that are avoided: where things are, and where bees fly next."""
        places = [place for type in self.avoided for place in seen[type]]
        return places + [((y + 1) % SIDE, x) for y, x in seen["bee"] if "bee" in self.avoided]

    def distance(self, place: tuple[int, int], goals: Sequence[tuple[int, int]]) -> int:
        return min((abs(place[0] - y) + abs(place[1] - x) for y, x in goals), default=0)

    def _policy(self, preferred: Sequence[int]) -> np.ndarray:
        weights = np.full(self.num_actions, self.noise / self.num_actions)
        weights[list(preferred)] += (1 - self.noise) / len(preferred)
        return weights.astype(np.float32)


def step(player: tuple[int, int], action: int) -> tuple[int, int]:
    """Return the player's cell after an action."""
    down, right = [*MOVES.values()][action]
    return min(max(player[0] + down, 0), SIDE - 1), min(max(player[1] + right, 0), SIDE - 1)
