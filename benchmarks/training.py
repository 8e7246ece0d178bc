"""What an update of training costs: steps a second, where the time goes, and the share of the machine's peak.

python -m benchmarks.training [--env-name coinrun --cnn clear --precision bfloat16 ...]
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import tyro

from rl_clarity.environments import make
from rl_clarity.training.options import TrainOptions
from rl_clarity.training.session import compute_precision
from rl_clarity.training.trainer import CLOCKS, Trainer

MATRIX = 2048


@dataclass(frozen=True)
class Settings:
    """What is measured; the defaults are those of training."""

    env_name: str = "coinrun"
    env_kind: str = "procgen"
    cnn: str = "clear"
    num_envs: int = 64
    num_steps: int = 32
    num_minibatches: int = 4
    ppo_epochs: int = 3
    precision: str = "float32"
    updates: int = 3
    """Updates that are measured, after one in which everything is compiled."""


def main() -> None:
    settings = tyro.cli(Settings)
    names = ("env_name", "env_kind", "cnn", "num_envs", "num_steps", "num_minibatches", "ppo_epochs", "precision")
    options = TrainOptions(**{name: getattr(settings, name) for name in names})
    with compute_precision(options.precision):
        peak = measured_peak()
        with closing(make(options.environment(), options.num_envs, 0)) as environment:
            trainer = Trainer(options, environment)
            rows = measured_updates(trainer, settings.updates)
    seconds = {name: sum(row[f"seconds_{name}"] for row in rows) for name in CLOCKS}
    total = sum(options.steps_per_update / row["steps_per_second"] for row in rows)
    rate = len(rows) * options.steps_per_update / total
    work = operations_per_step(trainer.learner.network.model, options.ppo_epochs)
    print(f"{settings.cnn} on {settings.env_name}, {settings.precision}, {options.ppo_epochs} epochs")
    print(f"{rate:.0f} steps a second")
    for name, spent in seconds.items():
        print(f"{name:>12}: {spent / total:6.1%} of the time")
    print(f"{'other':>12}: {1 - sum(seconds.values()) / total:6.1%} of the time")
    print(
        f"{rate * work / 1e9:.0f} of {peak / 1e9:.0f} billion operations a second "
        f"({rate * work / peak:.0%} of the peak, that of a matrix product)"
    )


def measured_updates(trainer: Trainer, count: int) -> list[Mapping[str, Any]]:
    trainer.update()
    return [trainer.update() for _ in range(count)]


def measured_peak(repeats: int = 5) -> float:
    """Operations a second of the fastest of some float32 matrix products, in the precision that is set."""
    import tensorflow as tf

    left, right = tf.random.normal((2, MATRIX, MATRIX))
    product = tf.function(lambda: tf.matmul(left, right) + 1.0)
    product()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        product().numpy()
        best = min(best, time.perf_counter() - start)
    return float(2 * MATRIX**3 / best)


def operations_per_step(model: Any, epochs: int) -> float:
    """Multiplications and additions of convolutions and matrix products: acting once, learning `epochs` times.

    Learning is the pass forward, the gradient of the kernels and, but for the first layer, that of the inputs.
    """
    forward = [2.0 * multiply_adds(layer) for layer in model.layers if getattr(layer, "kernel", None) is not None]
    return sum(forward) + epochs * (3 * sum(forward) - forward[0])


def multiply_adds(layer: Any) -> float:
    """Of one observation: every weight is used once at each position of the result."""
    positions = 1
    for length in layer.output.shape[1:-1]:
        positions *= int(length)
    count = 1
    for length in layer.kernel.shape:
        count *= int(length)
    return float(positions * count)


if __name__ == "__main__":
    main()
