"""The sixteen Procgen games (Cobbe et al. 2020, https://arxiv.org/abs/1912.01588), by the package `procgen-mirror`.

Three things about Procgen shape this module. Its program aborts the whole process on an option it does not know, so
options are checked here first. An environment begins its next episode within the step that ends the last one, so the
observation an episode ended with is never shown. And nothing says why an episode ended; see `ProcgenEnvironment`.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.environments.checks import check_name, check_options, missing_package
from rl_clarity.environments.protocol import Combo, Step
from rl_clarity.errors import EnvironmentSetupError

GAMES = (
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
)

DEFAULT_OPTIONS: Mapping[str, Any] = {
    "num_levels": 0,
    "start_level": 0,
    "distribution_mode": "hard",
    "use_sequential_levels": False,
    "use_backgrounds": True,
    "restrict_themes": False,
    "use_monochrome_assets": False,
    "use_generated_assets": False,
    "center_agent": True,
    "paint_vel_info": False,
    "debug_mode": 0,
}
"""Procgen's own defaults. `num_levels=0` means every level there is."""

GAMES_WITH_MODE: Mapping[str, frozenset[str]] = {
    "easy": frozenset(GAMES),
    "hard": frozenset(GAMES),
    "extreme": frozenset({"chaser", "dodgeball", "leaper", "starpilot"}),
    "memory": frozenset({"caveflyer", "dodgeball", "heist", "jumper", "maze", "miner"}),
    "exploration": frozenset({"caveflyer", "climber", "coinrun", "heist", "jumper", "leaper", "maze", "ninja"}),
}

_TIMEOUTS = {"bigfish": 6000, "bossfight": 4000, "plunder": 4000, "leaper": 500, "maze": 500}
_GYM_ID = re.compile(r"(?:procgen:)?procgen-(.*)-v\d+")
LEVELS = 2**31 - 1
"""Levels that can be had, from 0."""
_RENDERERS = 8


def timeout(game: str, distribution_mode: str = "hard") -> int:
    """Steps after which Procgen ends an episode of that game, from the games' sources."""
    if game == "jumper" and distribution_mode == "memory":
        return 2000
    return _TIMEOUTS.get(game, 1000)


def make(
    name: str, num_envs: int, seed: int, options: Mapping[str, Any], *, full_resolution: bool = False
) -> ProcgenEnvironment:
    """Environments of a game (`coinrun`, `procgen-coinrun-v0`); options as in `DEFAULT_OPTIONS`, and `num_threads`."""
    game = _GYM_ID.sub(r"\1", name.lower())
    # Procgen ends the process rather than tell where a game with generated assets stands.
    kind = ProcgenEnvironment if options.get("use_generated_assets") else ResumableProcgenEnvironment
    return kind(game, num_envs, seed, options, full_resolution=full_resolution)


