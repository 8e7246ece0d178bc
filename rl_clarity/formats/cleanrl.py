"""State dicts of the scripts `ppo_atari`, `ppo_atari_lstm`, `ppo_procgen` and `dqn_atari` of CleanRL.

The tensors show which script wrote a file. The file contains nothing else, so the metadata are the scripts' defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.agents.network import Network, StatePart
from rl_clarity.base.errors import CheckpointError
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
MOST_ACTIONS = 18
"""Largest number of actions of an Atari game."""
DISTRIBUTIONS = {200: "the quantiles of QR-DQN", 51: "the atoms of C51"}
"""Numbers of outputs per action of networks that predict a distribution of returns."""
MULTI_AGENT_CHANNELS = 6
"""Input channels of `ppo_pettingzoo_ma_atari`: four frames, and two channels that show whose turn it is."""

MULTI_AGENT_SCRIPT = """
    import torch
    import rl_clarity
    from ppo_pettingzoo_ma_atari import Agent                  # CleanRL's script, with its envs

    module = Agent(envs)
    module.load_state_dict(torch.load({path!r}))
    def forward(module, x, state):                             # x: (B, 6, H, W) from 0 to 255
        hidden = module.network(torch.cat([x[:, :4] / 255, x[:, 4:]], dim=1))
        return module.actor(hidden), module.critic(hidden)
    agent = rl_clarity.TorchAgent(module, (84, 84, 6), input_divisor=1, forward=forward)"""

DISTRIBUTION_SCRIPT = """
    import torch
    import rl_clarity
    from my_script import QNetwork                             # the class of the script that trained it, with its envs

    module = QNetwork(envs)
    module.load_state_dict(torch.load({path!r}))
    def forward(module, x, state):                             # x: (B, 4, H, W) from 0 to 1
        outputs = module.network(x).view(len(x), {actions}, {count})
        return outputs.mean(dim=2)                             # the mean of quantiles; for atoms of C51 instead:
        # return (outputs.softmax(dim=2) * module.atoms).sum(dim=2)
    agent = rl_clarity.TorchAgent(module, (84, 84, 4), forward=forward, heads=("q_values",))"""
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
        channels = _input_channels(parameters)
        metadata["frame_stack"] = None if channels == MULTI_AGENT_CHANNELS else channels
    return Checkpoint(file.path, "cleanrl", name, parameters, metadata, file.sha256, (ASSUMPTION,))


def script(tensors: Mapping[str, Any]) -> str | None:
    """Return the name of the script whose agents have these tensors."""
    if "network.0.conv.weight" in tensors and "actor.weight" in tensors:
        return "ppo_procgen"
    if "network.0.weight" not in tensors or "network.7.weight" not in tensors:
        return None
    if "actor.weight" in tensors:
        return "ppo_atari_lstm" if "lstm.weight_ih_l0" in tensors else "ppo_atari"
    return "dqn_atari" if "network.9.weight" in tensors else None


def ppo_atari(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """Build Nature's body, an LSTM if the parameters contain one, and dense heads."""
    layers = TorchLayers(parameters, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = layers.activate(layers.dense(nature(layers, observations, "network"), "network.7"), "network.7")
    states: list[StatePart] = []
    if layers.uses("lstm"):
        x, states = layers.lstm(x, "lstm")
    return layers.builder.finish([observations], _heads(layers, x), states)


def ppo_procgen(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """Build IMPALA's body and dense heads. The script flattens before the last activation, which gives the
    same result.
    """
    layers = TorchLayers(parameters, activation)
    observations = layers.builder.input(observation_shape, "observations")
    x = impala(layers, observations, BLOCK_NAMES)
    x = layers.activate(layers.dense(x, "network.5"), "network.5")
    return layers.builder.finish([observations], _heads(layers, x))


def dqn_atari(parameters: Parameters, observation_shape: tuple[int, int, int], activation: str = "relu") -> Network:
    """Build Nature's body and action values."""
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
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    if checkpoint.network not in NETWORKS:
        raise CheckpointError(f"unknown CleanRL network {checkpoint.network!r}; available: {', '.join(NETWORKS)}")
    _check_meaning(checkpoint)
    kernel = "network.0.conv.weight" if checkpoint.network == "ppo_procgen" else "network.0.weight"
    side = SIDES[METADATA[checkpoint.network]["env_kind"]]
    metadata = {**ASSUMED, **checkpoint.metadata}
    shape = observation_shape(checkpoint, kernel, side)
    network = NETWORKS[checkpoint.network](checkpoint.parameters, shape, metadata["activation"])
    return KerasAgent(network, metadata, input_divisor=float(metadata["input_divisor"]))


FORMAT = Format("CleanRL state dicts (ppo_atari, ppo_atari_lstm, ppo_procgen, dqn_atari)", recognize, read, build_agent)


def _input_channels(parameters: Parameters) -> int:
    kernel = parameters["network.0.weight"]  # (filters, gray frames, h, w)
    return int(kernel.shape[1]) if kernel.ndim == 4 else 0


def _check_meaning(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for a network with the same tensor names but another meaning, unless the metadata say
    otherwise.
    """
    parameters, path = checkpoint.parameters, str(checkpoint.path)
    channels = _input_channels(parameters) if checkpoint.network == "ppo_atari" else 0
    if channels == MULTI_AGENT_CHANNELS and checkpoint.metadata.get("frame_stack") is None:
        raise CheckpointError(
            f"its input has {channels} channels, as that of ppo_pettingzoo_ma_atari, which divides only the first four "
            f"by 255: give frame_stack={channels} (--metadata frame_stack {channels}) if all of them are frames. Else "
            "this script reads it:",
            MULTI_AGENT_SCRIPT.format(path=path),
        )
    if checkpoint.network == "dqn_atari":
        outputs = len(parameters["network.9.weight"])
        for count, what in DISTRIBUTIONS.items():
            is_distribution = outputs % count == 0 and 2 <= outputs // count <= MOST_ACTIONS
            if is_distribution and checkpoint.metadata.get("num_actions") != outputs:
                actions = outputs // count
                raise CheckpointError(
                    f"its {outputs} outputs seem to be {what}, {count} for each of {actions} actions: give "
                    f"num_actions={outputs} (--metadata num_actions {outputs}) if each is an action. Else this script "
                    "reads it:",
                    DISTRIBUTION_SCRIPT.format(path=path, actions=actions, count=count),
                )


def _heads(layers: TorchLayers, x: Any) -> dict[str, Any]:
    return {"policy_logits": layers.dense(x, "actor"), "values": layers.dense(x, "critic")}
