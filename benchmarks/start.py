"""Measure startup time, in processor seconds of new processes: `python -m benchmarks.start`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from benchmarks.machine import seconds

REPEATS = 5
CALLS = {
    "Python alone": ["-c", "pass"],
    "import rl_clarity": ["-c", "import rl_clarity"],
    "--version": ["-m", "rl_clarity", "--version"],
    "--help": ["-m", "rl_clarity", "--help"],
    "run --help": ["-m", "rl_clarity", "run", "--help"],
}


def measure() -> dict[str, float]:
    """Return the processor seconds of each call, by name."""
    return {name: seconds(partial(_call, arguments), REPEATS, _child_seconds) for name, arguments in CALLS.items()}


def _call(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def _child_seconds() -> float:
    """Return the processor seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def lines(result: dict[str, float]) -> list[str]:
    """Return the result as a table."""
    return [f"{name:20} {taken:6.2f} s" for name, taken in result.items()]


if __name__ == "__main__":
    print("\n".join(lines(measure())))
