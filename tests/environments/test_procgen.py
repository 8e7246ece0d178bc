"""The sixteen Procgen games as vector environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.procgen import GAMES, timeout
from tests.environments.games import play

procgen = pytest.importorskip("procgen")


def make_game(name: str, num_envs: int = 2, seed: int = 0, *, full_resolution: bool = False, **options: Any) -> Any:
    return make(EnvironmentSpec(name=name, options=options), num_envs, seed, full_resolution=full_resolution)


@pytest.mark.parametrize("game", GAMES)
def test_every_procgen_game_can_be_played(game: str) -> None:
    environment = make_game(game)
    assert environment.observation_shape == (64, 64, 3)
    assert environment.num_actions == len(environment.action_combos) == 15
    first, second = play(environment, 1)
    assert first.observations.shape == (2, 64, 64, 3)
    assert first.observations.dtype == np.uint8
    assert first.firsts.all()
    assert not first.rewards.any()
    assert second.rewards.dtype == np.float32
    assert second.firsts.dtype == second.truncated.dtype == bool
    assert first.observations.std() > 0


def test_same_seed_same_trajectories_for_any_number_of_threads() -> None:
    original = play(make_game("coinrun", 4, 7, num_threads=0), 100)
    repeated = play(make_game("coinrun", 4, 7, num_threads=3), 100)
    other = play(make_game("coinrun", 4, 8), 100)
    for a, b in zip(original, repeated, strict=True):
        np.testing.assert_array_equal(a.observations, b.observations)
        np.testing.assert_array_equal(a.rewards, b.rewards)
        np.testing.assert_array_equal(a.firsts, b.firsts)
    assert any((a.observations != b.observations).any() for a, b in zip(original, other, strict=True))


def test_snapshots_restore_procgen_environments() -> None:
    environment = make_game("starpilot", 3, 7)
    environment.reset()
    for _ in range(50):
        environment.step(np.full(3, 11))
    snapshot = environment.snapshot()
    rng = np.random.default_rng(0)
    actions = rng.integers(15, size=(200, 3))
    after = [environment.step(action) for action in actions]
    assert any(step.firsts.any() for step in after)
    other = make_game("starpilot", 3, 8)
    other.reset()
    other.restore(snapshot)
    for action, expected in zip(actions, after, strict=True):
        step = other.step(action)
        np.testing.assert_array_equal(step.observations, expected.observations)
        np.testing.assert_array_equal(step.firsts, expected.firsts)
    environment.close()
    other.close()


def test_games_with_generated_assets_have_no_snapshots() -> None:
    environment = make_game("coinrun", use_generated_assets=True)
    assert not hasattr(environment, "snapshot")
    environment.close()


def test_gym_ids_are_accepted_as_names() -> None:
    environment = make_game("procgen:procgen-bigfish-v0")
    assert environment.game == "bigfish"
    environment.close()


def test_names_of_games_ignore_case_and_actions_have_procgens_buttons() -> None:
    environment = make_game("CoinRun")
    assert environment.action_combos[7] == ("RIGHT",)
    assert environment.action_combos[4] == ()
    environment.close()


@pytest.mark.parametrize(("game", "mode"), [("maze", "easy"), ("leaper", "hard"), ("coinrun", "hard")])
def test_timeouts_count_as_truncation(game: str, mode: Any) -> None:
    environment = make_game(game, 4, distribution_mode=mode)
    environment.reset()
    limit = timeout(game, mode)
    wait = np.full(4, 4)
    for t in range(1, limit + 1):
        step = environment.step(wait)
        assert (step.truncated == (step.firsts & (t == limit))).all()
        if game != "leaper" and t < limit:
            assert not step.firsts.any()
    assert game == "leaper" or step.firsts.all()
    assert not step.final_observations
    environment.close()


class ScriptedEpisodes:
    """Replaces a Procgen game: episodes of the given lengths, whose levels are completed or not."""

    def __init__(self, *episodes: tuple[int, bool]) -> None:
        self.ends = {sum(length for length, _ in episodes[: i + 1]): done for i, (_, done) in enumerate(episodes)}
        self.time = 0

    def act(self, actions: np.ndarray) -> None:
        self.time += 1

    def observe(self) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        observations = {"rgb": np.zeros((1, 64, 64, 3), np.uint8)}
        return np.zeros(1, np.float32), observations, np.array([self.time in self.ends])

    def get_info(self) -> list[dict[str, Any]]:
        return [{"prev_level_complete": self.ends.get(self.time, False)}]

    def close(self) -> None:
        pass


def test_episodes_are_truncated_at_their_timeout_unless_the_level_was_completed() -> None:
    environment = make_game("coinrun", 1)
    environment._env.close()
    environment._env = ScriptedEpisodes((600, False), (999, False), (1000, True), (1000, False))
    steps = [environment.step(np.zeros(1, int)) for _ in range(3599)]
    assert np.flatnonzero([step.firsts[0] for step in steps]).tolist() == [599, 1598, 2598, 3598]
    assert np.flatnonzero([step.truncated[0] for step in steps]).tolist() == [3598]


def test_episodes_that_end_before_the_timeout_are_not_truncated() -> None:
    steps = play(make_game("starpilot", 8), 300)
    ended = np.array([step.firsts for step in steps[1:]])
    assert ended.any()
    assert not np.array([step.truncated for step in steps]).any()


def test_options_reach_the_procgen_game() -> None:
    one_level = next(step.observations for step in play(make_game("maze", 3, num_levels=1, start_level=5), 0))
    assert (one_level == one_level[:1]).all()
    many_levels = next(step.observations for step in play(make_game("maze", 3), 0))
    assert (many_levels[0] != many_levels[1]).any()


@pytest.mark.parametrize(
    "options",
    [
        {"use_backgrounds": False},
        {"restrict_themes": True},
        {"use_monochrome_assets": True},
        {"center_agent": False},
        {"paint_vel_info": True},
        {"use_generated_assets": True},
    ],
)
def test_options_change_the_observations(options: dict[str, Any]) -> None:
    """`debug_mode` is accepted, but changes nothing in these games."""
    default, changed = (play(make_game("coinrun", **kwargs), 6)[-1].observations for kwargs in ({}, options))
    assert (default != changed).any()
    debug = play(make_game("coinrun", **options, debug_mode=1), 6)[-1].observations
    np.testing.assert_array_equal(debug, changed)


def test_sequential_levels_share_an_episode_but_have_separate_timeouts() -> None:
    environment = make_game("coinrun", 8, 1, distribution_mode="easy", use_sequential_levels=True, num_levels=0)
    raw = procgen.ProcgenGym3Env(
        8, "coinrun", rand_seed=1, distribution_mode="easy", use_sequential_levels=True, num_threads=0
    )
    environment.reset()
    raw.observe()
    rng = np.random.default_rng(0)
    since, completed_levels = np.zeros(8, int), 0
    for _ in range(1200):
        actions = np.where(rng.random(8) < 0.8, rng.choice([7, 8], 8), rng.integers(15, size=8))
        step = environment.step(actions)
        raw.act(actions)
        _, _, firsts = raw.observe()
        completed = np.array([info["prev_level_complete"] for info in raw.get_info()], bool)
        since += 1
        np.testing.assert_array_equal(step.firsts, firsts)
        np.testing.assert_array_equal(step.truncated, firsts & ~completed & (since >= 1000))
        completed_levels += int((completed & ~firsts).sum())
        since[firsts | completed] = 0
    assert completed_levels > 0
    environment.close()
    raw.close()


@pytest.mark.parametrize("options", [{}, {"use_generated_assets": True}])
def test_rendered_frames_are_those_of_procgen(options: dict[str, Any]) -> None:
    environment = make_game("bigfish", 9, 3, full_resolution=True, **options)
    direct = procgen.ProcgenGym3Env(9, "bigfish", rand_seed=3, render_mode="rgb_array", **options)
    environment.reset()
    for action in (7, 8):
        environment.step(np.full(9, action))
        direct.act(np.full(9, action, np.int32))
    frames = environment.render()
    assert frames.shape == (9, 512, 512, 3)
    np.testing.assert_array_equal(frames, np.stack([info["rgb"] for info in direct.get_info()]))
    environment.close()
    direct.close()


def test_a_second_reset_starts_new_episodes() -> None:
    environment = make_game("coinrun", 3)
    environment.reset()
    environment.step(np.full(3, 7))
    assert environment.reset().firsts.all()
    environment.close()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("coinrum", {}, "did you mean coinrun"),
        ("coinrun", {"num_level": 3}, "num_levels"),
        ("coinrun", {"distribution_mode": "extreme"}, "coinrun has only the modes easy, hard, exploration"),
        ("coinrun", {"distribution_mode": "hrad"}, "hard"),
        ("coinrun", {"start_level": -1}, "start_level=-1"),
        ("coinrun", {"num_levels": "many"}, "num_levels='many' must be an integer"),
        ("coinrun", {"center_agent": "no"}, "center_agent='no' must be true or false"),
        ("coinrun", {"num_levels": 2**31}, "num_levels=2147483648"),
        ("maze", {"distribution_mode": "exploration", "num_levels": 4}, "exploration"),
    ],
)
def test_options_that_would_abort_procgen_are_refused_with_an_error(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(EnvironmentSetupError, match=message):
        make_game(name, **options)


def test_exploration_mode_plays_a_single_level() -> None:
    observations = play(make_game("maze", 3, distribution_mode="exploration"), 0)[0].observations
    assert (observations == observations[:1]).all()


def test_rendering_needs_full_resolution() -> None:
    environment = make_game("coinrun")
    with pytest.raises(EnvironmentSetupError, match="full_resolution=True"):
        environment.render()
    environment.close()
