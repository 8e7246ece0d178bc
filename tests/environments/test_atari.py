"""Atari games with DeepMind's preprocessing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.atari import area_resize, gray, parse_name
from rl_clarity.environments.protocol import snapshot
from tests.environments.games import play

ale_py = pytest.importorskip("ale_py")


def make_game(name: str, num_envs: int = 2, seed: int = 0, *, full_resolution: bool = False, **options: Any) -> Any:
    spec = EnvironmentSpec(kind="atari", name=name, options=options)
    return make(spec, num_envs, seed, full_resolution=full_resolution)


def test_observations_are_stacked_grayscale_frames_newest_last() -> None:
    environment = make_game("breakout", frame_stack=4)
    assert environment.observation_shape == (84, 84, 4)
    first, *rest = play(environment, 6)
    assert first.observations.shape == (2, 84, 84, 4)
    assert first.observations.dtype == np.uint8
    assert first.firsts.all()
    assert not first.observations[..., :3].any()
    assert first.observations[..., 3].any()
    np.testing.assert_array_equal(rest[-1].observations[..., :3], rest[-2].observations[..., 1:])


def test_grayscale_conversion_equals_opencv() -> None:
    colors = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30], [255, 255, 255], [1, 2, 3], [200, 100, 50]]
    np.testing.assert_array_equal(gray(np.array(colors, np.uint8)), [76, 150, 29, 18, 255, 2, 124])


def test_resizing_equals_opencv_inter_area() -> None:
    frame = (np.arange(21).reshape(7, 3) ** 2 % 256 % 251).astype(np.uint8)
    np.testing.assert_array_equal(area_resize(frame, 4, 2), [[5, 11], [50, 69], [133, 143], [110, 84]])
    i, j = np.indices((210, 160))
    screen = ((i * i * 3 + j * j * 7 + i * j) % 251).astype(np.uint8)
    expected = [
        [7, 133, 118, 137, 116],
        [52, 86, 103, 106, 117],
        [143, 125, 112, 113, 128],
        [157, 113, 129, 91, 104],
        [87, 116, 152, 136, 157],
    ]
    np.testing.assert_array_equal(area_resize(screen)[::17, ::17], expected)
    assert abs(int(area_resize(screen).sum(dtype=int)) - 884537) <= 10  # ties may be rounded differently


def test_actions_are_named_by_buttons() -> None:
    environment = make_game("spaceinvaders")
    assert environment.action_combos == ((), ("FIRE",), ("RIGHT",), ("LEFT",), ("RIGHT", "FIRE"), ("LEFT", "FIRE"))
    assert make_game("breakout", full_action_space=True).num_actions == 18


@pytest.mark.parametrize(
    ("name", "game", "version"),
    [
        ("mspacman", "ms_pacman", None),
        ("MsPacmanNoFrameskip-v4", "ms_pacman", "4"),
        ("ALE/Breakout-v5", "breakout", "5"),
        ("space_invaders", "space_invaders", None),
        ("PongDeterministic-v0", "pong", "0"),
    ],
)
def test_names_of_atari_games_are_parsed(name: str, game: str, version: str | None) -> None:
    assert parse_name(name) == (game, version)


def test_the_error_for_an_unknown_game_suggests_the_closest_name() -> None:
    with pytest.raises(EnvironmentSetupError, match="did you mean breakout"):
        make_game("brekout")


def test_the_same_seed_gives_the_same_trajectories() -> None:
    original, repeated = (play(make_game("breakout", seed=5, use_sticky_actions=1), 40) for _ in range(2))
    for a, b in zip(original, repeated, strict=True):
        np.testing.assert_array_equal(a.observations, b.observations)
        np.testing.assert_array_equal(a.rewards, b.rewards)
    other = play(make_game("breakout", seed=6, use_sticky_actions=1), 40)
    assert any((a.observations != b.observations).any() for a, b in zip(original, other, strict=True))


def test_sticky_actions_follow_from_the_option_or_the_id_version() -> None:
    def last(name: str, **options: Any) -> np.ndarray:
        return play(make_game(name, num_envs=1, seed=5, **options), 60)[-1].observations

    steady, sticky = last("pong"), last("pong", use_sticky_actions=1)
    assert (steady != sticky).any()
    np.testing.assert_array_equal(last("PongNoFrameskip-v0"), sticky)
    np.testing.assert_array_equal(last("PongNoFrameskip-v4"), steady)
    np.testing.assert_array_equal(last("PongNoFrameskip-v0", use_sticky_actions=0), steady)


def test_atari_episodes_can_be_games_or_lives() -> None:
    def ends(**options: Any) -> int:
        return sum(step.firsts.sum() for step in play(make_game("breakout", num_envs=1, **options), 400)[1:])

    games, lives = ends(), ends(episodic_life=True)
    assert games >= 1
    assert lives >= 4 * games


def test_time_limits_truncate_with_a_final_observation() -> None:
    environment = make_game("pong", num_envs=2, max_frames=200, frame_stack=2)
    steps = play(environment, 60)
    cut = [step for step in steps if step.truncated.any()]
    assert cut
    for step in cut:
        assert step.firsts[step.truncated].all()
        assert set(step.final_observations) == set(np.flatnonzero(step.firsts))
        for i, final in step.final_observations.items():
            assert final.shape == (84, 84, 2)
            assert (final[..., 1] != step.observations[i][..., 1]).any()
            assert final[..., 0].any()


def test_games_start_after_a_random_number_of_no_ops() -> None:
    observations = make_game("freeway", num_envs=8).reset().observations
    assert len({frame.tobytes() for frame in observations}) > 1
    observations = make_game("freeway", num_envs=8, noop_max=0).reset().observations
    assert len({frame.tobytes() for frame in observations}) == 1


class ScriptedEmulator:
    """Replaces an ALE: the screen shows the number of the frame, inverted in odd frames; records actions."""

    def __init__(self) -> None:
        self.pressed: list[str] = []

    def act(self, action: Any) -> int:
        self.pressed.append(action.name)
        return 1

    def getScreenRGB(self) -> np.ndarray:  # noqa: N802
        frame = len(self.pressed)
        return np.full((210, 160, 3), 255 - frame if frame % 2 else frame, np.uint8)

    def reset_game(self) -> None:
        self.pressed.append("reset")

    def game_over(self) -> bool:
        return False

    def lives(self) -> int:
        return 3


def test_actions_are_repeated_for_four_frames_and_the_last_two_are_max_pooled() -> None:
    environment = make_game("breakout", 1, noop_max=0)
    (game,) = environment._games
    game._ale = emulator = ScriptedEmulator()
    assert game.repeat(3) == 4
    assert emulator.pressed == ["LEFT"] * 4
    assert game.screen.max() == 255 - 3


def test_frame_skip_can_be_random() -> None:
    (game,) = make_game("breakout", 1, noop_max=0, frame_skip=[2, 5], frame_pooling=False)._games
    game._ale = emulator = ScriptedEmulator()
    repeats = []
    for _ in range(30):
        before = len(emulator.pressed)
        game.repeat(0)
        repeats.append(len(emulator.pressed) - before)
        frame = len(emulator.pressed)
        assert game.screen.max() == (255 - frame if frame % 2 else frame)
    assert set(repeats) == {2, 3, 4}


def test_games_that_wait_for_fire_are_started_with_it() -> None:
    (game,) = make_game("breakout", 1, noop_max=0)._games
    game._ale = emulator = ScriptedEmulator()
    game.start_episode(new_game=True)
    assert emulator.pressed == ["reset", *["FIRE"] * 4, *["RIGHT"] * 4]
    emulator.pressed.clear()
    game.start_episode(new_game=False)
    assert emulator.pressed == [*["NOOP"] * 4, *["FIRE"] * 4, *["RIGHT"] * 4]
    (game,) = make_game("freeway", 1, noop_max=0)._games
    game._ale = emulator = ScriptedEmulator()
    game.start_episode(new_game=True)
    assert emulator.pressed == ["reset"]


def test_rendered_frames_are_in_color() -> None:
    environment = make_game("breakout", full_resolution=True)
    environment.reset()
    assert environment.render().shape == (2, 210, 160, 3)
    assert make_game("breakout", preprocessing="none").reset().observations.shape == (2, 210, 160, 3)


@pytest.mark.parametrize("options", [{"frame_skip": 0}, {"preprocessing": "gray"}, {"sticky": 1}, {"frame_stack": -1}])
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(EnvironmentSetupError, match=next(iter(options))):
        make_game("pong", **options)


def test_snapshots_restore_atari_games() -> None:
    options: dict[str, Any] = {
        "use_sticky_actions": True,
        "episodic_life": True,
        "frame_stack": 2,
        "frame_skip": (2, 5),
    }
    environment, other = make_game("breakout", seed=1, **options), make_game("breakout", seed=2, **options)
    environment.reset()
    other.reset()
    rng = np.random.default_rng(0)
    for _ in range(50):
        environment.step(rng.integers(4, size=2))
    other.restore(snapshot(environment))
    ended = 0
    for _ in range(200):
        actions = rng.integers(4, size=2)
        expected, actual = environment.step(actions), other.step(actions)
        for name in ("observations", "rewards", "firsts", "new_games"):
            np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
        ended += expected.firsts.sum()
    assert ended, "the test needs ends of episodes, whose random starts must be restored too"


def test_lives_end_episodes_but_do_not_start_new_games() -> None:
    steps = play(make_game("breakout", num_envs=1, episodic_life=True), 700)[1:]
    lives = sum(bool(step.firsts[0]) for step in steps)
    games = sum(bool(step.new_games[0]) for step in steps if step.new_games is not None)
    assert games >= 2
    assert games * 5 <= lives < (games + 1) * 5  # a game of Breakout has five lives
