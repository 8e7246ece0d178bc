"""The parts that `python -m benchmarks` runs, one after another; each prints what it measured."""

from __future__ import annotations

import importlib
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS: Mapping[str, str] = {
    "start": "help, version and import, before any work",
    "pipeline": "each stage of explaining an agent",
    "growth": "a small job, and jobs of twice as much",
    "training": "a few updates",
    "page": "keys and playing, in a Chromium if there is one",
    "accuracy": "what the cheaper defaults cost in accuracy",
}


class LeftOutError(Exception):
    """A part cannot be measured here."""


def measure_all(names: Sequence[str]) -> dict[str, Any]:
    """Measure and print these parts: their results, their seconds, and the machine's speed of convolutions."""
    from rl_clarity.quiet import import_keras

    import_keras()
    from benchmarks.machine import convolution_peak

    peak = convolution_peak()
    processor = platform.processor() or platform.machine()
    result: dict[str, Any] = {"processor": processor, "convolution_gmacs": peak / 1e9, "parts": {}, "seconds": {}}
    for name in names:
        start = time.perf_counter()
        print(f"== {name}: {PARTS[name]}", flush=True)
        try:
            found, lines = _measured(name, peak)
            result["parts"][name] = found
        except (ImportError, LeftOutError) as error:
            lines = [f"left out: {error}"]
        result["seconds"][name] = time.perf_counter() - start
        print("\n".join([*lines, f"(measured in {result['seconds'][name]:.0f} s)", ""]), flush=True)
    return result


def _measured(name: str, peak: float) -> tuple[dict[str, Any], list[str]]:
    """The part's result, and the lines that say it."""
    module = importlib.import_module(f"benchmarks.{name}")
    if name == "accuracy":  # prints as it goes
        return module.main([]) or {}, []
    measure = {
        "start": lambda: module.measure(),
        "pipeline": lambda: module.measure(peak),
        "growth": lambda: module.measure(),
        "training": lambda: module.measure(module.Settings(num_envs=32, updates=2)),
        "page": lambda: _small_page(module),
    }
    found = measure[name]()
    return found, module.lines(found)


def _small_page(page: Any) -> dict[str, Any]:
    """The page of a small job, with steps enough for all keys that are pressed."""
    from benchmarks.job import Sizes, measured

    if page.find_chromium() is None:
        raise LeftOutError("there is no Chromium; RL_CLARITY_CHROMIUM names one")
    with tempfile.TemporaryDirectory() as folder:
        measured(Sizes(frames=2 * page.KEY_PRESSES, layers=("2a", "2b")), Path(folder))
        return dict(page.measure(Path(folder)))
