"""The long short-term memory of Baselines, which `use_lstm` puts between a network's body and its heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.networks.network import NetworkBuilder, keras_name

SCOPE = "ppo2_model/pi/lstm"
UNITS = 256
State = tuple[Any, Any, np.ndarray]
"""Input, output and initial value of one part of the state."""


def lstm(builder: NetworkBuilder, x: Any, units: int = UNITS) -> tuple[Any, list[State]]:
    """One step: its output (B, units), and the states c and h, which start as zeros.

    `i, f, o, u = split(x wx + h wh + b)`, `c' = sigmoid(f) c + sigmoid(i) tanh(u)`, `h' = sigmoid(o) tanh(c')`.
    """
    import keras
    from keras import ops

    cell, hidden = (builder.input((units,), f"lstm_{part}") for part in "ch")
    gates = builder.dense(
        x, 4 * units, f"{SCOPE}/x", kernel=f"{SCOPE}/wx:0", bias=f"{SCOPE}/b:0", initializer=builder.orthogonal(1.0)
    )
    kernel = f"{SCOPE}/wh:0"
    builder.expect(kernel, (units, 4 * units))
    recurrent = keras.layers.Dense(
        4 * units,
        use_bias=False,
        name=keras_name(f"{SCOPE}/h"),
        kernel_initializer=builder.orthogonal(1.0) if builder.parameters is None else "zeros",
    )
    gates = gates + recurrent(hidden)
    builder.store(kernel, recurrent.kernel)
    i, f, o, u = ops.split(gates, 4, axis=-1)
    cell_after = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(u)
    hidden_after = ops.sigmoid(o) * ops.tanh(cell_after)
    zeros = np.zeros(units, np.float32)
    return hidden_after, [(cell, cell_after, zeros), (hidden, hidden_after, zeros)]


def observed_gates(model: Any) -> Any:
    """What the memory of such a Keras model reads at each step: the observation's part of the gates, x wx + b."""
    return model.get_layer(keras_name(f"{SCOPE}/x")).output  # (B, 4 units)
