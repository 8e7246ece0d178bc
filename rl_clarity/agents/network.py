"""A Keras model as the network of an agent, with the names of its heads, and of its tensors in a checkpoint.

Names in TensorFlow 1 contain `/`, which Keras forbids. Names in PyTorch contain dots, which Keras forbids if it runs on
PyTorch. The operation `ppo2_model/pi/1a/Relu` is therefore called `ppo2_model>pi>1a>Relu` in the Keras model, and
`cnn.1` is called `cnn->1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import keras

SEPARATOR, DOT = ">", "->"
StatePart = tuple[Any, Any, np.ndarray]
"""The symbolic input, symbolic output and initial value of an array of a recurrent state."""


@dataclass(frozen=True)
class Network:
    """A Keras model with named heads, and the names of its tensors in a checkpoint."""

    model: keras.Model
    """The Keras model. Its inputs are the observations, then the state; its outputs are the heads, then the
    next state."""
    heads: tuple[str, ...]
    """Names of the first outputs: `policy_logits` (B, A), with or without `values` (B, 1), or `q_values` (B, A)."""
    tensors: Mapping[str, Tensor]
    """The variables by name in a checkpoint, in the order of construction."""
    initial_state: tuple[np.ndarray, ...] = ()
    """The initial array, without the batch axis, for each input of the state."""
    later_state: tuple[np.ndarray, ...] | None = None
    """The state at the start of episodes after the first, if it differs from the initial state."""
    image: str | None = None
    """Key of the image, if observations are dictionaries."""
    held_inputs: tuple[str, ...] = ()
    """Names of the last arrays of the state, which are inputs besides the image (see `held_inputs`)."""

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters in the layout of a checkpoint."""
        return {name: tensor.read() for name, tensor in self.tensors.items()}

    def assign(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set all parameters from arrays in the layout of a checkpoint."""
        for name, tensor in self.tensors.items():
            tensor.assign(parameters[name])


@dataclass(frozen=True)
class Layout:
    """How a checkpoint stores a variable."""

    stored_shape: tuple[int, ...]
    split: tuple[int, ...] | None = None
    """The stored shape with some axes split, or None if no axis is split."""
    axes: tuple[int, ...] | None = None
    """The axes of `split` in the order of the variable's axes, or None if the order is the same. An axis of the
    variable may consist of several of these axes."""

    def to_variable(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        split, axes = self._steps()
        return np.asarray(array, np.float32).reshape(split).transpose(axes).reshape(shape)

    def to_stored(self, array: np.ndarray) -> np.ndarray:
        split, axes = self._steps()
        array = array.reshape([split[axis] for axis in axes])
        return np.ascontiguousarray(array.transpose(np.argsort(axes))).reshape(self.stored_shape)

    def _steps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        split = self.split or self.stored_shape
        return split, self.axes or tuple(range(len(split)))


@dataclass(frozen=True)
class Tensor:
    """A variable of the model and its layout in a checkpoint."""

    variable: Any
    layout: Layout

    def read(self) -> np.ndarray:
        import keras

        return self.layout.to_stored(np.array(keras.ops.convert_to_numpy(self.variable.value), np.float32))

    def assign(self, array: np.ndarray) -> None:
        self.variable.assign(self.layout.to_variable(array, tuple(self.variable.shape)))


def keras_name(name: str) -> str:
    """Convert the name of an operation to a name that Keras accepts."""
    return name.replace("/", SEPARATOR).replace(".", DOT)


def full_name(keras_name: str) -> str:
    """Convert the name of a Keras operation to the name in TensorFlow 1 or PyTorch."""
    return keras_name.replace(DOT, ".").replace(SEPARATOR, "/")


def snake_case(class_name: str) -> str:
    """Return Keras's default name for a class: `conv2d` for `Conv2D`, `max_pooling2d` for `MaxPooling2D`."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
