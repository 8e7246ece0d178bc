"""Simulations: where they start, who acts, and that they can be repeated."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import OptionError
from rl_clarity.recordings.recording import Recording
from rl_clarity.world_models.simulation import Simulation, simulate
from rl_clarity.world_models.simulator import Simulator, check_agent, new_world
from tests.fakes import TinyAgent
from tests.light_switch import checkpoint
from tests.world_models.conftest import SMALLEST
from tests.world_models.dots import ACTIONS


def same(one: Simulation, other: Simulation) -> None:
    for name in ("frames", "actions", "rewards", "ends", "world_states"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6, err_msg=name)


def test_the_same_seed_gives_the_same_simulation(simulator: Simulator) -> None:
    first = simulate(simulator, 3, 5, seed=4, sample_actions=True)
    assert np.array_equal(first.frames, simulate(simulator, 3, 5, seed=4, sample_actions=True).frames)
    assert not np.array_equal(first.frames, simulate(simulator, 3, 5, seed=5).frames)
    assert first.frames.shape == (3, 5, 8, 8, 3)
    assert first.images.dtype == np.uint8
    assert first.states[0].shape == (3, 5, 5)


def test_a_simulation_can_follow_given_actions(simulator: Simulator) -> None:
    actions = np.random.default_rng(0).integers(ACTIONS, size=(2, 4))
    assert np.array_equal(simulate(simulator, 2, 4, actions).actions, actions)
    assert (simulate(simulator, 2, 4, 1).actions == 1).all()
    own = simulate(simulator, 2, 4)
    same(own, simulate(simulator, 2, 4, own.actions))


def test_a_simulation_can_continue_where_another_ended(simulator: Simulator) -> None:
    options: dict[str, Any] = {"sample_world": False}
    whole = simulate(simulator, 2, 6, **options)
    first = simulate(simulator, 2, 4, **options)
    rest = simulate(simulator, first.end, 2, **options)
    np.testing.assert_allclose(rest.frames, whole.frames[:, 4:], atol=1e-6)


def test_a_simulation_starts_from_frames_and_a_recorded_state(simulator: Simulator, recording: Recording) -> None:
    episode = recording[0]
    assert episode.states is not None
    frames, state = np.asarray(episode.observations[:3])[None], np.asarray(episode.states[0][3])[None]
    start = simulator.start(frames, state=[state], action=episode.actions[2:3])
    assert start.latent is not None
    assert np.linalg.norm(start.latent) == pytest.approx(1, abs=1e-5)
    simulation = simulate(simulator, start, 2)
    np.testing.assert_array_equal(simulation.states[0][:, 0], state)
    np.testing.assert_array_equal(simulator.latents(frames), start.latent)
    same(simulate(simulator, frames, 3), simulate(simulator, simulator.latents(frames), 3))


def test_edits_change_the_agent_inside_a_simulation(simulator: Simulator) -> None:
    state = Ablate("state/0")
    plain, edited = simulate(simulator, 2, 3), simulate(simulator, 2, 3, edits=[state])
    assert not np.allclose(plain.policy_logits, edited.policy_logits)  # type: ignore[arg-type]
    reset = dataclasses.replace(plain.start, state=(np.zeros((2, 5), np.float32),))
    np.testing.assert_allclose(edited.values[:, 0], simulate(simulator, reset, 1).values[:, 0], atol=1e-6)  # type: ignore[index]


@pytest.mark.parametrize("on", ["state", pytest.param("increment", marks=pytest.mark.slow)])
def test_components_can_be_swapped_inside_a_simulation(on: Any) -> None:
    agent: Any = rl_clarity.load_agent(checkpoint("memory"))
    simulator = Simulator(agent, new_world(agent, SMALLEST), {"action_combos": [[], ["LEFT"], ["RIGHT"]]})
    states = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    directions = rl_clarity.fit_directions(states, "pca", 4)
    edit = rl_clarity.SwapDirections({0: 1, 2: None}, directions=directions, on=on)
    plain, edited = simulate(simulator, 2, 3), simulate(simulator, 2, 3, edits=[edit])
    np.testing.assert_array_equal(edited.states[0][:, 0], plain.states[0][:, 0])
    before, after, expected = (
        directions.to(part) for part in (plain.states[0][:, 0], plain.states[0][:, 1], edited.states[0][:, 1])
    )
    origin = before if on == "increment" else np.zeros_like(before)
    change = (after - origin)[:, [1, 0, 2, 3]] * [1, 1, 0, 1]
    np.testing.assert_allclose(expected, origin + change, atol=1e-5)
    twice = simulate(simulator, 2, 3, edits=[edit, edit])  # pairs are back, and what was collapsed stays so
    same(twice, simulate(simulator, 2, 3, edits=[dataclasses.replace(edit, swaps={2: None})]))


def test_cutting_world_gradients_does_not_change_the_simulation(simulator: Simulator) -> None:
    same(simulate(simulator, 2, 4), simulate(simulator, 2, 4, world_gradients=False))


@pytest.mark.parametrize(
    ("start", "options", "message"),
    [
        (np.zeros((2, 5), np.float32), {}, r"start has the shape \(2, 5\)"),
        (np.zeros((2, 3, 8, 8, 3), np.float32), {}, "uint8"),
        (2, {"actions": np.full((2, 3), 7)}, "must be from 0 to below 3"),
        (2, {"actions": np.zeros((2, 9), int)}, r"must be integers \(2, 3\)"),
        (2, {"observations": np.zeros((1, 3, 8, 8, 3), np.uint8)}, r"\(2, 3\) are needed"),
    ],
)
def test_invalid_arguments_of_simulate_are_refused(
    simulator: Simulator, start: int | np.ndarray, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        simulate(simulator, start, 3, **options)


def test_simulations_refuse_agents_that_do_not_run_on_keras() -> None:
    with pytest.raises(OptionError, match="not TinyAgent"):
        check_agent(TinyAgent())


def test_simulations_refuse_edits_that_resample_activations(simulator: Simulator, agent: KerasAgent) -> None:
    data = np.zeros((2, 5), np.float32)
    with pytest.raises(OptionError, match="resample"):
        simulate(simulator, 1, 2, edits=[Ablate("state/0", to="resample", data=data)])
