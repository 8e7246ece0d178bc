"""Properties of Keras agents that hold for every network, with or without a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents import keras_agent
from rl_clarity.agents.capabilities import before_step
from rl_clarity.agents.network import Network
from rl_clarity.agents.protocol import Agent, State
from rl_clarity.agents.sites import feature_maps
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.formats import baby_a3c, procgen_pytorch, sb3
from rl_clarity.formats import cleanrl_networks as cleanrl
from rl_clarity.formats.architectures import build
from tests import state_dicts
from tests.agents.paths import path_gradients

KerasAgent: Any = keras_agent.KerasAgent
"""Not typed, because the network decides which outputs are None."""

NETWORKS: dict[str, Callable[[], Network]] = {
    "clear": lambda: build("clear", (16, 16, 3), 5, seed=1),
    "impala": lambda: build("impala", (16, 16, 3), 5, {"stack_channels": "4_6", "emb_size": 12}, seed=1),
    "nature": lambda: build("nature", (44, 44, 4), 5, seed=1),
    "ppo_atari": lambda: cleanrl.ppo_atari(state_dicts.ppo_atari(side=44), (44, 44, 4)),
    "ppo_atari_lstm": lambda: cleanrl.ppo_atari(state_dicts.ppo_atari(side=44, lstm=True), (44, 44, 4)),
    "dqn_atari": lambda: cleanrl.dqn_atari(state_dicts.dqn_atari(side=44), (44, 44, 4)),
    "ppo_procgen": lambda: cleanrl.ppo_procgen(state_dicts.ppo_procgen(), (64, 64, 3)),
    "gru": lambda: procgen_pytorch.build_network(state_dicts.procgen_pytorch(gru=True, initial=True), (64, 64, 3)),
    "baby_a3c": lambda: baby_a3c.build_network(state_dicts.baby_a3c(), (80, 80, 1)),
    "sb3": lambda: sb3.actor_critic(state_dicts.sb3(side=44, lstm=True, shared=False, net_arch=(6,)), (44, 44, 4)),
}
RECURRENT = ("ppo_atari_lstm", "gru", "baby_a3c", "sb3")


@pytest.fixture(scope="module", params=NETWORKS)
def agent(request: pytest.FixtureRequest) -> Any:
    agent = KerasAgent(NETWORKS[request.param](), batch_size=8, gradient_batch_size=8)
    agent.metadata = {"network": request.param}
    return agent


def random_observations(agent: Any, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *agent.observation_shape), np.uint8)


def random_state(agent: Any, count: int) -> State:
    rng = np.random.default_rng(5)
    state = agent.initial_state(count)
    return state and tuple(rng.normal(0, 0.5, part.shape).astype(np.float32) for part in state)


def default_output(agent: Any) -> str:
    return "greedy" if "q_values" in agent.heads else "value"


def test_keras_agents_satisfy_the_agent_protocol(agent: Any) -> None:
    assert isinstance(agent, Agent)
    assert (agent.initial_state(3) is None) == (agent.metadata["network"] not in RECURRENT)
    assert agent.layers
    for operation in feature_maps(agent.sites):
        assert "." not in operation.name or agent.metadata["network"] == "sb3"  # as PyTorch names its modules
    assert len({operation.name for operation in feature_maps(agent.sites)}) == len(feature_maps(agent.sites))


def test_completeness_error_vanishes_as_steps_increase(agent: Any) -> None:
    """On layers that are bypassed or not, with a fixed state."""
    observations, state = random_observations(agent, 2), random_state(agent, 2)
    for layer in (next(iter(agent.layers)), list(agent.layers)[-1]):
        gaps = []
        for steps in (4, 128):
            points = (np.arange(steps) + 0.5) / steps
            path = path_gradients(
                agent, observations, layer, points, np.full(steps, 1 / steps), [default_output(agent), 1], state
            )
            totals = (path.activations * path.gradients).sum(axis=(2, 3, 4))
            scale = max(np.abs(path.scores).max(), np.abs(path.scores_at_zero).max())
            gaps.append(np.abs(totals - (path.scores - path.scores_at_zero)).max() / scale)
        assert gaps[1] < 0.1  # random weights: 0.01 with 512 steps
        assert gaps[1] < max(0.3 * gaps[0], 5e-3)


def test_gradients_are_computed_at_the_given_recurrent_state(agent: Any) -> None:
    observations, state = random_observations(agent, 2), random_state(agent, 2)
    if state is None:
        return
    layer = list(agent.layers)[-1]
    with_state, without = (
        path_gradients(agent, observations, layer, np.ones(1), np.ones(1), [1], s) for s in (state, None)
    )
    outputs, _ = agent.step(observations, state, np.zeros(2, bool))
    assert np.allclose(with_state.scores[0], outputs.policy_logits[:, 1], atol=1e-5)
    assert np.allclose(without.scores[0], agent.forward(observations).policy_logits[:, 1], atol=1e-5)
    assert not np.allclose(with_state.scores, without.scores, atol=1e-3)
    assert np.array_equal(with_state.activations, without.activations)  # the layers come before the recurrent cell


def test_steps_replayed_from_saved_states_give_the_outputs_of_the_rollout(agent: Any) -> None:
    """Steps from the saved states, in a batch of any composition, return the outputs of the rollout."""
    rng = np.random.default_rng(1)
    firsts = rng.random((6, 3)) < 0.3
    firsts[0] = True
    observations = np.stack([random_observations(agent, 3, seed=t) for t in range(6)])
    state = agent.initial_state(3)
    if state is None:
        return
    states_before, rollout = [], []
    for frames, first in zip(observations, firsts, strict=True):
        states_before.append(before_step(agent, state, first))
        outputs, state = agent.step(frames, state, first)
        rollout.append(outputs)
    states = tuple(np.concatenate(parts) for parts in zip(*states_before, strict=True))
    replayed, _ = agent.step(observations.reshape(18, *agent.observation_shape), states, np.zeros(18, bool))
    for name in ("policy_logits", "values"):
        expected = np.concatenate([getattr(outputs, name) for outputs in rollout])
        assert np.abs(getattr(replayed, name) - expected).max() < 1e-5


def test_outputs_do_not_depend_on_the_batch(agent: Any) -> None:
    observations, state = random_observations(agent, 21), random_state(agent, 21)
    many, after = agent.step(observations, state, np.zeros(21, bool))
    few, after_few = agent.step(observations[18:], state and tuple(s[18:] for s in state), np.zeros(3, bool))
    for name in ("policy_logits", "values", "q_values"):
        if getattr(many, name) is not None:
            assert np.allclose(getattr(many, name)[18:], getattr(few, name), atol=1e-5)
    for array, other in zip(after or (), after_few or (), strict=True):
        assert np.allclose(array[18:], other, atol=1e-5)


def test_parallel_calls_does_not_depend_on_threads_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = KerasAgent(NETWORKS["clear"]())
    monkeypatch.setattr("rl_clarity.agents.batched.thread_count", lambda: 2)
    before = agent.parallel_calls
    monkeypatch.setattr("rl_clarity.agents.batched.thread_count", lambda: 1)  # as while linear algebra is limited
    assert agent.parallel_calls == before


def test_gradients_at_given_activations_equal_those_along_a_path(agent: Any) -> None:
    observations, state = random_observations(agent, 2), random_state(agent, 2)
    layer = next(iter(agent.layers))
    path = path_gradients(agent, observations, layer, np.array([0.5]), np.ones(1), [default_output(agent)], state)
    gradients = agent.gradients(
        observations, layer, [default_output(agent)], values=0.5 * path.activations, state=state
    )
    assert np.allclose(gradients, path.gradients, atol=1e-6 * max(1, np.abs(path.gradients).max()))


def test_input_gradients_predict_small_changes(agent: Any) -> None:
    observations, state = random_observations(agent, 1), random_state(agent, 1)
    gradients = agent.gradients(observations, "input", [1], state=state)[0, 0]
    at = np.unravel_index(np.abs(gradients).argmax(), gradients.shape)
    changed = observations.copy()
    changed[(0, *at)] ^= 1
    step = (int(changed[(0, *at)]) - int(observations[(0, *at)])) / 255
    before, after = (agent.step(o, state, np.zeros(1, bool))[0] for o in (observations, changed))
    head = "q_values" if before.policy_logits is None else "policy_logits"
    difference = getattr(after, head)[0, 1] - getattr(before, head)[0, 1]
    assert np.isclose(difference, gradients[at] * step, rtol=0.05, atol=2e-6)


def test_greedy_scores_use_the_best_action_at_the_observation() -> None:
    agent = KerasAgent(NETWORKS["dqn_atari"](), gradient_batch_size=8)
    observations = random_observations(agent, 6)
    best = agent.forward(observations).q_values.argmax(1)
    layer = next(iter(agent.layers))
    greedy = path_gradients(agent, observations, layer, np.array([0.1, 1.0]), np.full(2, 0.5), ["greedy"])
    for i, action in enumerate(best):
        alone = path_gradients(
            agent, observations[i : i + 1], layer, np.array([0.1, 1.0]), np.full(2, 0.5), [int(action)]
        )
        assert np.allclose(greedy.gradients[0, i], alone.gradients[0, 0], atol=1e-6)
        assert np.isclose(greedy.scores_at_zero[0, i], alone.scores_at_zero[0, 0], atol=1e-6)
    with pytest.raises(OptionError, match=r"'value'.*'greedy'"):
        agent.gradients(observations, layer, ["value"])


def test_observations_with_channels_first_give_the_same_results() -> None:
    agent = KerasAgent(NETWORKS["ppo_atari_lstm"](), gradient_batch_size=8)
    last = random_observations(agent, 2)
    first = last.transpose(0, 3, 1, 2)
    assert np.array_equal(agent.forward(first).values, agent.forward(last).values)
    layer = list(agent.layers)[1]
    assert np.array_equal(agent.activations(first, layer), agent.activations(last, layer))
    assert np.array_equal(
        agent.gradients(first, "input", ["value"]),
        agent.gradients(last, "input", ["value"]).transpose(0, 1, 4, 2, 3),
    )
    with pytest.raises(SamplesError, match=r"\(2, 44, 4, 44\).*\(B, 44, 44, 4\)"):
        agent.forward(last.transpose(0, 1, 3, 2))


def test_layers_can_be_selected_by_alternative_names() -> None:
    agent = KerasAgent(NETWORKS["ppo_procgen"]())
    observations = random_observations(agent, 1)
    expected = agent.activations(observations, "network/1/res_block0/relu0")
    for name in ("1/res_block0/relu0", "network.1.res_block0.relu0"):
        assert np.array_equal(agent.activations(observations, name), expected)
    assert agent.activations(observations, "network.1.conv").shape == (1, 32, 32, 6)
    with pytest.raises(OptionError, match=r"'res_block0/relu9'.*did you mean"):
        agent.activations(observations, "res_block0/relu9")


def test_empty_batches_give_empty_outputs_and_activations() -> None:
    agent = KerasAgent(NETWORKS["clear"]())
    outputs = agent.forward(random_observations(agent, 0))
    assert outputs.policy_logits.shape == (0, 5)
    assert agent.activations(random_observations(agent, 0), "4a").shape[0] == 0
