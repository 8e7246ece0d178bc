"""Atari games of `ale-py`, preprocessed as in DeepMind's experiments.

The preprocessing is that of Baselines' `make_atari` and `wrap_deepmind`: up to 30 no-ops at the start of a game,
actions that are repeated for four frames, the maximum over the last two frames, and gray observations of 84 x 84
pixels. Rewards are clipped only for training.

Published agents of Baselines, Stable-Baselines3 and CleanRL were trained with OpenCV's `cvtColor` and `resize` with
`INTER_AREA`. `gray` and `area_resize` replace them, so OpenCV is not needed. They return the same pixels, except for
about one in 100,000, for which the mean of the area is rounded differently.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments.atari_world import GAMES, AtariWorld
from rl_clarity.environments.kinds import EnvironmentKind, check_name, missing_package
from rl_clarity.environments.ocatari_world import OcatariBoxes
from rl_clarity.environments.painted_world import PaintedWorld
from rl_clarity.environments.protocol import Step, combo_from_meaning
from rl_clarity.environments.worlds import World
from rl_clarity.environments.wrappers import generator_state, restore_generator

_NAME = re.compile(r"(?:ale/)?(?P<game>[a-z0-9_ ]+?)(?:noframeskip|deterministic)?(?:-v(?P<version>\d))?")
_STICKY_VERSIONS = ("0", "5")
SIZE = 84


@dataclass(frozen=True)
class AtariOptions:
    """Options of an Atari game."""

    use_sticky_actions: bool | None = None
    """Repeat the previous action with probability 0.25 (sticky actions). By default, only Gym ids of the versions v0
    and v5 use them."""
    episodic_life: bool = False
    """End an episode when a life is lost instead of when the game is over, as in the training of Baselines' agents."""
    frame_skip: int | Sequence[int] = 4
    """Number of frames for which an action is repeated. If it is (low, high), the number is drawn from low to high - 1,
    as in Gym's `Breakout-v4`."""
    frame_pooling: bool = True
    """Observe the maximum of the last two frames instead of the last frame."""
    noop_max: int = 30
    """Start a game with a random number of frames without action, from 1 to this number. The value 0 turns this off."""
    fire_reset: bool = True
    """Press FIRE at the start of every episode, in games that wait for it."""
    max_frames: int = 108_000
    """Number of frames after which a game is truncated, by default half an hour of play."""
    full_action_space: bool = False
    """Use all 18 actions instead of those that have an effect in the game."""
    preprocessing: str = "deepmind"
    """`deepmind` for gray observations of 84 x 84 pixels, `none` for the color screen."""

    def __post_init__(self) -> None:
        if self.preprocessing not in ("deepmind", "none"):
            raise EnvironmentSetupError(f"preprocessing={self.preprocessing!r} must be 'deepmind' or 'none'")
        if np.min(self.frame_skip) < 1 or self.noop_max < 0 or self.max_frames < 1:
            raise EnvironmentSetupError(
                f"frame_skip={self.frame_skip} and max_frames={self.max_frames} must be at least 1, "
                f"and noop_max={self.noop_max} must be at least 0"
            )


def make(
    name: str, num_envs: int, seed: int, options: AtariOptions, *, full_resolution: bool = False
) -> AtariEnvironment:
    """Make environments of a game, named by a Gym id such as `BreakoutNoFrameskip-v4` or a bare name such as
    `breakout`.

    Ids of the versions v0 and v5 have sticky actions by default. Apart from that, ids and bare names are equivalent.
    """
    game, version = parse_name(name)
    if options.use_sticky_actions is None:
        options = replace(options, use_sticky_actions=version in _STICKY_VERSIONS)
    return AtariEnvironment(game, num_envs, seed, options, full_resolution=full_resolution)


def _infer(options: dict[str, Any], metadata: Mapping[str, Any], _num_actions: int | None) -> dict[str, Any]:
    if (metadata.get("library") or "baselines") == "baselines":
        # In Baselines an episode ends with a life, so its agents' values and advantages refer to lives.
        options.setdefault("episodic_life", True)
    return options


def parse_name(name: str) -> tuple[str, str | None]:
    """Return the name of the ROM, and Gym's version number or None, for the name or Gym id of a game, ignoring case.
    Raises EnvironmentSetupError for an unknown game.
    """
    roms = {rom.replace("_", ""): rom for rom in _ale().roms.get_all_rom_ids()}
    match = _NAME.fullmatch(name.lower())
    game = match["game"] if match else name.lower()
    note = "Environments other than Atari games need env_kind='gymnasium'"
    return roms[check_name("Atari game", re.sub("[_ ]", "", game), roms, note)], match["version"] if match else None


