"""The networks of Stable-Baselines3's `CnnPolicy`, for PPO, A2C, DQN, and sb3-contrib's RecurrentPPO.

Nature's body, a dense layer (`features_dim`), maybe an LSTM, maybe further dense layers (`net_arch`), linear heads.
Policy and value may each have a body of their own (`share_features_extractor=False`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.networks.network import Network
from rl_clarity.networks.torch_bodies import nature
from rl_clarity.networks.torch_layers import State, TorchLayers

MAX_LAYERS = 16
SHARED, POLICY, VALUE = "features_extractor", "pi_features_extractor", "vf_features_extractor"


def actor_critic(
    parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int], *, activation: str = "tanh"
) -> Network:
    """PPO's, A2C's or RecurrentPPO's network; `activation` is that of `net_arch`'s layers."""
    parameters, policy_body, value_body = _bodies(parameters)
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    of_policy = of_value = _features(layers, observations, policy_body)
    if value_body != policy_body:
        of_value = _features(layers, observations, value_body)
    of_policy, of_value, states = _memories(layers, of_policy, of_value)
    for_policy, for_value = "mlp_extractor.policy_net", "mlp_extractor.value_net"
    of_policy = _dense_layers(layers, of_policy, for_policy, _indices(layers, for_policy), activation)
    of_value = _dense_layers(layers, of_value, for_value, _indices(layers, for_value), activation)
    heads = {"policy_logits": layers.dense(of_policy, "action_net"), "values": layers.dense(of_value, "value_net")}
    return layers.builder.finish([observations], heads, states)


def q_network(
    parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int], *, activation: str = "relu"
) -> Network:
    """DQN's online network; the target network, a copy of an earlier state, is left out."""
    layers = TorchLayers({name: array for name, array in parameters.items() if not name.startswith("q_net_target.")})
    observations = layers.builder.input(observation_shape, "observations")
    x = _features(layers, observations, f"q_net.{SHARED}")
    *hidden, last = _indices(layers, "q_net.q_net") or [0]
    x = _dense_layers(layers, x, "q_net.q_net", hidden, activation)
    return layers.builder.finish([observations], {"q_values": layers.dense(x, f"q_net.q_net.{last}")})


def _bodies(parameters: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], str, str]:
    """Parameters without aliases, and the names of the policy's and of the value's body."""
    if _same(parameters, POLICY, SHARED):
        parameters = _without(parameters, POLICY)
    if _same(parameters, VALUE, SHARED):
        parameters = _without(parameters, VALUE)
    own_policy, own_value = (any(name.startswith(f"{body}.") for name in parameters) for body in (POLICY, VALUE))
    return parameters, POLICY if own_policy else SHARED, VALUE if own_value else SHARED


def _same(parameters: Mapping[str, np.ndarray], alias: str, original: str) -> bool:
    names = [name for name in parameters if name.startswith(f"{alias}.")]
    others = [original + name.removeprefix(alias) for name in names]
    return all(
        b in parameters and np.array_equal(parameters[a], parameters[b]) for a, b in zip(names, others, strict=True)
    )


def _without(parameters: Mapping[str, np.ndarray], body: str) -> dict[str, np.ndarray]:
    return {name: array for name, array in parameters.items() if not name.startswith(f"{body}.")}


def _features(layers: TorchLayers, observations: Any, body: str) -> Any:
    x = nature(layers, observations, f"{body}.cnn")
    return layers.relu(layers.dense(x, f"{body}.linear.0"), f"{body}.linear.0.relu")


def _memories(layers: TorchLayers, of_policy: Any, of_value: Any) -> tuple[Any, Any, list[State]]:
    """LSTMs of RecurrentPPO: one each for policy and value, or one for both, or none for the value."""
    if not layers.uses("lstm_actor"):
        return of_policy, of_value, []
    after_policy, states = _lstm(layers, of_policy, "lstm_actor")
    if layers.uses("lstm_critic"):
        after_value, more = _lstm(layers, of_value, "lstm_critic")
        return after_policy, after_value, states + more
    if layers.uses("critic"):
        return after_policy, layers.dense(of_value, "critic"), states
    return after_policy, after_policy, states


def _lstm(layers: TorchLayers, x: Any, name: str) -> tuple[Any, list[State]]:
    states: list[State] = []
    for i in range(MAX_LAYERS):
        if i and not layers.has(f"{name}.weight_ih_l{i}"):
            break
        x, more = layers.lstm(x, name, suffix=f"_l{i}")
        states += more
    return x, states


def _dense_layers(layers: TorchLayers, x: Any, prefix: str, indices: Sequence[int], activation: str) -> Any:
    """Dense layers with a non-linearity after each."""
    for i in indices:
        name = f"{prefix}.{i}"
        x = layers.activation(layers.dense(x, name), activation, f"{name}.{activation}")
    return x


def _indices(layers: TorchLayers, prefix: str) -> list[int]:
    """Where dense layers lie in a sequence."""
    return [i for i in range(2 * MAX_LAYERS) if layers.has(f"{prefix}.{i}")]
