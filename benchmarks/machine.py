"""Measure time, memory, and the machine's speed of convolutions, which is an upper bound for computations."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def seconds(work: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of the fastest of several calls, after a first call that compiles."""
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def reset_peak_memory() -> None:
    """Let `peak_memory_mb` measure from now on (Linux only)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float:
    """Return the peak memory of this process since the last reset (since its start, where resets are impossible)."""
    with contextlib.suppress(OSError):
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if match:
            return int(match[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def convolution_peak(batch: int = 64, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the multiply-adds per second of a 5 x 5 convolution, from 32 to 32 channels, at 32 x 32 positions."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(batch, 32, 32, 32)), tf.float32)
    kernel = tf.constant(rng.normal(size=(5, 5, 32, 32)), tf.float32)
    convolve = tf.function(lambda: tf.nn.conv2d(x, kernel, 1, "SAME"))
    return batch * 32 * 32 * 25 * 32 * 32 / seconds(lambda: convolve().numpy(), 25, clock)


def multiply_adds(model: Any) -> dict[str, int]:
    """Return the multiply-adds per observation of each convolution and dense layer of a Keras model, by name."""
    counts = {}
    for layer in model.layers:
        if hasattr(layer, "kernel"):
            positions = int(np.prod(layer.output.shape[1:-1])) if len(layer.output.shape) == 4 else 1
            counts[layer.name] = int(np.prod(layer.kernel.shape)) * positions
    return counts
