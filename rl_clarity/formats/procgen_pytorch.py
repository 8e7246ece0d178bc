"""Read the checkpoints `model_<steps>.pth` of train-procgen-pytorch and its forks. Their networks consist of an IMPALA
CNN of any width, an optional GRU and dense heads.

The key of the state dict is `state_dict` in files of joonleesky's program, and `model_state_dict`, beside the
optimizer's state dict, in files of jbkjr's and later forks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network, StatePart
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.torch_layers import ASSUMED, ASSUMPTION, ImpalaNames, TorchLayers, impala, observation_shape

BLOCK_NAMES = ImpalaNames(lambda i: f"embedder.block{i + 1}", ("res1", "res2"), ("conv1", "conv2"), "embedder")
FIRST = "embedder.block1.conv.weight"
GRU = "gru.gru"
INITIAL_STATE = "init_hx"
TENSORS = (FIRST, "embedder.fc.weight", "fc_policy.weight", "fc_value.weight")
SIDE = 64
METADATA = {**ASSUMED, "library": "train-procgen-pytorch", "env_kind": "procgen", "gamma": 0.999, "lambda": 0.95}
NOTE = "the file does not contain the options of the game: pass distribution_mode if it is not 'hard'"


def recognize(file: CheckpointFile) -> bool:
    return all(name in file.tensor_shapes for name in TENSORS)


def read(file: CheckpointFile) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError if it is damaged."""
    parameters = file.tensors()
    network = "impala_gru" if "gru.gru.weight_ih_l0" in parameters else "impala"
    return Checkpoint(file.path, "procgen_pytorch", network, parameters, METADATA, file.sha256, (NOTE, ASSUMPTION))


def build_network(
    parameters: Mapping[str, np.ndarray], observation_shape: tuple[int, int, int], activation: str = "relu"
) -> Network:
    """Build the network of a state dict.

    A fork of the program learns the initial state of the GRU, `init_hx`. Only the first episode starts from it: after
    an episode the fork restores this state, but then its mask for `done` sets the state to zero.
    """
    layers = TorchLayers({name: array for name, array in parameters.items() if name != INITIAL_STATE}, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.activate(layers.dense(impala(layers, observations, BLOCK_NAMES), "embedder.fc"), "embedder.fc")
    states: list[StatePart] = []
    if layers.uses(GRU):
        x, states = layers.gru(x, GRU)
    heads = {"policy_logits": layers.dense(x, "fc_policy"), "values": layers.dense(x, "fc_value")}
    network = layers.builder.finish([observations], heads, states)
    if INITIAL_STATE not in parameters:
        return network
    initial = _initial_state(parameters[INITIAL_STATE], states)
    return replace(network, initial_state=(initial,), later_state=network.initial_state)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    shape = observation_shape(checkpoint, FIRST, SIDE)
    metadata = {**ASSUMED, **checkpoint.metadata}
    network = build_network(checkpoint.parameters, shape, metadata["activation"])
    return KerasAgent(network, metadata, input_divisor=float(metadata["input_divisor"]))


FORMAT = Format("train-procgen-pytorch (.pth)", recognize, read, build_agent)


def _initial_state(array: np.ndarray, states: list[StatePart]) -> np.ndarray:
    shape = states[0][2].shape if states else None
    if shape is None or array.size != shape[0] or not np.isfinite(array).all():
        raise CheckpointError(
            f"tensor {INITIAL_STATE!r} has the shape {array.shape}; it must have the shape {shape} and finite values"
        )
    return np.asarray(array, np.float32).reshape(shape)
