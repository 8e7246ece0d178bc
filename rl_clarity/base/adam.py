"""The optimizer Adam (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980), for training and for optimizing images."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

BETA_1, BETA_2 = 0.9, 0.999


class Adam:
    """The optimizer Adam for one array of parameters, with the running moments of its gradient.

    Args:
        shape: shape of the gradient
        epsilon: number that is added to the root of the second moment
        epsilon_hat: add `epsilon` before the bias of the second moment is corrected, as TensorFlow 1 does
        dtype: type in which the moments are stored
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        learning_rate: float,
        *,
        epsilon: float = 1e-8,
        epsilon_hat: bool = False,
        dtype: type = np.float64,
    ) -> None:
        self.learning_rate = learning_rate
        self._epsilon, self._epsilon_hat = epsilon, epsilon_hat
        self._mean: np.ndarray = np.zeros(shape, dtype)
        self._square: np.ndarray = np.zeros(shape, dtype)
        self._steps = 0

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """Update the moments, and return the change of the parameters. Subtract it for gradient descent, or add it for
        gradient ascent.
        """
        self._steps += 1
        self._mean += (1 - BETA_1) * (gradient - self._mean)
        self._square += (1 - BETA_2) * (gradient**2 - self._square)
        square_correction = 1 - BETA_2**self._steps
        epsilon = self._epsilon / math.sqrt(square_correction) if self._epsilon_hat else self._epsilon
        mean = self._mean / (1 - BETA_1**self._steps)
        return np.asarray(self.learning_rate * mean / (np.sqrt(self._square / square_correction) + epsilon))

    def state(self) -> dict[str, np.ndarray]:
        return {"mean": self._mean.copy(), "square": self._square.copy(), "steps": np.array(self._steps)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._mean, self._square = np.array(state["mean"]), np.array(state["square"])
        self._steps = int(state["steps"])
