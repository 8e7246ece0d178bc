"""State dicts in files of torch's, which several programs save: tensors by name, at the root or under a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.checkpoints import torch_file
from rl_clarity.checkpoints.bounded import check_size
from rl_clarity.checkpoints.checkpoint import Checkpoint
from rl_clarity.checkpoints.safe_zip import MAGIC, SafeZip
from rl_clarity.checkpoints.torch_file import StoredTensor
from rl_clarity.errors import CheckpointError

ROOTS = ("state_dict", "model_state_dict")
MAX_CHANNELS = 256


def shapes(path: Path, head: bytes) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors by name; none if the file is not of torch's."""
    if not is_torch(path, head):
        return {}
    with path.open("rb") as file:
        return {name: tensor.shape for name, tensor in _state_dict(torch_file.read(file).content).items()}


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The tensors by name."""
    with path.open("rb") as file:
        content = torch_file.read(file)
        return content.arrays(_state_dict(content.content))


def is_torch(path: Path, head: bytes) -> bool:
    """Whether `torch.save` wrote the file, in either of its formats."""
    if torch_file.is_torch_stream(head):
        return True
    if not head.startswith(MAGIC):
        return False
    check_size(path)
    with path.open("rb") as file:
        return torch_file.is_torch_archive(SafeZip(file).members)


def _state_dict(content: Any) -> dict[str, StoredTensor]:
    if isinstance(content, dict):
        for found in (content, *(content.get(root) for root in ROOTS)):
            if isinstance(found, dict) and found and all(isinstance(item, StoredTensor) for item in found.values()):
                return {str(name): tensor for name, tensor in found.items()}
    keys = ", ".join(map(repr, list(content)[:8])) if isinstance(content, dict) else f"a {type(content).__name__}"
    raise CheckpointError(
        f"holds no state dict (tensors by name) at its root or under {' or '.join(ROOTS)}; it has {keys}"
    )


def observation_shape(checkpoint: Checkpoint, kernel: str, side: int) -> tuple[int, int, int]:
    """(H, W, C) that the network sees: the metadata's `observation_shape`, or a square with the channels it reads."""
    given = checkpoint.metadata.get("observation_shape")
    if given is not None:
        height, width, channels = map(int, given)
        return height, width, channels
    shape = checkpoint.parameters[kernel].shape if kernel in checkpoint.parameters else ()
    if len(shape) != 4 or not 1 <= shape[1] <= MAX_CHANNELS:
        raise CheckpointError(f"tensor {kernel!r} has the shape {tuple(shape)}; it must be (filters, channels, h, w)")
    return side, side, int(shape[1])
