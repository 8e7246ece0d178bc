"""Find latents that maximize a target of a simulation (`maximize`), and interpolate between latents
(`interpolate_latents`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.base.adam import Adam
from rl_clarity.base.errors import OptionError
from rl_clarity.world_models.gradients import Target, check_target, differentiate, target_value
from rl_clarity.world_models.networks import normalized
from rl_clarity.world_models.simulation import Simulation, simulate
from rl_clarity.world_models.simulator import Simulator


@dataclass(frozen=True)
class Maximum:
    """The result of `maximize`, sorted by the value of the target, largest first."""

    latents: np.ndarray  # (B, n)
    values: np.ndarray  # (B,): values of the target
    simulation: Simulation  # starts from these latents
    best_of_data: float
    """The largest value of the target when simulations start from the initial latents."""
    history: np.ndarray  # (iterations + 1, B): largest value of any restart after each iteration


def maximize(
    simulator: Simulator,
    target: Target,
    starts: int | np.ndarray,
    *,
    at: int = 8,
    iterations: int = 50,
    learning_rate: float = 0.05,
    restarts: int = 1,
    seed: int = 0,
) -> Maximum:
    """Maximize a target at a step of a simulation with respect to the latent from which the simulation starts.

    Adam ascends the gradient, and after each step the latent is projected onto the unit sphere. For each start, the
    best latent of all steps is returned.

    Args:
        simulator: a simulator from `fit_simulator` or `load_simulator`
        target: the target to maximize; see `saliency_through_time`
        starts: latents (B, n) of the data, frames (B, T, H, W, C) uint8, or a number of random latents
        at: the step of the target, counted from 0
        iterations: steps of Adam
        learning_rate: learning rate of Adam
        restarts: number of runs for each start, all but the first from a nearby point; the best run is returned
        seed: seed of random latents, restarts, and samples in the simulation

    Raises OptionError for invalid arguments.
    """
    if at < 0 or iterations < 1 or restarts < 1 or not learning_rate > 0:
        raise OptionError(
            f"at={at}, iterations={iterations}, restarts={restarts}, learning_rate={learning_rate} are out of range"
        )
    check_target(simulator, target, at)
    begin = np.asarray(simulator.start(starts, seed=seed).latent)
    best, values = begin, np.full(len(begin), -np.inf)
    rng = np.random.default_rng([seed % 2**63, 5])
    best_of_data, histories = -np.inf, []
    for restart in range(restarts):
        latents = begin
        if restart:
            latents = np.asarray(normalized(begin + 0.1 * rng.normal(size=begin.shape).astype(np.float32)))
        adam, history = Adam(begin.shape, learning_rate), []
        for iteration in range(iterations + 1):
            scores, gradient = _climb(simulator, target, latents, at, seed)
            if not restart and not iteration:
                best_of_data = float(scores.max())
            history.append(scores)
            better = scores > values
            best, values = np.where(better[:, None], latents, best), np.where(better, scores, values)
            latents = np.asarray(normalized((latents + adam.step(gradient)).astype(np.float32)))
        histories.append(np.array(history))
    order = np.argsort(-values, kind="stable")
    simulation = simulate(simulator, best[order], at + 1, seed=seed)
    return Maximum(best[order], values[order], simulation, best_of_data, np.max(histories, axis=0)[:, order])


def interpolate_latents(first: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """Return evenly spaced latents (count, n) on the great circle from one latent (n,) to another.

    Raises OptionError for opposite latents, between which there is no shortest path, and for invalid shapes.
    """
    a, b = (np.asarray(latent, np.float64) for latent in (first, second))
    if a.ndim != 1 or a.shape != b.shape or count < 2:
        raise OptionError(
            f"latents of shape {a.shape} and {b.shape}, count={count}: two vectors of equal length and a count of at "
            "least 2 are needed"
        )
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    angle = np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)) * 2
    if angle > np.pi - 1e-6:
        raise OptionError("the latents are opposite, so there is no shortest path between them")
    shares = np.linspace(0, 1, count)[:, None]
    if angle < 1e-9:
        return np.repeat(a[None], count, axis=0).astype(np.float32)
    return ((np.sin((1 - shares) * angle) * a + np.sin(shares * angle) * b) / np.sin(angle)).astype(np.float32)


def _climb(
    simulator: Simulator, target: Target, latents: np.ndarray, at: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the target (B,) and its gradient (B, n) with respect to the latents."""
    import tensorflow as tf

    point = tf.constant(latents, tf.float32)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(point)
        value = target_value(simulate(simulator, point, at + 1, seed=seed), target, at)
    return np.asarray(value), differentiate(tape, value, [point])[0].astype(np.float64)
