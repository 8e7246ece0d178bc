"""Networks of PyTorch programs, with random parameters, compared with a reference in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents import keras_agent
from rl_clarity.agents.network import Network
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import baby_a3c, procgen_pytorch, sb3
from rl_clarity.formats import cleanrl_networks as cleanrl
from tests import state_dicts
from tests.formats import reference as ref
from tests.state_dicts import Arrays

KerasAgent: Any = keras_agent.KerasAgent
"""Not typed, because the network decides which outputs are None."""
TOLERANCE = 2e-5


def random_observations(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def channels_first(observations: np.ndarray) -> np.ndarray:
    return observations.transpose(0, 3, 1, 2) / 255


def is_close(actual: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(actual - expected.reshape(actual.shape)).max() < TOLERANCE * max(1, np.abs(expected).max()))


def test_cleanrl_ppo_atari_equals_the_numpy_reference() -> None:
    p = state_dicts.ppo_atari()
    o = random_observations((3, 84, 84, 4))
    outputs = KerasAgent(cleanrl.ppo_atari(p, (84, 84, 4))).forward(o)
    x = ref.relu(ref.dense(ref.nature(channels_first(o), p, "network"), p, "network.7"))
    assert is_close(outputs.policy_logits, ref.dense(x, p, "actor"))
    assert is_close(outputs.values, ref.dense(x, p, "critic"))


def test_cleanrl_ppo_atari_lstm_equals_the_reference_across_episodes() -> None:
    p = state_dicts.ppo_atari(lstm=True, channels=1)
    agent = KerasAgent(cleanrl.ppo_atari(p, (84, 84, 1)))
    state = agent.initial_state(2)
    h = c = np.zeros((2, 8))
    for t, firsts in enumerate(([True, True], [False, False], [False, True], [False, False])):
        o = random_observations((2, 84, 84, 1), seed=t)
        outputs, state = agent.step(o, state, np.array(firsts))
        keep = 1 - np.array(firsts, float)[:, None]
        x = ref.relu(ref.dense(ref.nature(channels_first(o), p, "network"), p, "network.7"))
        h, c = ref.lstm(x, h * keep, c * keep, p, "lstm")
        assert is_close(outputs.policy_logits, ref.dense(h, p, "actor"))
        assert is_close(outputs.values, ref.dense(h, p, "critic"))
        assert is_close(state[0], h)
        assert is_close(state[1], c)


def test_cleanrl_dqn_atari_has_the_action_values_of_the_reference() -> None:
    p = state_dicts.dqn_atari()
    o = random_observations((2, 84, 84, 4))
    outputs = KerasAgent(cleanrl.dqn_atari(p, (84, 84, 4))).forward(o)
    x = ref.relu(ref.dense(ref.nature(channels_first(o), p, "network"), p, "network.7"))
    assert outputs.policy_logits is None
    assert outputs.values is None
    assert is_close(outputs.q_values, ref.dense(x, p, "network.9"))


def test_cleanrl_ppo_procgen_equals_the_numpy_reference() -> None:
    p = state_dicts.ppo_procgen()
    o = random_observations((2, 64, 64, 3))
    outputs = KerasAgent(cleanrl.ppo_procgen(p, (64, 64, 3))).forward(o)
    x = ref.impala(channels_first(o), p, "network.{}", 0, ("res_block0", "res_block1"), ("conv0", "conv1"))
    x = ref.relu(ref.dense(x, p, "network.5"))
    assert is_close(outputs.policy_logits, ref.dense(x, p, "actor"))
    assert is_close(outputs.values, ref.dense(x, p, "critic"))


@pytest.mark.parametrize("initial", [False, True])
def test_train_procgen_pytorch_with_a_gru_equals_the_reference(initial: bool) -> None:
    p = state_dicts.procgen_pytorch(gru=True, initial=initial)
    agent = KerasAgent(procgen_pytorch.build_network(p, (64, 64, 3)))
    state = agent.initial_state(2)
    h = np.repeat(p["init_hx"][None], 2, axis=0) if initial else np.zeros((2, 8))
    assert is_close(state[0], h)
    for t, firsts in enumerate(([True, True], [False, True], [False, False])):
        o = random_observations((2, 64, 64, 3), seed=t)
        outputs, state = agent.step(o, state, np.array(firsts))
        if t:  # the learned state is used for the first step only
            h = h * (1 - np.array(firsts, float)[:, None])
        x = ref.impala(channels_first(o), p, "embedder.block{}", 1, ("res1", "res2"), ("conv1", "conv2"))
        h = ref.gru(ref.relu(ref.dense(x, p, "embedder.fc")), h, p, "gru.gru")
        assert is_close(outputs.policy_logits, ref.dense(h, p, "fc_policy"))
        assert is_close(state[0], h)


def test_train_procgen_pytorch_without_a_gru_equals_the_reference() -> None:
    p = state_dicts.procgen_pytorch()
    o = random_observations((2, 64, 64, 3))
    agent = KerasAgent(procgen_pytorch.build_network(p, (64, 64, 3)))
    assert agent.initial_state(2) is None
    x = ref.impala(channels_first(o), p, "embedder.block{}", 1, ("res1", "res2"), ("conv1", "conv2"))
    assert is_close(agent.forward(o).values, ref.dense(ref.relu(ref.dense(x, p, "embedder.fc")), p, "fc_value"))


def test_baby_a3c_with_padding_on_both_sides_equals_the_reference() -> None:
    p = state_dicts.baby_a3c()
    o = random_observations((2, 80, 80, 1))
    agent = KerasAgent(baby_a3c.build_network(p, (80, 80, 1)))
    outputs, state = agent.step(o, agent.initial_state(2), np.zeros(2, bool))
    x = channels_first(o)
    for name in ("conv1", "conv2", "conv3", "conv4"):
        x = ref.elu(ref.conv(x, p, name, 2, 1))
    assert is_close(agent.activations(o, "conv4.elu").transpose(0, 3, 1, 2), x)
    h = ref.gru(x.reshape(2, -1), np.zeros((2, 8)), p, "gru", suffix="")
    assert is_close(outputs.policy_logits, ref.dense(h, p, "actor_linear"))
    assert is_close(state[0], h)


@pytest.mark.parametrize("net_arch", [(), (12, 6)])
@pytest.mark.parametrize("shared", [True, False])
def test_sb3_actor_critic_networks_equal_the_numpy_reference(shared: bool, net_arch: tuple[int, ...]) -> None:
    p = state_dicts.sb3(shared=shared, net_arch=net_arch)
    o = random_observations((2, 84, 84, 4))
    agent = KerasAgent(sb3.actor_critic(p, (84, 84, 4)))
    outputs = agent.forward(o)
    for body, net, head, actual in (
        ("pi_features_extractor", "policy_net", "action_net", outputs.policy_logits),
        ("vf_features_extractor", "value_net", "value_net", outputs.values),
    ):
        x = ref.relu(ref.dense(ref.nature(channels_first(o), p, f"{body}.cnn"), p, f"{body}.linear.0"))
        for i in range(len(net_arch)):
            x = np.tanh(ref.dense(x, p, f"mlp_extractor.{net}.{2 * i}"))
        assert is_close(actual, ref.dense(x, p, head))
    assert len(agent.layers) == (3 if shared else 6)


def test_sb3_recurrent_networks_equal_the_numpy_reference() -> None:
    p = state_dicts.sb3(lstm=True)
    o = random_observations((2, 84, 84, 4))
    agent = KerasAgent(sb3.actor_critic(p, (84, 84, 4)))
    state = tuple(np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32) for _ in range(4))
    outputs, after = agent.step(o, state, np.zeros(2, bool))
    x = ref.relu(
        ref.dense(ref.nature(channels_first(o), p, "features_extractor.cnn"), p, "features_extractor.linear.0")
    )
    policy, value = (
        ref.lstm(x, state[i], state[i + 1], p, name) for i, name in ((0, "lstm_actor"), (2, "lstm_critic"))
    )
    assert is_close(outputs.policy_logits, ref.dense(policy[0], p, "action_net"))
    assert is_close(outputs.values, ref.dense(value[0], p, "value_net"))
    for actual, expected in zip(after, (*policy, *value), strict=True):
        assert is_close(actual, expected)


def test_sb3_dqn_uses_the_online_network() -> None:
    p = state_dicts.sb3_dqn(net_arch=(10,))
    o = random_observations((2, 84, 84, 4))
    outputs = KerasAgent(sb3.q_network(p, (84, 84, 4))).forward(o)
    x = ref.nature(channels_first(o), p, "q_net.features_extractor.cnn")
    x = ref.relu(ref.dense(x, p, "q_net.features_extractor.linear.0"))
    assert is_close(outputs.q_values, ref.dense(ref.relu(ref.dense(x, p, "q_net.q_net.0")), p, "q_net.q_net.2"))


BUILDERS: dict[str, tuple[Callable[[], Arrays], Callable[..., Network], tuple[int, int, int], str]] = {
    "ppo_atari": (state_dicts.ppo_atari, cleanrl.ppo_atari, (84, 84, 4), "network.4.weight"),
    "dqn_atari": (state_dicts.dqn_atari, cleanrl.dqn_atari, (84, 84, 4), "network.9.bias"),
    "ppo_procgen": (
        state_dicts.ppo_procgen,
        cleanrl.ppo_procgen,
        (64, 64, 3),
        "network.1.res_block1.conv0.weight",
    ),
    "gru": (
        lambda: state_dicts.procgen_pytorch(gru=True, initial=True),
        procgen_pytorch.build_network,
        (64, 64, 3),
        "gru.gru.weight_ih_l0",
    ),
    "baby_a3c": (state_dicts.baby_a3c, baby_a3c.build_network, (80, 80, 1), "gru.bias_hh"),
    "sb3": (lambda: state_dicts.sb3(lstm=True), sb3.actor_critic, (84, 84, 4), "lstm_critic.weight_ih_l0"),
    "sb3_dqn": (state_dicts.sb3_dqn, sb3.q_network, (84, 84, 4), "q_net.features_extractor.linear.0.weight"),
}


@pytest.mark.parametrize("kind", BUILDERS)
class TestMismatchedParameters:
    def test_a_parameter_of_the_wrong_shape_is_refused(self, kind: str) -> None:
        make, build, shape, name = BUILDERS[kind]
        p = make()
        p[name] = np.zeros((*p[name].shape[:-1], p[name].shape[-1] + 1), np.float32)
        with pytest.raises(CheckpointError, match=r"has the shape \(.*\)") as error:
            build(p, shape)
        assert "needs" in str(error.value)

    def test_a_missing_parameter_is_refused(self, kind: str) -> None:
        make, build, shape, name = BUILDERS[kind]
        p = make()
        del p[name]
        with pytest.raises(CheckpointError, match="is missing"):
            build(p, shape)

    def test_an_unexpected_parameter_is_refused(self, kind: str) -> None:
        make, build, shape, _ = BUILDERS[kind]
        with pytest.raises(CheckpointError, match=r"does not have.*'surplus' \(2, 3\)"):
            build({**make(), "surplus": np.zeros((2, 3), np.float32)}, shape)

    def test_parameters_with_nan_or_infinity_are_refused(self, kind: str) -> None:
        make, build, shape, name = BUILDERS[kind]
        p = make()
        p[name].flat[0] = np.nan
        with pytest.raises(CheckpointError, match=f"'{name}'.*1 values that are NaN"):
            build(p, shape)

    def test_parameters_for_another_observation_size_are_refused(self, kind: str) -> None:
        make, build, shape, _ = BUILDERS[kind]
        with pytest.raises(CheckpointError, match="needs"):
            build(make(), (shape[0] + 16, *shape[1:]))


def test_a_network_returns_the_parameters_it_was_built_from() -> None:
    """A network returns the names, shapes and values it was built from."""
    p = state_dicts.procgen_pytorch(gru=True)
    out = procgen_pytorch.build_network(p, (64, 64, 3)).parameters()
    assert set(out) == set(p)
    assert all(np.array_equal(out[name], p[name]) for name in p)
