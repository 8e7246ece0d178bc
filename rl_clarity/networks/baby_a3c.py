"""The network of baby-a3c: four convolutions of stride 2, a GRU, linear heads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rl_clarity.networks.network import Network
from rl_clarity.networks.torch_layers import TorchLayers

CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4")


def build(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """The network of a state dict. Its convolutions are padded on both sides, unlike "same" with stride 2."""
    layers = TorchLayers(parameters)
    observations = layers.builder.input(observation_shape, "observations")
    x = observations
    for name in CONVOLUTIONS:
        x = layers.activation(layers.conv(x, name, size=3, strides=2, padding=1), "elu", f"{name}.elu")
    x, states = layers.gru(x, "gru", suffix="")
    heads = {"policy_logits": layers.dense(x, "actor_linear"), "values": layers.dense(x, "critic_linear")}
    return layers.builder.finish([observations], heads, states)
