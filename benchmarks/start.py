"""How soon the program answers: `python -m benchmarks.start`, seconds of a processor in fresh processes."""

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
    """Seconds of each call, by name."""
    return {name: seconds(partial(_call, arguments), REPEATS, _of_processes) for name, arguments in CALLS.items()}


def _call(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def _of_processes() -> float:
    """Seconds of a processor that the processes started here, and ended, have used."""
    times = os.times()
    return times.children_user + times.children_system


def lines(result: dict[str, float]) -> list[str]:
    """The result as a table."""
    return [f"{name:20} {taken:6.2f} s" for name, taken in result.items()]


if __name__ == "__main__":
    print("\n".join(lines(measure())))
