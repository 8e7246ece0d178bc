"""Worlds of Procgen: states are drawn exactly, and an edit changes the image only where an object was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.procgen import GAMES
from rl_clarity.environments.procgen_objects import GAME_OBJECTS
from rl_clarity.environments.procgen_state import read_state
from rl_clarity.environments.worlds import WorldObject, follow

procgen = pytest.importorskip("procgen")
STATES, APART, GAMES_AT_ONCE = 12, 8, 4


class Played:
    """States of a game with what was observed in them, and its world."""

    def __init__(self, game: str) -> None:
        spec = EnvironmentSpec(name=game)
        environment: Any = make(spec, GAMES_AT_ONCE, 3)
        self.world = make_world(spec)
        self.states: list[bytes] = []
        observations = []
        rng = np.random.default_rng(0)
        step = environment.reset()
        for _ in range(STATES):
            self.states += self.world.states(environment)
            observations.append(step.observations.copy())
            for _ in range(APART):
                step = environment.step(rng.integers(15, size=GAMES_AT_ONCE))
        environment.close()
        self.observations = np.concatenate(observations)


@pytest.fixture(scope="module", params=GAMES)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    played = Played(request.param)
    yield played
    played.world.close()


@pytest.fixture(scope="module")
def coinrun() -> Iterator[Played]:
    played = Played("coinrun")
    yield played
    played.world.close()


def visible(played: Played, index: int) -> list[WorldObject]:
    return [item for item in played.world.objects(played.states[index]) if item.in_view]


def pixel_mask(item: WorldObject, margin: float) -> np.ndarray:
    """Pixels (64, 64) inside an object's box, which is enlarged by a margin."""
    left, top, right, bottom = (64 * share for share in item.pixels)
    centers = np.arange(64) + 0.5
    rows = (centers > top - margin) & (centers < bottom + margin)
    columns = (centers > left - margin) & (centers < right + margin)
    return rows[:, None] & columns


def test_procgen_states_are_written_back_byte_for_byte(played: Played) -> None:
    for state in played.states:
        assert read_state(state).to_bytes() == state


def test_unedited_states_render_as_the_original_observations(played: Played) -> None:
    np.testing.assert_array_equal(played.world.draw(played.states), played.observations)


def test_removing_objects_changes_the_image_only_where_they_were(played: Played) -> None:
    changed_types: dict[str, int] = defaultdict(int)
    for index in range(0, len(played.states), 3):
        items = [item for item in visible(played, index) if item.type != "explosion"]
        by_type: dict[str, list[WorldObject]] = defaultdict(list)
        for item in items:
            by_type[item.type].append(item)
        some = [item for group in by_type.values() for item in group[:6]]
        if not some:
            continue
        images = played.world.draw([played.world.without(played.states[index], [item]) for item in some])
        for item, image in zip(some, images, strict=True):
            changed = (image != played.observations[index]).any(axis=-1)
            # A rotated image reaches beyond its box, and a trail beyond what left it.
            size = 64 * max(item.pixels[2] - item.pixels[0], item.pixels[3] - item.pixels[1])
            assert not changed[~pixel_mask(item, size / 2 + 2)].any(), item
            changed_types[item.type] += bool(changed.any())
    present = {item.type for index in range(0, len(played.states), 3) for item in visible(played, index)}
    assert {name for name, count in changed_types.items() if count} >= present - HARDLY_SEEN, changed_types


HARDLY_SEEN = {"explosion", "trail", "exhaust", "key on ring", "shield", "bullet trail", "dust cloud"}
"""Types that can be transparent, or drawn only at times."""


def test_every_object_type_of_a_game_has_a_name(played: Played) -> None:
    names = {item.type for state in played.states for item in played.world.objects(state)}
    assert names
    assert not {name for name in names if "type " in name}
    assert names <= set(played.world.types)


def test_removing_all_objects_of_a_type_leaves_none(played: Played) -> None:
    required = GAME_OBJECTS[played.world.game].required  # type: ignore[attr-defined]
    state = played.states[-1]
    for name in {item.type for item in played.world.objects(state)} - required:
        without = played.world.without(state, [item for item in played.world.objects(state) if item.type == name])
        assert name not in {item.type for item in played.world.objects(without)}


def test_games_continue_from_edited_states(played: Played) -> None:
    """An edited state is one that Procgen can play on from."""
    state = played.states[-1]
    items = [item for item in played.world.objects(state) if item.in_view and not item.terrain]
    environment: Any = make(EnvironmentSpec(name=played.world.game), 1, 0)  # type: ignore[attr-defined]
    environment.reset()
    environment._env.set_state([played.world.without(state, items)])
    for _ in range(3):
        environment.step(np.array([4]))
    environment.close()


def test_moved_objects_appear_where_they_were_moved(coinrun: Played) -> None:
    index, saw = next((i, s) for i in range(len(coinrun.states)) for s in visible(coinrun, i) if s.type == "saw")
    state = coinrun.states[index]
    x, y = saw.center
    moved = coinrun.world.moved(state, saw, (x + 1, y + 2))
    (after,) = (item for item in coinrun.world.objects(moved) if item.number == saw.number)
    assert after.center == pytest.approx((x + 1, y + 2))
    assert after.offset == pytest.approx((saw.offset[0] + 1, saw.offset[1] + 2))
    back = coinrun.world.moved(moved, after, (x, y))
    np.testing.assert_array_equal(coinrun.world.draw([back])[0], coinrun.observations[index])


