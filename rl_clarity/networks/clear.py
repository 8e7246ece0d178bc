"""`clear`: five wide convolutions with L2 pooling, made to be interpreted (Understanding RL Vision, 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_clarity.networks.baselines import SCOPE
from rl_clarity.networks.network import NetworkBuilder

OPTIONS: Mapping[str, Any] = {}

# name, filters, kernel size, pooled
CONVOLUTIONS = (
    ("1a", 16, 7, True),
    ("2a", 32, 5, False),
    ("2b", 32, 5, True),
    ("3a", 32, 5, True),
    ("4a", 32, 5, True),
)
DENSE = (("dense", 256), ("dense_1", 512))


def body(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Features (B, 512) of observations / 255 (B, H, W, C)."""
    import keras

    for name, filters, size, pooled in CONVOLUTIONS:
        scope = f"{SCOPE}/pi/{name}"
        x = builder.conv(
            x, filters, size, f"{scope}/conv2d", kernel=f"{scope}/conv2d/kernel:0", bias=f"{scope}/conv2d/bias:0"
        )
        x = builder.relu(x, f"{scope}/Relu")
        if pooled:
            x = l2_pool(x)
    x = keras.layers.Flatten()(x)
    for name, units in DENSE:
        scope = f"{SCOPE}/pi/{name}"
        x = builder.dense(x, units, scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0")
        x = builder.relu(x, f"{scope}/Relu")
    return x


def l2_pool(x: Any) -> Any:
    """Root of the mean square over 2 x 2 positions; the small constant keeps its gradient finite at 0."""
    from keras import ops

    return ops.sqrt(ops.average_pool(ops.square(x), 2, strides=2, padding="same") + 1e-8)
