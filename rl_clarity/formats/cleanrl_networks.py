"""Build the networks of CleanRL's scripts for image observations from their state dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.network import Layout, Network, StatePart
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.torch_layers import ImpalaNames, TorchLayers, impala, nature

Parameters = Mapping[str, np.ndarray]
Shape = tuple[int, int, int]
BLOCK_NAMES = ImpalaNames("network.{}".format, ("res_block0", "res_block1"), ("conv0", "conv1"), "network")
UNUSED = (".weight_sigma", ".weight_epsilon", ".bias_sigma", ".bias_epsilon")
"""Suffixes of the tensors of Rainbow's noise, which its layers add only during training."""


def ppo_atari(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the Nature CNN, an LSTM if the parameters contain one, and dense heads."""
    layers, observations = _begin(parameters, observation_shape, activation)
    x = _activated(layers, nature(layers, observations, "network"), "network.7")
    states: list[StatePart] = []
    if layers.uses("lstm"):
        x, states = layers.lstm(x, "lstm")
    return layers.builder.finish([observations], _heads(layers, x), states)


def ppo_rnd(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the Nature CNN, further dense layers, the policy head, and the value head for the game's rewards.

    The value head for the intrinsic rewards (`critic_int`) is omitted.
    """
    kept = {name: array for name, array in parameters.items() if not name.startswith("critic_int.")}
    layers, observations = _begin(kept, observation_shape, activation)
    x = _activated(layers, nature(layers, observations, "network"), "network.7")
    x = _activated(layers, x, "network.9")
    policy = layers.dense(_activated(layers, x, "actor.0"), "actor.2")
    values = layers.dense(x + _activated(layers, x, "extra_layer.0"), "critic_ext")
    return layers.builder.finish([observations], {"policy_logits": policy, "values": values})


def ppo_procgen(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the IMPALA CNN and dense heads. The auxiliary value head of `ppg_procgen` is omitted.

    The script flattens the feature maps before the last activation instead of after it, which gives the same result.
    """
    kept = {name: array for name, array in parameters.items() if not name.startswith("aux_critic.")}
    layers, observations = _begin(kept, observation_shape, activation)
    x = _activated(layers, impala(layers, observations, BLOCK_NAMES), "network.5")
    return layers.builder.finish([observations], _heads(layers, x))


def dqn_atari(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the Nature CNN and a head of action values."""
    layers, observations = _begin(parameters, observation_shape, activation)
    x = _activated(layers, nature(layers, observations, "network"), "network.7")
    return layers.builder.finish([observations], {"q_values": layers.dense(x, "network.9")})


def c51_atari(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the Nature CNN and action values, which are the expectations of C51's distributions over `atoms`."""
    layers, observations = _begin(parameters, observation_shape, activation)
    x = _activated(layers, nature(layers, observations, "network"), "network.7")
    outputs = _distributions(layers, layers.dense(x, "network.9"), "atoms")
    return layers.builder.finish([observations], {"q_values": _expectations(layers, outputs, "atoms")})


def rainbow_atari(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the Nature CNN, Rainbow's dueling heads without noise, and action values, which are the expectations of the
    distributions.

    The distribution for an action over the atoms `support` is `softmax(value + advantage - mean(advantage))`.
    """
    from keras import ops

    kept = {name: array for name, array in parameters.items() if not name.endswith(UNUSED)}
    layers, observations = _begin(kept, observation_shape, activation)
    x = nature(layers, observations, "network")
    value, advantage = (
        layers.dense(layers.activate(layers.dense(x, f"{head}.0", "_mu"), f"{head}.0"), f"{head}.2", "_mu")
        for head in ("value_head", "advantage_head")
    )
    value, advantage = (_distributions(layers, outputs, "support") for outputs in (value, advantage))
    outputs = value + advantage - ops.mean(advantage, axis=1, keepdims=True)
    return layers.builder.finish([observations], {"q_values": _expectations(layers, outputs, "support")})


def qdagger(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the IMPALA CNN and a head of action values, which is the student's network."""
    layers, observations = _begin(parameters, observation_shape, activation)
    x = _activated(layers, impala(layers, observations, BLOCK_NAMES), "network.5")
    return layers.builder.finish([observations], {"q_values": layers.dense(x, "network.7")})


def sac_atari(parameters: Parameters, observation_shape: Shape, activation: str = "relu") -> Network:
    """Build the actor (the Nature CNN and logits) or one of the critics (the Nature CNN and action values)."""
    layers, observations = _begin(parameters, observation_shape, activation)
    x = _activated(layers, nature(layers, observations, "conv"), "fc1")
    head = {"policy_logits": "fc_logits"} if layers.has("fc_logits") else {"q_values": "fc_q"}
    return layers.builder.finish([observations], {name: layers.dense(x, layer) for name, layer in head.items()})


NETWORKS: Mapping[str, Callable[[Parameters, Shape, str], Network]] = {
    "ppo_atari": ppo_atari,
    "ppo_atari_lstm": ppo_atari,
    "ppo_rnd_envpool": ppo_rnd,
    "ppo_procgen": ppo_procgen,
    "ppg_procgen": ppo_procgen,
    "dqn_atari": dqn_atari,
    "c51_atari": c51_atari,
    "rainbow_atari": rainbow_atari,
    "qdagger_dqn_atari_impalacnn": qdagger,
    "sac_atari": sac_atari,
}
"""The functions that build the networks, by the name of the script."""


def script(tensors: Mapping[str, Any]) -> str | None:
    """Return the name of the script whose networks have these tensors, or None for tensors of other networks."""
    if "network.0.conv.weight" in tensors:
        if "actor.weight" in tensors:
            return "ppg_procgen" if "aux_critic.weight" in tensors else "ppo_procgen"
        return "qdagger_dqn_atari_impalacnn" if "network.7.weight" in tensors else None
    if "conv.4.weight" in tensors and "fc1.weight" in tensors:
        return "sac_atari" if "fc_logits.weight" in tensors or "fc_q.weight" in tensors else None
    if "network.0.weight" not in tensors:
        return None
    if "advantage_head.2.weight_mu" in tensors and "support" in tensors:
        return "rainbow_atari"
    if "network.7.weight" not in tensors:
        return None
    if "critic_ext.weight" in tensors:
        return "ppo_rnd_envpool"
    if "actor.weight" in tensors:
        return "ppo_atari_lstm" if "lstm.weight_ih_l0" in tensors else "ppo_atari"
    if "network.9.weight" not in tensors:
        return None
    return "c51_atari" if "atoms" in tensors else "dqn_atari"


def first_kernel(network: str) -> str:
    """Return the name of the kernel of the first convolution."""
    if network == "sac_atari":
        return "conv.0.weight"
    is_impala = NETWORKS[network] in (ppo_procgen, qdagger)
    return "network.0.conv.weight" if is_impala else "network.0.weight"


def _begin(parameters: Parameters, observation_shape: Shape, activation: str) -> tuple[TorchLayers, Any]:
    layers = TorchLayers(parameters, activation)
    return layers, layers.builder.input(observation_shape, "observations")


def _activated(layers: TorchLayers, x: Any, name: str) -> Any:
    return layers.activate(layers.dense(x, name), name)


def _heads(layers: TorchLayers, x: Any) -> dict[str, Any]:
    return {"policy_logits": layers.dense(x, "actor"), "values": layers.dense(x, "critic")}


def _distributions(layers: TorchLayers, outputs: Any, atoms: str) -> Any:
    """Reshape outputs (B, A x n) to (B, A, n), for A actions and n atoms. Raises CheckpointError if the number of
    outputs is not a multiple of n.
    """
    import keras

    width, count = int(outputs.shape[-1]), layers.size(atoms)
    if width % count:
        raise CheckpointError(f"tensor {atoms!r} has {count} atoms, but the {width} outputs are not a multiple of it")
    return keras.layers.Reshape((width // count, count))(outputs)


def _expectations(layers: TorchLayers, outputs: Any, atoms: str) -> Any:
    """Return the expectations (B, A) of the distributions over `atoms` (n,) that are the softmax of `outputs`
    (B, A, n).
    """
    import keras

    count = layers.size(atoms)
    layers.builder.expect(atoms, (count,))
    mean = keras.layers.Dense(1, use_bias=False, name=atoms)
    values = mean(keras.layers.Softmax(axis=-1)(outputs))  # (B, A, 1)
    layers.builder.store(atoms, mean.kernel, Layout((count,)))
    return keras.layers.Reshape((int(outputs.shape[1]),))(values)
