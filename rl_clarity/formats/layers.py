"""Create the layers of a Keras model, and keep track of which stored tensor belongs to which variable.

The code of an architecture calls the methods of a `NetworkBuilder`. The same code creates a new network for training,
loads stored parameters (each is checked before memory of its size is allocated), and names the tensors for saving.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl_clarity.agents.network import Layout, Network, StatePart, Tensor, keras_name
from rl_clarity.base.errors import CheckpointError, OtherNetworkError

MAX_ACTIVATIONS = 1 << 27
"""Largest number of activations that all layers together may compute for an observation. They take half a gigabyte."""


class NetworkBuilder:
    """Creates the layers of a network, either with stored parameters or with new ones that are initialized from
    a seed.
    """

    def __init__(self, parameters: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> None:
        self.parameters = parameters
        self.tensors: dict[str, Tensor] = {}
        self._seeds = np.random.SeedSequence(seed)
        self._activations = 0

    def input(self, shape: tuple[int, ...], name: str) -> Any:
        import keras

        return self.count(keras.Input(shape, name=name, dtype="float32"), name)

    def count(self, tensor: Any, name: str) -> Any:
        """Add the size of a layer's output to the number of activations, and return the output. Raises CheckpointError
        if the number exceeds MAX_ACTIVATIONS.
        """
        self._activations += math.prod(map(int, tensor.shape[1:]))
        if self._activations > MAX_ACTIVATIONS:
            raise CheckpointError(
                f"layer {name!r} computes {' x '.join(map(str, tensor.shape[1:]))} activations per frame, but all "
                f"layers together may compute at most {MAX_ACTIVATIONS}"
            )
        return tensor

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
        """Apply a convolution with bias. `kernel` and `bias` are names of stored tensors."""
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
        y = self.count(layer(x), name)
        self.store(kernel, layer.kernel)
        self.store(bias, layer.bias, Layout(stored_bias_shape) if stored_bias_shape else None)
        return y

    def dense(
        self, x: Any, units: int, name: str, *, kernel: str, bias: str, initializer: Any = "glorot_uniform"
    ) -> Any:
        """Apply a dense layer. `kernel` and `bias` are names of stored tensors."""
        import keras

        self.expect(kernel, (int(x.shape[-1]), units))
        self.expect(bias, (units,))
        layer = keras.layers.Dense(units, name=keras_name(name), kernel_initializer=self._initializer(initializer))
        y = layer(x)
        self.store(kernel, layer.kernel)
        self.store(bias, layer.bias)
        return y

    def orthogonal(self, gain: float) -> Any:
        """Return an orthogonal initializer with the given gain, for a new network."""
        import keras

        return keras.initializers.Orthogonal(gain, seed=self._next_seed())

    def expect(self, name: str, shape: tuple[int, ...]) -> None:
        """Check that a stored tensor exists and has the given shape and finite values, before a variable of its size is
        allocated. Raises CheckpointError if it does not. If the network is new, do nothing.
        """
        if self.parameters is None:
            return
        if name not in self.parameters:
            known = ", ".join(sorted(self.parameters)) or "none"
            raise OtherNetworkError(f"tensor {name!r} of shape {shape} is missing; the checkpoint has: {known}")
        array = self.parameters[name]
        if tuple(array.shape) != shape:
            raise OtherNetworkError(
                f"tensor {name!r} has the shape {tuple(array.shape)}, but the network needs {shape}"
            )
        if not np.all(np.isfinite(array)):
            count = int(np.size(array) - np.count_nonzero(np.isfinite(array)))
            raise CheckpointError(f"tensor {name!r} of shape {shape} has {count} values that are NaN or infinite")

    def finish(self, inputs: list[Any], heads: Mapping[str, Any], states: Sequence[StatePart] = ()) -> Network:
        """Return the network. Raises CheckpointError if the network does not use all stored tensors."""
        import keras

        if self.parameters is not None:
            extra = sorted(set(self.parameters) - set(self.tensors))
            if extra:
                shapes = ", ".join(f"{name!r} {tuple(self.parameters[name].shape)}" for name in extra)
                raise OtherNetworkError(f"the checkpoint has tensors that the network does not have: {shapes}")
        model = keras.Model(inputs + [state[0] for state in states], [*heads.values(), *(state[1] for state in states)])
        return Network(model, tuple(heads), self.tensors, tuple(state[2] for state in states))

    def store(self, name: str, variable: Any, layout: Layout | None = None) -> None:
        """Register a variable under its name in a checkpoint. If the network is built from stored parameters, assign
        the stored tensor to it.
        """
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
