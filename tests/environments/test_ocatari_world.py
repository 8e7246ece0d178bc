"""Worlds of Atari games whose objects OCAtari finds: boxes are those of the game's memory, frames are untouched."""

from __future__ import annotations

import sys
from collections import Counter
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from rl_clarity.base.errors import DependencyError, WorldError
from rl_clarity.environments import EnvironmentSpec
from rl_clarity.environments.kinds import make_world, world_types
from rl_clarity.environments.ocatari_world import KNOWN
from rl_clarity.environments.painted_world import PaintedWorld
from rl_clarity.environments.worlds import follow
from rl_clarity.recordings.object_effects import object_effects
from rl_clarity.sources.checkpoint import CheckpointSource
from tests.environments.games import play_states
from tests.fakes import TinyAgent

ale_py = pytest.importorskip("ale_py")
MISSING = find_spec("ocatari") is None
CARS = range(108, 118)
"""Addresses of the positions of Freeway's cars, the lowest first."""


class Item:
    """An object as OCAtari's; `visible` is false for one that is not there."""

    def __init__(self, visible: bool = True) -> None:
        self.visible, self.xywh = visible, (0, 0, 0, 0)

    def __bool__(self) -> bool:
        return self.visible

    @property
    def category(self) -> str:
        return type(self).__name__


class Chicken(Item):
    pass


class FastCar(Item):
    pass


class Freeway(ModuleType):
    """Reads Freeway's memory as `ocatari.ram.freeway` does, and has slots that are empty."""

    MAX_NB_OBJECTS: ClassVar = {"Chicken": 2, "FastCar": 10}

    def _init_objects_ram(self, hud: bool = False) -> list[Item]:
        assert not hud
        return [Chicken(), Chicken(), Item(visible=False)]

    def _detect_objects_ram(self, objects: list[Item], memory: np.ndarray, hud: bool = False) -> None:
        if len(objects) == 3:  # cars have a position only in the next call, as in some games
            objects.extend(FastCar() for _ in CARS)
            return
        objects[0].xywh, objects[1].xywh = ((x, 193 - int(memory[at]), 6, 8) for x, at in ((44, 14), (108, 15)))
        for i, car in enumerate(objects[3:]):
            car.xywh = (int(memory[117 - i]) - 3, 27 + 16 * i, 8, 10)


