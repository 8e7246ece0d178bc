"""Read state dicts of CleanRL's scripts for image observations (`cleanrl_networks.NETWORKS`).

The names of the tensors identify the script that wrote a file. The file contains nothing else, so the metadata are the
script's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.keras_agent import KerasAgent
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.checkpoint import Checkpoint, CheckpointFile, Format
from rl_clarity.formats.cleanrl_networks import NETWORKS, first_kernel, script
from rl_clarity.formats.torch_layers import ASSUMED, ASSUMPTION, observation_shape

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
OFF_POLICY = {key: value for key, value in ATARI.items() if key != "lambda"}
METADATA: Mapping[str, Mapping[str, Any]] = {
    "ppo_atari": ATARI,
    "ppo_atari_lstm": {**ATARI, "frame_stack": 1},
    "ppo_rnd_envpool": {**ATARI, "gamma": 0.999, "use_sticky_actions": True},
    "ppo_procgen": PROCGEN,
    "ppg_procgen": PROCGEN,
    **dict.fromkeys(
        ("dqn_atari", "c51_atari", "rainbow_atari", "qdagger_dqn_atari_impalacnn", "sac_atari"), OFF_POLICY
    ),
}
NOTES = {
    "ppo_rnd_envpool": "values come from critic_ext, which predicts the game's rewards; critic_int is not read",
    "ppg_procgen": "values come from the head critic; aux_critic is not read",
    "c51_atari": "action values are the expectations of the distributions over the atoms in the file",
    "rainbow_atari": "action values are the expectations of the distributions over the atoms in the file, without the "
    "noise of training",
}
"""Notes for the user about how the outputs of a script's network are read."""
SIDES = {"atari": 84, "procgen": 64}
MOST_ACTIONS = 18
"""Largest number of actions of an Atari game."""
DISTRIBUTIONS = {200: "the quantiles of QR-DQN", 51: "the atoms of C51"}
"""The number of outputs per action of networks that predict a distribution of returns, with what these outputs are."""
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


def recognize(file: CheckpointFile) -> bool:
    return script(file.tensor_shapes) is not None


def read(file: CheckpointFile) -> Checkpoint:
    """Read a state dict. Raises CheckpointError if it is damaged."""
    parameters = file.tensors()
    name = script(parameters) or ""
    metadata = dict(METADATA[name])
    if metadata["env_kind"] == "atari":
        channels = _input_channels(parameters, name)
        metadata["frame_stack"] = None if channels == MULTI_AGENT_CHANNELS else channels
    notes = (ASSUMPTION, *([NOTES[name]] if name in NOTES else []))
    return Checkpoint(file.path, "cleanrl", name, parameters, metadata, file.sha256, notes)


def build_agent(checkpoint: Checkpoint) -> KerasAgent:
    """Build the agent. Raises CheckpointError if a tensor does not fit."""
    if checkpoint.network not in NETWORKS:
        raise CheckpointError(f"unknown CleanRL network {checkpoint.network!r}; available: {', '.join(NETWORKS)}")
    _check_meaning(checkpoint)
    kernel = first_kernel(checkpoint.network)
    side = SIDES[METADATA[checkpoint.network]["env_kind"]]
    metadata = {**ASSUMED, **checkpoint.metadata}
    shape = observation_shape(checkpoint, kernel, side)
    network = NETWORKS[checkpoint.network](checkpoint.parameters, shape, metadata["activation"])
    return KerasAgent(network, metadata, input_divisor=float(metadata["input_divisor"]))


FORMAT = Format(f"CleanRL state dicts ({', '.join(NETWORKS)})", recognize, read, build_agent)


def _input_channels(parameters: Mapping[str, np.ndarray], network: str) -> int:
    kernel = parameters[first_kernel(network)]  # (filters, gray frames, h, w)
    return int(kernel.shape[1]) if kernel.ndim == 4 else 0


def _check_meaning(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for a network that has the tensor names of a supported script, but whose inputs or outputs
    seem to have a different meaning. Do not raise it if the metadata `frame_stack` or `num_actions` confirm the usual
    meaning.
    """
    parameters, path = checkpoint.parameters, str(checkpoint.path)
    channels = _input_channels(parameters, checkpoint.network) if checkpoint.network == "ppo_atari" else 0
    if channels == MULTI_AGENT_CHANNELS and checkpoint.metadata.get("frame_stack") is None:
        raise CheckpointError(
            f"its input has {channels} channels, like that of ppo_pettingzoo_ma_atari, which divides only the first "
            f"four by 255. If all of them are frames, pass frame_stack={channels} (--metadata frame_stack {channels}). "
            "Otherwise, this script reads the file:",
            MULTI_AGENT_SCRIPT.format(path=path),
        )
    if checkpoint.network == "dqn_atari":
        outputs = len(parameters["network.9.weight"])
        for count, what in DISTRIBUTIONS.items():
            is_distribution = outputs % count == 0 and 2 <= outputs // count <= MOST_ACTIONS
            if is_distribution and checkpoint.metadata.get("num_actions") != outputs:
                actions = outputs // count
                raise CheckpointError(
                    f"its {outputs} outputs seem to be {what}, {count} for each of {actions} actions. If each output "
                    f"is an action, pass num_actions={outputs} (--metadata num_actions {outputs}). Otherwise, this "
                    "script reads the file:",
                    DISTRIBUTION_SCRIPT.format(path=path, actions=actions, count=count),
                )
