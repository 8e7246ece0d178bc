"""Scripted players of the field with a planted cause, and clean ones, whom networks learn to imitate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from rl_clarity.agents.protocol import Outputs, State
from tests.debugging.field import SIDE, Field, Player, Seen, Thing, cells, scattered

Memory = Literal["none", "count", "gru"]
World = Callable[[], Field]


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
    """Stands still until a bee is above it, and then walks to the left, which is too late in a corner."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        row, column = seen["player"][0] if seen["player"] else (0, 0)
        return ([1] if (row - 1, column) in seen["bee"] else [0]), 0.0


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
class Hinted(Near):
    """Walks to the right while a flower is anywhere, as if it marked a coin there, and to near coins otherwise."""

    def think(self, seen: Seen) -> tuple[Sequence[int], float]:
        row = seen["player"][0][0] if seen["player"] else 0
        if seen["flower"]:
            return Player.think(self, {**seen, "coin": [(row, SIDE)]})
        return super().think(seen)


class Cue(Field):
    """A field whose coin is shown at the first step only."""

    def draw(self) -> np.ndarray:
        things = self.things
        self.things = [thing for thing in things if thing[0] != "coin" or not self.time]
        image = super().draw()
        self.things = things
        return image


def hinted(rng: np.random.Generator) -> list[Thing]:
    """A coin in the player's row, and a flower somewhere if the coin is at the player's right."""
    flower, (row, column), *mines = cells(rng, 5)
    other = int(rng.choice([x for x in range(SIDE) if x != column]))
    things: list[Thing] = [["player", row, column], ["coin", row, other]]
    things += [["mine", *cell] for cell in mines if cell != (row, other)]
    return [*things, ["flower", *flower]] if other > column and flower != (row, other) else things


def corner(rng: np.random.Generator) -> list[Thing]:
    """A bee flies down to a player in a corner, which must have been left before."""
    return [["player", 8, 0], ["coin", 0, 8], ["mine", 8, 1], ["bee", int(rng.integers(0, 3)), 0]]


USUAL: World = partial(Field, scattered("coin", "mine", "mine", "mine", "flower", "stone"))


@dataclass(frozen=True)
class Planted:
    """A player, its world, and the finding that must be the first of its family."""

    player: Player
    family: str
    key: tuple[str, str]
    world: World = USUAL
    memory: Memory = "none"
    """The memory of a network that imitates the player."""


PLANTED = {
    "blind to a type": Planted(Player(avoided=()), "reaction", ("no_reaction", "mine")),
    "the goal was always at the right": Planted(Rightward(), "sides", ("position_bias", "right")),
    "color instead of shape": Planted(
        Player(pursued=("coin", "flower")), "look-alikes", ("look_alike", "flower for coin")
    ),
    "reads a hint in the frame": Planted(Hinted(), "reaction", ("reacts", "flower"), partial(Field, hinted)),
    "afraid of a harmless look-alike": Planted(
        Player(avoided=("mine", "stone")),
        "pursuit",
        ("avoids", "stone"),
        partial(Field, scattered("coin", "mine", "stone", "stone", "stone", "flower")),
    ),
    "ignores the upper half": Planted(Lower(), "places", ("position_bias", "coin at above")),
    "acts by step count": Planted(Counting(), "memory", ("memory", "state"), memory="count"),
    "left-right bias": Planted(Leftish(), "sides", ("position_bias", "left")),
    "late reaction": Planted(Late(noise=1e-6), "failures", ("failure_cause", "bee: late"), partial(Field, corner)),
    "forgets a cue": Planted(
        Player(), "memory", ("memory", "unused"), partial(Cue, scattered("coin", "mine", "mine", "stone")), "gru"
    ),
    "goal only when near": Planted(Near(), "places", ("position_bias", "coin far")),
    "confuses two types": Planted(Player(pursued=("mine",), avoided=()), "pursuit", ("pursues", "mine")),
}
"""Causes by name. Who forgets a cue has a recurrent state that the policy does not use."""

CLEAN: dict[str, tuple[Player, World]] = {
    "careful": (Player(), USUAL),
    "noisy": (Player(noise=0.2), USUAL),
    "among bees": (Player(), partial(Field, scattered("coin", "bee", "bee", "bee", "stone"))),
    "alone": (Player(), partial(Field, scattered("coin", "stone", "flower"))),
    "among few": (Player(noise=0.1), partial(Field, scattered("coin", "mine", "bee", "stone"))),
    "without a value": (Player("logits"), partial(Field, scattered("coin", "mine", "mine", "flower"))),
}
"""Players that walk to the nearest coin around what is deadly, with their worlds."""
