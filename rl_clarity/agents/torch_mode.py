"""Call a PyTorch module in one thread at a time, in evaluation mode, and without TF32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

lock = threading.RLock()
"""A lock for all modules, because modules may share submodules, and the flags of cuDNN belong to the process."""


@contextmanager
def computing(module: Any) -> Iterator[None]:
    """In the block, keep the module in evaluation mode, and make cuDNN deterministic and compute without TF32.

    Afterwards, each submodule returns to its previous mode. Other threads wait, because hooks, modes and flags are
    shared.
    """
    import torch

    with lock, evaluating(module), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Keep the module in evaluation mode in the block. Afterwards, each submodule returns to its previous mode."""
    modes = {part: part.training for part in module.modules()}
    if not any(modes.values()):
        yield
        return
    try:
        module.eval()
        yield
    finally:
        module.train(modes[module])  # `train` may be overridden, so set the flags directly
        for part, training in modes.items():
            part.training = training
