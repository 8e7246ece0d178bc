"""Environments continue from saved states: the same actions lead to the same observations, rewards and ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.procgen import GAMES
from rl_clarity.environments.worlds import restore
from tests.environments.test_minigrid_world import specification

BEFORE, AFTER = 15, 25


def is_replayed(spec: EnvironmentSpec, count: int = 2, before: int = BEFORE, after: int = AFTER) -> None:
    """Play with random actions, restore the state of a step in other environments, and take the same actions again."""
    environment, other, world = make(spec, count, 3), make(spec, count, 99), make_world(spec)
    restored = make_world(spec)  # one that has not followed the play
    rng, step = np.random.default_rng(0), environment.reset()
    states = world.states(environment)
    for _ in range(before):
        step = environment.step(rng.integers(environment.num_actions, size=count))
        states = world.states(environment)
    other.reset()
    other.step(np.zeros(count, int))
    np.testing.assert_array_equal(restore(restored, other, states), step.observations)
    assert restored.states(other) == states
    for _ in range(after):
        actions = rng.integers(environment.num_actions, size=count)
        step, again = environment.step(actions), other.step(actions)
        assert restored.states(other) == world.states(environment)
        for name in ("observations", "rewards", "firsts", "truncated"):
            np.testing.assert_array_equal(getattr(again, name), getattr(step, name), err_msg=name)
    world.close()
    restored.close()


@pytest.mark.parametrize("game", GAMES)
def test_procgen_continues_from_a_restored_state(game: str) -> None:
    pytest.importorskip("procgen")
    is_replayed(EnvironmentSpec(name=game))


def test_procgen_with_stacked_frames_continues_from_a_restored_state() -> None:
    pytest.importorskip("procgen")
    is_replayed(EnvironmentSpec(name="coinrun", options={"frame_stack": 3}), before=1)


def test_procgen_keeps_the_time_limit_of_a_restored_state() -> None:
    pytest.importorskip("procgen")
    is_replayed(EnvironmentSpec(name="maze"), before=492, after=12)


@pytest.mark.parametrize(
    "game", ["DoorKey-6x6", "LavaGapS5", "Fetch-6x6-N2", "KeyCorridorS3R1", "Dynamic-Obstacles-6x6", "PutNear-6x6-N2"]
)
def test_minigrid_continues_from_a_restored_state(game: str) -> None:
    pytest.importorskip("minigrid")
    is_replayed(specification(game, "whole"), before=8)


@pytest.mark.parametrize("options", [{}, {"use_sticky_actions": True}, {"frame_stack": 4}, {"episodic_life": True}])
def test_atari_continues_from_a_restored_state(options: dict[str, Any]) -> None:
    pytest.importorskip("ale_py")
    is_replayed(EnvironmentSpec("atari", "breakout", {"noop_max": 5, **options}))


def test_ocatari_games_continue_from_a_restored_state() -> None:
    pytest.importorskip("ocatari")
    is_replayed(EnvironmentSpec("atari", "freeway", {"noop_max": 5}))


def test_edited_states_of_atari_games_cannot_be_restored() -> None:
    pytest.importorskip("ale_py")
    spec = EnvironmentSpec("atari", "breakout", {"noop_max": 5})
    environment, world = make(spec, 1, 3), make_world(spec)
    environment.reset()
    world.states(environment)
    environment.step(np.array([1]))
    (state,) = world.states(environment)
    with pytest.raises(WorldError, match="edited only in the image"):
        restore(world, environment, [world.without(state, world.objects(state)[:1])])


def test_a_wrong_number_of_states_to_restore_is_refused() -> None:
    pytest.importorskip("procgen")
    spec = EnvironmentSpec(name="coinrun")
    environment, world = make(spec, 2, 3), make_world(spec)
    environment.reset()
    with pytest.raises(WorldError, match="cannot restore 1 states in 2 environments"):
        restore(world, environment, world.states(environment)[:1])
    leaper = EnvironmentSpec(name="leaper")
    states = make_world(leaper).states(make(leaper, 2, 3))
    with pytest.raises(WorldError, match="is of the game 'leaper', not of coinrun"):
        restore(world, environment, states)


def test_state_editors_without_a_restore_method_are_refused() -> None:
    class Plain:
        pass

    world: Any = Plain()
    environment: Any = None
    with pytest.raises(WorldError, match="Plain, which has no method `restore`"):
        restore(world, environment, [])
