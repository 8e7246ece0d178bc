"""The sixteen Procgen games (Cobbe et al. 2020, https://arxiv.org/abs/1912.01588), from the package `procgen-mirror`.

Procgen's C++ program aborts the process on an unknown option, so options are checked here. It starts the next episode
within the step that ends the previous one, so it never returns the last observation of an episode. It does not report
why an episode ended either; see `ProcgenEnvironment`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError, WorldError
from rl_clarity.environments.kinds import CALLER_ONLY, EnvironmentKind, check_name, missing_package
from rl_clarity.environments.procgen_ends import DEATH, Deaths
from rl_clarity.environments.procgen_world import ProcgenWorld
from rl_clarity.environments.protocol import Combo, Step

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
"""Number of levels of a game."""
_RENDERERS = 8
STATE_BYTES = 2**20
"""Maximum size of the saved state of a game, in bytes."""


@dataclass(frozen=True)
class ProcgenOptions:
    """Procgen's options, with Procgen's defaults."""

    num_levels: int = 0
    """Number of levels to play, or 0 for all."""
    start_level: int = 0
    """Seed of the first level."""
    distribution_mode: str = "hard"
    """`easy`, `hard`, `extreme`, `memory` or `exploration`."""
    use_sequential_levels: bool = False
    """Continue an episode with the next level when a level is completed."""
    use_backgrounds: bool = True
    """Draw backgrounds."""
    restrict_themes: bool = False
    """Use only one theme."""
    use_monochrome_assets: bool = False
    """Draw objects as rectangles of one color instead of images."""
    use_generated_assets: bool = False
    """Draw objects with procedurally generated images."""
    center_agent: bool = True
    """Keep the agent in the center of the image."""
    paint_vel_info: bool = False
    """Paint the agent's velocity in a corner."""
    debug_mode: int = 0
    """Procgen's debugging mode."""
    num_threads: int = field(default=4, metadata=CALLER_ONLY)
    """Number of threads that step the environments."""

    def __post_init__(self) -> None:
        check_name("distribution_mode", str(self.distribution_mode), tuple(GAMES_WITH_MODE))
        low, count = self.start_level, self.num_levels
        if low < 0 or count < 0 or low + count > LEVELS or self.num_threads < 0:
            raise EnvironmentSetupError(
                f"start_level={low}, num_levels={count} and num_threads={self.num_threads} must not be negative, "
                f"and start_level + num_levels must be at most {LEVELS}"
            )
        if self.distribution_mode == "exploration" and (low or count):
            raise EnvironmentSetupError(
                f"start_level={low} and num_levels={count} must be 0, because distribution_mode='exploration' has only "
                "one level"
            )

    def arguments(self, game: str) -> dict[str, Any]:
        """Return the arguments with which Procgen's environments are made. Raises EnvironmentSetupError for a game that
        does not have the distribution mode.
        """
        mode = self.distribution_mode
        if game not in GAMES_WITH_MODE[mode]:
            modes = [other for other, games in GAMES_WITH_MODE.items() if game in games]
            raise EnvironmentSetupError(
                f"distribution_mode={mode!r} is invalid: {game} has only the modes {', '.join(modes)}"
            )
        arguments = asdict(self)
        if mode == "exploration":
            del arguments["start_level"], arguments["num_levels"]
        return arguments


def timeout(game: str, distribution_mode: str = "hard") -> int:
    """Return the number of steps after which Procgen ends an episode of a game, according to the games' sources."""
    if game == "jumper" and distribution_mode == "memory":
        return 2000
    return _TIMEOUTS.get(game, 1000)


def make(
    name: str, num_envs: int, seed: int, options: ProcgenOptions, *, full_resolution: bool = False
) -> ProcgenEnvironment:
    """Make environments of a game: `coinrun`, or a Gym id such as `procgen-coinrun-v0`."""
    game = parse_name(name)
    # Procgen aborts the process when asked for the state of a game with generated assets.
    environment = ProcgenEnvironment if options.use_generated_assets else ResumableProcgenEnvironment
    return environment(game, num_envs, seed, options, full_resolution=full_resolution)


