"""Checkpoints of train-procgen-pytorch and its forks: `model_<steps>.pth`.

The state dict is under `state_dict` (joonleesky's), or under `model_state_dict` beside the optimiser's (jbkjr's and
later forks).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rl_clarity.checkpoints import state_dicts
from rl_clarity.checkpoints.checkpoint import Checkpoint, sha256

if TYPE_CHECKING:
    from rl_clarity.agents.keras_agent import KerasAgent

DESCRIPTION = "train-procgen-pytorch (.pth)"
FIRST = "embedder.block1.conv.weight"
NEEDED = (FIRST, "embedder.fc.weight", "fc_policy.weight", "fc_value.weight")
METADATA = {"library": "train-procgen-pytorch", "env_kind": "procgen", "gamma": 0.999, "lambda": 0.95}
NOTE = (
    "the file does not say which game it is for, nor its options: give env_name, and distribution_mode if it is not "
    "'hard'; gamma and lambda are the program's defaults"
)


def sniff(path: Path, head: bytes) -> bool:
    tensors = state_dicts.shapes(path, head)
    return all(name in tensors for name in NEEDED)


def read(path: Path) -> Checkpoint:
    """Read a checkpoint; raises CheckpointError if it is damaged."""
    parameters = state_dicts.arrays(path)
    network = "impala_gru" if "gru.gru.weight_ih_l0" in parameters else "impala"
    return Checkpoint(path, "procgen_pytorch", network, parameters, METADATA, sha256(path), (NOTE,))


def agent(checkpoint: Checkpoint) -> KerasAgent:
    """The agent of a checkpoint."""
    from rl_clarity.agents.keras_agent import KerasAgent
    from rl_clarity.networks import procgen_pytorch

    shape = state_dicts.observation_shape(checkpoint, FIRST, 64)
    return KerasAgent(procgen_pytorch.build(checkpoint.parameters, shape), checkpoint.metadata)
