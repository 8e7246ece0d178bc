"""Compare the forecasts of jobs with the time that the jobs take. Each job runs in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SMALL = ("--trajectories.num-envs", "4", "--trajectories.num-steps", "128")
FEW_OBSERVATIONS = ("--observations.num-envs", "8", "--observations.num-obs", "32")
JOBS: Mapping[str, Sequence[str]] = {
    "run coinrun": ("run", "models:coinrun", *SMALL, *FEW_OBSERVATIONS),
    "run starpilot-lstm": ("run", "models:starpilot-lstm", *SMALL, *FEW_OBSERVATIONS),
    "compare breakout-series": ("compare", "models:breakout-series", "--max-steps", "100", "--return-episodes", "1"),
    "compare two agents": ("compare", "models:coinrun-7.9", "models:coinrun-early", "--max-steps", "200"),
    "memory coinrun-gru": ("memory", "models:coinrun-gru", "--episodes", "4"),
    "memory starpilot-lstm": ("memory", "models:starpilot-lstm", "--episodes", "4"),
}
"""Arguments of `rl-clarity` for each job, without the directory of the page."""
LIMIT = 1.5
"""A forecast is good if it is at most this many times longer or shorter than the job."""
COMMAND = "import sys; from rl_clarity.cli import main; sys.exit(main(sys.argv[1:]))"


def measure(jobs: Mapping[str, Sequence[str]] = JOBS) -> dict[str, Any]:
    """Return the forecast and the measured seconds, memory and bytes of each job."""
    return {name: _measure(arguments) for name, arguments in jobs.items()}


def lines(result: Mapping[str, Any]) -> list[str]:
    """Return a table of the jobs, with the ratio of the time to its forecast."""
    rows = [f"{'job':26} {'forecast':>9} {'time':>9} {'ratio':>6} {'memory':>16} {'written':>18}"]
    for name, job in result.items():
        ratio = job["seconds"] / job["forecast_seconds"]
        rows.append(
            f"{name:26} {job['forecast_seconds']:7.1f} s {job['seconds']:7.1f} s {ratio:6.2f} "
            f"{job['forecast_memory_mb']:5.0f} / {job['memory_mb']:5.0f} MB "
            f"{job['forecast_bytes'] / 1e6:6.1f} / {job['bytes'] / 1e6:6.1f} MB"
            + ("" if 1 / LIMIT <= ratio <= LIMIT else f"  not within a factor of {LIMIT}")
        )
    return rows


def _measure(arguments: Sequence[str]) -> dict[str, float]:
    command, *options = arguments
    positional = [option for option in options if option.startswith("models:")]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page"
        line = [command, *positional, str(page), *options[len(positional) :]]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        subprocess.run([sys.executable, "-c", COMMAND, *line], check=True, env=environment)
        (run,) = json.loads((page / "run-log.json").read_text())["runs"]
        written = sum(path.stat().st_size for path in page.rglob("*") if path.is_file())
    forecast = run["forecast"]
    return {
        "forecast_seconds": forecast["seconds"],
        "seconds": sum(run["stages"].values()),
        "forecast_memory_mb": forecast["memory"] / 1e6,
        "memory_mb": max(run["peak_memory_mb"].values()),
        "forecast_bytes": forecast["output"] + forecast["samples"],
        "bytes": written,
    }
