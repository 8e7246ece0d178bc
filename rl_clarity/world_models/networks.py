"""The networks of the world model: an encoder of frames, a recurrent state-space model, and decoders.

The state of the world has a deterministic part d (B, D) and a stochastic part z (B, V x K), which consists of V one-hot
variables of K classes, as in DreamerV2 (Hafner et al. 2021, https://arxiv.org/abs/2010.02193), sections 2.1 and 2.2:

    d' = GRU(d, f(z, action)),   prior p(z' | d'),   posterior q(z' | d', encoded frame).

A simulation starts from a latent b on the unit sphere, which the encoder computes from a few frames.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Tensor
from rl_clarity.base.errors import CheckpointError
from rl_clarity.world_models.options import Size

SMALLEST_SIDE = 4
"""Side of the coarsest feature maps, in positions."""
KERNEL = 4
"""Kernel size of convolutions that halve or double the resolution. A multiple of the stride avoids checkerboard
patterns."""


class WorldModel:
    """The world model's variables, and its networks as functions of tensors of Keras's backend.

    Shapes: B simulations, or N independent rows; D, V and K as in the module's description; n dimensions of a latent; E
    units of an encoded frame; A actions; S values of the agent's state.

    Args:
        size: widths of the networks
        observation_shape: (H, W, C)
        num_actions: A
        state_size: S; 0 for agents without a state
        seed: seed of the initial values, which also depend on the variables' names
        shapes_only: create symbolic tensors instead of variables, so that no memory is allocated
    """

    def __init__(
        self,
        size: Size,
        observation_shape: tuple[int, int, int],
        num_actions: int,
        state_size: int,
        seed: int = 0,
        *,
        shapes_only: bool = False,
    ) -> None:
        self.size = size
        self.observation_shape = observation_shape
        self.num_actions, self.state_size = num_actions, state_size
        self._seed, self._shapes_only = seed, shapes_only
        side = min(observation_shape[:2])
        stages = max(1, min(len(size.channels), int(math.log2(max(side, 2) / SMALLEST_SIDE))))
        self.channels = size.channels[:stages]
        self.variables: dict[str, Any] = {}
        self._build()

    @property
    def stochastic(self) -> int:
        """Size V x K of the stochastic part of the world's state."""
        return self.size.variables * self.size.classes

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the variables by name, float32."""
        import keras

        return {
            name: np.array(keras.ops.convert_to_numpy(variable), np.float32)
            for name, variable in self.variables.items()
        }

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise CheckpointError unless these are the names and shapes of the variables."""
        different = sorted(set(self.variables) ^ set(shapes))
        if different:
            raise CheckpointError(f"the simulator's tensors do not fit its size: {', '.join(different[:5])}")
        for name, variable in self.variables.items():
            if shapes[name] != tuple(variable.shape):
                raise CheckpointError(f"tensor {name!r} of shape {shapes[name]} must have the shape {variable.shape}")

    def assign(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Set all variables.

        Raises CheckpointError for missing or unknown names, wrong shapes, and values that are not finite.
        """
        self.check_shapes({name: np.shape(array) for name, array in parameters.items()})
        for name, variable in self.variables.items():
            array = np.asarray(parameters[name], np.float32)
            if not np.isfinite(array).all():
                raise CheckpointError(f"tensor {name!r} must be finite")
            variable.assign(array)

    def encode(self, frames: Tensor) -> Tensor:
        """Encode frames (N, H, W, C) in 0..1 to (N, E) by residual convolutions."""
        from keras import ops

        x = frames - 0.5
        for i, channels in enumerate(self.channels):
            x = self._conv(x, channels, KERNEL, f"encoder/{i}", strides=2)
            if x.shape[1] <= 16:  # residual blocks at full resolution would cost as much as all other layers together
                x = self._residual(x, f"encoder/{i}")
        x = ops.elu(ops.reshape(x, (-1, math.prod(x.shape[1:]))))
        return ops.elu(self._dense(x, self.size.hidden, "encoder/features"))

    def latent(self, encoded: Tensor) -> Tensor:
        """Return the latent b (B, n) of length 1 for a few encoded frames (B, T, E), with a GRU and a dense layer."""
        from keras import ops

        state = ops.zeros_like(encoded[:, 0])
        for t in range(encoded.shape[1]):
            state = self._gru(encoded[:, t], state, "latent/gru")
        return normalized(self._dense(state, self.size.latent, "latent/out"))

    def first(self, latent: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first state of the world: d (B, D), and z (B, V x K) sampled with Gumbel noise (B, V, K)."""
        from keras import ops

        x = ops.elu(self._dense(latent, self.size.hidden, "first/hidden"))
        deterministic = ops.tanh(self._dense(x, self.size.deterministic, "first/deterministic"))
        return deterministic, self.sample(self._dense(x, self.stochastic, "first/stochastic"), noise)

    def first_of_agent(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Predict the agent's state (B, S) where a simulation starts, and the logits (B, A) of the action before it."""
        from keras import ops

        x = ops.elu(self._dense(latent, self.size.hidden, "first/agent"))
        state = self._dense(x, self.state_size, "first/state") if self.state_size else latent[:, :0]
        return state, self._dense(x, self.num_actions, "first/action")

    def transition(self, deterministic: Tensor, stochastic: Tensor, action: Tensor) -> Tensor:
        """Return the next d (B, D) after a one-hot action (B, A), with a GRU that has layer normalization."""
        from keras import ops

        x = ops.concatenate([stochastic, action], axis=-1)
        x = ops.elu(self._dense(x, self.size.hidden, "transition/in"))
        return self._gru(x, deterministic, "transition/gru")

    def prior(self, deterministic: Tensor) -> Tensor:
        """Return logits (N, V x K) of z, from d alone."""
        from keras import ops

        x = ops.elu(self._dense(deterministic, self.size.hidden, "prior/hidden"))
        return self._dense(x, self.stochastic, "prior/out")

    def posterior(self, deterministic: Tensor, encoded: Tensor) -> Tensor:
        """Return logits (N, V x K) of z, from d and the encoded frame (N, E)."""
        from keras import ops

        x = ops.concatenate([deterministic, encoded], axis=-1)
        x = ops.elu(self._dense(x, self.size.hidden, "posterior/hidden"))
        return self._dense(x, self.stochastic, "posterior/out")

    def sample(self, logits: Tensor, noise: Tensor) -> Tensor:
        """Return one-hot samples (N, V x K) for Gumbel noise (N, V, K), or the modes if the noise is 0.

        Gradients are those of the softmax (straight-through; Bengio et al. 2013, https://arxiv.org/abs/1308.3432).
        """
        from keras import ops

        parts = ops.reshape(logits, (-1, self.size.variables, self.size.classes))
        return ops.reshape(straight_through(parts, noise), (-1, self.stochastic))

    def decode(self, deterministic: Tensor, stochastic: Tensor) -> Tensor:
        """Decode states of the world to frames (N, H, W, C), with values of about 0..1."""
        from keras import ops

        height, width, colors = self.observation_shape
        scale = 2 ** len(self.channels)
        rows, columns = -(-height // scale), -(-width // scale)
        x = ops.concatenate([deterministic, stochastic], axis=-1)
        x = self._dense(x, rows * columns * self.channels[-1], "decoder/features")
        x = ops.reshape(x, (-1, rows, columns, self.channels[-1]))
        outputs = (colors, *self.channels[:-1])
        for i in reversed(range(len(self.channels))):
            if x.shape[1] <= 16:
                x = self._residual(x, f"decoder/{i}")
            x = self._conv_transpose(ops.elu(x), outputs[i], f"decoder/{i}")
        return x[:, :height, :width] + 0.5

    def outcome(self, deterministic: Tensor, stochastic: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the expected reward (N,) of an action (N, A), and the logit (N,) of the probability that the episode
        ends with it.
        """
        from keras import ops

        x = ops.concatenate([deterministic, stochastic, action], axis=-1)
        x = ops.elu(self._dense(x, self.size.hidden, "outcome/hidden"))
        x = self._dense(x, 2, "outcome/out")
        return x[:, 0], x[:, 1]

    def _build(self) -> None:
        """Create all variables by a symbolic pass through the networks."""
        import keras

        frames = keras.KerasTensor((1, *self.observation_shape))
        noise = keras.KerasTensor((1, self.size.variables, self.size.classes))
        action = keras.KerasTensor((1, self.num_actions))
        encoded = self.encode(frames)
        latent = self.latent(encoded[:, None])
        deterministic, stochastic = self.first(latent, noise)
        self.first_of_agent(latent)
        deterministic = self.transition(deterministic, stochastic, action)
        self.prior(deterministic)
        self.posterior(deterministic, encoded)
        self.decode(deterministic, stochastic)
        self.outcome(deterministic, stochastic, action)

    def _variable(self, name: str, shape: tuple[int, ...], scale: float = 0.0, constant: float = 0.0) -> Any:
        if name not in self.variables:
            import keras

            if self._shapes_only:
                self.variables[name] = keras.KerasTensor(shape, name=name)
                return self.variables[name]
            rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
            value = (rng.uniform(-scale, scale, shape) + constant).astype(np.float32)
            self.variables[name] = keras.Variable(value, name=name.replace("/", "_"))
        return self.variables[name]

    def _dense(self, x: Tensor, units: int, name: str) -> Tensor:
        from keras import ops

        inputs = int(x.shape[-1])
        kernel = self._variable(f"{name}/kernel", (inputs, units), math.sqrt(6 / (inputs + units)))
        return ops.matmul(x, kernel) + self._variable(f"{name}/bias", (units,))

    def _conv(self, x: Tensor, channels: int, size: int, name: str, strides: int = 1) -> Tensor:
        from keras import ops

        inputs = int(x.shape[-1])
        scale = math.sqrt(6 / (size * size * (inputs + channels)))
        kernel = self._variable(f"{name}/kernel", (size, size, inputs, channels), scale)
        return ops.conv(x, kernel, strides=strides, padding="same") + self._variable(f"{name}/bias", (channels,))

    def _conv_transpose(self, x: Tensor, channels: int, name: str) -> Tensor:
        from keras import ops

        inputs = int(x.shape[-1])
        scale = math.sqrt(6 / (KERNEL * KERNEL * (inputs + channels) / 4))
        kernel = self._variable(f"{name}/kernel", (KERNEL, KERNEL, channels, inputs), scale)
        return ops.conv_transpose(x, kernel, strides=2, padding="same") + self._variable(f"{name}/bias", (channels,))

    def _residual(self, x: Tensor, name: str) -> Tensor:
        from keras import ops

        channels = int(x.shape[-1])
        y = self._conv(ops.elu(x), channels, 3, f"{name}/residual/0")
        return x + self._conv(ops.elu(y), channels, 3, f"{name}/residual/1")

    def _gru(self, x: Tensor, state: Tensor, name: str) -> Tensor:
        """Apply a GRU whose gates are normalized over their units (Ba et al. 2016, https://arxiv.org/abs/1607.06450).

        The update gate starts low (bias -1), so that an untrained network keeps its state.
        """
        from keras import ops

        units = int(state.shape[-1])
        gates = self._dense(ops.concatenate([x, state], axis=-1), 3 * units, name)
        gates = gates - ops.mean(gates, axis=-1, keepdims=True)
        gates = gates * ops.rsqrt(ops.mean(ops.square(gates), axis=-1, keepdims=True) + 1e-3)
        gates = gates * self._variable(f"{name}/scale", (3 * units,), constant=1.0)
        reset, candidate, update = ops.split(gates + self._variable(f"{name}/shift", (3 * units,)), 3, axis=-1)
        update = ops.sigmoid(update - 1)
        return update * ops.tanh(ops.sigmoid(reset) * candidate) + (1 - update) * state


def normalized(latent: Tensor) -> Tensor:
    """Return vectors (..., n) scaled to length 1."""
    from keras import ops

    return latent * ops.rsqrt(ops.sum(ops.square(latent), axis=-1, keepdims=True) + 1e-12)


def straight_through(logits: Tensor, noise: Tensor) -> Tensor:
    """Return one-hot vectors (..., K) of the argmax of logits + noise, with the gradient of the softmax of the logits.

    With Gumbel noise, they are samples of the softmax; without noise, its mode.
    """
    from keras import ops

    probabilities = ops.softmax(logits, axis=-1)
    chosen = ops.one_hot(ops.argmax(logits + noise, axis=-1), int(logits.shape[-1]), dtype="float32")
    return chosen + (probabilities - ops.stop_gradient(probabilities))  # exactly one-hot


def gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return Gumbel noise, float32. The argmax of logits plus this noise is a sample of their softmax."""
    return rng.gumbel(size=shape).astype(np.float32)
