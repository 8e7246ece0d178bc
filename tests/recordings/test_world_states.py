"""Saved states of the environment: what is read is what was saved, and little is stored where little changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import SamplesError
from rl_clarity.environments import KINDS, EnvironmentSpec, make
from rl_clarity.environments.kinds import EnvironmentKind, make_world
from rl_clarity.recordings.rollouts import RandomPolicyAgent, collect_trajectories
from rl_clarity.recordings.storage import SamplesWriter, has_world_states, load_trajectories
from rl_clarity.recordings.world_states import BLOCK, WorldStates, WorldStatesWriter

SPEC = EnvironmentSpec("saved", "saved")
STEPS = BLOCK + 9


class SavedWorld:
    def close(self) -> None:
        self.closed = True


@pytest.fixture
def states() -> list[list[bytes]]:
    """States (T, N) of random bytes, a few of which change in a step; some are inserted or removed."""
    rng = np.random.default_rng(0)
    now = [rng.integers(0, 256, 5000).astype(np.uint8) for _ in range(3)]
    steps = []
    for _ in range(STEPS):
        steps.append([state.tobytes() for state in now])
        for i, state in enumerate(now):
            state = state.copy()
            state[rng.integers(0, len(state), 20)] += 1
            at = int(rng.integers(0, len(state)))
            inserted = rng.integers(0, 256, int(rng.integers(0, 3)) * 40).astype(np.uint8)
            now[i] = np.concatenate([state[:at], inserted, state[at + 40 * int(rng.integers(0, 2)) :]])
    return steps


@pytest.fixture
def saved(states: list[list[bytes]]) -> WorldStates:
    world: Any = lambda name, options: SavedWorld()  # noqa: E731
    KINDS.register("saved", EnvironmentKind(make=lambda *_, **__: None, world=world))  # type: ignore[arg-type]
    writer = WorldStatesWriter(SPEC, 3)
    KINDS.unregister("saved")
    for step in states:
        writer.add(step)
    return writer.finish()


def test_environment_states_are_read_as_they_were_saved(states: list[list[bytes]], saved: WorldStates) -> None:
    for trajectory in range(3):
        assert saved.read(trajectory, range(STEPS)) == [step[trajectory] for step in states]
    assert saved.read(1, [3, BLOCK - 1, BLOCK, STEPS - 1]) == [states[t][1] for t in (3, BLOCK - 1, BLOCK, STEPS - 1)]
    joined = saved.joined(30)
    assert joined.count == 1
    assert joined.read(0, range(90)) == [states[t][trajectory] for trajectory in range(3) for t in range(30)]


def test_parts_of_environment_states_that_do_not_change_take_no_space(
    states: list[list[bytes]], saved: WorldStates
) -> None:
    whole = sum(len(state) for step in states for state in step)
    assert saved.data.nbytes < whole / 10


def test_damaged_environment_states_are_refused(saved: WorldStates) -> None:
    for data in (np.roll(saved.data, 1), saved.data[: len(saved.data) // 4]):
        with pytest.raises(SamplesError, match="damaged"):
            replace(saved, data=data).read(2, range(STEPS))


def test_saving_environment_states_does_not_change_the_samples(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    spec = EnvironmentSpec(name="coinrun", reward_scale=2.0)
    played = []
    for states in (None, WorldStatesWriter(spec, 2)):
        environment = make(spec, 2, 3)
        with SamplesWriter(tmp_path) as writer:
            agent, rng = RandomPolicyAgent(15), np.random.default_rng(0)
            trajectories = collect_trajectories(agent, environment, 70, rng, store=writer.store, states=states)
            writer.commit(trajectories)
        environment.close()
        assert has_world_states(tmp_path) == (states is not None)
        played.append(trajectories)
    np.testing.assert_array_equal(played[0].observations, played[1].observations)
    np.testing.assert_array_equal(played[0].actions, played[1].actions)
    assert load_trajectories(tmp_path).world_states is None  # only with the specification of the environment
    loaded = load_trajectories(tmp_path, spec).world_states
    assert loaded is not None
    world = make_world(spec)
    for trajectory in range(2):
        drawn = world.draw(loaded.read(trajectory, range(70)))
        np.testing.assert_array_equal(drawn, played[1].observations[trajectory])
    world.close()
