"""Directions of the state exchanged or collapsed as an agent plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.edited_agent import EditedAgent
from rl_clarity.agents.recurrence import join_state
from rl_clarity.base.errors import OptionError
from rl_clarity.reduction.directions import Directions, fit_directions
from rl_clarity.reduction.swapping import SwapDirections
from tests.fakes import TinyAgent
from tests.light_switch import checkpoint

UNITS = 6


@pytest.fixture(scope="module")
def directions() -> Directions:
    rng = np.random.default_rng(0)
    return fit_directions(rng.normal(size=(200, UNITS)) @ rng.normal(size=(UNITS, UNITS)) + 3, "ica", 4)


def swapped(
    directions: Directions, swaps: Mapping[int, int | None], states: np.ndarray, before: np.ndarray | None = None
) -> np.ndarray:
    edit = SwapDirections(swaps, directions=directions, on="state" if before is None else "increment")
    return np.asarray(edit.apply_to_state(states if before is None else before, states))


def test_swapping_components_exchanges_only_their_coordinates(directions: Directions) -> None:
    states = np.random.default_rng(1).normal(size=(5, UNITS))
    after = swapped(directions, {1: 3, 0: None}, states)
    old, new = directions.to(states), directions.to(after)
    np.testing.assert_allclose(new[:, [3, 1]], old[:, [1, 3]], atol=1e-5)
    np.testing.assert_allclose(new[:, 0], 0, atol=1e-5)
    np.testing.assert_allclose(new[:, 2], old[:, 2], atol=1e-5)
    rest = states - directions.back(old)
    np.testing.assert_allclose(after - directions.back(new), rest, atol=1e-5)
    assert not np.allclose(after, states)


@pytest.mark.parametrize("on", ["state", "increment"])
def test_swapping_twice_restores_and_collapsing_is_idempotent(directions: Directions, on: str) -> None:
    states, before = np.random.default_rng(2).normal(size=(2, 5, UNITS))
    start = None if on == "state" else before
    exchanged = swapped(directions, {0: 2}, states, start)
    np.testing.assert_allclose(swapped(directions, {2: 0}, exchanged, start), states, atol=1e-5)
    once = swapped(directions, {0: None, 3: None}, states, start)
    np.testing.assert_allclose(swapped(directions, {0: None, 3: None}, once, start), once, atol=1e-5)
    assert not np.allclose(once, states)


def test_swapping_increments_exchanges_only_what_a_step_adds(directions: Directions) -> None:
    states, before = np.random.default_rng(3).normal(size=(2, 5, UNITS))
    after = swapped(directions, {0: 1}, states, before)
    old, new = (one - directions.to(before) for one in (directions.to(states), directions.to(after)))
    np.testing.assert_allclose(new[:, [1, 0]], old[:, [0, 1]], atol=1e-5)


def test_swap_directions_edits_the_state_of_any_agent(directions: Directions) -> None:
    agent: Any = TinyAgent("recurrent", sharpness=1.0)
    edit = SwapDirections({0: 1, 2: None}, directions=directions)
    edited = rl_clarity.edit(agent, edit)
    observations = np.random.default_rng(4).integers(0, 256, (3, 64, 64, 3), np.uint8)
    state = agent.initial_state(3)
    expected, plain = edited.forward(observations, state).state, agent.forward(observations, state).state
    np.testing.assert_allclose(expected[0], edit.apply_to_state(state[0], plain[0]), atol=1e-6)
    assert not np.allclose(expected[0], plain[0])


@pytest.mark.parametrize("on", ["state", "increment"])
def test_swap_directions_edits_the_state_at_every_step_of_play(on: Any) -> None:
    agent: Any = rl_clarity.load_agent(checkpoint("memory"))
    rng = np.random.default_rng(5)
    directions = fit_directions(rng.normal(size=(200, 16)), "pca", 8)
    edit = SwapDirections({0: 5, 3: None}, directions=directions, on=on)
    edited, twice = rl_clarity.edit(agent, edit), rl_clarity.edit(agent, edit, edit)
    observations = rng.integers(0, 256, (2, 16, 16, 3), np.uint8)
    state = agent.initial_state(2)
    for first in (True, False):
        firsts = np.full(2, first)
        outputs, after = edited.step(observations, state, firsts)
        plain, unedited = agent.step(observations, state, firsts)
        np.testing.assert_allclose(outputs.policy_logits, plain.policy_logits, atol=1e-5)  # the next step sees the edit
        np.testing.assert_allclose(after[0], edit.apply_to_state(state[0], unedited[0]), atol=1e-5)
        again = twice.step(observations, state, firsts)[1]
        np.testing.assert_allclose(
            again[0], swapped(directions, {3: None}, unedited[0], None if on == "state" else state[0]), atol=1e-5
        )
        state = after
    weights = rng.normal(size=(2, 1, 16))
    gradient = edited.state_gradients(observations, state, weights)[0]
    step = 1e-2 * np.eye(16)[2]
    higher, lower = (edited.forward(observations, (state[0] + sign * step,)).state[0] for sign in (1, -1))
    np.testing.assert_allclose(gradient[:, 2], np.einsum("bh,bh->b", weights[:, 0], higher - lower) / 2e-2, atol=2e-3)
    assert edited.parameters()["edits/0/after/0/left"].any()


def test_swapping_a_component_with_itself_changes_nothing(directions: Directions) -> None:
    agent: Any = TinyAgent("recurrent")
    edited: Any = rl_clarity.edit(agent, SwapDirections({1: 1}, directions=directions))
    assert edited.edits == ()


@pytest.mark.parametrize(
    ("swaps", "message"),
    [
        ({4: 0}, "4 is not a direction from 0 to 3"),
        ({0: -1}, "-1 is not a direction"),
        ({0: 1, 1: 2}, "at least one exchange or collapse is needed"),
        ({0: 1, 1: None}, "at least one exchange or collapse is needed"),
        ({0: 1, 2: 1}, "at least one exchange or collapse is needed"),
        ({}, "at least one exchange or collapse is needed"),
    ],
)
def test_invalid_swaps_are_refused(directions: Directions, swaps: dict[int, int | None], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SwapDirections(swaps, directions=directions)


def test_a_swap_may_be_written_in_both_orders(directions: Directions) -> None:
    states = np.random.default_rng(6).normal(size=(2, UNITS))
    np.testing.assert_allclose(swapped(directions, {0: 1, 1: 0}, states), swapped(directions, {0: 1}, states))


def test_components_must_match_the_shape_of_the_state(directions: Directions) -> None:
    agent = rl_clarity.load_agent(checkpoint("memory"))
    with pytest.raises(
        OptionError, match=r"directions were fitted to states of shape \(6,\), but state/0 has the shape \(16,\)"
    ):
        rl_clarity.edit(agent, SwapDirections({0: 1}, directions=directions))
    with pytest.raises(OptionError, match="unknown layer"):
        rl_clarity.edit(agent, SwapDirections({0: 1}, directions=directions, layer="state/1"))


@pytest.mark.parametrize("on", ["state", "increment"])
def test_arrays_of_a_recurrent_state_are_edited_jointly(on: Any) -> None:
    torch = pytest.importorskip("torch")

    class Lstm(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = torch.nn.LSTMCell(16, 3), torch.nn.Linear(3, 4)

        def forward(self, x: Any, state: Any) -> Any:
            after = self.lstm(x.flatten(1), state)
            return self.head(after[0]), self.head(after[0])[:, :1], after

    shape = (4, 4, 1)
    agent = rl_clarity.TorchAgent(Lstm(), shape, initial_state=(np.zeros(3), np.zeros(3)))
    rng = np.random.default_rng(7)
    directions = fit_directions(rng.normal(size=(200, UNITS)), "pca", 4)
    edit = SwapDirections({0: 3, 1: None}, directions=directions, on=on)
    observations = rng.integers(0, 256, (2, *shape), np.uint8)
    state = tuple(rng.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
    before, after = (join_state(parts) for parts in (state, agent.forward(observations, state).state))
    expected = np.asarray(edit.apply_to_state(before, after))
    assert not np.allclose(expected[:, :3], after[:, :3])
    for edited in (rl_clarity.edit(agent, edit), EditedAgent(agent, [edit])):
        np.testing.assert_allclose(join_state(edited.forward(observations, state).state), expected, atol=1e-5)
    with pytest.raises(OptionError, match=r"state/1 has the shape \(3,\)"):
        rl_clarity.edit(agent, SwapDirections({0: 1}, directions=directions, layer="state/1"))


def test_swapped_states_stay_near_the_recorded_range_of_each_unit() -> None:
    directions = Directions(
        np.zeros(2), np.ones(2), np.array([[1.0, 0.0], [3.0, 0.5]]), range=np.array([[-1, 0], [1, 2.0]])
    )
    states = np.array([[0.5, 0.4], [0.5, 1.9], [9.0, 9.0], [0.0, -7.0]])
    free = swapped(Directions(np.zeros(2), np.ones(2), directions.basis), {1: None}, states)
    bounded = swapped(directions, {1: None}, states)
    np.testing.assert_allclose(free[:2], states[:2] - states[:2, 1:] * [6, 1], atol=1e-6)
    np.testing.assert_allclose(bounded[0], free[0], atol=1e-6)
    np.testing.assert_allclose(bounded[1], [-3, 0], atol=1e-6)
    np.testing.assert_allclose(bounded[2], [-3, 0], atol=1e-6)  # it may be as far outside as it was, and no farther
    np.testing.assert_allclose(bounded[3], [3, 0], atol=1e-6)


def test_nearly_linearly_dependent_components_are_refused() -> None:
    """A state between two such directions has large coordinates of opposite signs; without one, the other is left."""
    basis = np.eye(3)[[0, 0, 2]] + 0.004 * np.eye(3)[[1, 2, 1]]
    near = Directions(np.zeros(3), np.ones(3), basis)
    with pytest.raises(OptionError, match=r"the 3 directions are almost linearly dependent.*up to 249 times"):
        SwapDirections({0: None}, directions=near)
    expected = np.linalg.norm(np.linalg.pinv(basis) @ np.diag([-1, 0, 0]) @ basis, 2)
    assert expected == pytest.approx(249, abs=0.5)
    SwapDirections({2: None}, directions=near)  # it is far from the others
    SwapDirections({0: None}, directions=Directions(np.zeros(3), np.ones(3), basis + 0.02 * np.eye(3)[[1, 2, 1]]))


def test_states_that_are_feature_maps_are_swapped_as_flat_vectors() -> None:
    from tests.memory_systems import make_agent

    def step(observations: Any, state: Any) -> tuple[Any, Any]:
        after = 0.5 * state + observations[:, :2, :3, :2]
        return after.sum(dim=(1, 2, 3)), after

    agent: Any = make_agent(step, (2, 3, 2))
    rng = np.random.default_rng(0)
    found = fit_directions(rng.normal(size=(50, 12)), "pca", 4)
    edit = SwapDirections({0: 2, 1: None}, directions=found)
    observations = rng.integers(0, 256, (3, 4, 4, 3), np.uint8)
    state = (rng.normal(size=(3, 2, 3, 2)).astype(np.float32),)
    plain, edited = (one.forward(observations, state).state for one in (agent, rl_clarity.edit(agent, edit)))
    assert plain is not None
    assert edited is not None
    expected = edit.apply_to_state(state[0].reshape(3, 12), plain[0].reshape(3, 12))
    np.testing.assert_allclose(edited[0].reshape(3, 12), expected, atol=1e-5)
    weights = rng.normal(size=(3, 2, 12)).astype(np.float32)
    gradients = agent.state_gradients(observations, state, weights)
    np.testing.assert_allclose(gradients, 0.5 * np.swapaxes(weights, 0, 1), atol=1e-6)
