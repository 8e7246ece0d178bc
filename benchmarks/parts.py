"""The parts that `python -m benchmarks` runs."""

from __future__ import annotations

import importlib
import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS: Mapping[str, str] = {
    "start": "help, version and import, before any work",
    "pipeline": "each stage of explaining an agent",
    "default_job": "the default job with and without causal numbers and measured effects, a fraction of it",
    "growth": "a small job, and jobs of twice the size",
    "training": "a few updates",
    "simulator": "a training step of the simulator, beside its convolutions and dense layers",
    "recordings": "what recording episodes costs, their size, and reading them",
    "recorder": "what recording costs training with Stable-Baselines3",
    "states": "100,000 recurrent states: seconds and memory; a map of 20,000",
    "page": "keys and playback, in Chromium",
    "what_if": "forward passes of the panel What if, in Chromium, beside onnxruntime in Python",
    "brush": "a brush over 5,000 steps on the page of a training, until it is painted, in Chromium",
    "tab": "the page of recordings: list, first frame, state map, in Chromium",
    "saliency": "perturbation saliency, beside plain forward passes",
    "comparison": "a page of ten checkpoints: time beside playing, size, memory",
    "forecasts": "the forecasts of six jobs, beside what the jobs take",
    "decomposition": "whether the parts of an output add up, and colors name the strongest feature",
    "captum": "integrated gradients of PyTorch networks, beside Captum's",
    "accuracy": "how accurate the faster defaults are",
}

PAGES: Mapping[str, tuple[str, ...]] = {"coinrun": ("2a", "2b"), "fruitbot": ("block1", "block2")}
"""Agents of the pages that are measured, and the layers that these show."""


class SkippedError(Exception):
    """Raised if a part cannot be measured on this machine."""


def measure_all(names: Sequence[str]) -> dict[str, Any]:
    """Measure parts, and print their results. Return the results, the seconds of each part, and the machine's speed of
    convolutions.
    """
    from rl_clarity.base.quiet import import_keras

    import_keras()
    from benchmarks.machine import convolution_peak

    peak = convolution_peak()
    processor = platform.processor() or platform.machine()
    result: dict[str, Any] = {"processor": processor, "convolution_gmacs": peak / 1e9, "parts": {}, "seconds": {}}
    for name in names:
        start = time.perf_counter()
        print(f"== {name}: {PARTS[name]}", flush=True)
        try:
            result["parts"][name], lines = _measure(name, peak)
        except (ImportError, SkippedError) as error:
            lines = [f"skipped: {error}"]
        result["seconds"][name] = time.perf_counter() - start
        print("\n".join([*lines, f"(measured in {result['seconds'][name]:.0f} s)", ""]), flush=True)
    return result


def _measure(name: str, peak: float) -> tuple[dict[str, Any], list[str]]:
    """Measure a part. Return its result, and the lines to print."""
    module = importlib.import_module(f"benchmarks.{name}")
    if name == "accuracy":  # prints as it goes
        return module.main([]) or {}, []
    measure: dict[str, Callable[[], Any]] = {
        "start": lambda: module.measure(),
        "pipeline": lambda: module.measure(peak),
        "default_job": lambda: module.measure(),
        "growth": lambda: module.measure(),
        "brush": lambda: module.measure(),
        "what_if": lambda: module.measure(),
        "saliency": lambda: module.measure(),
        "comparison": lambda: module.measure(),
        "forecasts": lambda: module.measure(),
        "decomposition": lambda: module.measure(),
        "captum": lambda: module.measure(),
        "training": lambda: module.measure(module.Settings(num_envs=32, updates=2)),
        "simulator": lambda: module.measure(),
        "recordings": lambda: module.measure(),
        "recorder": lambda: module.measure(),
        "tab": lambda: module.measure(),
        "states": lambda: module.measure(),
        "page": lambda: _small_pages(module),
    }
    result = measure[name]()
    return result, module.lines(result)


def _small_pages(page: Any) -> dict[str, Any]:
    """Measure pages of small jobs, with enough steps for all key presses."""
    from benchmarks.job import Sizes, run_job

    if page.find_chromium() is None:
        raise SkippedError("no Chromium was found: set RL_CLARITY_CHROMIUM")
    results = {}
    for model, layers in PAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            run_job(Sizes(frames=2 * page.KEY_PRESSES, model=model, layers=layers), Path(folder))
            results[model] = page.measure(Path(folder))
    return results
