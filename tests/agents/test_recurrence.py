"""Gradients through an agent's recurrent cell, on each framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.agents.recurrence import join_state, split_state
from rl_clarity.base.errors import OptionError
from tests.light_switch import checkpoint

SHAPE = (44, 44, 4)


def torch_agent() -> Any:
    torch = pytest.importorskip("torch")
    from tests.agents.torch_modules import Recurrent

    torch.manual_seed(0)
    return rl_clarity.TorchAgent(Recurrent(), SHAPE, initial_state=np.zeros(8))


def jax_agent() -> Any:
    pytest.importorskip("flax")
    from tests.agents import jax_networks

    return rl_clarity.JaxAgent(
        *jax_networks.initialized("Recurrent", SHAPE), SHAPE, initial_state=(np.full(8, 0.25), np.zeros(8))
    )


AGENTS: dict[str, Callable[[], Any]] = {
    "keras": lambda: rl_clarity.load_agent(checkpoint("memory")),
    "torch": torch_agent,
    "jax": jax_agent,
}


@pytest.mark.parametrize("name", ["keras", "torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_gradients_through_the_recurrent_cell_equal_finite_differences(name: str) -> None:
    agent = AGENTS[name]()
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (3, *agent.observation_shape), np.uint8)
    initial = agent.initial_state(3)
    states = rng.normal(0, 0.5, join_state(initial).shape)
    weights = rng.normal(size=(3, 2, states.shape[1]))
    gradients = agent.state_gradients(observations, split_state(states, initial), weights)
    assert gradients.shape == (2, 3, states.shape[1])

    def combined(values: np.ndarray) -> np.ndarray:
        after = agent.forward(observations, split_state(values, initial)).state
        return np.einsum("bsh,bh->sb", weights, join_state(after).astype(np.float64))

    for unit in range(0, states.shape[1], 3):
        step = 1e-2 * np.eye(states.shape[1])[unit]
        expected = (combined(states + step) - combined(states - step)) / 2e-2
        np.testing.assert_allclose(gradients[:, :, unit], expected, atol=2e-3)


def test_arrays_of_a_recurrent_state_are_joined_and_split_again() -> None:
    state = (np.ones((2, 3), np.float32), np.zeros((2, 2, 2), np.float32))
    joined = join_state(state)
    assert joined.shape == (2, 7)
    for part, again in zip(state, split_state(joined, state) or (), strict=True):
        np.testing.assert_array_equal(part, again)


def test_state_gradients_refuses_weights_of_the_wrong_shape() -> None:
    agent: Any = AGENTS["keras"]()
    observations = np.zeros((2, *agent.observation_shape), np.uint8)
    with pytest.raises(OptionError, match=r"weights have the shape \(2, 1, 5\); \(2, S, 16\) is needed"):
        agent.state_gradients(observations, None, np.ones((2, 1, 5)))
