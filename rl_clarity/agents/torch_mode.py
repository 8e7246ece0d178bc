"""How a PyTorch module is called: by one thread at a time, in evaluation mode and in full precision."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

lock = threading.RLock()
"""One for all modules: they may share parts, and the flags of cuDNN belong to the process."""


@contextmanager
def computing(module: Any) -> Iterator[None]:
    """Within, the module is in evaluation mode, and the same input gives the same numbers, in float32, on a GPU too.

    Afterwards each part is in the mode that it was in. Other threads wait: hooks, modes and flags are shared.
    """
    import torch

    with lock, evaluating(module), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Within, the module is in evaluation mode; afterwards each part is in the mode that it was in."""
    modes = {part: part.training for part in module.modules()}
    if not any(modes.values()):
        yield
        return
    try:
        module.eval()
        yield
    finally:
        module.train(modes[module])  # a module may do more in `train` than set the flags
        for part, training in modes.items():
            part.training = training
