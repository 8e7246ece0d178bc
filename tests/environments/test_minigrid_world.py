"""Worlds of MiniGrid: states are drawn exactly, and an edit changes only the object's cell and what it hid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.gymnasium_world import GymnasiumWorld
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.minigrid_world import TYPES
from rl_clarity.environments.worlds import WorldObject
from tests.environments.games import play_states

minigrid = pytest.importorskip("minigrid")
from minigrid import wrappers  # noqa: E402
from minigrid.core import world_object  # noqa: E402

TILE = 8
GAMES = ("DoorKey-6x6", "LavaGapS5", "Fetch-6x6-N2", "KeyCorridorS3R1", "ObstructedMaze-1Dlhb", "MultiRoom-N2-S4")
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda env: wrappers.ImgObsWrapper(wrappers.RGBImgObsWrapper(env, TILE)),
    "partial": lambda env: wrappers.ImgObsWrapper(wrappers.RGBImgPartialObsWrapper(env, TILE)),
    "codes": wrappers.ImgObsWrapper,
    "all codes": lambda env: wrappers.ImgObsWrapper(wrappers.FullyObsWrapper(env)),
    "narrow codes": lambda env: wrappers.ImgObsWrapper(wrappers.ViewSizeWrapper(env, 5)),
    "gray": lambda env: gymnasium.wrappers.GrayscaleObservation(VIEWS["whole"](env), keep_dim=True),
}


def specification(game: str, view: str) -> EnvironmentSpec:
    def factory() -> Any:
        environment: Any = gymnasium.make(f"MiniGrid-{game}-v0", render_mode="rgb_array")
        environment.unwrapped.see_through_walls = False
        return VIEWS[view](environment)

    return EnvironmentSpec("gymnasium", game, {"factory": factory})


def opened(view: str, game: str = "Empty-8x8") -> tuple[Any, GymnasiumWorld]:
    """Return one environment after its reset, and its world."""
    spec = specification(game, view)
    environment, world = make(spec, 1, 3), make_world(spec)
    assert isinstance(world, GymnasiumWorld)
    environment.reset()
    return environment, world


def put(world: GymnasiumWorld, state: bytes, type: str, x: int, y: int) -> tuple[bytes, WorldObject]:
    """Insert an object in a cell of MiniGrid's coordinates."""
    height = json.loads(state)["size"][1]
    edited = world.inserted(state, type, (x + 0.5, height - 1 - y + 0.5))
    return edited, next(item for item in world.objects(edited) if item.handle == (x, y))


