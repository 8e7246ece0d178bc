"""Worlds of Breakout and Pong: frames are drawn exactly, and removed objects leave the background."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.atari_world import brick_bits, brick_box
from tests.environments.games import play_states

ale_py = pytest.importorskip("ale_py")
BACKGROUND = {"breakout": (0, 0, 0), "pong": (144, 72, 17)}
STACKED = {"frame_stack": 4}


def play(game: str, steps: int = 40, **options: Any) -> tuple[Any, list[bytes], np.ndarray]:
    """Return the world, the states of two environments, and their observations."""
    return play_states(EnvironmentSpec("atari", game, {"noop_max": 5, **options}), 2, 3, steps)


@pytest.mark.parametrize("game", ["breakout", "pong"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        STACKED,
        {"preprocessing": "none"},
        {"use_sticky_actions": True, "frame_skip": (2, 5)},
        {"frame_pooling": False},
    ],
    ids=["gray", "stacked", "color", "sticky", "last frame"],
)
def test_unedited_states_render_as_the_original_observations(game: str, options: dict[str, Any]) -> None:
    world, states, observations = play(game, **options)
    np.testing.assert_array_equal(world.draw(states), observations)


@pytest.mark.parametrize("game", ["breakout", "pong"])
def test_removing_objects_reveals_the_background(game: str) -> None:
    world, states, _ = play(game, 100, preprocessing="none", episodic_life=True)
    seen: Counter[str] = Counter()
    bricks: Counter[int] = Counter()
    for state in states[20::15]:
        before = world.draw_full([state])[0]
        items = world.objects(state)
        for item in [*[item for item in items if item.type != "brick"], *[i for i in items if i.type == "brick"][::9]]:
            after = world.draw_full([world.without(state, [item])])[0]
            changed = (before != after).any(axis=-1)
            left, top, right, bottom = (
                round(share * size) for share, size in zip(item.pixels, (160, 210, 160, 210), strict=True)
            )
            inside = np.zeros_like(changed)
            inside[top:bottom, left:right] = True
            assert not changed[~inside].any(), item
            near = [other for other in items if other is not item and overlaps(item.pixels, other.pixels)]
            bricks[changed.sum()] += item.type == "brick" and not near
            if changed.any() and not near:
                assert (after[changed] == BACKGROUND[game]).all(), item
                seen[item.type] += 1
    assert set(seen) == set(world.types)
    assert bricks[48] >= 0.9 * bricks.total()  # at the start of a game some are not drawn


def overlaps(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_all_objects_can_be_removed_at_once() -> None:
    world, states, _ = play("breakout", preprocessing="none")
    state = world.without(states[-1], world.objects(states[-1]))
    assert world.objects(state) == []
    field = world.draw_full([state])[0][32:189, 8:152]
    assert not field.any()


def test_breakout_bricks_are_read_from_the_playfield_bits() -> None:
    world, states, _ = play("breakout", 10, preprocessing="none")
    bricks = [item for item in world.objects(states[-1]) if item.type == "brick"]
    assert len(bricks) >= 100
    assert len({bit for row in range(6) for column in range(18) for bit in brick_bits(row, column)}) == 216
    assert brick_box(0, 0) == (8, 87, 16, 93)
    assert brick_box(5, 17) == (144, 57, 152, 63)
    paddle = next(item for item in world.objects(states[-1]) if item.type == "paddle")
    assert paddle.offset == (0, 0)
    assert all(brick.offset[1] > 10 for brick in bricks)


@pytest.mark.slow
def test_effects_of_objects_on_an_included_agent_are_measured() -> None:
    effects = rl_clarity.object_effects(
        "models:breakout-series/checkpoint-60", episodes=1, steps=4, types=["ball", "paddle"]
    )
    assert set(effects.type) == {"ball", "paddle"}
    assert effects.exact.all()
    assert effects.with_object.shape[1:] == (84, 84, 4)
    assert np.abs(effects.value_change).max() > 0


def test_unsupported_edits_and_states_of_other_games_are_refused() -> None:
    world, states, _ = play("pong", 3)
    (item,) = [item for item in world.objects(states[-1]) if item.type == "paddle"]
    with pytest.raises(WorldError, match="objects of pong can be removed, but not edited"):
        world.moved(states[-1], item, (1, 1))
    with pytest.raises(WorldError, match="objects of pong can be removed, but not edited"):
        world.inserted(states[-1], "ball", (1, 1))
    with pytest.raises(WorldError, match="does not play pong"):
        world.states(make(EnvironmentSpec("atari", "breakout"), 1, 0))
    for damaged in (b"", states[-1][:20], b'{"frames":[],"removed":[]}\nx'):
        with pytest.raises(WorldError, match="is not a state of an Atari game"):
            world.objects(damaged)
