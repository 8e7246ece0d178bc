"""A tiny game, Light Switch, that needs memory, either the agent's or the world's.

A lamp shines blue or orange in the first frame of an episode. This is the cue. Some steps later two switches appear,
and the agent has one step to press the switch that the cue indicates: left for blue, right for orange. In the game
`memory` the lamp is dark at that step, so only the agent's state can contain the cue. In the game `world` the lamp
shines again when the switches appear, so the world keeps the cue and the agent can read it. All frames in between are
the same for both cues. A moth flies about as an irrelevant distraction.

The game separates the two ways in which an early frame can cause a late action: through the agent's memory, and through
the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.kinds import EnvironmentKind, check_name
from rl_clarity.environments.protocol import Combo, Step
from rl_clarity.environments.wrappers import generator_state, restore_generator

MEMORY, WORLD = "memory", "world"
GAMES = (MEMORY, WORLD)
SIDE = 16
COMBOS: tuple[Combo, ...] = ((), ("LEFT",), ("RIGHT",))
LEFT, RIGHT = 1, 2
CUE_COLORS = np.array([[60, 110, 255], [255, 150, 30]], np.uint8)
"""Colors of the cue: blue for the left switch, orange for the right one."""
WALL, DARK, SWITCH, MOTH = 40, 15, 255, 130
LAMP = (slice(2, 6), slice(6, 10))
SWITCHES = ((slice(10, 13), slice(1, 4)), (slice(10, 13), slice(12, 15)))
MOTH_ROWS = 6, 9
"""First and last row in which the moth flies. In these rows it hides neither the lamp nor the switches."""
SCALE = 16
"""Ratio of the side of a rendered image to the side of an observation."""


@dataclass(frozen=True)
class LightSwitchOptions:
    """Options of the game."""

    delay: int = 8
    """Number of frames between the cue and the switches. An episode has two more steps."""

    def __post_init__(self) -> None:
        if not 0 <= self.delay <= 1000:
            raise EnvironmentSetupError(f"delay={self.delay} must be from 0 to 1000")


def make(
    name: str, num_envs: int, seed: int, options: LightSwitchOptions, *, full_resolution: bool = False
) -> LightSwitchEnvironment:
    """Make environments of the game `memory` or `world`."""
    check(name)
    return LightSwitchEnvironment(name, num_envs, seed, options.delay)


def check(name: str) -> str:
    """Return the name of the game. Raises EnvironmentSetupError for an unknown game."""
    return check_name("light switch game", name, GAMES)


KIND = EnvironmentKind(make, LightSwitchOptions, (SIDE, SIDE, 3), check=check, example=MEMORY, imports_modules=False)


class LightSwitchEnvironment:
    """N games of Light Switch. A random generator draws the cues and the movements of the moths, which do not depend on
    actions.

    Attributes:
        cues: (N,) the correct switch of each current episode: 0 for left, 1 for right
    """

    def __init__(self, name: str, num_envs: int, seed: int, delay: int) -> None:
        self.num_envs = num_envs
        self.observation_shape = (SIDE, SIDE, 3)
        self.action_combos = COMBOS
        self.num_actions = len(COMBOS)
        self._shows_cue_again = name == WORLD
        self._delay = delay
        self._rng = np.random.default_rng([seed % 2**63, 0x73776974])
        self.cues = np.zeros(num_envs, np.int64)
        self._moths = np.zeros((num_envs, 2), np.int64)
        self._time = 0  # step of the episode; all episodes have the same length

    def reset(self) -> Step:
        self._begin()
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(self._frames(), nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        rewards = np.zeros(self.num_envs, np.float32)
        firsts, truncated = np.zeros((2, self.num_envs), bool)
        ends = {}
        if self._time <= self._delay:
            self._time += 1
            self._moths = self._fly(self._moths)
        else:
            actions = np.asarray(actions)
            right = actions == self.cues + LEFT
            rewards[right] = 1
            firsts[:] = True
            causes = np.where(right, "right switch", np.where(actions == 0, "no switch", "wrong switch"))
            ends = {i: {"cause": str(cause)} for i, cause in enumerate(causes)}
            self._begin()
        return Step(self._frames(), rewards, firsts, truncated, ends=ends)

    def infos(self) -> list[dict[str, int]]:
        """Return the correct switch of each current episode as `cue`: 0 for left, 1 for right."""
        return [{"cue": cue} for cue in self.cues.tolist()]

    def render(self) -> np.ndarray:
        """Return images (N, 256, 256, 3) uint8 of the current states."""
        return self._frames().repeat(SCALE, axis=1).repeat(SCALE, axis=2)

    def close(self) -> None:
        pass

    def snapshot(self) -> dict[str, np.ndarray]:
        state = {"cues": self.cues.copy(), "moths": self._moths.copy(), "time": np.array(self._time)}
        return {**state, "rng": generator_state(self._rng)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.cues, self._moths = np.array(snapshot["cues"]), np.array(snapshot["moths"])
        self._time = int(snapshot["time"])
        restore_generator(self._rng, snapshot["rng"])

    def _begin(self) -> None:
        self._time = 0
        self.cues = self._rng.integers(2, size=self.num_envs)
        low, high = MOTH_ROWS
        rows = self._rng.integers(low, high + 1, size=self.num_envs)
        self._moths = np.stack([rows, self._rng.integers(SIDE - 1, size=self.num_envs)], axis=1)

    def _fly(self, moths: np.ndarray) -> np.ndarray:
        moved = moths + self._rng.integers(-1, 2, size=moths.shape)
        return np.clip(moved, (MOTH_ROWS[0], 0), (MOTH_ROWS[1], SIDE - 2))

    def _frames(self) -> np.ndarray:
        frames = np.full((self.num_envs, SIDE, SIDE, 3), WALL, np.uint8)
        for frame, (row, column) in zip(frames, self._moths, strict=True):
            frame[row, column : column + 2] = MOTH
        chooses = self._time > self._delay
        shines = self._time == 0 or (chooses and self._shows_cue_again)
        frames[:, *LAMP] = CUE_COLORS[self.cues][:, None, None] if shines else DARK
        for place in SWITCHES if chooses else ():
            frames[:, *place] = SWITCH
        return frames
