"""Layers as PyTorch computes and stores them, in Keras.

PyTorch keeps a convolution's kernel as (out, in, height, width) and a dense layer's as (out, in); it flattens channels,
rows, columns; and it pads both sides alike where TensorFlow's "same" may not. Layers are named as in the state dict,
whose `<name>.weight` and `<name>.bias` they read; sizes come from the stored shapes. Pictures are (B, H, W, C), as in
all of Keras.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.errors import CheckpointError
from rl_clarity.networks.network import Layout, NetworkBuilder, keras_name

LARGEST = 65536
State = tuple[Any, Any, np.ndarray]
"""Input, output and initial value of one part of a recurrent state."""


class TorchLayers:
    """Makes layers from a state dict."""

    def __init__(self, parameters: Mapping[str, np.ndarray]) -> None:
        self.parameters = parameters
        self.builder = NetworkBuilder(parameters)

    def has(self, name: str) -> bool:
        """Whether there is a layer or a tensor of this name."""
        return name in self.parameters or f"{name}.weight" in self.parameters

    def uses(self, part: str) -> bool:
        """Whether any tensor belongs to this part of the network."""
        return any(name.startswith(f"{part}.") for name in self.parameters)

    def size(self, tensor: str, axis: int = 0) -> int:
        """A length that the network takes from the shape of a stored tensor."""
        if tensor not in self.parameters:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise CheckpointError(f"tensor {tensor!r} is missing; the checkpoint has: {known}")
        shape = self.parameters[tensor].shape
        if len(shape) <= axis or not 1 <= shape[axis] <= LARGEST:
            raise CheckpointError(f"tensor {tensor!r} has the shape {tuple(shape)}: its axis {axis} gives a size")
        return int(shape[axis])

    def conv(self, x: Any, name: str, *, size: int, strides: int = 1, padding: int = 0) -> Any:
        """Convolution of a square kernel, `padding` zeros on every side, with bias."""
        import keras

        kernel, bias = f"{name}.weight", f"{name}.bias"
        filters, depth = self.size(kernel), int(x.shape[-1])
        stored = (filters, depth, size, size)
        self.builder.expect(kernel, stored)
        self.builder.expect(bias, (filters,))
        if padding:
            x = keras.layers.ZeroPadding2D(padding)(x)
        layer = keras.layers.Conv2D(
            filters, size, strides=strides, padding="valid", kernel_initializer="zeros", name=_name(name)
        )
        y = layer(x)
        self.builder.store(kernel, layer.kernel, Layout(stored, axes=(2, 3, 1, 0)))
        self.builder.store(bias, layer.bias)
        return y

    def max_pool(self, x: Any, *, size: int, strides: int, padding: int) -> Any:
        """Maximum over windows of positions; the padding never is one."""
        import keras

        around = (padding, padding)
        x = keras.ops.pad(x, ((0, 0), around, around, (0, 0)), constant_values=-np.inf)
        return keras.layers.MaxPooling2D(size, strides=strides, padding="valid")(x)

    def dense(self, x: Any, name: str) -> Any:
        """Matrix product and bias; pictures are flattened in PyTorch's order: channels, rows, columns."""
        kernel = f"{name}.weight"
        return self._product(x, name, kernel, f"{name}.bias", self.size(kernel))

    def relu(self, x: Any, name: str) -> Any:
        return self.builder.relu(x, name.replace(".", "/"))

    def activation(self, x: Any, kind: str, name: str) -> Any:
        """A non-linearity by Keras's name."""
        import keras

        return keras.layers.Activation(kind, name=_name(name))(x)

    def lstm(self, x: Any, name: str, suffix: str = "_l0") -> tuple[Any, list[State]]:
        """One step of a long short-term memory: its output (B, H), and the states h and c, which start as zeros."""
        from keras import ops

        size = self.size(f"{name}.weight_hh{suffix}", axis=1)
        h, c = (self.builder.input((size,), _name(f"{name}.{part}{suffix}")) for part in "hc")
        of_x, of_h = self._gates(x, h, name, suffix, 4 * size)
        i, f, g, o = ops.split(of_x + of_h, 4, axis=-1)
        c_after = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h_after = ops.sigmoid(o) * ops.tanh(c_after)
        zeros = np.zeros(size, np.float32)
        return h_after, [(h, h_after, zeros), (c, c_after, zeros)]

    def gru(self, x: Any, name: str, suffix: str = "_l0") -> tuple[Any, list[State]]:
        """One step of a gated recurrent unit: its output (B, H), and the state h, which starts as zeros."""
        from keras import ops

        size = self.size(f"{name}.weight_hh{suffix}", axis=1)
        h = self.builder.input((size,), _name(f"{name}.h{suffix}"))
        of_x, of_h = self._gates(x, h, name, suffix, 3 * size)
        x_reset, x_update, x_new = ops.split(of_x, 3, axis=-1)
        h_reset, h_update, h_new = ops.split(of_h, 3, axis=-1)
        update = ops.sigmoid(x_update + h_update)
        new = ops.tanh(x_new + ops.sigmoid(x_reset + h_reset) * h_new)  # h_new holds a bias, which is reset, too
        h_after = (1 - update) * new + update * h
        return h_after, [(h, h_after, np.zeros(size, np.float32))]

    def _gates(self, x: Any, h: Any, name: str, suffix: str, units: int) -> tuple[Any, Any]:
        of_x, of_h = (
            self._product(
                y, f"{name}.{part}{suffix}", f"{name}.weight_{part}{suffix}", f"{name}.bias_{part}{suffix}", units
            )
            for y, part in ((x, "ih"), (h, "hh"))
        )
        return of_x, of_h

    def _product(self, x: Any, name: str, kernel: str, bias: str, units: int) -> Any:
        import keras

        picture = tuple(map(int, x.shape[1:])) if len(x.shape) == 4 else None
        stored = (units, int(np.prod(x.shape[1:])))
        self.builder.expect(kernel, stored)
        self.builder.expect(bias, (units,))
        if picture is None:
            layout = Layout(stored, axes=(1, 0))
        else:
            height, width, depth = picture
            layout = Layout(stored, split=(units, depth, height, width), axes=(2, 3, 1, 0))
            x = keras.layers.Flatten()(x)
        layer = keras.layers.Dense(units, kernel_initializer="zeros", name=_name(name))
        y = layer(x)
        self.builder.store(kernel, layer.kernel, layout)
        self.builder.store(bias, layer.bias)
        return y


def _name(name: str) -> str:
    """Name of an operation, from that of a part of a module."""
    return keras_name(name.replace(".", "/"))
