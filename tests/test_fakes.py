"""The fake agent satisfies the protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.attribution import attribute
from tests.fakes import KINDS, TinyAgent


@pytest.fixture
def observations() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 16, 16, 1), dtype=np.uint8)


def make_agent(kind: str) -> TinyAgent:
    return TinyAgent(kind, observation_shape=(16, 16, 1), num_actions=3, patch=4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fake_agent_satisfies_the_agent_protocol(kind: str, observations: np.ndarray) -> None:
    agent = make_agent(kind)
    assert isinstance(agent, Agent)
    for layer, shape in agent.layers.items():
        assert agent.activations(observations, layer).shape == (3, *shape)


def test_states_of_the_fake_agent_are_reset_with_each_episode(observations: np.ndarray) -> None:
    agent = make_agent("recurrent")
    _, state = agent.step(observations, agent.initial_state(3), np.ones(3, bool))
    later, _ = agent.step(observations, state, np.array([False, True, False]))
    reset = agent.forward(observations)
    np.testing.assert_array_equal((later.values != reset.values), [True, False, True])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", ["1a", "2a", "input"])
def test_gradients_of_the_fake_agent_equal_finite_differences(kind: str, layer: str, observations: np.ndarray) -> None:
    agent = make_agent(kind)
    state = agent.initial_state(3)
    output = "value" if "values" in agent.heads else "greedy"
    (tail,) = agent.tails(observations, layer, [output], state)
    at = tail.values.astype(np.float64)
    (gradient,) = agent.gradients(observations, layer, [output], values=at, state=state)
    direction = np.random.default_rng(1).normal(size=at.shape) * 1e-5
    after, before = (tail.scores(at + sign * direction)[0] for sign in (1, -1))
    difference = (after - before) / 2
    np.testing.assert_allclose((gradient * direction).sum((1, 2, 3)), difference, rtol=5e-3, atol=1e-9)


def test_integrated_gradients_of_the_fake_agent_are_complete(observations: np.ndarray) -> None:
    agent = make_agent("policy")
    result = attribute(agent, observations, "1a", ["value", 1, (0, 2)], steps=400, quadrature="midpoint")
    np.testing.assert_allclose(result.totals, result.scores - result.scores_at_baseline, atol=2e-3)
    forward: Any = agent.forward(observations)
    np.testing.assert_allclose(result.scores[0], forward.values, rtol=1e-5)
    np.testing.assert_allclose(result.scores[2], forward.policy_logits[:, [0, 2]].sum(1), rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fake_agent_reads_and_writes_every_layer(kind: str, observations: np.ndarray) -> None:
    agent = make_agent(kind)
    names = [site.name for site in agent.sites]
    plain = agent.forward(observations, read=names)
    for site in agent.sites:
        assert plain.sites[site.name].shape == (3, *site.shape)
        changed = agent.forward(observations, write={site.name: lambda values: values + 1}, read=[site.name])
        np.testing.assert_allclose(changed.sites[site.name], plain.sites[site.name] + 1, atol=1e-6)
        same = agent.forward(observations, write={site.name: plain.sites[site.name]})
        for name in agent.heads:
            np.testing.assert_allclose(getattr(same, name), getattr(plain, name), rtol=1e-5, atol=1e-6)
