"""How soon the program answers: `python -m benchmarks.start`, seconds of a processor in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys

REPEATS = 5
CALLS = {
    "Python alone": ["-c", "pass"],
    "import rl_clarity": ["-c", "import rl_clarity"],
    "--version": ["-m", "rl_clarity", "--version"],
    "--help": ["-m", "rl_clarity", "--help"],
    "run --help": ["-m", "rl_clarity", "run", "--help"],
}


def measure() -> dict[str, float]:
    """Seconds of each call, by name: the least of several, after one that compiles the modules."""
    found = {}
    for name, arguments in CALLS.items():
        taken = [_processor_seconds(arguments) for _ in range(1 + REPEATS)]
        found[name] = min(taken[1:])
    return found


def _processor_seconds(arguments: list[str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def lines(result: dict[str, float]) -> list[str]:
    """The result as a table."""
    return [f"{name:20} {seconds:6.2f} s" for name, seconds in result.items()]


if __name__ == "__main__":
    print("\n".join(lines(measure())))
