"""`impala`: residual blocks as in IMPALA (Espeholt et al., 2018), in the form Baselines and Procgen used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_clarity.errors import CheckpointError
from rl_clarity.networks.baselines import SCOPE
from rl_clarity.networks.network import NetworkBuilder

OPTIONS: Mapping[str, Any] = {"stack_channels": "16_32_32", "emb_size": 256}
LARGEST = 65536


def body(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Features (B, emb_size) of observations / 255 (B, H, W, C)."""
    import keras

    names = _Names()

    def conv(x: Any, filters: int) -> Any:
        scope = names.layer()
        return builder.conv(x, filters, 3, scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0")

    def relu(x: Any) -> Any:
        return builder.relu(x, names.relu())

    def residual(x: Any) -> Any:
        depth = int(x.shape[-1])
        return keras.layers.Add()([conv(relu(conv(relu(x), depth)), depth), x])

    for depth in depths(options["stack_channels"]):
        x = keras.layers.MaxPooling2D(3, strides=2, padding="same")(conv(x, depth))
        x = residual(residual(x))
    x = relu(keras.layers.Flatten()(x))
    scope = names.layer()
    x = builder.dense(
        x, _size("emb_size", options["emb_size"]), scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0"
    )
    return relu(x)


def depths(stack_channels: Any) -> list[int]:
    """Depths of the blocks, from "16_32_32" or a sequence of numbers."""
    parts = stack_channels.split("_") if isinstance(stack_channels, str) else list(stack_channels)
    if not parts or len(parts) > 16:
        raise CheckpointError(f"stack_channels={stack_channels!r} has no or too many blocks; an example: '16_32_32'")
    return [_size("stack_channels", part) for part in parts]


def _size(name: str, value: Any) -> int:
    try:
        size = int(value)
    except (TypeError, ValueError):
        size = 0
    if not 1 <= size <= LARGEST:
        raise CheckpointError(f"{name}: {value!r} is not a number of channels from 1 to {LARGEST}")
    return size


class _Names:
    """TensorFlow 1's names, in the order of construction: layer_0, layer_1, ...; Relu, Relu_1, ..."""

    def __init__(self) -> None:
        self.layers = 0
        self.relus = 0

    def layer(self) -> str:
        self.layers += 1
        return f"{SCOPE}/pi/layer_{self.layers - 1}"

    def relu(self) -> str:
        self.relus += 1
        return f"{SCOPE}/pi/Relu" + (f"_{self.relus - 1}" if self.relus > 1 else "")
