"""Compile and differentiate functions, with a class for each framework that Keras runs on.

A `tail` is a function from a site's values (and the tensors that bypass the site) to results (B, n), usually the
outputs of all heads side by side. `selection` (B, S, n) contains the weights of the scores, which are S linear
combinations of the n results for each of B observations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from rl_clarity.agents.operations import Operations, jax_operations, keras_operations, torch_operations
from rl_clarity.agents.protocol import Tensor
from rl_clarity.agents.torch_calls import copied

Function = Callable[..., Any]
GradientStep = Callable[..., tuple[Tensor, Tensor]]


class Backend:
    """A framework that compiles and differentiates functions. Each function is compiled once per shape of its
    arguments.
    """

    shares_batches = False
    """Whether `gradient_step` takes several points of a path in one batch."""

    takes_any_rows = False
    """Whether functions take batches of any size without being compiled for each size."""

    parallel_calls = 1
    """Number of threads that should call compiled functions at once."""

    freezes_parameters = False
    """Whether compiled functions contain the network's parameters as constants."""

    def compile(self, function: Function) -> Function:
        """Compile a function if the framework can. The compiled function takes arrays and returns tensors."""
        raise NotImplementedError

    def gradient_step(self, tail: Function) -> GradientStep:
        """Compile a step of a path integral: `(total, start, values, scale, weight, selection, *bypass) -> (total,
        scores)`.

        The step computes the scores (S, B) at the point start + scale x values, and adds weight x their gradients with
        respect to the point to `total` (S, B, ...).

        If the backend shares batches, the step also takes `owners` (m,): row i of the batch belongs to the observation
        owners[i]. These indices increase, and start again at 0 after the last observation. `scale` (n, 1, ...) then has
        a value for each of the n rows of the batch, and `weight` (m,) has one for each of the first m rows. The other
        rows are padding. `total` has a row for each observation, without padding.
        """
        raise NotImplementedError

    def pull_back(self, function: Function) -> Function:
        """Compile the vector-Jacobian product `(values, gradients, *bypass) -> gradients` of `function(values,
        *bypass)`.

        It maps gradients (S, B, ...) with respect to the function's result to gradients with respect to the values.
        """
        raise NotImplementedError

    def array(self, tensor: Tensor) -> np.ndarray:
        """Return a tensor, or a list with a tensor for each score, as a NumPy array."""
        if not isinstance(tensor, list):
            return self._to_array(tensor)
        arrays = [self._to_array(one) for one in tensor]
        return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)

    def _to_array(self, tensor: Tensor) -> np.ndarray:
        return np.asarray(tensor)

    def tensor(self, array: np.ndarray) -> Tensor:
        """Copy an array to the network's device."""
        return array

    def take(self, tensors: Tensor, rows: np.ndarray) -> Tensor:
        """Return rows of a tensor, or of each tensor in a structure. Only backends that share batches implement it."""
        raise NotImplementedError

    def zeros(self, count: int, values: Tensor) -> Tensor:
        """Return the initial `total`: zeros with the shape of `values` for each score, as an array or a list."""
        return np.zeros((count, *values.shape), np.float32)

    @property
    def operations(self) -> Operations:
        """The operations that edits are computed with."""
        return keras_operations()

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """Concatenate tensors along the last axis."""
        import keras

        return keras.ops.concatenate(tensors, axis=-1)

    def mean(self, tensor: Tensor) -> Tensor:
        """Return the mean (B, c) of a tensor (B, h, w, c) over positions."""
        import keras

        return keras.ops.mean(tensor, axis=(1, 2))


