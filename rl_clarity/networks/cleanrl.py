"""The networks of CleanRL's scripts `ppo_atari`, `ppo_atari_lstm`, `ppo_procgen` and `dqn_atari`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.networks.network import Network
from rl_clarity.networks.torch_bodies import ImpalaNames, impala, nature
from rl_clarity.networks.torch_layers import State, TorchLayers

BLOCK_NAMES = ImpalaNames("network.{}".format, ("res_block0", "res_block1"), ("conv0", "conv1"), "network.relu")


def ppo_atari(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """Nature's body, and dense heads; between them an LSTM, if the parameters have one."""
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.relu(layers.dense(nature(layers, observations, "network"), "network.7"), "network.7.relu")
    states: list[State] = []
    if layers.uses("lstm"):
        x, states = layers.lstm(x, "lstm")
    return layers.builder.finish([observations], _heads(layers, x), states)


def ppo_procgen(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """IMPALA's body and dense heads. The script flattens before the last ReLU, which is the same."""
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = impala(layers, observations, BLOCK_NAMES)
    x = layers.relu(layers.dense(x, "network.5"), "network.5.relu")
    return layers.builder.finish([observations], _heads(layers, x))


def dqn_atari(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """Nature's body and action values."""
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.relu(layers.dense(nature(layers, observations, "network"), "network.7"), "network.7.relu")
    return layers.builder.finish([observations], {"q_values": layers.dense(x, "network.9")})


def _heads(layers: TorchLayers, x: Any) -> dict[str, Any]:
    return {"policy_logits": layers.dense(x, "actor"), "values": layers.dense(x, "critic")}
