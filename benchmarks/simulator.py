"""Measure a training step of the simulator: `python -m benchmarks --only simulator`.

The step's time is compared with the time that its convolutions and dense layers alone, forward and backward, would take
at the machine's peak. The peak is the speed of a single convolution, measured in turns with the step. The frozen agent
is recurrent (IMPALA with a GRU), for CoinRun.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.machine import convolution_peak

SHAPE = (64, 64, 3)
ACTIONS = 15
UNITS = 64
REPEATS = 5
COUNTED = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "MatMul", "BatchMatMulV2")
GOAL = 1.5


def measure(size: str = "small", batch_size: int = 16, horizon: int = 32) -> dict[str, Any]:
    """Return the seconds of a step and of reading its batch, its multiply-adds, the machine's peak, and the ratio of
    the step's time to that of its multiply-adds at the peak.
    """
    with _fitter(size, batch_size, horizon) as fitter:
        batch, noise = fitter.windows.batch(fitter._rng(1), batch_size), fitter._noise()
        function = fitter._gradient.get_concrete_function(*batch.arrays(), noise)
        count = multiply_adds(function.graph)
        fitter.step()
        ratios, steps, peaks, reading = [], [], [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            fitter.windows.batch(fitter._rng(1), batch_size)
            reading.append(time.perf_counter() - start)
            start = time.perf_counter()
            fitter.step()
            steps.append(time.perf_counter() - start)
            peaks.append(convolution_peak())
            ratios.append(steps[-1] * peaks[-1] / count)
    return {
        "size": size,
        "batch_size": batch_size,
        "horizon": horizon,
        "seconds": statistics.median(steps),
        "reading_seconds": statistics.median(reading),
        "multiply_adds": count,
        "peak_multiply_adds_per_second": max(peaks),
        "ratio": statistics.median(ratios),
    }


def lines(result: dict[str, Any]) -> list[str]:
    """Return the result as lines of text."""
    return [
        f"{result['size']}, {result['batch_size']} windows of {result['horizon']} steps: {result['seconds']:.2f} s per "
        f"step, {result['reading_seconds']:.2f} s of it for reading the batch",
        f"{result['multiply_adds'] / 1e9:.1f} billion multiply-adds in convolutions and dense layers: "
        f"{result['ratio']:.2f} times what they take at the peak (goal: {GOAL})",
    ]


def multiply_adds(graph: Any) -> float:
    """Return the multiply-adds of the convolutions and matrix products in a TensorFlow graph, including gradients."""
    import tensorflow as tf

    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options = tf.compat.v1.profiler.ProfileOptionBuilder(options).with_accounted_types(list(COUNTED))
    options = options.with_empty_output().build()
    return float(tf.compat.v1.profiler.profile(graph, options=options, cmd="scope").total_float_ops) / 2


@contextmanager
def _fitter(size: str, batch_size: int, horizon: int) -> Iterator[Any]:
    """Provide a `Fitter` for an agent with random weights and a recording of random frames."""
    from rl_clarity import KerasAgent, Recorder, open_recording
    from rl_clarity.formats.architectures import build
    from rl_clarity.world_models.fitting import Fitter
    from rl_clarity.world_models.options import FitOptions

    options = {"stack_channels": "16_32_32", "emb_size": UNITS, "gru_units": UNITS}
    agent = KerasAgent(build("impala", SHAPE, ACTIONS, options))
    rng = np.random.default_rng(0)
    state = tuple(part[0] for part in agent.initial_state(1) or ())
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(folder, name=None, on_error="raise") as recorder:
            for step in range(4 * 64):
                frame = np.kron(rng.integers(0, 256, (8, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8)
                action = int(rng.integers(ACTIONS))
                recorder.add(observation=frame, action=action, reward=0.0, terminated=step % 64 == 63, state=state)
        yield Fitter(agent, open_recording(folder), FitOptions(size=size, batch_size=batch_size, horizon=horizon))  # type: ignore[arg-type]
