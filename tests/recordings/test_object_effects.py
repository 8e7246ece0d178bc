"""Effects of objects: known answers, another way to the same numbers, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.protocol import Outputs
from rl_clarity.base.errors import OptionError, WorldError
from rl_clarity.environments import EnvironmentSpec, make
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.procgen_state import ENTITY, SPACE, read_state
from rl_clarity.recordings.object_effects import ObjectEffects, clustered_mean, object_effects
from tests.fakes import TinyAgent

procgen = pytest.importorskip("procgen")
SMALL: dict[str, Any] = {"episodes": 4, "steps": 3, "seed": 1}
INCLUDED = ["fruitbot", "coinrun-gru", "coinrun-early", "starpilot-lstm"]


class SawCounter(TinyAgent):
    """An agent whose value is the mean brightness of what it sees, and whose first logit is its negative."""

    def forward(self, observations: np.ndarray, state: Any = None, **_: Any) -> Outputs:
        values = np.asarray(observations, np.float64).mean(axis=(1, 2, 3)).astype(np.float32)
        logits = np.zeros((len(values), self.num_actions), np.float32)
        logits[:, 0] = -values
        return Outputs(logits, values)


@pytest.fixture(scope="module")
def measured() -> ObjectEffects:
    return object_effects(SawCounter(), **SMALL)


def test_object_effects_are_differences_of_outputs(measured: ObjectEffects) -> None:
    with_object = measured.with_object.mean(axis=(1, 2, 3))
    without = measured.without_object.mean(axis=(1, 2, 3))
    np.testing.assert_allclose(measured.value_change, with_object - without, atol=1e-4)
    np.testing.assert_allclose(measured.logits_change[:, 0], without - with_object, atol=1e-4)
    assert not measured.logits_change[:, 1:].any()
    before, after = ((1 / (1 + 14 * np.exp(values))) for values in (with_object, without))
    np.testing.assert_allclose(measured.policy_change, np.abs(before - after), atol=1e-5)


def test_effects_are_measured_only_for_visible_objects(measured: ObjectEffects) -> None:
    assert len(measured) > 10
    assert measured.mask.any(axis=(1, 2)).all()
    assert measured.exact.all()
    assert set(measured.type) <= {"saw", "enemy", "coin", "crate", "lava", "trail"}
    assert set(measured.episode) <= {*range(4)}
    for index in range(len(measured)):
        left, top, right, bottom = measured.box[index]
        inside = np.zeros((64, 64), bool)
        inside[max(0, top - 1) : bottom + 1, max(0, left - 1) : right + 1] = True
        if measured.type[index] in ("coin", "crate"):
            assert not measured.mask[index][~inside].any()


def test_object_effects_are_reproducible_with_the_same_arguments(measured: ObjectEffects) -> None:
    again = object_effects(SawCounter(), **SMALL)
    np.testing.assert_array_equal(again.value_change, measured.value_change)
    np.testing.assert_array_equal(again.with_object, measured.with_object)


def test_object_types_can_be_selected_and_last_steps_added(measured: ObjectEffects) -> None:
    walls = object_effects(SawCounter(), types=["wall"], episodes=1, steps=1, seed=1)
    assert set(walls.type) == {"wall"}
    more = object_effects(SawCounter(), last_steps=4, **SMALL)
    assert len(more) > len(measured)
    assert set(zip(measured.episode, measured.step, strict=True)) <= set(zip(more.episode, more.step, strict=True))


def test_intervals_of_object_effects_are_clustered_by_episode(measured: ObjectEffects) -> None:
    rng = np.random.default_rng(0)
    # Five episodes of 100 equal values each: five independent numbers, not 500.
    values, episodes = np.repeat([0.0, 1, 2, 3, 4], 100), np.repeat(range(5), 100)
    mean, low, high = clustered_mean(values, episodes, rng)
    assert mean == 2
    assert high - low > 2
    assert np.isnan(clustered_mean(values[:100], episodes[:100], rng)[1:]).all()
    rows = measured.by_type()
    assert sum(row.count for row in rows) == len(measured)
    assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)
    for row in rows:
        assert row.value_change[0] == pytest.approx(measured.value_change[measured.type == row.type].mean())


def own_removal(state: bytes, item: Any) -> bytes:
    """Remove an object from the bytes of a state without the code that is tested: cut out or overwrite its numbers."""
    where, members = item.handle
    read = read_state(state)
    if where == "cells":
        start = len(state) - len(read.tail) - 4 * read.grid.size
        for row, column in members:
            at = start + 4 * (row * read.grid.shape[1] + column)
            state = state[:at] + struct.pack("<i", SPACE) + state[at + 4 :]
        return state
    count_at, size = len(read.head), 4 * ENTITY
    (count,) = struct.unpack_from("<i", state, count_at)
    for member in sorted(members, reverse=True):
        at = count_at + 4 + size * member
        state = state[:at] + state[at + size :]
    return state[:count_at] + struct.pack("<i", count - len(members)) + state[count_at + 4 :]


def check_by_another_path(name: str) -> None:
    """Play alone, remove objects from the bytes, draw by the environment itself, and compare single passes."""
    agent = rl_clarity.load_agent(f"models:{name}")
    spec = EnvironmentSpec(name=name.partition("-")[0])
    effects = object_effects(agent, episodes=6, steps=6, seed=2)
    chosen = np.random.default_rng(0).choice(len(effects), min(50, len(effects)), replace=False)
    env: Any = make(spec, 1, 0)
    env.reset()
    world = make_world(spec)
    for index in chosen:
        state = None if effects.state is None else tuple(part[[index]] for part in effects.state)
        with_object, without = (
            agent.forward(images[[index]], state) for images in (effects.with_object, effects.without_object)
        )
        assert with_object.values is not None
        assert without.values is not None
        assert with_object.policy_logits is not None
        assert without.policy_logits is not None
        change = float(with_object.values[0] - without.values[0])
        assert effects.value_change[index] == pytest.approx(change, abs=1e-5 * max(1, abs(with_object.values[0])))
        logits = with_object.policy_logits[0] - without.policy_logits[0]
        np.testing.assert_allclose(effects.logits_change[index], logits, atol=1e-4)
    # States of this environment, edited by the bytes, are drawn as the world draws them.
    for _ in range(30):
        env.step(np.array([7]))
    (saved,) = world.states(env)
    for item in [item for item in world.objects(saved) if item.in_view and not item.terrain][:20]:
        env._env.set_state([own_removal(saved, item)])
        _, observed, _ = env._env.observe()
        np.testing.assert_array_equal(observed["rgb"], world.draw([world.without(saved, [item])]))
    world.close()
    env.close()


@pytest.mark.slow
def test_effects_on_the_coinrun_agent_equal_an_independent_calculation() -> None:
    check_by_another_path("coinrun")


@pytest.mark.slow
@pytest.mark.parametrize("name", INCLUDED)
def test_effects_on_included_agents_equal_an_independent_calculation(name: str) -> None:
    check_by_another_path(name)


def test_effects_in_minigrid_are_differences_of_outputs() -> None:
    wrappers = pytest.importorskip("minigrid.wrappers")
    import gymnasium

    def factory() -> Any:
        return wrappers.ImgObsWrapper(wrappers.RGBImgPartialObsWrapper(gymnasium.make("MiniGrid-DoorKey-6x6-v0"), 8))

    spec = EnvironmentSpec("gymnasium", "DoorKey", {"factory": factory}, reward_scale=0.5)
    agent = SawCounter(observation_shape=(56, 56, 3), num_actions=7)
    effects = object_effects(agent, spec, episodes=3, steps=5)
    assert {"yellow key", "yellow door", "goal"} >= set(effects.type) >= {"yellow key"}
    means = [images.mean(axis=(1, 2, 3)) for images in (effects.with_object, effects.without_object)]
    np.testing.assert_allclose(effects.value_change, means[0] - means[1], atol=1e-4)


def test_effects_on_stacked_frames_remove_the_object_from_each_frame() -> None:
    agent = SawCounter(observation_shape=(64, 64, 6))
    spec = EnvironmentSpec(name="coinrun", options={"frame_stack": 2})
    effects = object_effects(agent, spec, episodes=1, steps=4, seed=1)
    means = [images.mean(axis=(1, 2, 3)) for images in (effects.with_object, effects.without_object)]
    np.testing.assert_allclose(effects.value_change, means[0] - means[1], atol=1e-4)
    changed = (effects.with_object != effects.without_object).any(axis=(1, 2))  # (N, 6)
    later = effects.step > 0
    assert later.any()
    assert changed[later, :3].any(axis=1).mean() > 0.8


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(OptionError, match="episodes=0"):
        object_effects(TinyAgent(), episodes=0)
    with pytest.raises(OptionError, match=r"types=\['dragon'\] are not types of the environment, which has .*saw"):
        object_effects(TinyAgent(), types=["dragon"])
    with pytest.raises(WorldError, match="cannot be edited"):
        object_effects(TinyAgent(), EnvironmentSpec("light_switch"))
    with pytest.raises(WorldError, match="no object was seen"):
        object_effects(TinyAgent(), "maze", types=["explosion"], episodes=1, steps=1)