class ProcgenEnvironment:
    """N environments of one Procgen game.

    An episode that ends at exactly the game's last step without its level being completed is taken as cut by time
    (`truncated`); an agent that happens to die at that very step is the one case this gets wrong. Procgen never shows
    the state in which an episode ended, so `final_observations` stays empty.

    The same game, options, `num_envs` and `seed` give the same levels in the same order.
    """

    def __init__(
        self, name: str, num_envs: int, seed: int, options: Mapping[str, Any], *, full_resolution: bool = False
    ) -> None:
        self.game = check_name("Procgen game", name, GAMES)
        self.num_envs = num_envs
        self._arguments = _arguments(self.game, options) | {"rand_seed": seed % 2**31}
        # Procgen cannot copy the state of games with generated assets: those render at every step.
        copies = full_resolution and not self._arguments["use_generated_assets"]
        mode = "rgb_array" if full_resolution and not copies else None
        self._env = _procgen().ProcgenGym3Env(num_envs, self.game, render_mode=mode, **self._arguments)
        self._renderer = self._make_renderer() if copies else None
        self._full_resolution = full_resolution
        self.observation_shape = (64, 64, 3)
        self.action_combos: tuple[Combo, ...] = tuple(tuple(combo) for combo in self._env.combos)
        self.num_actions = len(self.action_combos)
        self._timeout = timeout(self.game, self._arguments["distribution_mode"])
        self._sequential = bool(self._arguments.get("use_sequential_levels"))
        self._steps = np.zeros(num_envs, np.int64)
        self._fresh = True

    def reset(self) -> Step:
        if not self._fresh:
            # Procgen has no reset; this action, which no button stands for, ends the episode.
            self._env.act(np.full(self.num_envs, -1, np.int32))
        self._fresh = False
        _, observations, firsts = self._env.observe()
        self._steps[:] = 0
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(observations["rgb"], nothing, firsts, np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self._fresh = False
        self._env.act(np.asarray(actions, np.int32))
        rewards, observations, firsts = self._env.observe()
        self._steps += 1
        truncated = firsts & (self._steps >= self._timeout)
        if self._sequential or truncated.any():
            completed = np.array([info["prev_level_complete"] for info in self._env.get_info()], bool)
            truncated &= ~completed
            # With sequential levels the next level belongs to the same episode, but has its own time.
            self._steps[completed] = 0
        self._steps[firsts] = 0
        return Step(observations["rgb"], rewards, firsts, truncated)

    def render(self) -> np.ndarray:
        """Pictures (N, 512, 512, 3) uint8 of what is observed now."""
        if not self._full_resolution:
            raise EnvironmentSetupError("the environment was made without full_resolution=True and has no pictures")
        if self._renderer is None:
            return np.stack([info["rgb"] for info in self._env.get_info()])
        states = self._env.get_state()
        frames = np.empty((self.num_envs, 512, 512, 3), np.uint8)
        count = self._renderer.num
        for start in range(0, self.num_envs, count):
            chunk = states[start : start + count]
            self._renderer.set_state(chunk + states[:1] * (count - len(chunk)))
            for i, info in enumerate(self._renderer.get_info()[: len(chunk)]):
                frames[start + i] = info["rgb"]
        return frames

    def close(self) -> None:
        self._env.close()
        if self._renderer is not None:
            self._renderer.close()

    def _make_renderer(self) -> Any:
        """Environments that are never played, only set to the others' states.

        A human-scale picture costs as much as thirty steps, and an environment that renders does so at every step;
        observations are kept from few of them.
        """
        arguments = self._arguments | {"num_threads": 0, "render_mode": "rgb_array"}
        return _procgen().ProcgenGym3Env(min(self.num_envs, _RENDERERS), self.game, **arguments)


class ResumableProcgenEnvironment(ProcgenEnvironment):
    """N environments that can be put back to where they stood."""

    def snapshot(self) -> dict[str, np.ndarray]:
        """Where the games stand, for `restore` of environments made alike."""
        states = [np.frombuffer(state, np.uint8) for state in self._env.get_state()]
        sizes = np.array([len(state) for state in states])
        return {"states": np.concatenate(states), "sizes": sizes, "steps": self._steps.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Put the games back to where they stood; the next step goes on from there."""
        ends = np.cumsum(snapshot["sizes"])[:-1]
        self._env.set_state([part.tobytes() for part in np.split(snapshot["states"], ends)])
        self._steps[:] = snapshot["steps"]
        self._fresh = False


def _procgen() -> Any:
    try:
        # Procgen needs Gym, which greets every program that imports it with a long notice on stderr.
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import procgen
    except ImportError as error:
        raise missing_package("Procgen", "procgen", "It has wheels for Python 3.11 and 3.12.", error) from error
    return procgen


def _arguments(game: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for Procgen: checked, of the types it wants."""
    given = {key: value for key, value in options.items() if value is not None}
    num_threads = int(given.pop("num_threads", 4))
    check_options("Procgen", given, DEFAULT_OPTIONS)
    arguments: dict[str, Any] = {**DEFAULT_OPTIONS, **given}
    for key, default in DEFAULT_OPTIONS.items():
        arguments[key] = _as(type(default), key, arguments[key])
    mode = check_name("distribution_mode", arguments["distribution_mode"], tuple(GAMES_WITH_MODE))
    if game not in GAMES_WITH_MODE[mode]:
        modes = [other for other, games in GAMES_WITH_MODE.items() if game in games]
        raise EnvironmentSetupError(f"distribution_mode={mode!r}: {game} has only the modes {', '.join(modes)}")
    low, count = arguments["start_level"], arguments["num_levels"]
    if low < 0 or count < 0 or low + count > LEVELS or num_threads < 0:
        raise EnvironmentSetupError(
            f"start_level={low}, num_levels={count}, num_threads={num_threads}: none may be negative, "
            f"and levels end at {LEVELS}"
        )
    if mode == "exploration":
        if low or count:
            raise EnvironmentSetupError(
                f"start_level={low}, num_levels={count}: distribution_mode='exploration' has one fixed level; "
                "leave both at 0"
            )
        del arguments["start_level"], arguments["num_levels"]
    return arguments | {"num_threads": num_threads}


def _as(kind: type, key: str, value: Any) -> Any:
    if kind is bool and value not in (0, 1):
        raise EnvironmentSetupError(f"{key}={value!r} must be true or false")
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise EnvironmentSetupError(f"{key}={value!r} must be a whole number") from None