class TensorFlowBackend(Backend):
    """The backend for TensorFlow. `total` is a list with a tensor for each score, with the layout of the values.
    Batches are always padded to their full size.
    """

    shares_batches = True
    parallel_calls = 2
    """Two threads: each uses the cores that the other leaves idle."""

    def compile(self, function: Function) -> Function:
        import tensorflow as tf

        return tf.function(function, autograph=False)

    def gradient_step(self, tail: Function) -> GradientStep:
        import tensorflow as tf

        def gradients_at(
            start: Tensor, values: Tensor, scale: Tensor, weight: Tensor, selection: Tensor, *bypass: Tensor
        ) -> tuple[list[Tensor], Tensor]:
            point = start + scale * values
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(point)
                # Not tf.einsum, which takes ten times as long for so few numbers.
                scores = tf.unstack(tf.reduce_sum(selection * tail(point, *bypass)[:, None], axis=-1), axis=1)
            zero, weights = tf.UnconnectedGradients.ZERO, weight + tf.zeros_like(scores[0])
            return [tape.gradient(score, point, weights, zero) for score in scores], tf.stack(scores)

        def whole(total: Tensor, *arguments: Tensor) -> tuple[Tensor, Tensor]:
            gradients, scores = gradients_at(*arguments)
            return [before + gradient for before, gradient in zip(total, gradients, strict=True)], scores

        compiled, compiled_gradients = self.compile(whole), self.compile(gradients_at)

        def step(
            total: Tensor,
            start: Tensor,
            values: Tensor,
            scale: Tensor,
            weight: Tensor,
            selection: Tensor,
            *bypass: Tensor,
            owners: np.ndarray | None = None,
        ) -> tuple[Tensor, Tensor]:
            if owners is None:
                return compiled(total, start, values, scale, weight, selection, *bypass)
            rows = np.resize(owners, len(scale))
            start = self.take(start, rows) if np.ndim(start) and len(start) > 1 else start
            values, selection, *others = (self.take(one, rows) for one in (values, selection, *bypass))
            weight = np.pad(weight, (0, len(rows) - len(weight)))
            gradients, scores = compiled_gradients(start, values, scale, weight, selection, *others)
            return [
                _add_rows(before, gradient, owners) for before, gradient in zip(total, gradients, strict=True)
            ], scores

        return step

    def take(self, tensors: Tensor, rows: np.ndarray) -> Tensor:
        import tensorflow as tf

        return tf.gather(tensors, rows)

    def pull_back(self, function: Function) -> Function:
        import tensorflow as tf

        def run(values: Tensor, gradients: Tensor, *bypass: Tensor) -> Tensor:
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(values)
                result = function(values, *bypass)
            return [tape.gradient(result, values, output_gradients=gradient) for gradient in gradients]

        compiled = self.compile(run)

        def pull_back(values: Tensor, gradients: Tensor, *bypass: Tensor) -> Tensor:
            if missing := len(values) - len(gradients[0]):
                rows = tf.zeros((missing, *gradients[0].shape[1:]))
                gradients = [tf.concat([gradient, rows], axis=0) for gradient in gradients]
            return compiled(values, gradients, *bypass)

        return pull_back

    def zeros(self, count: int, values: Tensor) -> Tensor:
        import tensorflow as tf

        return [tf.zeros(values.shape) for _ in range(count)]


class JaxBackend(Backend):
    freezes_parameters = True

    def compile(self, function: Function) -> Function:
        import jax

        return jax.jit(function)

    def gradient_step(self, tail: Function) -> GradientStep:
        import jax
        import jax.numpy as jnp

        def step(
            total: Tensor,
            start: Tensor,
            values: Tensor,
            scale: Tensor,
            weight: Tensor,
            selection: Tensor,
            *bypass: Tensor,
        ) -> tuple[Tensor, Tensor]:
            def scores_at(point: Tensor) -> Tensor:
                return jnp.einsum("bsn,bn->sb", selection, tail(point, *bypass))

            scores, backward = jax.vjp(scores_at, start + scale * values)
            rows = jnp.eye(len(scores), dtype=scores.dtype)[:, :, None] * jnp.ones_like(scores)[None]  # (S, S, B)
            (gradients,) = jax.vmap(backward)(rows)
            return total + weight * gradients, scores

        return self.compile(step)

    def pull_back(self, function: Function) -> Function:
        import jax

        def run(values: Tensor, gradients: Tensor, *bypass: Tensor) -> Tensor:
            return jax.vmap(jax.vjp(lambda point: function(point, *bypass), values)[1])(gradients)[0]

        return self.compile(run)

    @property
    def operations(self) -> Operations:
        return jax_operations()

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        import jax.numpy as jnp

        return jnp.concatenate(tensors, axis=-1)

    def mean(self, tensor: Tensor) -> Tensor:
        return tensor.mean(axis=(1, 2))


