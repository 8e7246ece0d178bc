"""State dicts of CleanRL's scripts `ppo_atari`, `ppo_atari_lstm`, `ppo_procgen` and `dqn_atari`.

The tensors tell which script wrote a file. It contains nothing else: the metadata are the scripts' defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network, StatePart
from rl_clarity.errors import CheckpointError
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.torch_layers import (
    ASSUMED,
    ASSUMPTION,
    ImpalaNames,
    TorchLayers,
    impala,
    nature,
    observation_shape,
)

ATARI = {
    **ASSUMED,
    "library": "cleanrl",
    "env_kind": "atari",
    "frame_stack": 4,
    "frame_stack_padding": "first",
    "episodic_life": True,
    "gamma": 0.99,
    "lambda": 0.95,
}
PROCGEN = {
    **ASSUMED,
    "library": "cleanrl",
    "env_kind": "procgen",
    "distribution_mode": "easy",
    "gamma": 0.999,
    "lambda": 0.95,
}
METADATA: Mapping[str, Mapping[str, Any]] = {
    "ppo_atari": ATARI,
    "ppo_atari_lstm": {**ATARI, "frame_stack": 1},
    "ppo_procgen": PROCGEN,
    "dqn_atari": {key: value for key, value in ATARI.items() if key != "lambda"},
}
SIDES = {"atari": 84, "procgen": 64}
Parameters = Mapping[str, np.ndarray]
BLOCK_NAMES = ImpalaNames("network.{}".format, ("res_block0", "res_block1"), ("conv0", "conv1"), "network")


def recognize(file: CheckpointFile) -> bool:
    return script(file.tensor_shapes) is not None


def read(file: CheckpointFile) -> Checkpoint:
    """Read a state dict; raises CheckpointError if it is damaged."""
    parameters = file.tensors()
    name = script(parameters) or ""
    metadata = dict(METADATA[name])
    if metadata["env_kind"] == "atari":
        kernel = parameters["network.0.weight"]  # (filters, gray frames, h, w)
        metadata["frame_stack"] = int(kernel.shape[1]) if kernel.ndim == 4 else 0
    return Checkpoint(file.path, "cleanrl", name, parameters, metadata, file.sha256, (ASSUMPTION,))


def script(tensors: Mapping[str, Any]) -> str | None:
    """Name of the script whose agent has these tensors."""
    if "network.0.conv.weight" in tensors and "actor.weight" in tensors:
        return "ppo_procgen"
    if "network.0.weight" not in tensors or "network.7.weight" not in tensors:
        return None
    if "actor.weight" in tensors:
        return "ppo_atari_lstm" if "lstm.weight_ih_l0" in tensors else "ppo_atari"
    return "dqn_atari" if "network.9.weight" in tensors else None


def ppo_atari(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """Nature's body, an LSTM if the parameters have one, dense heads."""
    layers = TorchLayers(parameters, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.activate(layers.dense(nature(layers, observations, "network"), "network.7"), "network.7")
    states: list[StatePart] = []
    if layers.uses("lstm"):
        x, states = layers.lstm(x, "lstm")
    return layers.builder.finish([observations], _heads(layers, x), states)


def ppo_procgen(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """IMPALA's body and dense heads. The script flattens before the last activation, with the same result."""
    layers = TorchLayers(parameters, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = impala(layers, observations, BLOCK_NAMES)
    x = layers.activate(layers.dense(x, "network.5"), "network.5")
    return layers.builder.finish([observations], _heads(layers, x))


def dqn_atari(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """Nature's body and action values."""
    layers = TorchLayers(parameters, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.activate(layers.dense(nature(layers, observations, "network"), "network.7"), "network.7")
    return layers.builder.finish([observations], {"q_values": layers.dense(x, "network.9")})


NETWORKS = {
    "ppo_atari": ppo_atari,
    "ppo_atari_lstm": ppo_atari,
    "ppo_procgen": ppo_procgen,
    "dqn_atari": dqn_atari,
}


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent; raises CheckpointError where a tensor does not fit."""
    if checkpoint.network not in NETWORKS:
        raise CheckpointError(f"unknown CleanRL network {checkpoint.network!r}; available: {', '.join(NETWORKS)}")
    kernel = "network.0.conv.weight" if checkpoint.network == "ppo_procgen" else "network.0.weight"
    side = SIDES[METADATA[checkpoint.network]["env_kind"]]
    metadata = {**ASSUMED, **checkpoint.metadata}
    shape = observation_shape(checkpoint, kernel, side)
    network = NETWORKS[checkpoint.network](checkpoint.parameters, shape, metadata["activation"])
    return KerasAgent(network, metadata, input_divisor=float(metadata["input_divisor"]))


FORMAT = Format("CleanRL state dicts (ppo_atari, ppo_atari_lstm, ppo_procgen, dqn_atari)", recognize, read, build_agent)


def _heads(layers: TorchLayers, x: Any) -> dict[str, Any]:
    return {"policy_logits": layers.dense(x, "actor"), "values": layers.dense(x, "critic")}
