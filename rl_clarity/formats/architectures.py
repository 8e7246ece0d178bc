"""The networks that `train` creates and that Baselines' checkpoints contain: convolutions, an optional LSTM or GRU, and
heads for the policy and the value.

Their tensors have the names that OpenAI Baselines gives them in TensorFlow 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_clarity.agents.network import Network, StatePart, keras_name
from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.registry import Registry
from rl_clarity.formats.layers import NetworkBuilder

SCOPE = "ppo2_model"
LSTM_SCOPE = f"{SCOPE}/pi/lstm"
GRU_SCOPE = f"{SCOPE}/pi/gru"
INITIAL_STATE = f"{GRU_SCOPE}/initial:0"
LSTM_UNITS = 256
MAX_CHANNELS = 65536
MAX_BLOCKS = 16

CLEAR_CONVOLUTIONS = (
    ("1a", 16, 7, True),
    ("2a", 32, 5, False),
    ("2b", 32, 5, True),
    ("3a", 32, 5, True),
    ("4a", 32, 5, True),
)  # name, filters, kernel size, pooled
CLEAR_DENSE = (("dense", 256), ("dense_1", 512))
NATURE_CONVOLUTIONS = (("c1", 32, 8, 4), ("c2", 64, 4, 2), ("c3", 64, 3, 1))  # name, filters, kernel size, stride


@dataclass(frozen=True)
class Architecture:
    """The body of a network. It maps observations (B, H, W, C), divided by 255, to n features (B, n)."""

    body: Callable[[NetworkBuilder, Any, Mapping[str, Any]], Any]
    """A function of the builder, the observations and the options that returns the features. The same function serves
    to create, load and save a network."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Names and defaults of the body's options, which are read from a checkpoint's metadata."""


def clear(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Build five convolutions with large kernels and L2 pooling, which are easy to interpret (Understanding RL Vision,
    2020), and two dense layers.
    """
    import keras

    for name, filters, size, pooled in CLEAR_CONVOLUTIONS:
        scope = f"{SCOPE}/pi/{name}"
        x = builder.conv(
            x, filters, size, f"{scope}/conv2d", kernel=f"{scope}/conv2d/kernel:0", bias=f"{scope}/conv2d/bias:0"
        )
        x = builder.relu(x, f"{scope}/Relu")
        if pooled:
            x = l2_pool(x)
    x = keras.layers.Flatten()(x)
    for name, units in CLEAR_DENSE:
        scope = f"{SCOPE}/pi/{name}"
        x = builder.dense(x, units, scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0")
        x = builder.relu(x, f"{scope}/Relu")
    return x  # (B, 512)


def l2_pool(x: Any) -> Any:
    """Return the root mean square over windows of 2 x 2 positions. A small constant keeps the gradient finite at 0."""
    from keras import ops

    return ops.sqrt(ops.average_pool(ops.square(x), 2, strides=2, padding="same") + 1e-8)


def nature(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Build the three convolutions and the dense layer of Mnih et al. (2015)."""
    import keras

    gain = 2**0.5
    for i, (name, filters, size, strides) in enumerate(NATURE_CONVOLUTIONS):
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
            stored_bias_shape=(1, filters, 1, 1),  # in Baselines NCHW has this axis, too
        )
        x = builder.relu(x, f"{SCOPE}/pi/Relu" + (f"_{i}" if i else ""))
    x = keras.layers.Flatten()(x)
    scope = f"{SCOPE}/pi/fc1"
    x = builder.dense(x, 512, scope, kernel=f"{scope}/w:0", bias=f"{scope}/b:0", initializer=builder.orthogonal(gain))
    return builder.relu(x, f"{SCOPE}/pi/Relu_{len(NATURE_CONVOLUTIONS)}")  # (B, 512)


