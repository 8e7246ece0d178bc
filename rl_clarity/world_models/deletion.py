"""Test saliency through time by deletion: does the target change most where the saliency is largest?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Tensor
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import bootstrap_interval
from rl_clarity.world_models.gradients import Target, saliency_through_time, target_value
from rl_clarity.world_models.simulation import simulate
from rl_clarity.world_models.simulator import Simulator, Start

FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2)
RANDOM_ORDERS = 4
"""Number of random orders over which results are averaged."""


@dataclass(frozen=True)
class Deletion:
    """How much a target changes if blocks of the frames that the agent gets are removed."""

    at: int
    """Step of the target. Blocks of the frames 0 to `at` are removed."""
    fractions: tuple[float, ...]
    """The F shares of the blocks that are removed."""
    by_saliency: np.ndarray  # (F,): mean |change| of the target if blocks are removed in the order of saliency
    random: np.ndarray  # (F,): the same in a random order
    starts: int
    difference: float
    """Mean of `by_saliency` - `random` over fractions."""
    interval: tuple[float, float]
    """95 % bootstrap interval of `difference`, over starts."""

    def __str__(self) -> str:
        low, high = self.interval
        return f"deletion by saliency minus deletion at random: {self.difference:+.3g} ({low:+.3g} to {high:+.3g})"


def deletion_test(
    simulator: Simulator,
    starts: Start | int | np.ndarray,
    target: Target = "value",
    at: int = 8,
    *,
    block: int = 8,
    fractions: tuple[float, ...] = FRACTIONS,
    noise_copies: int = 4,
    seed: int = 0,
) -> Deletion:
    """Remove blocks of the agent's frames in the order of saliency and in random orders, and compare the effects.

    Blocks of all frames of a simulation up to the target are ranked together, by the magnitude of the sum of gradient
    times difference from the mean frame. Removed blocks show the mean frame of all simulations. Random numbers stay the
    same, and the agent acts on the frames with removed blocks (Samek et al. 2017, https://arxiv.org/abs/1509.06321, for
    images).

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        starts: where B simulations start, as in `simulate`
        target: the target; see `saliency_through_time`
        at: step of the target, counted from 0
        block: side of the blocks, in pixels
        fractions: shares of the blocks that are removed
        noise_copies: number of copies over which saliency is averaged
        seed: seed of samples in the simulation, and of the random orders

    Raises OptionError for invalid arguments.
    """
    if block < 1 or not fractions or not 0 < min(fractions) <= max(fractions) <= 1:
        raise OptionError(f"block={block} must be at least 1, and fractions={fractions} must be above 0 and at most 1")
    # Without a latent, the start has no noise.
    noisy = not isinstance(starts, Start) or starts.latent is not None
    copies = {"noise_copies": noise_copies} if noisy else {"noise_copies": 1, "noise": 0.0}
    gradients = saliency_through_time(simulator, starts, [target], at, seed=seed, **copies).frames[0]
    plain = simulate(simulator, starts, at + 1, seed=seed)
    frames = plain.frames
    mean = frames.mean(axis=(0, 1))
    scores = np.abs(_block_sums(gradients * (frames - mean), block))  # (B, N)
    before = np.asarray(target_value(plain, target, at))
    rng = np.random.default_rng([seed % 2**63, 8])

    def changes(order: np.ndarray) -> np.ndarray:
        """Return |change| (F, B) of the target if the first blocks of an order (B, N) are removed."""
        ranks = order.argsort(axis=1)
        rows = []
        for fraction in fractions:
            removed = _mask(ranks < max(1, round(fraction * order.shape[1])), frames.shape, block)

            def see(step: int, frame: Tensor, removed: np.ndarray = removed) -> Tensor:
                return frame * (1 - removed[:, step]) + mean * removed[:, step]

            edited = simulate(simulator, starts, at + 1, seed=seed, see=see)
            rows.append(np.abs(np.asarray(target_value(edited, target, at)) - before))
        return np.stack(rows)

    by_saliency = changes((-scores).argsort(axis=1, kind="stable"))
    orders = np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    random = np.mean([changes(rng.permuted(orders, axis=1)) for _ in range(RANDOM_ORDERS)], axis=0)
    interval = bootstrap_interval((by_saliency - random).mean(axis=0), rng)
    return Deletion(
        at,
        tuple(fractions),
        by_saliency.mean(axis=1),
        random.mean(axis=1),
        len(scores),
        interval.mean,
        (interval.low, interval.high),
    )


def _block_sums(values: np.ndarray, block: int) -> np.ndarray:
    """Return sums (B, T x rows x columns) of values (B, T, H, W, C) over each block."""
    summed = values.sum(axis=-1)
    for axis in (2, 3):
        summed = np.add.reduceat(summed, np.arange(0, summed.shape[axis], block), axis=axis)
    return np.asarray(summed.reshape(len(summed), -1))


def _mask(chosen: np.ndarray, shape: tuple[int, ...], block: int) -> np.ndarray:
    """Return a mask (B, T, H, W, 1) float32 of chosen blocks (B, T x rows x columns)."""
    count, steps, height, width, _ = shape
    blocks = chosen.reshape(count, steps, -(-height // block), -(-width // block))
    mask = blocks.repeat(block, axis=2).repeat(block, axis=3)[:, :, :height, :width, None]
    return mask.astype(np.float32)
