"""The few lines that differentiate and compile, one class a backend of Keras.

A `tail` is a function from a layer's activations (and the tensors that by-pass the layer) to the network's scores
(B, n). `selection` (B, S, n) picks from them, for each observation, S weighted sums: what is explained.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Tensor = Any
Tail = Callable[..., Tensor]


class Backend(Protocol):
    """Functions compiled once for each shape they see."""

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled where that is of use; arrays in, tensors out."""
        ...

    def gradient_step(self, tail: Tail) -> Callable[..., tuple[Tensor, Tensor]]:
        """A compiled `(total, activations, alpha, weight, selection, *bypass) -> (total, scores)`.

        Adds weight x d(selected scores)/d(activations) at alpha x activations to `total` (S, B, ...); `scores` are (S,
        B).
        """
        ...

    def array(self, tensor: Tensor) -> np.ndarray: ...


class TensorFlowBackend:
    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        return tf.function(function, autograph=False)  # type: ignore[no-any-return]

    def gradient_step(self, tail: Tail) -> Callable[..., tuple[Tensor, Tensor]]:
        import tensorflow as tf

        def step(
            total: Tensor, activations: Tensor, alpha: Tensor, weight: Tensor, selection: Tensor, *bypass: Tensor
        ) -> tuple[Tensor, Tensor]:
            point = alpha * activations
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(point)
                scores = tf.unstack(tf.einsum("bsn,bn->sb", selection, tail(point, *bypass)))
            zero = tf.UnconnectedGradients.ZERO
            gradients = tf.stack([tape.gradient(score, point, unconnected_gradients=zero) for score in scores])
            return total + weight * gradients, tf.stack(scores)

        return self.compile(step)

    def array(self, tensor: Tensor) -> np.ndarray:
        return np.asarray(tensor)


class JaxBackend:
    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import jax

        return jax.jit(function)  # type: ignore[no-any-return]

    def gradient_step(self, tail: Tail) -> Callable[..., tuple[Tensor, Tensor]]:
        import jax
        import jax.numpy as jnp

        def step(
            total: Tensor, activations: Tensor, alpha: Tensor, weight: Tensor, selection: Tensor, *bypass: Tensor
        ) -> tuple[Tensor, Tensor]:
            def scores_at(point: Tensor) -> Tensor:
                return jnp.einsum("bsn,bn->sb", selection, tail(point, *bypass))

            scores, backward = jax.vjp(scores_at, alpha * activations)
            rows = jnp.eye(len(scores), dtype=scores.dtype)[:, :, None] * jnp.ones_like(scores)[None]  # (S, S, B)
            (gradients,) = jax.vmap(backward)(rows)
            return total + weight * gradients, scores

        return self.compile(step)

    def array(self, tensor: Tensor) -> np.ndarray:
        return np.asarray(tensor)


class TorchBackend:
    """`to_tensor` puts an array where the network is; Keras's own if not given."""

    def __init__(self, to_tensor: Callable[[Any], Tensor] | None = None) -> None:
        if to_tensor is None:
            import keras

            to_tensor = keras.ops.convert_to_tensor
        self._to_tensor = to_tensor

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        @functools.wraps(function)
        def run(*arguments: Any) -> Any:
            with torch.no_grad():
                return function(*arguments)

        return run

    def gradient_step(self, tail: Tail) -> Callable[..., tuple[Tensor, Tensor]]:
        import torch

        to_tensor = self._to_tensor

        def step(
            total: Tensor, activations: Tensor, alpha: Tensor, weight: Tensor, selection: Tensor, *bypass: Tensor
        ) -> tuple[Tensor, Tensor]:
            point = (to_tensor(activations) * float(alpha)).detach().requires_grad_(True)
            with torch.enable_grad():
                scores = torch.einsum("bsn,bn->sb", to_tensor(selection), tail(point, *map(to_tensor, bypass)))
            gradients = torch.stack([_gradient(score, point) for score in scores])
            return to_tensor(total) + float(weight) * gradients, scores.detach()

        return step

    def array(self, tensor: Tensor) -> np.ndarray:
        return np.asarray(tensor.detach().cpu().numpy())


def _gradient(score: Tensor, point: Tensor) -> Tensor:
    """Gradient of the sum of (B,); zeros where the score does not depend on the point."""
    import torch

    if not score.requires_grad:
        return torch.zeros_like(point)
    (gradient,) = torch.autograd.grad(score.sum(), point, retain_graph=True, allow_unused=True)
    return torch.zeros_like(point) if gradient is None else gradient


BACKENDS: dict[str, type] = {"tensorflow": TensorFlowBackend, "jax": JaxBackend, "torch": TorchBackend}


def backend() -> Backend:
    """The one that Keras runs on (`KERAS_BACKEND`)."""
    import keras

    return BACKENDS[keras.backend.backend()]()  # type: ignore[no-any-return]


def path_integral(
    step: Callable[..., tuple[Tensor, Tensor]],
    activations: Tensor,
    points: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
    selection: np.ndarray,
    bypass: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Weighted sum of gradients over points on the line from 0 to `activations`; also the last point's scores."""
    total: Tensor = np.zeros((selection.shape[1], *activations.shape), np.float32)
    scores: Tensor = None
    for point, weight in zip(points, weights, strict=True):
        total, scores = step(total, activations, np.float32(point), np.float32(weight), selection, *bypass)
    return total, scores
