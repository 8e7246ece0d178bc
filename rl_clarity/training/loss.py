"""The loss of PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347), as in PPO2 of Baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Tensor = Any

STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@dataclass(frozen=True)
class LossOptions:
    clip_range: float
    clip_vf: bool
    entropy_coeff: float
    value_loss_coeff: float


@dataclass(frozen=True)
class Minibatch:
    """B steps to learn from; a field is a NumPy array outside the compiled update, a tensor inside it."""

    observations: Tensor  # (B, H, W, C) uint8
    actions: Tensor  # (B,) int32
    values: Tensor  # (B,) float32, when acting
    log_probs: Tensor  # (B,) float32, of the actions when acting
    advantages: Tensor  # (B,) float32, normalised
    returns: Tensor  # (B,) float32
    weights: Tensor  # (B,) float32: the share of each step in the mean; 0 for padding
    firsts: Tensor  # (B,) bool: the observation begins an episode, so that a memory is reset
    states: tuple[Tensor, ...] = ()  # (S, n) each: what a memory held before each of S sequences, which make up the B


def normalize(advantages: np.ndarray) -> np.ndarray:
    """Advantages of one minibatch with mean 0 and standard deviation 1."""
    return ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).astype(np.float32)


def ppo_loss(logits: Tensor, values: Tensor, batch: Minibatch, options: LossOptions) -> tuple[Tensor, Tensor]:
    """Loss and `STATISTICS` (5,) of logits (B, A) and values (B,), both weighted sums over the batch.

    policy: max(-A r, -A clip(r)) with r = pi / pi_old; value: 1/2 max((v - R)^2, (v_clipped - R)^2).
    """
    from keras import ops

    log_policy = ops.log_softmax(logits)  # (B, A)
    log_probs = ops.take_along_axis(log_policy, batch.actions[:, None], axis=1)[:, 0]
    entropies = -ops.sum(ops.exp(log_policy) * log_policy, axis=1)
    clip = options.clip_range
    ratios = ops.exp(log_probs - batch.log_probs)
    policy_losses = ops.maximum(-batch.advantages * ratios, -batch.advantages * ops.clip(ratios, 1 - clip, 1 + clip))
    squares = ops.square(values - batch.returns)
    if options.clip_vf:
        clipped = batch.values + ops.clip(values - batch.values, -clip, clip)
        squares = ops.maximum(squares, ops.square(clipped - batch.returns))
    terms = [
        policy_losses,
        0.5 * squares,
        entropies,
        0.5 * ops.square(log_probs - batch.log_probs),
        ops.cast(ops.abs(ratios - 1) > clip, "float32"),
    ]
    statistics = ops.stack([ops.sum(batch.weights * term) for term in terms])
    loss = statistics[0] + options.value_loss_coeff * statistics[1] - options.entropy_coeff * statistics[2]
    return loss, statistics
