"""What the networks of OpenAI Baselines share: the scope their tensors are named under, and the two heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rl_clarity.networks.lstm import State, lstm
from rl_clarity.networks.network import Network, NetworkBuilder

SCOPE = "ppo2_model"
Body = Callable[[NetworkBuilder, Any, Mapping[str, Any]], Any]


def build_actor_critic(
    body: Body,
    observation_shape: tuple[int, int, int],
    num_actions: int,
    options: Mapping[str, Any],
    parameters: Mapping[str, np.ndarray] | None,
    seed: int,
) -> Network:
    """A body, from observations / 255 to features, with `use_lstm` a memory, and linear heads for policy and value."""
    builder = NetworkBuilder(parameters, seed)
    observations = builder.input(observation_shape, "observations")
    features = body(builder, observations, options)
    states: list[State] = []
    if options.get("use_lstm"):
        features, states = lstm(builder, features)
    heads = {
        "policy_logits": builder.dense(
            features,
            num_actions,
            f"{SCOPE}/pi/add",
            kernel=f"{SCOPE}/pi/w:0",
            bias=f"{SCOPE}/pi/b:0",
            initializer=builder.orthogonal(0.01),
        ),
        "values": builder.dense(
            features,
            1,
            f"{SCOPE}/vf/add",
            kernel=f"{SCOPE}/vf/w:0",
            bias=f"{SCOPE}/vf/b:0",
            initializer=builder.orthogonal(1.0),
        ),
    }
    return builder.finish([observations], heads, states)
