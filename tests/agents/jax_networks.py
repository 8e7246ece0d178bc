"""Small JAX networks, as users write them with Flax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

Parameters = Any


class Residual(nn.Module):
    """An actor-critic with a residual block, and activations written in several ways."""

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.Conv(4, (4, 4), strides=4, name="conv1")(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = x + nn.Conv(4, (3, 3))(jnp.maximum(nn.Conv(4, (3, 3))(x), 0))
        x = nn.silu(nn.Dense(16)(nn.relu(x).reshape(len(x), -1)))
        return nn.Dense(5, name="actor")(x), nn.Dense(1, name="critic")(x)[:, 0]


class Recurrent(nn.Module):
    """An LSTM core; the state is (c, h)."""

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Any, state: Any) -> Any:
        x = nn.relu(nn.Conv(4, (4, 4), strides=4)(x))
        state, x = nn.OptimizedLSTMCell(8)(state, x.reshape(len(x), -1))
        return {"logits": nn.Dense(5)(x), "value": nn.Dense(1)(x), "state": state}


def channels_first(parameters: Parameters, x: Any) -> Any:
    """Action values, with feature maps (B, c, h, w)."""
    kernel, weights = parameters
    x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (4, 4), "VALID"))
    return x.reshape(len(x), -1) @ weights


def initialized(name: str, shape: tuple[int, int, int] = (44, 44, 4)) -> tuple[Callable[..., Any], Parameters]:
    """The function and the parameters of a network."""
    key = jax.random.key(0)
    if name == "ChannelsFirst":
        kernel = jax.random.normal(key, (4, shape[2], 4, 4)) / 8
        return channels_first, (kernel, jax.random.normal(key, (4 * (shape[0] // 4) * (shape[1] // 4), 5)) / 22)
    module: Any = {"Residual": Residual, "Recurrent": Recurrent}[name]()
    state = ((jnp.zeros((1, 8)), jnp.zeros((1, 8))),) if name == "Recurrent" else ()
    return module.apply, module.init(key, jnp.zeros((1, *shape)), *state)