def make_world(name: str, options: AtariOptions) -> World:
    """Make the world of a game. Objects of Breakout and Pong are removed in the memory of the game, and objects of
    other games are painted over.

    Raises WorldError for games whose objects are not known, and DependencyError for games other than Breakout and Pong
    if the extra `ocatari` is not installed.
    """
    environment = make(name, 1, 0, options)
    game, emulator, observe = environment.game, environment.emulator, environment.preprocess
    if game in GAMES:
        return AtariWorld(game, emulator, observe)
    return PaintedWorld(OcatariBoxes(game, emulator, observe))


KIND = EnvironmentKind(
    make, AtariOptions, (SIZE, SIZE, 1), _infer, parse_name, "BreakoutNoFrameskip-v4", world=make_world
)


class AtariEnvironment:
    """N environments of one Atari game. A game that reaches `max_frames` is truncated."""

    def __init__(
        self, game: str, num_envs: int, seed: int, options: AtariOptions, *, full_resolution: bool = False
    ) -> None:
        seeds = np.random.SeedSequence(seed % 2**63).generate_state(num_envs)
        self.game, self.num_envs = game, num_envs
        self._options = options
        self._games = [_Game(game, int(game_seed), options) for game_seed in seeds]
        self.action_combos = tuple(map(combo_from_meaning, self._games[0].meanings))
        self.num_actions = len(self.action_combos)
        self.observation_shape = (SIZE, SIZE, 1) if options.preprocessing == "deepmind" else self._games[0].screen.shape
        self._full_resolution = full_resolution

    def reset(self) -> Step:
        for game in self._games:
            game.start_episode(new_game=True)
        nothing = np.zeros(self.num_envs, np.float32)
        return Step(self._observe(), nothing, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool))

    def step(self, actions: np.ndarray) -> Step:
        rewards = np.zeros(self.num_envs, np.float32)
        firsts, truncated, new_games = np.zeros((3, self.num_envs), bool)
        final, ends = {}, {}
        for i, (game, action) in enumerate(zip(self._games, actions, strict=True)):
            rewards[i] = game.repeat(int(action))
            truncated[i] = game.out_of_time and not game.over
            firsts[i] = game.over or truncated[i] or game.life_lost
            if firsts[i]:
                final[i], ends[i] = self.preprocess(game.screen), {"cause": game.cause_of_end, "lives": game.lives}
                new_games[i] = game.start_episode(new_game=game.over or bool(truncated[i]))
        return Step(self._observe(), rewards, firsts, truncated, final, new_games, ends=ends)

    def render(self) -> np.ndarray:
        """Return the screens (N, 210, 160, 3) uint8."""
        if not self._full_resolution:
            raise EnvironmentSetupError("make the environment with full_resolution=True to render it")
        return np.stack([game.screen for game in self._games])

    def watched_games(self) -> list[_Game]:
        """Return the games. From now on, they save the states of the emulator from which their screens can be drawn
        again.
        """
        for game in self._games:
            game.keeps_frames = True
        return self._games

    def close(self) -> None:
        self._games.clear()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state of the games, for the `restore` method of environments made with the same arguments."""
        return {f"{i}/{name}": part for i, game in enumerate(self._games) for name, part in game.snapshot().items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore the state of the games; the next step continues from it."""
        for i, game in enumerate(self._games):
            game.restore({name: snapshot[f"{i}/{name}"] for name in game.snapshot()})

    def _observe(self) -> np.ndarray:
        return self.preprocess(np.stack([game.screen for game in self._games]))

    @property
    def emulator(self) -> Any:
        """The emulator of the first game."""
        return self._games[0]._ale

    def preprocess(self, screens: np.ndarray) -> np.ndarray:
        return preprocess(screens) if self._options.preprocessing == "deepmind" else screens


