"""`nature`: the three convolutions of Mnih et al. (2015), as Baselines stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_clarity.networks.baselines import SCOPE
from rl_clarity.networks.network import NetworkBuilder

OPTIONS: Mapping[str, Any] = {}

CONVOLUTIONS = (("c1", 32, 8, 4), ("c2", 64, 4, 2), ("c3", 64, 3, 1))  # name, filters, kernel size, stride


def body(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Features (B, 512) of observations / 255 (B, H, W, C)."""
    import keras

    gain = 2**0.5
    for i, (name, filters, size, strides) in enumerate(CONVOLUTIONS):
        scope = f"{SCOPE}/pi/{name}"
        x = builder.conv(
            x,
            filters,
            size,
            scope,
            kernel=f"{scope}/w:0",
            bias=f"{scope}/b:0",
            strides=strides,
            padding="valid",
            initializer=builder.orthogonal(gain),
            stored_bias_shape=(1, filters, 1, 1),  # Baselines adds it to NCHW as well
        )
        x = builder.relu(x, f"{SCOPE}/pi/Relu" + (f"_{i}" if i else ""))
    x = keras.layers.Flatten()(x)
    scope = f"{SCOPE}/pi/fc1"
    x = builder.dense(x, 512, scope, kernel=f"{scope}/w:0", bias=f"{scope}/b:0", initializer=builder.orthogonal(gain))
    return builder.relu(x, f"{SCOPE}/pi/Relu_{len(CONVOLUTIONS)}")
