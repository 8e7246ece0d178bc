"""Worlds of a user's environment: the example of the documentation, with and without the method `without`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.gymnasium_world import GymnasiumWorld
from rl_clarity.environments.painted_world import PaintedWorld, paint_over
from rl_clarity.environments.worlds import World, restore
from rl_clarity.recordings.object_effects import object_effects
from tests.environments.games import play_states
from tests.fakes import TinyAgent

EXTENDING = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def coins() -> type[Any]:
    """Return the environment of the documentation."""
    (code,) = re.findall(r"```python\n(# coins\.py\n.*?)```", EXTENDING.read_text("utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "coins"}
    exec(code, namespace)
    environment: type[Any] = namespace["Coins"]
    return environment


def play(environment: Any, steps: int = 12) -> tuple[EnvironmentSpec, World, list[bytes], np.ndarray]:
    spec = EnvironmentSpec("gymnasium", "Coins", {"factory": environment})
    return spec, *play_states(spec, 2, 0, steps)


def test_a_state_editor_makes_an_environment_exactly_editable(coins: type[Any]) -> None:
    spec, world, states, observations = play(coins)
    assert isinstance(world, GymnasiumWorld)
    np.testing.assert_array_equal(world.draw(states), observations)
    for state, observation in zip(states, observations, strict=True):
        for item in world.objects(state):
            changed = (world.draw([world.without(state, [item])])[0] != observation).any(axis=-1)
            left, top, right, bottom = (round(32 * share) for share in item.pixels)
            expected = np.zeros((32, 32), bool)
            expected[top:bottom, left:right] = True
            np.testing.assert_array_equal(changed, expected)
    agent = TinyAgent(observation_shape=(32, 32, 3), num_actions=4)
    effects = object_effects(agent, spec, episodes=2, steps=3)
    assert set(effects.type) == {"coin", "bomb"}
    assert effects.exact.all()
    with pytest.raises(WorldError, match="cannot be moved, because CoinsEditor has no method 'moved'"):
        world.moved(states[0], world.objects(states[0])[0], (0, 0))
    world.close()


def test_play_continues_from_saved_states_if_the_editor_allows_it(
    coins: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, world, states, observations = play(coins)
    other = make(spec, 2, 9)
    other.reset()
    with pytest.raises(WorldError, match="set the editor's attribute `continues` to True"):
        restore(world, other, states[-2:])
    monkeypatch.setattr(coins.state_editor, "continues", True, raising=False)
    np.testing.assert_array_equal(restore(world, other, states[-2:]), observations[-2:])
    assert world.states(other) == states[-2:]
    world.close()


def test_wrapped_environments_remain_editable(coins: type[Any]) -> None:
    def wrapped() -> Any:
        gray = gymnasium.wrappers.GrayscaleObservation(coins(), keep_dim=True)
        return gymnasium.wrappers.ResizeObservation(gray, (16, 16))

    pytest.importorskip("cv2")
    _, world, states, observations = play(wrapped)
    assert observations.shape[1:] == (16, 16, 1)
    np.testing.assert_array_equal(world.draw(states), observations)


def test_objects_that_cannot_be_removed_are_painted_over(coins: type[Any]) -> None:
    class Boxes:
        types, save = coins.state_editor.types, coins.state_editor.save
        restore, objects = coins.state_editor.restore, coins.state_editor.objects

    class BoxesOnly(coins):
        state_editor = Boxes

    spec, world, states, observations = play(BoxesOnly)
    assert isinstance(world, PaintedWorld)
    np.testing.assert_array_equal(world.draw(states), observations)
    items = world.objects(states[0])
    painted = world.without(world.without(states[0], items[:1]), items[1:2])
    assert [item.pixels for item in world.objects(painted)] == [item.pixels for item in items[2:]]
    changed = (world.draw([painted])[0] != observations[0]).any(axis=-1)
    assert changed.sum() == 2 * 16
    effects = object_effects(TinyAgent(observation_shape=(32, 32, 3), num_actions=4), spec, episodes=1, steps=2)
    assert not effects.exact.any()
    with pytest.raises(WorldError, match="only their boxes are known"):
        world.inserted(states[0], "coin", (1, 1))
    with pytest.raises(WorldError, match="is not a state"):
        world.objects(states[0][:20])


def test_an_object_is_painted_over_with_the_median_of_its_surroundings() -> None:
    image = np.full((10, 10, 1), 50, np.uint8)
    image[:, :4] = 90
    image[4:6, 5:8] = 200
    expected = np.full((10, 10, 1), 50, np.uint8)
    expected[:, :4] = 90
    paint_over(image, (0.5, 0.4, 0.8, 0.6))
    np.testing.assert_array_equal(image, expected)
    large = np.full((30, 30, 1), 50, np.uint8)
    large[5:25, 5:25] = 200  # more pixels than around it
    paint_over(large, (1 / 6, 1 / 6, 5 / 6, 5 / 6))
    assert (large == 50).all()
    before = image.copy()
    paint_over(image, (1.2, 0, 1.4, 1))  # out of view
    np.testing.assert_array_equal(image, before)
    paint_over(image, (0, 0, 1, 1))
    assert (image == 50).all()
