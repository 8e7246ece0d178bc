"""The tensor operations that edits use, for NumPy and for each framework that computes a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Tensor

Body = Callable[[int, tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Operations:
    """The tensor functions of a framework. All but `constant` take and return the framework's tensors."""

    constant: Callable[[np.ndarray], Tensor]
    """Convert an array to a tensor on the network's device."""
    matmul: Callable[[Tensor, Tensor], Tensor]
    relu: Callable[[Tensor], Tensor]
    sign: Callable[[Tensor], Tensor]
    stack: Callable[[Sequence[Tensor]], Tensor]
    """Join tensors along a new last axis."""
    concatenate: Callable[[Sequence[Tensor]], Tensor]
    """Join tensors along their last axis."""
    reshape: Callable[[Tensor, tuple[int, ...]], Tensor]
    solve: Callable[[Tensor, Tensor], Tensor]
    """Solve linear systems (..., K, K) for right-hand sides (..., K, 1)."""
    fixed: Callable[[Tensor], Tensor]
    """Stop the gradient of a tensor."""
    repeat: Callable[[int, Body, tuple[Tensor, ...]], tuple[Tensor, ...]]
    """`repeat(n, body, values)` calls `values = body(i, values)` n times."""


def _repeat(count: int, body: Body, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    for i in range(count):
        values = body(i, values)
    return values


NUMPY = Operations(
    constant=lambda array: array,
    matmul=np.matmul,
    relu=lambda x: np.maximum(x, 0),
    sign=np.sign,
    stack=lambda tensors: np.stack(tensors, axis=-1),
    concatenate=lambda tensors: np.concatenate(tensors, axis=-1),
    reshape=np.reshape,
    solve=np.linalg.solve,
    fixed=lambda x: x,
    repeat=_repeat,
)


def keras_operations() -> Operations:
    """Return the operations of the framework that Keras runs on."""
    from keras import ops

    return Operations(
        constant=ops.convert_to_tensor,
        matmul=ops.matmul,
        relu=ops.relu,
        sign=ops.sign,
        stack=lambda tensors: ops.stack(tensors, axis=-1),
        concatenate=lambda tensors: ops.concatenate(tensors, axis=-1),
        reshape=ops.reshape,
        solve=ops.solve,
        fixed=ops.stop_gradient,
        repeat=lambda count, body, values: ops.fori_loop(0, count, body, values),
    )


def jax_operations() -> Operations:
    import jax
    import jax.numpy as jnp

    return Operations(
        constant=jnp.asarray,
        matmul=jnp.matmul,
        relu=jax.nn.relu,
        sign=jnp.sign,
        stack=lambda tensors: jnp.stack(tensors, axis=-1),
        concatenate=lambda tensors: jnp.concatenate(tensors, axis=-1),
        reshape=jnp.reshape,
        solve=jnp.linalg.solve,
        fixed=jax.lax.stop_gradient,
        repeat=lambda count, body, values: jax.lax.fori_loop(0, count, body, values),
    )


def torch_operations(to_tensor: Callable[[Any], Tensor]) -> Operations:
    import torch

    return Operations(
        constant=to_tensor,
        matmul=torch.matmul,
        relu=torch.relu,
        sign=torch.sign,
        stack=lambda tensors: torch.stack(tuple(tensors), dim=-1),
        concatenate=lambda tensors: torch.cat(tuple(tensors), dim=-1),
        reshape=torch.reshape,
        solve=torch.linalg.solve,
        fixed=lambda x: x.detach(),
        repeat=_repeat,
    )
