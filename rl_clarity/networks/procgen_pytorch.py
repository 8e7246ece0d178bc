"""The network of train-procgen-pytorch and its forks: IMPALA's body of any width, maybe a GRU, dense heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rl_clarity.errors import CheckpointError
from rl_clarity.networks.network import Network
from rl_clarity.networks.torch_bodies import ImpalaNames, impala
from rl_clarity.networks.torch_layers import State, TorchLayers

BLOCK_NAMES = ImpalaNames(lambda i: f"embedder.block{i + 1}", ("res1", "res2"), ("conv1", "conv2"), "embedder.relu")
GRU = "gru.gru"
INITIAL = "init_hx"


def build(parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int]) -> Network:
    """The network of a state dict.

    A learned initial state (`init_hx`, in a fork) is what the program starts from. After an episode it puts it back,
    but the mask that comes with `done` then makes it zero: so later episodes start from zeros.
    """
    layers = TorchLayers({name: array for name, array in parameters.items() if name != INITIAL})
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.relu(layers.dense(impala(layers, observations, BLOCK_NAMES), "embedder.fc"), "embedder.fc.relu")
    states: list[State] = []
    if layers.uses(GRU):
        x, states = layers.gru(x, GRU)
    heads = {"policy_logits": layers.dense(x, "fc_policy"), "values": layers.dense(x, "fc_value")}
    network = layers.builder.finish([observations], heads, states)
    if INITIAL not in parameters:
        return network
    return replace(network, initial_state=(_initial(parameters[INITIAL], states),), later_state=network.initial_state)


def _initial(array: np.ndarray, states: list[State]) -> np.ndarray:
    needed = states[0][2].shape if states else None
    if array.size != (needed or (0,))[0] or not np.isfinite(array).all():
        raise CheckpointError(
            f"tensor {INITIAL!r} has the shape {array.shape}, the network needs {needed}, and numbers that are finite"
        )
    return np.asarray(array, np.float32).reshape(needed or ())
