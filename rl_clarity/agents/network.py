"""A Keras model as the network of an agent: named heads, recurrent state, and tensors named as in a checkpoint.

Keras forbids `/` in names, TensorFlow 1 used it everywhere: the operation `ppo2_model/pi/1a/Relu` is called
`ppo2_model>pi>1a>Relu` in the Keras model. (PyTorch as Keras's backend forbids dots.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import keras

SEPARATOR = ">"
StatePart = tuple[Any, Any, np.ndarray]
"""Symbolic input, symbolic output and initial value of one part of a recurrent state."""


@dataclass(frozen=True)
class Network:
    """A Keras model with named heads, and the names of its tensors in a checkpoint."""

    model: keras.Model
    """Inputs: observations, then the state. Outputs: the heads, then the state after."""
    heads: tuple[str, ...]
    """Names of the first outputs: `policy_logits` (B, A), with or without `values` (B, 1), or `q_values` (B, A)."""
    tensors: Mapping[str, Tensor]
    """By name in a checkpoint, in the order of construction."""
    initial_state: tuple[np.ndarray, ...] = ()
    """One array per state input, without the batch axis."""
    later_state: tuple[np.ndarray, ...] | None = None
    """The state at the start of later episodes, where it differs from the initial state."""

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
    """The stored shape with some axes split; None if none is."""
    axes: tuple[int, ...] | None = None
    """Axes of `split` in the order of the variable, which may merge some of them; None for the same order."""

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
    """Convert the name of an operation to one that Keras accepts."""
    return name.replace("/", SEPARATOR)


def full_name(keras_name: str) -> str:
    """Convert the name of a Keras operation to TensorFlow 1's."""
    return keras_name.replace(SEPARATOR, "/")


def snake_case(class_name: str) -> str:
    """Return Keras's default name for a class: `Conv2D` is conv2d, `MaxPooling2D` max_pooling2d, `ReLU` re_lu."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
