"""What an update of training costs: steps a second, where the time goes, and the share of the machine's peak.

python -m benchmarks.training [--env-name coinrun --cnn clear --precision bfloat16 --use-lstm ...]

The peak is the speed of a convolution alone, measured in the same run: it bounds what a network of convolutions can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import tyro

from benchmarks.machine import convolution_peak, forget_peak_memory, peak_memory_mb
from rl_clarity.environments import make
from rl_clarity.training.options import TrainOptions
from rl_clarity.training.session import compute_precision
from rl_clarity.training.trainer import TIMERS, Trainer


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
    use_lstm: bool = False
    updates: int = 3
    """Updates that are measured, after one in which everything is compiled."""


def main() -> None:
    print("\n".join(lines(measure(tyro.cli(Settings)))))


def measure(settings: Settings | None = None) -> dict[str, Any]:
    """Steps a second, seconds by what they were spent on, operations a second and the peak of them."""
    settings = settings or Settings()
    given = asdict(settings)
    del given["updates"]
    options = TrainOptions(**given)
    forget_peak_memory()
    with compute_precision(options.precision):
        peaks = [convolution_peak()]
        with closing(make(options.environment(), options.num_envs, 0)) as environment:
            trainer = Trainer(options, environment)
            rows = measured_updates(trainer, settings.updates)
        peaks.append(convolution_peak())  # twice, as other programs may have been at work once
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
    """The result as a table."""
    settings, shares = result["settings"], result["shares"]
    done, peak = result["operations_per_second"], result["peak_operations_per_second"]
    memory = " + LSTM" if settings["use_lstm"] else ""
    parts = {**shares, "other": 1 - sum(shares.values())}
    network = f"{settings['cnn']}{memory} on {settings['env_name']}"
    return [
        f"{network}, {settings['precision']}, epochs: {settings['ppo_epochs']}",
        f"{result['steps_per_second']:.0f} steps a second, {result['peak_memory_mb']:.0f} MB of memory",
        *(f"  {name:20} {share:6.1%} of the time" for name, share in parts.items()),
        f"{done / 1e9:.0f} of {peak / 1e9:.0f} billion operations a second "
        f"({done / peak:.0%} of the peak, that of a convolution)",
    ]


def measured_updates(trainer: Trainer, count: int) -> list[Mapping[str, Any]]:
    trainer.update()
    return [trainer.update() for _ in range(count)]


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