def changed_cells(before: np.ndarray, after: np.ndarray, size: int) -> set[tuple[int, int]]:
    """Return the columns and rows of the cells of an image in which pixels differ."""
    rows, columns = np.nonzero((before != after).any(axis=-1))
    return {(int(x) // size, int(y) // size) for x, y in zip(columns, rows, strict=True)}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("game", GAMES)
def test_unedited_states_render_as_the_original_observations(game: str, view: str) -> None:
    world, states, observations = play_states(specification(game, view), 2, 5, 40, 6)
    np.testing.assert_array_equal(world.draw(states), observations)
    assert {item.type for state in states for item in world.objects(state)} <= set(world.types)
    world.close()


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("view", ["whole", "partial"])
def test_removing_an_object_changes_only_its_cell_and_what_it_hid(view: str, type: str) -> None:
    environment, world = opened(view)
    (empty,) = world.states(environment)
    player_x, player_y, direction = json.loads(empty)["player"]
    assert (player_x, player_y, direction) == (1, 1, 0)
    # The object is in the only gap of a wall, and a ball two cells behind it.
    state, _ = put(world, empty, "blue ball", 5, 1)
    for y in range(2, 7):
        state, _ = put(world, state, "wall", 3, y)
    edited, item = put(world, state, type, 3, 1)
    with_object, without, original = world.draw([edited, world.without(edited, [item]), state])
    np.testing.assert_array_equal(without, original)
    seen = [visible_cells(world, one) for one in (edited, state)]
    changed = changed_cells(with_object, without, TILE)
    hidden = seen[0] ^ seen[1]
    if view == "whole":  # in which the cells that the player sees are brighter
        assert changed == {(3, 1)} | {(x, y) for x, y in in_grid(hidden) if 0 <= x < 8 and 0 <= y < 8}
    else:
        assert changed == {(3, 4)} | hidden
    assert bool(hidden) == (type.endswith(("wall", "door")))


def visible_cells(world: GymnasiumWorld, state: bytes) -> set[tuple[int, int]]:
    """Return the cells of the partial view that MiniGrid says the player sees."""
    base: Any = world._environment.unwrapped
    world.draw([state])
    mask = base.gen_obs_grid()[1]
    return {(int(x), int(y)) for x, y in np.argwhere(mask)}


def in_grid(cells: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Turn cells of the view of a player at (1, 1), who looks to the right, to those of the grid."""
    return {(1 + 6 - row, 1 + column - 3) for column, row in cells}


@pytest.mark.parametrize("direction", range(4))
@pytest.mark.parametrize("view", ["whole", "partial", "codes", "all codes"])
def test_object_boxes_surround_the_drawn_objects(view: str, direction: int) -> None:
    environment, world = opened(view)
    base = environment.environments[0].unwrapped
    base.agent_pos, base.agent_dir = (3, 4), direction
    (empty,) = world.states(environment)
    dx, dy = [(1, 0), (0, 1), (-1, 0), (0, -1)][direction]
    x, y = 3 + 2 * dx - dy, 4 + 2 * dy + dx  # two cells forward, one to the right
    edited, item = put(world, empty, "red key", x, y)
    images = world.draw([edited, empty])
    height, width = images.shape[1:3]
    rows, columns = np.nonzero((images[0] != images[1]).any(axis=-1))
    left, top, right, bottom = np.array(item.pixels) * [width, height, width, height]
    assert left <= columns.min() <= columns.max() < right
    assert top <= rows.min() <= rows.max() < bottom
    assert right - left == width / (7 if view in ("partial", "codes") else 8)
    np.testing.assert_array_equal(item.offset, (1, 2) if view in ("partial", "codes") else (x - 3, 4 - y))
    np.testing.assert_array_equal(item.center, (x + 0.5, 8 - y - 0.5))
    assert item.in_view


def test_an_object_carried_by_the_player_can_be_removed_and_moved() -> None:
    environment, world = opened("partial")
    environment.environments[0].unwrapped.carrying = world_object.Box("red", world_object.Key("blue"))
    (state,) = world.states(environment)
    (item,) = [item for item in world.objects(state) if not item.terrain and item.type != "goal"]
    assert item.type == "red box"
    np.testing.assert_array_equal(item.offset, (0, 0))
    before, without, put_down = world.draw([state, world.without(state, [item]), world.moved(state, item, (3.5, 5.5))])
    assert changed_cells(before, without, TILE) == {(3, 6)}
    assert len(changed_cells(without, put_down, TILE)) == 1
    assert b'["key","blue"' in world.moved(state, item, (3.5, 5.5))
    with pytest.raises(WorldError, match="the red box cannot be replaced, because the player carries it"):
        world.replaced(state, item, "lava")


@pytest.mark.parametrize(("locked", "is_open"), [(False, False), (True, False), (False, True)])
def test_doors_stay_open_closed_or_locked_in_saved_states(locked: bool, is_open: bool) -> None:
    environment, world = opened("partial")
    base = environment.environments[0].unwrapped
    base.grid.set(3, 1, world_object.Door("red", is_open, locked))
    base.grid.set(4, 1, world_object.Goal("purple"))
    (state,) = world.states(environment)
    observed = environment.step(np.array([base.actions.done])).observations
    np.testing.assert_array_equal(world.draw([state]), observed)
    assert {"red door", "purple goal"} <= {item.type for item in world.objects(state)}


def test_objects_can_be_moved_and_replaced() -> None:
    environment, world = opened("whole")
    (empty,) = world.states(environment)
    state, key = put(world, empty, "yellow key", 2, 2)
    moved = world.moved(state, key, (4.5, 3.5))
    (there,) = [item for item in world.objects(moved) if item.type == "yellow key"]
    assert there.center == (4.5, 3.5)
    assert world.moved(moved, there, key.center) == state
    replaced = world.replaced(state, key, "lava")
    (lava,) = [item for item in world.objects(replaced) if item.type == "lava"]
    assert lava.center == key.center
    assert world.without(replaced, [lava]) == empty


def test_full_resolution_images_equal_those_of_the_environment() -> None:
    environment, world = opened("partial", "DoorKey-6x6")
    states = world.states(environment)
    images = world.draw_full(states)
    np.testing.assert_array_equal(images[0], environment.environments[0].unwrapped.get_frame(tile_size=32))
    world.close()


def test_damaged_states_and_objects_of_other_states_are_refused() -> None:
    environment, world = opened("whole")
    (state,) = world.states(environment)
    edited, key = put(world, state, "yellow key", 2, 2)
    with pytest.raises(WorldError, match="the same state"):
        world.without(state, [key])
    with pytest.raises(WorldError, match="no objects of type 'dragon'"):
        world.inserted(state, "dragon", (1, 1))
    with pytest.raises(WorldError, match="outside the grid of 8 x 8"):
        world.inserted(state, "lava", (9, 1))
    with pytest.raises(WorldError, match="contains a yellow key"):
        world.inserted(edited, "lava", key.center)
    for damaged in (b"", state[:50], state.replace(b'"wall"', b'"dragon"'), b"[" * 5000, b'{"size":[8,8]}'):
        with pytest.raises(WorldError, match="not a MiniGrid state"):
            world.objects(damaged)


def test_environments_without_a_state_editor_are_refused() -> None:
    class Blank(gymnasium.Env[np.ndarray, Any]):
        observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            return np.zeros((8, 8, 3), np.uint8), {}

    spec = EnvironmentSpec("gymnasium", "Blank-v0", {"factory": Blank})
    with pytest.raises(WorldError, match=r"Blank-v0 cannot be edited: .* 'state_editor'"):
        make_world(spec)
    with pytest.raises(WorldError, match=r"not of the class minigrid\.envs\.empty\.EmptyEnv"):
        opened("whole")[1].states(make(spec, 1, 0))


def test_an_environment_factory_may_define_a_new_class_at_each_call() -> None:
    def factory() -> Any:
        from minigrid.envs import EmptyEnv

        class Room(EmptyEnv):
            pass

        return VIEWS["whole"](Room())

    spec = EnvironmentSpec("gymnasium", "Room", {"factory": factory})
    environment, world = make(spec, 2, 0), make_world(spec)
    environment.reset()
    assert world is not None
    assert len(world.states(environment)) == 2
