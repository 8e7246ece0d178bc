"""Adam on one flat vector (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980), as TensorFlow 1 has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Tensor = Any
BETA_1, BETA_2 = 0.9, 0.999
EPSILON = 1e-5
"""Baselines' value, added to the root before the bias is corrected."""


class Adam:
    """Moments of the gradient of all parameters, one after another in one vector of n numbers."""

    def __init__(self, n: int, learning_rate: float) -> None:
        import tensorflow as tf

        self.learning_rate = learning_rate
        self._mean = tf.Variable(tf.zeros(n))
        self._square = tf.Variable(tf.zeros(n))
        self._steps = tf.Variable(0, dtype=tf.int64)

    def step(self, gradient: Tensor) -> Tensor:
        """What to add to the parameters (n,); called while TensorFlow traces."""
        import tensorflow as tf

        steps = tf.cast(self._steps.assign_add(1), tf.float32)
        mean = self._mean.assign(BETA_1 * self._mean + (1 - BETA_1) * gradient)
        square = self._square.assign(BETA_2 * self._square + (1 - BETA_2) * tf.square(gradient))
        rate = self.learning_rate * tf.sqrt(1 - BETA_2**steps) / (1 - BETA_1**steps)
        return -rate * mean / (tf.sqrt(square) + EPSILON)

    def state(self) -> dict[str, np.ndarray]:
        return {"mean": self._mean.numpy(), "square": self._square.numpy(), "steps": self._steps.numpy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._mean.assign(state["mean"])
        self._square.assign(state["square"])
        self._steps.assign(state["steps"])