class _Game:
    """A game that runs in its own emulator."""

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
        """Maximum (210, 160, 3) of the last two frames, because some games draw a sprite only in every other frame.
        Without `frame_pooling`, it is the last frame."""
        self.keeps_frames = False
        """Whether to save the state of the emulator before each frame that the screen shows."""
        self._frames: list[tuple[bytes, int]] = []
        self._lives = self._ale.lives()
        self._has_lives = self._lives > 0
        self.life_lost = False

    @property
    def over(self) -> bool:
        return bool(self._ale.game_over())

    @property
    def out_of_time(self) -> bool:
        return bool(self._ale.getEpisodeFrameNumber() >= self._options.max_frames)

    @property
    def lives(self) -> int:
        return int(self._lives)

    @property
    def cause_of_end(self) -> str:
        """The cause of an episode's end: `life lost` (the last life, unless each life is an episode), `game over` or
        `time limit`.
        """
        if not self.over and not self.life_lost:
            return "time limit"
        return "life lost" if self._has_lives else "game over"

    def repeat(self, action: int) -> float:
        """Repeat an action for `frame_skip` frames, or until the game is over. Return the sum of the rewards."""
        reward, screens = 0.0, []
        skip, pooled = self._options.frame_skip, 2 if self._options.frame_pooling else 1
        frames = skip if isinstance(skip, int) else int(self._rng.integers(skip[0], skip[1]))
        kept: list[tuple[bytes, int]] = []
        for frame in range(frames):
            if self.keeps_frames:
                kept.append((self._ale.cloneState(include_rng=True).serialize(), int(self._actions[action].value)))
            reward += self._ale.act(self._actions[action])
            over = self.over
            if over or frame >= frames - pooled:
                screens.append(self._ale.getScreenRGB())
            if over:
                break
        self.screen = np.maximum.reduce(screens[-pooled:])
        self._frames = kept[-len(screens[-pooled:]) :]
        lives = self._ale.lives()
        # Some games report zero lives for a few frames before they end.
        self.life_lost = self._options.episodic_life and 0 < lives < self._lives
        self._lives = lives
        return reward

    def start_episode(self, *, new_game: bool) -> bool:
        """Start an episode, which is a new game or the next life of the same game. Return whether the game is new."""
        if not new_game:
            self.repeat(0)
        if new_game or self.over:
            new_game = True
            self._start()
        if self._fires:
            for action in (1, 2):
                self.repeat(action)
                if self.over:
                    new_game = True
                    self._start()
        self.life_lost = False
        return new_game

    def shown(self) -> tuple[list[tuple[bytes, int]], np.ndarray]:
        """Return the frames that the screen shows, each as the saved state of the emulator before it and its action,
        and the screen.
        """
        return self._frames, self.screen

    def continue_from(self, frames: Sequence[tuple[bytes, int]]) -> None:
        """Emulate the frames that a screen shows, each from the saved state of the emulator before it, and continue
        after the last frame.
        """
        screens = []
        for saved, action in frames:
            self._ale.restoreState(_ale().ALEState(saved))
            self._ale.act(action)
            screens.append(self._ale.getScreenRGB())
        self.screen, self._frames = np.maximum.reduce(screens), [*frames]
        self._lives, self.life_lost = self._ale.lives(), False

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state of the emulator, including its random generator, the screen, and the state of this object's
        random generator.
        """
        emulator = np.frombuffer(self._ale.cloneState(include_rng=True).serialize(), np.uint8)
        return {"emulator": emulator, "screen": self.screen, "rng": generator_state(self._rng)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self._ale.restoreState(_ale().ALEState(snapshot["emulator"].tobytes()))
        self.screen = np.array(snapshot["screen"])
        self._frames = []
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
        self._frames = []
        self._lives = self._ale.lives()


def _ale() -> Any:
    try:
        import ale_py
        import ale_py.roms
    except ImportError as error:
        raise missing_package("ale-py, which runs Atari games,", "atari", "", error) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def gray(frames: np.ndarray) -> np.ndarray:
    """Return the luma (..., H, W) uint8 of RGB frames (..., H, W, 3) uint8 according to ITU-R BT.601, rounded as in
    OpenCV.
    """
    red, green, blue = (frames[..., channel].astype(np.uint32) for channel in range(3))
    return ((red * 9798 + green * 19235 + blue * 3735 + (1 << 14)) >> 15).astype(np.uint8)


def area_resize(frames: np.ndarray, height: int = SIZE, width: int = SIZE) -> np.ndarray:
    """Resize images (..., H, W) uint8 to (..., height, width) uint8. Each new pixel is the mean over its area."""
    rows = area_weights(frames.shape[-2], height)
    columns = area_weights(frames.shape[-1], width)
    # As in OpenCV, sum along the rows first, in float32.
    return np.rint(rows @ (frames.astype(np.float32) @ columns.T)).astype(np.uint8)


@functools.cache
def area_weights(size: int, smaller: int) -> np.ndarray:
    """Return weights (smaller, size) float32: the share of each of the `smaller` new pixels that each of the `size` old
    pixels contributes.
    """
    edges = np.arange(smaller + 1) * (size / smaller)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (np.clip(overlap, 0, None) * (smaller / size)).astype(np.float32)


def preprocess(frames: np.ndarray) -> np.ndarray:
    """Return observations (..., 84, 84, 1) uint8 from RGB frames (..., H, W, 3) uint8."""
    return area_resize(gray(frames))[..., None]