class TorchBackend(Backend):
    """The backend for PyTorch. `to_tensor` copies an array to the network's device; by default, Keras converts it.

    `total` is a list with a tensor for each score, with the layout of the values. If several points of a path share a
    batch, it contains all observations for each point. Results and gradients are computed in the context `computing()`.
    """

    shares_batches = takes_any_rows = True

    def __init__(
        self,
        to_tensor: Callable[[Any], Tensor] | None = None,
        computing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if to_tensor is None:
            import keras

            to_tensor = keras.ops.convert_to_tensor
        self._to_tensor, self._computing = to_tensor, computing

    def compile(self, function: Function) -> Function:
        import torch

        to_tensor = self._to_tensor

        @functools.wraps(function)
        def run(*arguments: Any) -> Any:
            with self._computing(), torch.no_grad():
                return function(*map(to_tensor, arguments))

        return run

    def gradient_step(self, tail: Function) -> GradientStep:
        import torch

        to_tensor = self._to_tensor

        def step(
            total: Tensor,
            start: Tensor,
            values: Tensor,
            scale: Tensor,
            weight: Tensor,
            selection: Tensor,
            *bypass: Tensor,
            owners: np.ndarray | None = None,
        ) -> tuple[Tensor, Tensor]:
            start, values, selection, *others = map(to_tensor, (start, values, selection, *bypass))
            count = len(total[0])
            weights = np.atleast_1d(weight)[::count].tolist()
            if owners is not None and len(values) != len(scale):
                rows = np.resize(owners, len(scale))
                start = self.take(start, rows) if start.ndim and len(start) > 1 else start
                values, selection, *others = (self.take(one, rows) for one in (values, selection, *others))
            point = (start + values * to_tensor(scale)).detach().requires_grad_(True)
            with self._computing():
                with torch.enable_grad():
                    scores = torch.einsum("bsn,bn->sb", selection, tail(point, *others))
                gradients = [_gradient(score, point) for score in scores]
            return [
                sum((part * gradient[i * count : (i + 1) * count] for i, part in enumerate(weights)), before)
                for before, gradient in zip(total, gradients, strict=True)
            ], scores.detach()

        return step

    def pull_back(self, function: Function) -> Function:
        import torch

        to_tensor = self._to_tensor

        def run(values: Tensor, gradients: Tensor, *bypass: Tensor) -> Tensor:
            point = to_tensor(values).detach().requires_grad_(True)
            with self._computing():
                with torch.enable_grad():
                    result = function(point, *map(to_tensor, bypass))[: len(gradients[0])]
                return [torch.autograd.grad(result, point, gradient, retain_graph=True)[0] for gradient in gradients]

        return run

    def take(self, tensors: Tensor, rows: np.ndarray) -> Tensor:
        import torch

        return copied(tensors, lambda part: part[torch.from_numpy(rows).to(part.device)])

    def _to_array(self, tensor: Tensor) -> np.ndarray:
        return np.asarray(tensor.detach().cpu().numpy())

    def tensor(self, array: np.ndarray) -> Tensor:
        return self._to_tensor(array)

    def zeros(self, count: int, values: Tensor) -> Tensor:
        import torch

        return [torch.zeros_like(self._to_tensor(values)) for _ in range(count)]

    @property
    def operations(self) -> Operations:
        return torch_operations(self._to_tensor)

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        import torch

        return torch.cat(list(tensors), dim=-1)

    def mean(self, tensor: Tensor) -> Tensor:
        return tensor.mean(dim=(1, 2))


def _add_rows(total: Tensor, rows: Tensor, owners: np.ndarray) -> Tensor:
    """Return `total` (n, ...) with row i of `rows` added to row owners[i]. The indices in `owners` increase, and
    restart at 0.
    """
    import tensorflow as tf

    cuts = [0, *(np.flatnonzero(owners[1:] == 0) + 1).tolist(), len(owners)]
    for first, last in itertools.pairwise(cuts):
        around = [int(owners[first]), len(total) - int(owners[last - 1]) - 1]
        total = total + tf.pad(rows[first:last], [around, *[[0, 0]] * (len(rows.shape) - 1)])
    return total


def _gradient(score: Tensor, point: Tensor) -> Tensor:
    """Return the gradient of the sum of a score (B,), or zeros if the score does not depend on the point."""
    import torch

    if not score.requires_grad:
        return torch.zeros_like(point)
    (gradient,) = torch.autograd.grad(score.sum(), point, retain_graph=True, allow_unused=True)
    return torch.zeros_like(point) if gradient is None else gradient


def keras_backend() -> Backend:
    """Return the backend for the framework that Keras runs on (`KERAS_BACKEND`)."""
    import keras

    backends: dict[str, type[Backend]] = {"tensorflow": TensorFlowBackend, "jax": JaxBackend, "torch": TorchBackend}
    return backends[keras.backend.backend()]()