def parse_name(name: str) -> str:
    """Return the name of the game for a name or Gym id, ignoring case. Raises EnvironmentSetupError for an unknown
    game.
    """
    note = "Atari games need env_kind='atari', and Gymnasium ids need env_kind='gymnasium'"
    return check_name("Procgen game", _GYM_ID.sub(r"\1", name.lower()), GAMES, note)


def make_world(name: str, options: ProcgenOptions) -> ProcgenWorld:
    """Make the world of a game. Raises WorldError if assets are generated, because Procgen cannot save the states of
    such games.
    """
    game = parse_name(name)
    if options.use_generated_assets:
        raise WorldError(f"Procgen cannot save the state of {game} with generated assets (use_generated_assets=True)")
    arguments = options.arguments(game) | {"num_threads": 0, "rand_seed": 0}

    def open_games(count: int, full: bool) -> Any:
        return _procgen().ProcgenGym3Env(count, game, render_mode="rgb_array" if full else None, **arguments)

    return ProcgenWorld(game, open_games)


KIND = EnvironmentKind(
    make,
    ProcgenOptions,
    (64, 64, 3),
    check=parse_name,
    example="coinrun",
    imports_modules=False,
    thread_safe=True,
    world=make_world,
)


class ProcgenEnvironment:
    """N environments of one Procgen game.

    An episode that ends at the game's time limit without completing its level counts as `truncated`. This is wrong only
    if the player dies in exactly this step. Procgen never returns the last observation of an episode, so
    `final_observations` is empty. The cause of the end of an episode is reported on request (`watch_ends`):
    `time limit`, `level completed`, the type of the object that killed the player (`saw`, `lava`, `bullet`, ...), or
    `death` if no object explains the death or assets are generated.

    The same game, options, `num_envs` and `seed` give the same levels in the same order.
    """

    def __init__(
        self, name: str, num_envs: int, seed: int, options: ProcgenOptions, *, full_resolution: bool = False
    ) -> None:
        self.game = name
        self.num_envs = num_envs
        self._arguments = options.arguments(self.game) | {"rand_seed": seed % 2**31}
        # Procgen cannot copy the state of games with generated assets, so these games render at every step.
        copies = full_resolution and not options.use_generated_assets
        mode = "rgb_array" if full_resolution and not copies else None
        self._env = _procgen().ProcgenGym3Env(num_envs, self.game, render_mode=mode, **self._arguments)
        self._renderer = self._make_renderer() if copies else None
        self._full_resolution = full_resolution
        self.observation_shape = (64, 64, 3)
        self.action_combos: tuple[Combo, ...] = tuple(tuple(combo) for combo in self._env.combos)
        self.num_actions = len(self.action_combos)
        self._timeout = timeout(self.game, options.distribution_mode)
        self._sequential = options.use_sequential_levels
        self._steps = np.zeros(num_envs, np.int64)
        self._fresh = True
        self._watched = np.zeros(num_envs, bool)

    def reset(self) -> Step:
        if not self._fresh:
            # Procgen has no reset, but the action -1 ends the episode.
            self._env.act(np.full(self.num_envs, -1, np.int32))
        self._fresh = False
        _, observations, firsts = self._env.observe()
        self._steps[:] = 0
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(observations["rgb"], nothing, firsts, np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        self._fresh = False
        # The state after the last step of an episode already belongs to the next episode.
        states = {i: self._get_state(i) for i in np.flatnonzero(self._watched).tolist()} if self._tells_deaths else {}
        self._env.act(np.asarray(actions, np.int32))
        rewards, observations, firsts = self._env.observe()
        self._steps += 1
        truncated = firsts & (self._steps >= self._timeout)
        ended = firsts & self._watched
        completed = np.zeros(self.num_envs, bool)
        if self._sequential or truncated.any() or ended.any():
            completed = np.array([info["prev_level_complete"] for info in self._env.get_info()], bool)
            truncated &= ~completed
            # A sequential level belongs to the same episode, but has its own time limit.
            self._steps[completed] = 0
        self._steps[firsts] = 0
        ends = {}
        for i in np.flatnonzero(ended).tolist():
            cause = "level completed" if completed[i] else "time limit" if truncated[i] else DEATH
            told = cause == DEATH and i in states
            ends[i] = {"cause": self._deaths.cause(states[i], int(actions[i])) if told else cause}
        return Step(observations["rgb"], rewards, firsts, truncated, ends=ends)

    def watch_ends(self, watched: np.ndarray) -> None:
        self._watched = np.asarray(watched, bool)

    @property
    def _tells_deaths(self) -> bool:
        """Whether the cause of a death can be found by playing the last step again. This needs saved states."""
        return not self._arguments["use_generated_assets"]

    @functools.cached_property
    def _deaths(self) -> Deaths:
        def open_game() -> Any:
            return _procgen().ProcgenGym3Env(1, self.game, **self._arguments | {"num_threads": 0})

        return Deaths(ProcgenWorld(self.game, lambda count, full: open_game()), open_game)

    def _get_state(self, index: int) -> bytes:
        """Return the saved state of one environment. Procgen's own method saves the states of all environments."""
        buffer = self._state_buffer
        length = self._env.call_c_func("get_state", index, buffer, len(buffer))
        return bytes(self._env._ffi.buffer(buffer, length))

    @functools.cached_property
    def _state_buffer(self) -> Any:
        return self._env._ffi.new(f"char[{STATE_BYTES}]")

    def continue_from(self, states: Sequence[bytes], steps: Sequence[int]) -> np.ndarray:
        """Restore a saved state in each environment, and return the observations. `steps` contains the number of steps
        since the beginning of the episode for each state.
        """
        for i, state in enumerate(states):
            self._env.call_c_func("set_state", i, state, len(state))
        self._steps[:] = steps
        self._fresh = False
        return np.asarray(self._env.observe()[1]["rgb"])

    def render(self) -> np.ndarray:
        """Return images (N, 512, 512, 3) uint8 of the current states."""
        if not self._full_resolution:
            raise EnvironmentSetupError("make the environment with full_resolution=True to render it")
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

    def level_seeds(self) -> np.ndarray:
        """Return the seeds (N,) of the levels that are being played."""
        return np.array([info["level_seed"] for info in self._env.get_info()])

    def close(self) -> None:
        self._env.close()
        if "_deaths" in self.__dict__:
            self._deaths.close()
        if self._renderer is not None:
            self._renderer.close()

    def _make_renderer(self) -> Any:
        """Make environments that are never stepped. To render states of other environments, these states are restored
        in them.

        An image at full resolution takes as long as thirty steps, and environments that can render do so in every step,
        although only a few images are needed.
        """
        arguments = self._arguments | {"num_threads": 0, "render_mode": "rgb_array"}
        return _procgen().ProcgenGym3Env(min(self.num_envs, _RENDERERS), self.game, **arguments)


class ResumableProcgenEnvironment(ProcgenEnvironment):
    """N environments of one Procgen game, whose state can be saved and restored."""

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state of the games, for the `restore` method of environments made with the same arguments."""
        states = [np.frombuffer(state, np.uint8) for state in self._env.get_state()]
        sizes = np.array([len(state) for state in states])
        return {"states": np.concatenate(states), "sizes": sizes, "steps": self._steps.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore the state of the games; the next step continues from it."""
        ends = np.cumsum(snapshot["sizes"])[:-1]
        self._env.set_state([part.tobytes() for part in np.split(snapshot["states"], ends)])
        self._steps[:] = snapshot["steps"]
        self._fresh = False


def _procgen() -> Any:
    try:
        # Procgen imports Gym, which prints a long notice on stderr.
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import procgen
    except ImportError as error:
        raise missing_package("Procgen", "procgen", "It has wheels for Python 3.11 and 3.12.", error) from error
    return procgen
