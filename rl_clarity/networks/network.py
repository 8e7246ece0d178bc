"""Build a Keras model while keeping track of which stored tensor is which variable.

An architecture describes itself once, to a `NetworkBuilder`. The same description makes a fresh network for training,
loads stored parameters (each is checked before anything of its size is allocated) and names the tensors for saving.

Keras forbids `/` in names, TensorFlow 1 used it everywhere: an operation called `ppo2_model/pi/1a/Relu` is
`ppo2_model>pi>1a>Relu` inside the Keras model. (PyTorch, on which Keras may run, forbids dots.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.errors import CheckpointError

if TYPE_CHECKING:
    import keras

SEPARATOR = ">"


@dataclass(frozen=True)
class Network:
    """A Keras model with named heads, and the names of its tensors in a checkpoint."""

    model: keras.Model
    """Inputs: observations, then the state. Outputs: the heads, then the state after."""
    heads: tuple[str, ...]
    """Names of the first outputs: `policy_logits` (B, A) and `values` (B, 1), or `q_values` (B, A)."""
    tensors: Mapping[str, Tensor]
    """By name in a checkpoint, in the order of construction."""
    initial_state: tuple[np.ndarray, ...] = ()
    """One array a state input, without the batch axis."""
    later_state: tuple[np.ndarray, ...] | None = None
    """What later episodes start from, where that is not the initial state."""

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the parameters, as a checkpoint stores them."""
        return {name: tensor.read() for name, tensor in self.tensors.items()}

    def assign(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set all parameters from arrays as a checkpoint stores them."""
        for name, tensor in self.tensors.items():
            tensor.assign(parameters[name])


@dataclass(frozen=True)
class Layout:
    """How a checkpoint arranges the numbers of a variable."""

    stored_shape: tuple[int, ...]
    split: tuple[int, ...] | None = None
    """The stored shape with some axes split in several; None for none."""
    axes: tuple[int, ...] | None = None
    """Axes of `split` in the variable's order, which may join some of them; None for the same order."""

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
    """A variable of the model, and how a checkpoint keeps it."""

    variable: Any
    layout: Layout

    def read(self) -> np.ndarray:
        import keras

        return self.layout.to_stored(np.array(keras.ops.convert_to_numpy(self.variable.value), np.float32))

    def assign(self, array: np.ndarray) -> None:
        self.variable.assign(self.layout.to_variable(array, tuple(self.variable.shape)))


class NetworkBuilder:
    """Makes the layers of one network, from stored parameters or, where there are none, from an initialiser."""

    def __init__(self, parameters: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> None:
        self.parameters = parameters
        self.tensors: dict[str, Tensor] = {}
        self._seeds = np.random.SeedSequence(seed)

    def input(self, shape: tuple[int, ...], name: str) -> Any:
        import keras

        return keras.Input(shape, name=name, dtype="float32")

    def relu(self, x: Any, name: str) -> Any:
        import keras

        return keras.layers.Activation("relu", name=keras_name(name))(x)

    def conv(
        self,
        x: Any,
        filters: int,
        size: int,
        name: str,
        *,
        kernel: str,
        bias: str,
        strides: int = 1,
        padding: str = "same",
        initializer: Any = "glorot_uniform",
        stored_bias_shape: tuple[int, ...] | None = None,
    ) -> Any:
        """Convolution and bias; `kernel` and `bias` name the stored tensors."""
        import keras

        self.expect(kernel, (size, size, int(x.shape[-1]), filters))
        self.expect(bias, stored_bias_shape or (filters,))
        layer = keras.layers.Conv2D(
            filters,
            size,
            strides=strides,
            padding=padding,
            name=keras_name(name),
            kernel_initializer=self._initializer(initializer),
        )
        y = layer(x)
        self.store(kernel, layer.kernel)
        self.store(bias, layer.bias, Layout(stored_bias_shape) if stored_bias_shape else None)
        return y

    def dense(
        self, x: Any, units: int, name: str, *, kernel: str, bias: str, initializer: Any = "glorot_uniform"
    ) -> Any:
        """Matrix product and bias; `kernel` and `bias` name the stored tensors."""
        import keras

        self.expect(kernel, (int(x.shape[-1]), units))
        self.expect(bias, (units,))
        layer = keras.layers.Dense(units, name=keras_name(name), kernel_initializer=self._initializer(initializer))
        y = layer(x)
        self.store(kernel, layer.kernel)
        self.store(bias, layer.bias)
        return y

    def orthogonal(self, gain: float) -> Any:
        """Orthogonal initialiser with this gain, for a fresh network."""
        import keras

        return keras.initializers.Orthogonal(gain, seed=self._next_seed())

    def expect(self, name: str, shape: tuple[int, ...]) -> None:
        """Check a stored tensor before a variable of its size is made."""
        if self.parameters is None:
            return
        if name not in self.parameters:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise CheckpointError(f"tensor {name!r} of shape {shape} is missing; the checkpoint has: {known}")
        array = self.parameters[name]
        if tuple(array.shape) != shape:
            raise CheckpointError(f"tensor {name!r} has the shape {tuple(array.shape)}, the network needs {shape}")
        if not np.all(np.isfinite(array)):
            count = int(np.size(array) - np.count_nonzero(np.isfinite(array)))
            raise CheckpointError(f"tensor {name!r} of shape {shape} holds {count} values that are NaN or infinite")

    def finish(
        self, inputs: list[Any], heads: Mapping[str, Any], states: Sequence[tuple[Any, Any, np.ndarray]] = ()
    ) -> Network:
        """The network; `states` are (input, output, initial value) of each part of a recurrent state."""
        import keras

        if self.parameters is not None:
            extra = sorted(set(self.parameters) - set(self.tensors))
            if extra:
                shapes = ", ".join(f"{name!r} {tuple(self.parameters[name].shape)}" for name in extra)
                raise CheckpointError(f"the network has no place for these tensors of the checkpoint: {shapes}")
        model = keras.Model(inputs + [state[0] for state in states], [*heads.values(), *(state[1] for state in states)])
        return Network(model, tuple(heads), self.tensors, tuple(state[2] for state in states))

    def store(self, name: str, variable: Any, layout: Layout | None = None) -> None:
        """Enter a variable under its name in a checkpoint, and give it the stored numbers if there are any."""
        tensor = Tensor(variable, layout or Layout(tuple(variable.shape)))
        if self.parameters is not None:
            tensor.assign(self.parameters[name])
        self.tensors[name] = tensor

    def _initializer(self, initializer: Any) -> Any:
        if self.parameters is not None:
            return "zeros"
        if initializer == "glorot_uniform":
            import keras

            return keras.initializers.GlorotUniform(seed=self._next_seed())
        return initializer

    def _next_seed(self) -> int:
        return int(self._seeds.spawn(1)[0].generate_state(1)[0] % 2**31)


def keras_name(name: str) -> str:
    """Name that Keras accepts for an operation."""
    return name.replace("/", SEPARATOR)


def full_name(keras_name: str) -> str:
    """Name of an operation as TensorFlow 1 wrote it."""
    return keras_name.replace(SEPARATOR, "/")


def snake_case(class_name: str) -> str:
    """How Keras names what has no name of its own: `Conv2D` is conv2d, `MaxPooling2D` max_pooling2d, `ReLU` re_lu."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
