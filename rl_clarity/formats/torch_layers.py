"""Build PyTorch's layers in Keras, and the CNNs that several programs share.

PyTorch stores the kernel of a convolution as (out, in, height, width) and of a dense layer as (out, in); it flattens
feature maps in the order channels, rows, columns; and it pads both sides equally, unlike TensorFlow's "same". Layers
are named as in the state dict and read `<name>.weight` and `<name>.bias`. The stored shapes determine the sizes of
layers. Feature maps are (B, H, W, C).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.network import Layout, StatePart, keras_name
from rl_clarity.base.errors import CheckpointError, OtherNetworkError
from rl_clarity.formats.checkpoint import Checkpoint
from rl_clarity.formats.layers import NetworkBuilder

MAX_SIZE = 65536
MAX_BLOCKS = 16
MAX_CHANNELS = 256
NATURE = ((8, 4), (4, 2), (3, 1))  # kernel size and stride of each convolution
ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "GELU": "gelu", "SiLU": "silu", "Identity": "linear"}
"""The Keras name of each supported activation function, by its class name in PyTorch."""
ASSUMED = {"activation": "relu", "input_divisor": 255}
"""Metadata that are assumed for programs that do not record them in their state dicts."""
ASSUMPTION = (
    "a state dict does not record the activation functions, the divisor of observations, gamma and lambda, so those of "
    "the program are assumed. The metadata activation, input_divisor, gamma and lambda override them; the "
    "option check compares the agent's outputs with those of the original network"
)


class TorchLayers:
    """Creates layers from a state dict."""

    def __init__(
        self,
        parameters: Mapping[str, np.ndarray],
        activation: str = "relu",
        *,
        module: str | None = None,
        vectors: bool = False,
    ) -> None:
        """Prepare to create the layers of a network.

        Args:
            parameters: the state dict
            activation: Keras name of the activation function that `activate` applies by default
            module: a submodule ("" for the whole network). Operations are named after the submodules in PyTorch,
                relative to `module`, and an activation is named like the item that follows its layer in a `Sequential`.
                By default, names have slashes instead of dots, and an activation is named after its function
            vectors: observations are vectors (B, 1, 1, n), and dense layers keep the axes of length 1
        """
        if activation not in ACTIVATIONS.values():
            raise CheckpointError(f"activation={activation!r} must be one of {', '.join(ACTIVATIONS.values())}")
        self.parameters = parameters
        self.builder = NetworkBuilder(parameters)
        self._activation, self._module, self.vectors = activation, module, vectors

    def has(self, name: str) -> bool:
        """Return whether the state dict has a layer or tensor of this name."""
        return name in self.parameters or f"{name}.weight" in self.parameters

    def uses(self, part: str) -> bool:
        """Return whether the state dict has tensors with this prefix."""
        return any(name.startswith(f"{part}.") for name in self.parameters)

    def size(self, tensor: str, axis: int = 0) -> int:
        """Return the length of an axis of a stored tensor. Raises CheckpointError if the tensor or the axis is missing,
        or if the length is not from 1 to MAX_SIZE.
        """
        if tensor not in self.parameters:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise OtherNetworkError(f"tensor {tensor!r} is missing; the checkpoint has: {known}")
        shape = self.parameters[tensor].shape
        if len(shape) <= axis or not 1 <= shape[axis] <= MAX_SIZE:
            raise CheckpointError(
                f"tensor {tensor!r} has the shape {tuple(shape)}; the length of axis {axis} must be 1 to {MAX_SIZE}"
            )
        return int(shape[axis])

    def conv(self, x: Any, name: str, *, size: int, strides: int = 1, padding: int = 0) -> Any:
        """Apply a convolution with a square kernel, a bias, and `padding` zeros on every side."""
        import keras

        kernel, bias = f"{name}.weight", f"{name}.bias"
        filters, depth = self.size(kernel), int(x.shape[-1])
        stored = (filters, depth, size, size)
        self.builder.expect(kernel, stored)
        self.builder.expect(bias, (filters,))
        if padding:
            x = keras.layers.ZeroPadding2D(padding)(x)
        layer = keras.layers.Conv2D(
            filters, size, strides=strides, padding="valid", kernel_initializer="zeros", name=self.operation_name(name)
        )
        y = self.builder.count(layer(x), name)
        self.builder.store(kernel, layer.kernel, Layout(stored, axes=(2, 3, 1, 0)))
        self.builder.store(bias, layer.bias)
        return y

    def max_pool(self, x: Any, *, size: int, strides: int, padding: int) -> Any:
        """Apply max pooling. The padding does not affect the maxima."""
        import keras

        around = (padding, padding)
        x = keras.ops.pad(x, ((0, 0), around, around, (0, 0)), constant_values=-np.inf)
        return keras.layers.MaxPooling2D(size, strides=strides, padding="valid")(x)

    def dense(self, x: Any, name: str, suffix: str = "") -> Any:
        """Apply a dense layer, whose tensors are `<name>.weight<suffix>` and `<name>.bias<suffix>`.

        Feature maps are flattened first, in PyTorch's order: channels, rows, columns.
        """
        kernel = f"{name}.weight{suffix}"
        return self._product(x, name, kernel, f"{name}.bias{suffix}", self.size(kernel))

    def activate(self, x: Any, part: str, kind: str | None = None, index: str = "") -> Any:
        """Apply an activation function (by default the one passed to the constructor) to the output of the submodule
        `part`.
        """
        import keras

        kind = kind or self._activation
        name = f"{part}.{kind}{index}"
        if self._module is not None:
            sequential, _, position = part.rpartition(".")
            name = f"{sequential}.{int(position) + 1}"
        return keras.layers.Activation(kind, name=self.operation_name(name))(x)

    def lstm(self, x: Any, name: str, suffix: str = "_l0") -> tuple[Any, list[StatePart]]:
        """Apply one step of an LSTM. Return its output (B, units) and the recurrent states h and c, which start at
        zero.
        """
        from keras import ops

        size = self.size(f"{name}.weight_hh{suffix}", axis=1)
        h, c = (self.builder.input((size,), self.operation_name(f"{name}.{part}{suffix}")) for part in "hc")
        gates_x, gates_h = self._gates(x, h, name, suffix, 4 * size)
        i, f, g, o = ops.split(gates_x + gates_h, 4, axis=-1)
        c_after = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h_after = ops.sigmoid(o) * ops.tanh(c_after)
        zeros = np.zeros(size, np.float32)
        return h_after, [(h, h_after, zeros), (c, c_after, zeros)]

    def gru(self, x: Any, name: str, suffix: str = "_l0") -> tuple[Any, list[StatePart]]:
        """Apply one step of a GRU. Return its output (B, units) and the recurrent state h, which starts at zero."""
        from keras import ops

        size = self.size(f"{name}.weight_hh{suffix}", axis=1)
        h = self.builder.input((size,), self.operation_name(f"{name}.h{suffix}"))
        gates_x, gates_h = self._gates(x, h, name, suffix, 3 * size)
        x_reset, x_update, x_new = ops.split(gates_x, 3, axis=-1)
        h_reset, h_update, h_new = ops.split(gates_h, 3, axis=-1)
        update = ops.sigmoid(x_update + h_update)
        # in PyTorch the reset gate applies to the bias in h_new, too
        new = ops.tanh(x_new + ops.sigmoid(x_reset + h_reset) * h_new)
        h_after = (1.0 - update) * new + update * h
        return h_after, [(h, h_after, np.zeros(size, np.float32))]

    def _gates(self, x: Any, h: Any, name: str, suffix: str, units: int) -> tuple[Any, Any]:
        gates_x, gates_h = (
            self._product(
                y, f"{name}.{part}{suffix}", f"{name}.weight_{part}{suffix}", f"{name}.bias_{part}{suffix}", units
            )
            for y, part in ((x, "ih"), (h, "hh"))
        )
        return gates_x, gates_h

    def _product(self, x: Any, name: str, kernel: str, bias: str, units: int) -> Any:
        import keras

        feature_map = tuple(map(int, x.shape[1:])) if len(x.shape) == 4 and not self.vectors else None
        stored = (units, int(np.prod(x.shape[1:])))
        self.builder.expect(kernel, stored)
        self.builder.expect(bias, (units,))
        if feature_map is None:
            layout = Layout(stored, axes=(1, 0))
        else:
            height, width, depth = feature_map
            layout = Layout(stored, split=(units, depth, height, width), axes=(2, 3, 1, 0))
            x = keras.layers.Flatten()(x)
        layer = keras.layers.Dense(units, kernel_initializer="zeros", name=self.operation_name(name))
        y = layer(x)
        self.builder.store(kernel, layer.kernel, layout)
        self.builder.store(bias, layer.bias)
        return y

    def operation_name(self, name: str) -> str:
        """Return the name of the Keras operation for a PyTorch submodule."""
        return keras_name(name.replace(".", "/") if self._module is None else name.removeprefix(f"{self._module}."))


def nature(layers: TorchLayers, x: Any, prefix: str) -> Any:
    """Build the convolutions of the Nature CNN (Mnih et al., 2015), which are in a `Sequential` with their activations.
    Return feature maps (B, h, w, c).
    """
    for i, (size, strides) in enumerate(NATURE):
        name = f"{prefix}.{2 * i}"
        x = layers.activate(layers.conv(x, name, size=size, strides=strides), name)
    return x


@dataclass(frozen=True)
class ImpalaNames:
    """The names that a program gives to the submodules of the IMPALA CNN."""

    block: Callable[[int], str]
    residuals: Sequence[str]
    convolutions: Sequence[str]
    body: str
    """Name of the submodule that contains the blocks. The activation after the last block is named after it."""


def impala(layers: TorchLayers, x: Any, names: ImpalaNames) -> Any:
    """Build the blocks of the IMPALA CNN, each with a convolution, max pooling over 3 x 3 positions, and residual
    units. Return feature maps (B, h, w, c).

    The network was introduced with IMPALA (Espeholt et al., 2018), https://arxiv.org/abs/1802.01561. The state dict
    determines the number of blocks.
    """
    import keras

    blocks = 0
    while layers.has(f"{names.block(blocks)}.conv") and blocks < MAX_BLOCKS:
        block = names.block(blocks)
        x = layers.conv(x, f"{block}.conv", size=3, padding=1)
        x = layers.max_pool(x, size=3, strides=2, padding=1)
        for residual in names.residuals:
            y = x
            for i, conv in enumerate(names.convolutions):
                y = layers.activate(y, f"{block}.{residual}", index=str(i))
                y = layers.conv(y, f"{block}.{residual}.{conv}", size=3, padding=1)
            x = keras.layers.Add()([y, x])
        blocks += 1
    if not blocks:
        raise CheckpointError(f"tensor '{names.block(0)}.conv.weight' is missing")
    return layers.activate(x, names.body)


def observation_shape(checkpoint: Checkpoint, kernel: str, side: int) -> tuple[int, int, int]:
    """Return the input shape (H, W, C). It is the metadata `observation_shape` if that is set, and otherwise
    (side, side, C), where C is the number of input channels of the stored tensor `kernel`.
    """
    override = checkpoint.metadata.get("observation_shape")
    if override is not None:
        height, width, channels = map(int, override)
        return height, width, channels
    shape = checkpoint.parameters[kernel].shape if kernel in checkpoint.parameters else ()
    if len(shape) != 4 or not 1 <= shape[1] <= MAX_CHANNELS:
        raise CheckpointError(f"tensor {kernel!r} has the shape {tuple(shape)}; it must be (filters, channels, h, w)")
    return side, side, int(shape[1])