def test_an_inserted_object_is_visible_and_can_be_removed(played: Played) -> None:
    index = len(played.states) - 1
    state = played.states[index]
    view = read_state(state)
    for name in GAME_OBJECTS[played.world.game].entities.values():  # type: ignore[attr-defined]
        at = (view.center[0] + 2, view.center[1] + 1)
        inserted = played.world.inserted(state, name, at)
        new = played.world.objects(inserted)
        (item,) = (one for one in new if one.type == name and one.center == pytest.approx(at, abs=1e-3))
        if name in GAME_OBJECTS[played.world.game].required:  # type: ignore[attr-defined]
            continue
        np.testing.assert_array_equal(
            played.world.draw([played.world.without(inserted, [item])])[0], played.observations[index]
        )


def test_objects_of_the_grid_can_be_inserted_and_replaced(coinrun: Played) -> None:
    state = coinrun.states[0]
    view = read_state(state)
    inserted = coinrun.world.inserted(state, "coin", (view.center[0] + 2, view.center[1] + 1))
    coins = [item for item in coinrun.world.objects(inserted) if item.type == "coin"]
    assert len(coins) == 2
    assert (coinrun.world.draw([inserted])[0] != coinrun.observations[0]).any()
    near = min(coins, key=lambda coin: np.hypot(*coin.offset))
    replaced = coinrun.world.replaced(inserted, near, "saw")
    assert [item.type for item in coinrun.world.objects(replaced)].count("coin") == 1


def test_a_lava_pool_is_one_object(coinrun: Played) -> None:
    state = coinrun.states[0]
    for x in (20.0, 21.0):
        for y in (30.0, 31.0):
            state = coinrun.world.inserted(state, "lava", (x, y))
    pools = [item for item in coinrun.world.objects(state) if item.type == "lava"]
    assert (20.0, 30.0, 22.0, 32.0) in [item.box for item in pools]


def test_states_can_be_rendered_without_the_background(played: Played) -> None:
    world: Any = played.world
    environment: Any = make(EnvironmentSpec(name=world.game, options={"use_backgrounds": False}), GAMES_AT_ONCE, 3)
    expected = environment.reset().observations.copy()
    environment.close()
    states = [world.without_background(state) for state in played.states[:GAMES_AT_ONCE]]
    np.testing.assert_array_equal(world.draw(states), expected)
    assert [world.without_background(state) for state in states] == states


def test_full_resolution_images_show_the_same_scene(coinrun: Played) -> None:
    images = coinrun.world.draw_full(coinrun.states[:9])
    assert images.shape == (9, 512, 512, 3)
    small = images.reshape(9, 64, 8, 64, 8, 3).mean(axis=(2, 4))
    assert np.corrcoef(small.ravel(), coinrun.observations[:9].ravel())[0, 1] > 0.9


def test_objects_keep_their_numbers_across_steps(coinrun: Played) -> None:
    environment: Any = make(EnvironmentSpec(name="coinrun"), 1, 5)
    environment.reset()
    (state,) = coinrun.world.states(environment)
    before = coinrun.world.objects(state)
    crate = next(item for item in before if item.type in ("crate", "saw"))
    (later,) = coinrun.world.states(environment)
    without_others = coinrun.world.without(later, [item for item in before if item.type == "wall"])
    after = follow(before, coinrun.world.objects(without_others))
    assert next(item for item in after if item.number == crate.number).center == crate.center
    environment.close()


def test_objects_of_other_states_are_refused(coinrun: Played) -> None:
    state = coinrun.states[0]
    item = coinrun.world.objects(state)[0]
    with pytest.raises(WorldError, match="the same state"):
        coinrun.world.without(state, [replace(item, handle=("entities", (10_000,)))])
    with pytest.raises(WorldError, match="no objects of type 'dragon'"):
        coinrun.world.inserted(state, "dragon", (1, 1))
    with pytest.raises(WorldError, match="outside the grid"):
        coinrun.world.inserted(state, "coin", (-3, 1))
    with pytest.raises(WorldError, match="ends after"):
        coinrun.world.objects(state[:100])


def test_errors_for_uneditable_environments_list_editable_ones() -> None:
    with pytest.raises(WorldError, match="cannot be edited; editable kinds: procgen, atari, gymnasium"):
        make_world(EnvironmentSpec("light_switch"))
    with pytest.raises(WorldError, match="generated assets"):
        make_world(EnvironmentSpec(name="coinrun", options={"use_generated_assets": True}))


def test_states_of_another_game_are_refused(coinrun: Played) -> None:
    world = make_world(EnvironmentSpec(name="maze"))
    with pytest.raises(WorldError, match="the state is of the game 'coinrun', not of maze"):
        world.draw([coinrun.states[0]])
    with pytest.raises(WorldError, match="not of maze"):
        world.draw([b""])


def test_terrain_is_listed_only_on_request(coinrun: Played) -> None:
    listed = coinrun.world.objects(coinrun.states[0])
    assert [item.type for item in listed if not item.terrain] == [
        item.type for item in coinrun.world.objects(coinrun.states[0], terrain=False)
    ]
    assert any(item.terrain for item in listed)


def test_numbering_of_new_objects_starts_at_the_requested_number(coinrun: Played) -> None:
    items = coinrun.world.objects(coinrun.states[0], terrain=False)
    assert [item.number for item in follow([], items, fresh=7)] == [*range(7, 7 + len(items))]
    assert [item.number for item in follow(items, items, fresh=70)] == [item.number for item in items]
