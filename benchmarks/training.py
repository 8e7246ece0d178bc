"""Measure the speed of training: steps per second, time by activity, and the fraction of the machine's peak.

python -m benchmarks.training [--env-name coinrun --cnn clear --precision bfloat16 --use-lstm ...]

The peak is the speed of a single convolution, measured in the same run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import tyro

from benchmarks.machine import convolution_peak, peak_memory_mb, reset_peak_memory
from rl_clarity.environments import make
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.session import compute_precision
from rl_clarity.ppo.trainer import TIMERS, Trainer


@dataclass(frozen=True)
class Settings:
    """Options of the training that is measured."""

    env_name: str = "coinrun"
    env_kind: str = "procgen"
    cnn: str = "clear"
    num_envs: int = 64
    num_steps: int = 32
    num_minibatches: int = 4
    ppo_epochs: int = 3
    precision: str = "float32"
    use_lstm: bool = False
    updates: int = 3
    """Number of measured updates, after one that compiles."""


def main() -> None:
    print("\n".join(lines(measure(tyro.cli(Settings)))))


def measure(settings: Settings | None = None) -> dict[str, Any]:
    """Return steps per second, shares of time by activity, operations per second, their peak, and peak memory."""
    settings = settings or Settings()
    fields = asdict(settings)
    del fields["updates"]
    options = TrainOptions(**fields)
    reset_peak_memory()
    with compute_precision(options.precision):
        peaks = [convolution_peak()]
        with closing(make(options.environment(), options.num_envs, 0)) as environment:
            trainer = Trainer(options, environment)
            rows = measured_updates(trainer, settings.updates)
        peaks.append(convolution_peak())  # twice, as other programs may be running
    total = sum(options.steps_per_update / row["steps_per_second"] for row in rows)
    rate = len(rows) * options.steps_per_update / total
    return {
        "settings": asdict(settings),
        "steps_per_second": rate,
        "seconds": total,
        "shares": {name: sum(row[f"seconds_{name}"] for row in rows) / total for name in TIMERS},
        "operations_per_second": rate * operations_per_step(trainer.learner.network.model, options.ppo_epochs),
        "peak_operations_per_second": 2 * max(peaks),
        "peak_memory_mb": peak_memory_mb(),
    }


def lines(result: dict[str, Any]) -> list[str]:
    """Return the result as lines of text."""
    settings, shares = result["settings"], result["shares"]
    done, peak = result["operations_per_second"], result["peak_operations_per_second"]
    memory = " + LSTM" if settings["use_lstm"] else ""
    parts = {**shares, "other": 1 - sum(shares.values())}
    network = f"{settings['cnn']}{memory} on {settings['env_name']}"
    return [
        f"{network}, {settings['precision']}, epochs: {settings['ppo_epochs']}",
        f"{result['steps_per_second']:.0f} steps per second, {result['peak_memory_mb']:.0f} MB of memory",
        *(f"  {name:20} {share:6.1%} of the time" for name, share in parts.items()),
        f"{done / 1e9:.0f} of {peak / 1e9:.0f} billion operations per second "
        f"({done / peak:.0%} of the peak, that of a convolution)",
    ]


def measured_updates(trainer: Trainer, count: int) -> list[Mapping[str, Any]]:
    trainer.update()
    return [trainer.update() for _ in range(count)]


def operations_per_step(model: Any, epochs: int) -> float:
    """Return the number of multiplications and additions in convolutions and matrix products for each step, which is
    played once and learned from `epochs` times.

    Learning takes a forward pass and the gradients of kernels and, except in the first layer, of inputs.
    """
    forward = [2.0 * multiply_adds(layer) for layer in model.layers if getattr(layer, "kernel", None) is not None]
    return sum(forward) + epochs * (3 * sum(forward) - forward[0])


def multiply_adds(layer: Any) -> float:
    """Return the multiply-adds per observation: each weight is used once at each position of the output."""
    return float(math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape))


if __name__ == "__main__":
    main()
