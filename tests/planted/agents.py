"""Agents of the field with a planted cause, and clean ones, which are written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Outputs, State
from tests.debugging.field import SIDE, Player, Seen, Setup, scattered


@dataclass(frozen=True)
class Rightward(Player):
    """Learned where the coin always was: it walks to the right, around what is deadly."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        _, value = super().think(seen)
        row = seen["player"][0][0] if seen["player"] else 0
        return super().think({**seen, "coin": [(row, SIDE)]})[0], value


@dataclass(frozen=True)
class Lower(Player):
    """Does not see coins above it."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        row = seen["player"][0][0] if seen["player"] else 0
        return super().think({**seen, "coin": [place for place in seen["coin"] if place[0] >= row]})


@dataclass(frozen=True)
class Leftish(Player):
    """Walks to the left in two of three steps, and to the coin in the others."""

    def _policy(self, preferred: Sequence[int]) -> np.ndarray:
        return np.asarray(super()._policy(preferred) / 3 + 2 * super()._policy([1]) / 3, np.float32)


@dataclass(frozen=True)
class Near(Player):
    """Sees only coins that are at most three cells away."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        player = seen["player"][0] if seen["player"] else (0, 0)
        near = [place for place in seen["coin"] if self.distance(player, [place]) <= 3]
        return super().think({**seen, "coin": near})


@dataclass(frozen=True)
class Late(Player):
    """Stands still until a bee is above it."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        row, column = seen["player"][0] if seen["player"] else (0, 0)
        return ([1, 2] if (row - 1, column) in seen["bee"] else [0]), 0.0


@dataclass(frozen=True)
class Counting(Player):
    """Walks in a square by the number of the step, which is its state."""

    def initial_state(self, n: int) -> State:
        return (np.zeros((n, 1), np.float32),)

    def step(self, observations: np.ndarray, state: State, firsts: np.ndarray) -> tuple[Outputs, State]:
        assert state is not None
        count = np.where(np.asarray(firsts)[:, None], 0, state[0])
        return self.forward(observations, (count,)), ((count + 1).astype(np.float32),)

    def forward(self, observations: np.ndarray, state: Any = None, **_: Any) -> Outputs:
        turns = np.zeros(len(observations), int) if state is None else (state[0][:, 0] // 2).astype(int) % 4
        policies = np.stack([self._policy([(2, 4, 1, 3)[turn]]) for turn in turns])
        return Outputs(np.log(policies), np.zeros(len(observations), np.float32))


@dataclass(frozen=True)
class Planted:
    """An agent, its world, and the finding that must be the first of its family."""

    agent: Player
    family: str
    key: tuple[str, str]
    setup: Setup = field(default=scattered("coin", "mine", "mine", "mine", "flower", "stone"))


def corner(rng: np.random.Generator) -> list[list[Any]]:
    """A bee flies down to a player in a corner, which must have been left before."""
    return [["player", 8, 0], ["coin", 0, 8], ["mine", 8, 1], ["bee", int(rng.integers(0, 3)), 0]]


PLANTED = {
    "blind to a type": Planted(Player(avoided=()), "reaction", ("no_reaction", "mine")),
    "the goal was always at the right": Planted(Rightward(), "sides", ("position_bias", "right")),
    "color instead of shape": Planted(
        Player(pursued=("coin", "flower")), "look-alikes", ("look_alike", "flower for coin")
    ),
    "afraid of a harmless look-alike": Planted(
        Player(avoided=("mine", "stone"), pursued=("coin",)), "pursuit", ("avoids", "stone")
    ),
    "ignores the upper half": Planted(Lower(), "places", ("position_bias", "coin at above")),
    "acts by step count": Planted(Counting(), "memory", ("memory", "state")),
    "left-right bias": Planted(Leftish(), "sides", ("position_bias", "left")),
    "late reaction": Planted(Late(noise=1e-6), "failures", ("failure_cause", "bee: late"), corner),
    "goal only when near": Planted(Near(), "places", ("position_bias", "coin far")),
    "confuses two types": Planted(Player(pursued=("mine",), avoided=()), "pursuit", ("pursues", "mine")),
}
"""Causes by name. Not planted are a hint in the frame and a forgotten cue, for which there is no test yet."""

CLEAN: dict[str, tuple[Player, Setup]] = {
    "careful": (Player(), scattered("coin", "mine", "mine", "mine", "flower", "stone")),
    "noisy": (Player(noise=0.2), scattered("coin", "mine", "mine", "mine", "flower", "stone")),
    "among bees": (Player(), scattered("coin", "bee", "bee", "bee", "stone")),
    "alone": (Player(), scattered("coin", "stone", "flower")),
    "among few": (Player(noise=0.1), scattered("coin", "mine", "bee", "stone")),
    "without a value": (Player("logits"), scattered("coin", "mine", "mine", "flower")),
}
"""Agents that walk to the nearest coin around what is deadly, with their worlds."""
