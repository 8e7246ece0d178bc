"""The stand-in agent keeps the protocol's promises; tests that use it rest on this."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.agents.protocol import Agent
from tests.fakes import KINDS, TinyAgent


@pytest.fixture
def observations():
    return np.random.default_rng(0).integers(0, 256, (3, 16, 16, 1), dtype=np.uint8)


def make_agent(kind):
    return TinyAgent(kind, observation_shape=(16, 16, 1), num_actions=3, patch=4)


@pytest.mark.parametrize("kind", KINDS)
def test_satisfies_the_protocol(kind, observations):
    agent = make_agent(kind)
    assert isinstance(agent, Agent)
    for layer, shape in agent.layers.items():
        assert agent.activations(observations, layer).shape == (3, *shape)


def test_state_matters_until_an_episode_begins(observations):
    agent = make_agent("recurrent")
    _, state = agent.step(observations, agent.initial_state(3), np.ones(3, bool))
    later, _ = agent.step(observations, state, np.array([False, True, False]))
    anew = agent.forward(observations)
    np.testing.assert_array_equal((later.values != anew.values), [True, False, True])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", ["1a", "2a", None])
def test_gradients_are_those_of_small_steps(kind, layer, observations):
    agent = make_agent(kind)
    state = agent.initial_state(3)
    output = "greedy" if kind == "q" else "value"
    at = observations / 255 if layer is None else agent.activations(observations, layer).astype(np.float64)
    (gradient,) = agent.gradients(observations, layer, at, [output], state)
    direction = np.random.default_rng(1).normal(size=at.shape) * 1e-5
    chosen = agent._chosen(observations, [output], state)[:, 0]
    scores = [(agent._scores_from(layer, at + sign * direction, state) * chosen).sum(1) for sign in (1, -1)]
    difference = (scores[0] - scores[1]) / 2
    np.testing.assert_allclose((gradient * direction).sum((1, 2, 3)), difference, rtol=5e-3, atol=1e-9)


def test_path_gradients_tend_to_the_difference_of_the_scores(observations):
    agent = make_agent("policy")
    points = (np.arange(400) + 0.5) / 400
    result = agent.path_gradients(observations, "1a", points, np.full(400, 1 / 400), ["value", 1, (0, 2)])
    totals = (result.activations * result.gradients).sum((2, 3, 4))
    np.testing.assert_allclose(totals, result.scores - result.scores_at_zero, atol=2e-3)
    forward = agent.forward(observations)
    np.testing.assert_allclose(result.scores[0], forward.values, rtol=1e-5)
    np.testing.assert_allclose(result.scores[2], forward.policy_logits[:, [0, 2]].sum(1), rtol=1e-4)