@pytest.fixture
def freeway(monkeypatch: pytest.MonkeyPatch) -> Freeway:
    module = Freeway("ocatari.ram.freeway")
    for name in ("ocatari", "ocatari.ram"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def play(game: str, steps: int = 40, **options: Any) -> tuple[Any, list[bytes], np.ndarray]:
    """Return the world, the states of an environment, and its observations."""
    return play_states(EnvironmentSpec("atari", game, {"noop_max": 5, **options}), 1, 3, steps)


@pytest.mark.parametrize(
    "options", [{}, {"frame_stack": 4}, {"preprocessing": "none"}], ids=["gray", "stacked", "color"]
)
@pytest.mark.usefixtures("freeway")
def test_ocatari_states_render_as_the_original_observations(options: dict[str, Any]) -> None:
    world, states, observations = play("freeway", 12, **options)
    np.testing.assert_array_equal(world.draw(states), observations)
    assert not world.exact


@pytest.mark.usefixtures("freeway")
def test_object_boxes_are_read_from_memory_without_empty_slots() -> None:
    world, states, _ = play("freeway", 20, preprocessing="none")
    assert world.types == ("chicken", "fast car")
    assert world.objects(states[0]) == []  # the state after a reset
    items = world.objects(states[-1])
    assert Counter(item.type for item in items) == {"chicken": 2, "fast car": 10}
    assert items[0].offset == (0, 0)
    screen = world.draw_full([states[-1]])[0]
    for item in items:
        left, top, right, bottom = np.round(np.array(item.pixels) * [160, 210, 160, 210]).astype(int)
        if left >= 0 and right <= 160:
            within = screen[top:bottom, left:right].reshape(-1, 3)
            assert len(np.unique(within, axis=0)) >= 2, item  # the object and the road around it


@pytest.mark.usefixtures("freeway")
def test_an_object_keeps_its_number_across_steps() -> None:
    world, states, _ = play("freeway", 30)
    before = world.objects(states[10])
    for state in states[11:]:
        after = follow(before, world.objects(state))
        rows = {item.number: round(item.pixels[1] * 210) for item in before if item.type == "fast car"}
        kept = [item for item in after if item.type == "fast car" and item.number in rows]
        assert len(kept) >= 8  # a car that leaves on one side is a new one on the other
        assert all(rows[item.number] == round(item.pixels[1] * 210) for item in kept)
        before = after


@pytest.mark.usefixtures("freeway")
def test_removed_objects_are_painted_over_at_their_position() -> None:
    world, states, _ = play("freeway", 20, preprocessing="none")
    assert isinstance(world, PaintedWorld)
    car = next(item for item in world.objects(states[-1]) if item.type == "fast car" and item.pixels[2] < 1)
    before, after = world.draw([states[-1], world.without(states[-1], [car])])
    rows, columns = np.nonzero((before != after).any(axis=-1))
    left, top, right, bottom = np.array(car.pixels) * [160, 210, 160, 210]
    assert top <= rows.min() <= rows.max() < bottom
    assert left <= columns.min() <= columns.max() < right
    agent = TinyAgent(observation_shape=(84, 84, 1), num_actions=3, patch=12)
    options = {"noop_max": 5, "max_frames": 200}
    effects = object_effects(agent, EnvironmentSpec("atari", "freeway", options), episodes=1, steps=3)
    assert set(effects.type) == {"chicken", "fast car"}
    assert not effects.exact.any()


def test_memory_that_ocatari_cannot_read_is_an_error(freeway: Freeway, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(objects: list[Item], memory: np.ndarray, hud: bool) -> None:
        objects[99].xywh = (0, 0, 1, 1)

    world, states, _ = play("freeway", 3)
    monkeypatch.setattr(freeway, "_detect_objects_ram", broken)
    with pytest.raises(WorldError, match="OCAtari cannot read the memory of freeway"):
        world.objects(states[-1])


def test_the_error_without_ocatari_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ocatari", None)
    spec = EnvironmentSpec("atari", "SeaquestNoFrameskip-v4")
    with pytest.raises(DependencyError, match=r'rl-clarity\[ocatari\]"\. OCAtari needs numpy < 2'):
        make_world(spec)
    assert world_types(spec) is None


def test_run_without_ocatari_warns_that_effects_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ocatari", None)
    source = SimpleNamespace(spec=EnvironmentSpec("atari", "seaquest"), plan=SimpleNamespace(world_states=True))
    world: Any = CheckpointSource.world
    with pytest.warns(RuntimeWarning, match=r'effects of objects are not measured: .*"rl-clarity\[ocatari\]"'):
        assert world.func(source) is None


def test_games_without_known_objects_are_refused() -> None:
    with pytest.raises(
        WorldError, match=r"breakout, pong; with the extra `ocatari`, they can also be painted over in a"
    ):
        make_world(EnvironmentSpec("atari", "tetris"))


@pytest.mark.skipif(MISSING, reason="ocatari is not installed")
@pytest.mark.parametrize("game", KNOWN)
def test_ocatari_boxes_contain_the_pixels_of_their_objects(game: str) -> None:
    world, states, observations = play(game, 240, preprocessing="none")
    np.testing.assert_array_equal(world.draw(states), observations)
    changed = []
    for state, screen in zip(states[10::15], observations[10::15], strict=True):
        for item in world.objects(state):
            left, top, right, bottom = item.pixels
            if 0 <= left < right <= 1 and 0 <= top < bottom <= 1:
                painted = world.draw([world.without(state, [item])])[0]
                area = (right - left) * (bottom - top) * 160 * 210
                changed.append((painted != screen).any(axis=-1).sum() > 0.1 * area)
    assert len(changed) >= 10
    assert np.mean(changed) > 0.85
    assert [world.objects(state) for state in states[::-1]] == [world.objects(state) for state in states][::-1]
