"""Networks by name. Adding one is one file with `OPTIONS` and `body`, and one line here."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.errors import CheckpointError

if TYPE_CHECKING:
    from rl_clarity.networks.network import Network

ARCHITECTURES = {
    "clear": "rl_clarity.networks.clear",
    "impala": "rl_clarity.networks.impala",
    "nature": "rl_clarity.networks.nature",
}


OPTIONS: Mapping[str, Any] = {"use_lstm": False}
"""What every architecture may have besides its own options."""


def build(
    name: str,
    observation_shape: tuple[int, int, int],
    num_actions: int,
    options: Mapping[str, Any] | None = None,
    *,
    parameters: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> Network:
    """Build an architecture, from stored parameters or, without them, freshly initialised from `seed`.

    `options` may hold more than the architecture asks for (`stack_channels`, `emb_size`, `use_lstm`): a checkpoint's
    metadata.
    Raises CheckpointError for an unknown name, and for parameters that do not fit, naming the tensor and both shapes.
    """
    from rl_clarity.networks.baselines import build_actor_critic

    if name not in ARCHITECTURES:
        near = difflib.get_close_matches(str(name), ARCHITECTURES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise CheckpointError(f"unknown network {name!r}; known ones are {', '.join(ARCHITECTURES)}{hint}")
    module = importlib.import_module(ARCHITECTURES[name])
    given = options or {}
    chosen = {key: given.get(key, default) for key, default in {**module.OPTIONS, **OPTIONS}.items()}
    return build_actor_critic(module.body, observation_shape, num_actions, chosen, parameters, seed)
