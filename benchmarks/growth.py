"""Measure how the cost of a job grows with twice the frames, observations, layers or outputs, and with all outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.job import Sizes, run_job

BASE = Sizes()
DOUBLED = {
    "frames x 2": replace(BASE, frames=2 * BASE.frames),
    "observations x 2": replace(BASE, observations=2 * BASE.observations),
    "layers x 2": replace(BASE, layers=("2b", "2a")),  # of the same shape
    "outputs x 2": replace(BASE, logits=1),
    "all outputs": replace(BASE, attr_policy=True),
}
_SIZES = {"base": BASE, **DOUBLED}
REPEATS = 2
STAGES = ("features", "trajectory", "attribution", "page")
KINDS = ("features", "frames", "attribution", "page", "notes")
WIDTH = 12


def measure() -> dict[str, Any]:
    """Return the time, bytes and memory of a small job and of larger ones."""
    return {name: _fastest([run_job(sizes) for _ in range(REPEATS)]) for name, sizes in _SIZES.items()}


def _fastest(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of the first job, with the shortest time that any job takes for each stage.

    Other load only makes times longer.
    """
    seconds = {stage: min(job["seconds"].get(stage, 0.0) for job in jobs) for stage in jobs[0]["seconds"]}
    return {**jobs[0], "seconds": seconds}


def lines(result: dict[str, Any]) -> list[str]:
    """Return tables of the small job's time, bytes and memory, and of the ratios of larger jobs to it."""
    names = {"base": "small job", **{name: name for name in DOUBLED}}
    names["all outputs"] = f"outputs x {result['all outputs']['outputs']}"
    rows = _table("time", names, {key: _with_total(result[key]["seconds"], STAGES) for key in names}, 1.0, "s")
    rows += _table("written", names, {key: _with_total(result[key]["bytes"], KINDS) for key in names}, 1e6, "MB")
    memory = {key: {"peak": result[key]["peak_memory_mb"]} for key in names}
    rows += _table("memory", names, memory, 1.0, "MB", digits=0)
    return [*rows, "", f"small job: {2 * BASE.frames} frames, {BASE.observations} observations, one layer, the value"]


def _with_total(parts: dict[str, float], order: tuple[str, ...]) -> dict[str, float]:
    """Return the parts in this order, and their sum."""
    known = {name: parts.get(name, 0.0) for name in order}
    return {**known, "all": sum(known.values())}


def _table(
    title: str, names: dict[str, str], values: dict[str, dict[str, float]], scale: float, unit: str, digits: int = 2
) -> list[str]:
    """Return a table with a row for the small job, followed by rows of ratios."""
    base = values["base"]
    rows = ["", f"{title:18}" + "".join(f"{name:>{WIDTH}}" for name in base)]
    rows.append(f"{names['base']:18}" + "".join(f"{f'{v / scale:.{digits}f} {unit}':>{WIDTH}}" for v in base.values()))
    for key in DOUBLED:
        ratios = (f"x {values[key][name] / value:.2f}" if value else "" for name, value in base.items())
        rows.append(f"{names[key]:18}" + "".join(f"{ratio:>{WIDTH}}" for ratio in ratios))
    return rows