def impala(builder: NetworkBuilder, x: Any, options: Mapping[str, Any]) -> Any:
    """Build the residual blocks and the dense layer of IMPALA (Espeholt et al., 2018),
    https://arxiv.org/abs/1802.01561.
    """
    import keras

    layers, relus = 0, 0  # TensorFlow 1 numbers operations in the order of construction

    def layer_scope() -> str:
        nonlocal layers
        layers += 1
        return f"{SCOPE}/pi/layer_{layers - 1}"

    def relu(x: Any) -> Any:
        nonlocal relus
        relus += 1
        return builder.relu(x, f"{SCOPE}/pi/Relu" + (f"_{relus - 1}" if relus > 1 else ""))

    def conv(x: Any, filters: int) -> Any:
        scope = layer_scope()
        return builder.conv(x, filters, 3, scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0")

    def residual(x: Any) -> Any:
        depth = int(x.shape[-1])
        return keras.layers.Add()([conv(relu(conv(relu(x), depth)), depth), x])

    for depth in impala_depths(options["stack_channels"]):
        x = keras.layers.MaxPooling2D(3, strides=2, padding="same")(conv(x, depth))
        x = residual(residual(x))
    x = relu(keras.layers.Flatten()(x))
    scope, units = layer_scope(), _size("emb_size", options["emb_size"])
    return relu(builder.dense(x, units, scope, kernel=f"{scope}/kernel:0", bias=f"{scope}/bias:0"))  # (B, units)


def impala_depths(stack_channels: Any) -> list[int]:
    """Return the number of channels of each block, from a string such as "16_32_32" or a sequence of numbers. Raises
    CheckpointError for invalid numbers.
    """
    parts = stack_channels.split("_") if isinstance(stack_channels, str) else list(stack_channels)
    if not 1 <= len(parts) <= MAX_BLOCKS:
        raise CheckpointError(
            f"stack_channels={stack_channels!r} must have 1 to {MAX_BLOCKS} blocks, such as '16_32_32'"
        )
    return [_size("stack_channels", part) for part in parts]


def _size(name: str, value: Any) -> int:
    try:
        size = int(value)
    except (TypeError, ValueError):
        size = 0
    if not 1 <= size <= MAX_CHANNELS:
        raise CheckpointError(f"{name}: {value!r} is not a number of channels from 1 to {MAX_CHANNELS}")
    return size


def lstm(builder: NetworkBuilder, x: Any, units: int = LSTM_UNITS) -> tuple[Any, list[StatePart]]:
    """Apply one step of Baselines' LSTM. Return its output (B, units) and the recurrent states c and h, which start at
    zero.

    `i, f, o, u = split(x wx + h wh + b)`, `c' = sigmoid(f) c + sigmoid(i) tanh(u)`, `h' = sigmoid(o) tanh(c')`.
    """
    import keras
    from keras import ops

    cell, hidden = (builder.input((units,), f"lstm_{part}") for part in "ch")
    wx, b, wh = (f"{LSTM_SCOPE}/{name}:0" for name in ("wx", "b", "wh"))
    gates = builder.dense(x, 4 * units, f"{LSTM_SCOPE}/x", kernel=wx, bias=b, initializer=builder.orthogonal(1.0))
    builder.expect(wh, (units, 4 * units))
    recurrent = keras.layers.Dense(
        4 * units,
        use_bias=False,
        name=keras_name(f"{LSTM_SCOPE}/h"),
        kernel_initializer=builder.orthogonal(1.0) if builder.parameters is None else "zeros",
    )
    gates = gates + recurrent(hidden)
    builder.store(wh, recurrent.kernel)
    i, f, o, u = ops.split(gates, 4, axis=-1)
    cell_after = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(u)
    hidden_after = ops.sigmoid(o) * ops.tanh(cell_after)
    zeros = np.zeros(units, np.float32)
    return hidden_after, [(cell, cell_after, zeros), (hidden, hidden_after, zeros)]


def gru(builder: NetworkBuilder, x: Any, units: int) -> tuple[Any, list[StatePart]]:
    """Apply one step of PyTorch's GRU. Return its output (B, units) and the recurrent state h, whose initial value is a
    parameter of the network.

    `r, z, n = split(x wx + bx)`, `r', z', n' = split(h wh + bh)`, `u = sigmoid(z + z')`,
    `h' = (1 - u) tanh(n + sigmoid(r + r') n') + u h`.
    """
    import keras
    from keras import ops

    h = builder.input((units,), "gru_h")
    (reset_x, update_x, new_x), (reset_h, update_h, new_h) = (
        ops.split(
            builder.dense(
                y,
                3 * units,
                f"{GRU_SCOPE}/{name}",
                kernel=f"{GRU_SCOPE}/w{name}:0",
                bias=f"{GRU_SCOPE}/b{name}:0",
                initializer=builder.orthogonal(1.0),
            ),
            3,
            axis=-1,
        )
        for y, name in ((x, "x"), (h, "h"))
    )
    update = ops.sigmoid(update_x + update_h)
    h_after = (1.0 - update) * ops.tanh(new_x + ops.sigmoid(reset_x + reset_h) * new_h) + update * h
    builder.expect(INITIAL_STATE, (units,))
    builder.store(INITIAL_STATE, keras.Variable(np.zeros(units, np.float32), name="gru_initial"))
    return h_after, [(h, h_after, builder.tensors[INITIAL_STATE].read())]


def observed_gates(model: Any) -> Any:
    """Return the symbolic tensor (B, n) of `x wx + b`, the contribution of the observation to the n gates of the
    recurrent layer.
    """
    names = {keras_name(f"{scope}/x") for scope in (LSTM_SCOPE, GRU_SCOPE)}
    return next(layer.output for layer in model.layers if layer.name in names)


ARCHITECTURES: Registry[Architecture] = Registry(
    "rl_clarity.networks",
    {
        "clear": Architecture(clear),
        "impala": Architecture(impala, {"stack_channels": "16_32_32", "emb_size": 256}),
        "nature": Architecture(nature),
    },
    noun="network",
    error=CheckpointError,
)


def build(
    name: str,
    observation_shape: tuple[int, int, int],
    num_actions: int,
    options: Mapping[str, Any] | None = None,
    *,
    parameters: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> Network:
    """Build a network from stored parameters, or initialize a new one from `seed`.

    Args:
        observation_shape: (H, W, C)
        options: a checkpoint's metadata, from which `use_lstm`, `gru_units` and the options of the architecture are
            read

    Raises CheckpointError for an unknown name, and for parameters that do not fit. The message has the tensor's name,
    its shape and the shape that the network needs.
    """
    architecture = ARCHITECTURES.get(name)
    options = options or {}
    builder = NetworkBuilder(parameters, seed)
    observations = builder.input(observation_shape, "observations")
    features = architecture.body(
        builder, observations, {key: options.get(key, default) for key, default in architecture.options.items()}
    )
    states: list[StatePart] = []
    if options.get("use_lstm"):
        features, states = lstm(builder, features)
    elif options.get("gru_units"):
        features, states = gru(builder, features, int(options["gru_units"]))
    heads = {
        head: builder.dense(
            features,
            units,
            f"{SCOPE}/{scope}/add",
            kernel=f"{SCOPE}/{scope}/w:0",
            bias=f"{SCOPE}/{scope}/b:0",
            initializer=builder.orthogonal(gain),
        )
        for head, scope, units, gain in (("policy_logits", "pi", num_actions, 0.01), ("values", "vf", 1, 1.0))
    }
    return builder.finish([observations], heads, states)
