"""Atari games by `ale-py`, seen and played as in DeepMind's experiments.

The steps are those of Baselines' `make_atari` and `wrap_deepmind`: up to 30 no-ops at the start of a game, an action
held for four frames, of whose last two the brighter pixels are kept, 84 x 84 grey pictures. Clipping of rewards is left
to training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rl_clarity.environments.checks import check_name, check_options, missing_package
from rl_clarity.environments.combos import combos_of_meanings
from rl_clarity.environments.deepmind import preprocess
from rl_clarity.environments.protocol import Step
from rl_clarity.environments.wrappers import generator_state, restore_generator
from rl_clarity.errors import EnvironmentSetupError

_NAME = re.compile(r"(?:ale/)?(?P<game>[a-z0-9_ ]+?)(?:noframeskip|deterministic)?(?:-v(?P<version>\d))?")
_STICKY_VERSIONS = ("0", "5")


@dataclass(frozen=True)
class AtariOptions:
    """How the game is played."""

    use_sticky_actions: bool = False
    """Repeat the last action with probability 0.25 (Gym's versions v0 and v5), or never (v4)."""
    episodic_life: bool = False
    """An episode ends with a life rather than with the game, as Baselines' agents were trained."""
    frame_skip: int | Sequence[int] = 4
    """Frames an action is held for; (low, high) draws from low to high - 1 each time, as Gym's `Breakout-v4`."""
    frame_pooling: bool = True
    """See the brighter pixels of the last two frames, rather than the last frame."""
    noop_max: int = 30
    """A game starts with 1 to this many frames of no action."""
    fire_reset: bool = True
    """Press FIRE after every start, in games that wait for it."""
    max_frames: int = 108_000
    """Frames after which a game is cut: half an hour of play."""
    full_action_space: bool = False
    """Offer all 18 actions, rather than those the game uses."""
    preprocessing: str = "deepmind"
    """`deepmind`: 84 x 84 grey; `none`: the screen in colour."""


def make(
    name: str, num_envs: int, seed: int, options: Mapping[str, Any], *, full_resolution: bool = False
) -> AtariEnvironment:
    """Environments of one game: `breakout`, `mspacman`, or a Gym id such as `BreakoutNoFrameskip-v4`."""
    game, version = parse_name(name)
    given = {key: value for key, value in options.items() if value is not None}
    check_options("Atari", given, [field.name for field in fields(AtariOptions)])
    given["use_sticky_actions"] = bool(given.get("use_sticky_actions", version in _STICKY_VERSIONS))
    return AtariEnvironment(game, num_envs, seed, AtariOptions(**given), full_resolution=full_resolution)


def parse_name(name: str) -> tuple[str, str | None]:
    """Game as its ROM is called and Gym's version number, of a name or a Gym id in any case."""
    roms = {rom.replace("_", ""): rom for rom in _ale().roms.get_all_rom_ids()}
    match = _NAME.fullmatch(name.lower())
    game = match["game"] if match else name.lower()
    return roms[check_name("Atari game", re.sub("[_ ]", "", game), roms)], match["version"] if match else None


class AtariEnvironment:
    """N environments of one Atari game. A game cut by `max_frames` is truncated, with its final observation."""

    def __init__(
        self, game: str, num_envs: int, seed: int, options: AtariOptions, *, full_resolution: bool = False
    ) -> None:
        if options.preprocessing not in ("deepmind", "none"):
            raise EnvironmentSetupError(f"preprocessing={options.preprocessing!r} must be 'deepmind' or 'none'")
        if np.min(options.frame_skip) < 1 or options.noop_max < 0 or options.max_frames < 1:
            raise EnvironmentSetupError(
                f"frame_skip={options.frame_skip} and max_frames={options.max_frames} must be at least 1, "
                f"noop_max={options.noop_max} at least 0"
            )
        seeds = np.random.SeedSequence(seed % 2**63).generate_state(num_envs)
        self.num_envs = num_envs
        self._options = options
        self._games = [_Game(game, int(game_seed), options) for game_seed in seeds]
        self.action_combos = combos_of_meanings(self._games[0].meanings)
        self.num_actions = len(self.action_combos)
        self.observation_shape = (84, 84, 1) if options.preprocessing == "deepmind" else self._games[0].screen.shape
        self._full_resolution = full_resolution

    def reset(self) -> Step:
        for game in self._games:
            game.begin(new_game=True)
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(self._observe(), nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        rewards = np.zeros(self.num_envs, np.float32)
        firsts, truncated, new_games = np.zeros((3, self.num_envs), bool)
        final = {}
        for i, (game, action) in enumerate(zip(self._games, actions, strict=True)):
            rewards[i] = game.hold(int(action))
            truncated[i] = game.out_of_time and not game.over
            if truncated[i]:
                final[i] = self._picture(game.screen)
            firsts[i] = game.over or truncated[i] or game.life_lost
            if firsts[i]:
                new_games[i] = game.begin(new_game=game.over or bool(truncated[i]))
        return Step(self._observe(), rewards, firsts, truncated, final, new_games)

    def render(self) -> np.ndarray:
        """Pictures (N, 210, 160, 3) uint8 of what is observed now."""
        if not self._full_resolution:
            raise EnvironmentSetupError("the environment was made without full_resolution=True and has no pictures")
        return np.stack([game.screen for game in self._games])

    def close(self) -> None:
        self._games.clear()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Where the games stand, for `restore` of environments made alike."""
        return {f"{i}/{name}": part for i, game in enumerate(self._games) for name, part in game.snapshot().items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Put the games back to where they stood; the next step goes on from there."""
        for i, game in enumerate(self._games):
            game.restore({name: snapshot[f"{i}/{name}"] for name in game.snapshot()})

    def _observe(self) -> np.ndarray:
        return self._picture(np.stack([game.screen for game in self._games]))

    def _picture(self, screens: np.ndarray) -> np.ndarray:
        return preprocess(screens) if self._options.preprocessing == "deepmind" else screens


class _Game:
    """One emulator."""

    def __init__(self, rom: str, seed: int, options: AtariOptions) -> None:
        ale_py = _ale()
        self._options = options
        self._rng = np.random.default_rng(seed)
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", seed % 2**31)
        self._ale.setFloat("repeat_action_probability", 0.25 if options.use_sticky_actions else 0.0)
        self._ale.loadROM(ale_py.roms.get_rom_path(rom))
        self._actions = self._ale.getLegalActionSet() if options.full_action_space else self._ale.getMinimalActionSet()
        self.meanings = [action.name for action in self._actions]
        self._fires = options.fire_reset and len(self.meanings) >= 3 and self.meanings[1] == "FIRE"
        self.screen: np.ndarray = self._ale.getScreenRGB()
        """The brighter of the last two frames (210, 160, 3): some games draw a sprite in every other one only."""
        self._lives = self._ale.lives()
        self.life_lost = False

    @property
    def over(self) -> bool:
        return bool(self._ale.game_over())

    @property
    def out_of_time(self) -> bool:
        return bool(self._ale.getEpisodeFrameNumber() >= self._options.max_frames)

    def hold(self, action: int) -> float:
        """Hold an action for `frame_skip` frames, or until the game is over; its rewards' sum."""
        reward, screens = 0.0, []
        skip, seen = self._options.frame_skip, 2 if self._options.frame_pooling else 1
        frames = skip if isinstance(skip, int) else int(self._rng.integers(*skip))
        for frame in range(frames):
            reward += self._ale.act(self._actions[action])
            over = self.over
            if over or frame >= frames - seen:
                screens.append(self._ale.getScreenRGB())
            if over:
                break
        self.screen = np.maximum.reduce(screens[-seen:])
        lives = self._ale.lives()
        # Some games show no life for a few frames before they are over.
        self.life_lost = self._options.episodic_life and 0 < lives < self._lives
        self._lives = lives
        return reward

    def begin(self, *, new_game: bool) -> bool:
        """Start an episode: a new game, or going on with the next life of this one; whether the game is a new one."""
        if not new_game:
            self.hold(0)
        if new_game or self.over:
            new_game = True
            self._start()
        if self._fires:
            for action in (1, 2):
                self.hold(action)
                if self.over:
                    new_game = True
                    self._start()
        self.life_lost = False
        return new_game

    def snapshot(self) -> dict[str, np.ndarray]:
        """The emulator with its own random numbers, the picture that is shown, and where this class's numbers stand."""
        emulator = np.frombuffer(self._ale.cloneState(include_rng=True).serialize(), np.uint8)
        return {"emulator": emulator, "screen": self.screen, "rng": generator_state(self._rng)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self._ale.restoreState(_ale().ALEState(snapshot["emulator"].tobytes()))
        self.screen = np.array(snapshot["screen"])
        restore_generator(self._rng, snapshot["rng"])
        self._lives = self._ale.lives()

    def _start(self) -> None:
        self._ale.reset_game()
        if self._options.noop_max:
            for _ in range(self._rng.integers(1, self._options.noop_max, endpoint=True)):
                self._ale.act(self._actions[0])
                if self.over:
                    self._ale.reset_game()
        self.screen = self._ale.getScreenRGB()
        self._lives = self._ale.lives()


def _ale() -> Any:
    try:
        import ale_py
        import ale_py.roms
    except ImportError as error:
        raise missing_package("ale-py, which runs Atari games,", "atari", "", error) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py
