"""Worlds of stacked frames: they are drawn as they were observed, and edited in each frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.stacked_world import StackedWorld, _split
from rl_clarity.environments.worlds import WorldObject

procgen = pytest.importorskip("procgen")
COUNT = 3


def play(
    game: str, padding: str, steps: int, start_level: int = 0
) -> tuple[StackedWorld, list[bytes], np.ndarray, np.ndarray]:
    """Return the world, the states (steps, 2 environments) in a list, the observations, and where episodes begin."""
    options = {"frame_stack": COUNT, "frame_stack_padding": padding, "start_level": start_level}
    spec = EnvironmentSpec(name=game, options=options, reward_scale=0.1)
    environment, world = make(spec, 2, 1), make_world(spec)
    assert isinstance(world, StackedWorld)
    rng, step = np.random.default_rng(0), environment.reset()
    states, observations, firsts = [], [], []
    for _ in range(steps):
        states += world.states(environment)
        observations.append(step.observations)
        firsts.append(step.firsts)
        step = environment.step(rng.integers(15, size=2))
    environment.close()
    return world, states, np.concatenate(observations), np.concatenate(firsts)


@pytest.mark.parametrize("padding", ["zeros", "first"])
def test_unedited_stacked_states_render_as_the_original_observations(padding: str) -> None:
    world, states, observations, firsts = play("bossfight", padding, 60)
    assert firsts.sum() > 2  # an episode ended
    np.testing.assert_array_equal(world.draw(states), observations)
    assert world.draw([]).shape == (0, 64, 64, 3 * COUNT)
    world.close()


def test_objects_are_removed_from_each_frame_of_a_stack() -> None:
    world, states, observations, _ = play("starpilot", "zeros", 40)
    removed = 0
    for state, observation in zip(states[6::8], observations[6::8], strict=True):
        for item in [item for item in world.objects(state) if item.in_view and not item.terrain][:4]:
            image = world.draw([world.without(state, [item])])[0].reshape(64, 64, COUNT, 3)
            frames = [
                frame if found is None else world.world.without(frame, [found])
                for frame, found in zip(_split(state), item.handle, strict=True)
            ]
            np.testing.assert_array_equal(image[..., -len(frames) :, :].transpose(2, 0, 1, 3), world.world.draw(frames))
            for earlier, later in pairwise(found for found in item.handle if found is not None):
                assert earlier.type == later.type
                assert np.hypot(*np.subtract(earlier.center, later.center)) <= 2
            removed += bool((image != observation.reshape(image.shape)).any(axis=(0, 1, 3)).all())
    assert removed > 5  # in all frames
    world.close()


def test_objects_of_frames_shared_by_stacked_states_are_read_once() -> None:
    class Counting:
        exact, types = True, ()

        def __init__(self) -> None:
            self.listed: list[bytes] = []

        def objects(self, state: bytes, *, terrain: bool = True) -> list[WorldObject]:
            self.listed.append(state)
            return played.world.objects(state, terrain=terrain)

    played, states, _, firsts = play("coinrun", "zeros", 8)
    assert not firsts[2:].any()
    counting: Any = Counting()
    world = StackedWorld(counting, COUNT, "zeros")
    assert [world.objects(state) for state in states[::2]] == [played.objects(state) for state in states[::2]]
    assert len(counting.listed) == 8
    played.close()


def test_objects_are_moved_and_inserted_in_each_frame_of_a_stack() -> None:
    world, states, observations, _ = play("coinrun", "zeros", 8)
    state = states[-1]
    coin = next(item for item in world.objects(state) if item.type == "coin")
    x, y = coin.center
    moved = world.moved(state, coin, (x, y + 4))
    item = next(item for item in world.objects(moved) if item.type == "coin")
    assert item.center == (x, y + 4)
    assert [found.center for found in item.handle] == [(x, y + 4)] * COUNT
    assert world.moved(moved, item, (x, y)) == state
    saw = next(item for item in world.objects(world.replaced(state, coin, "saw")) if item.center == (x, y))
    assert [found.type for found in saw.handle] == ["saw"] * COUNT
    player = coin.center[0] - coin.offset[0], coin.center[1] - coin.offset[1]
    inserted = world.draw([world.inserted(state, "saw", (player[0] + 2, player[1] + 1))])[0]
    assert (inserted != observations[-1]).reshape(64, 64, COUNT, 3).any(axis=(0, 1, 3)).all()
    assert world.draw_full([state]).shape == (1, 512, 512, 3)
    world.close()


def test_stacked_states_must_be_saved_in_every_step() -> None:
    spec = EnvironmentSpec(name="coinrun", options={"frame_stack": COUNT})
    environment: Any = make(spec, 2, 1)
    world = make_world(spec)
    environment.reset()
    (state, _) = world.states(environment)
    environment.step(np.zeros(2, int))
    environment.step(np.zeros(2, int))
    with pytest.raises(WorldError, match="in every step"):
        world.states(environment)
    environment.reset()
    world.states(environment)  # a new episode
    with pytest.raises(WorldError, match="does not stack 3 frames"):
        world.states(environment.environment)
    for damaged in (b"", state[:-1], b"\xff" * 20):
        with pytest.raises(WorldError, match="state of stacked frames"):
            world.objects(damaged)
    item = next(iter(world.objects(state)))
    (longer, _) = (environment.step(np.zeros(2, int)), world.states(environment))[1]
    with pytest.raises(WorldError, match="the same state"):
        world.without(longer, [item])
