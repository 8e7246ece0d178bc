"""How the cost of a job grows: when frames, observations or layers double, and with attribution of every action."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.job import Sizes, measured

BASE = Sizes()
DOUBLED = {
    "frames x 2": replace(BASE, frames=2 * BASE.frames),
    "observations x 2": replace(BASE, observations=2 * BASE.observations),
    "layers x 2": replace(BASE, layers=("2b", "2a")),  # of the same shape
    "all outputs": replace(BASE, attr_policy=True),
}


def measure() -> dict[str, Any]:
    """What a small job takes, and what larger ones do."""
    return {"base": measured(BASE), **{name: measured(sizes) for name, sizes in DOUBLED.items()}}


def lines(result: dict[str, Any]) -> list[str]:
    """Ratios to the small job, stage by stage."""
    base = result["base"]
    stages = list(base["seconds"])
    head = " ".join(f"{stage:>12}" for stage in stages)
    rows = ["", f"{'how a small job grows':22} {head} {'MB written':>12} {'peak MB':>9}"]
    rows.append(f"{'base: seconds':22} " + " ".join(f"{base['seconds'][s]:12.2f}" for s in stages) + _size(base))
    for name in DOUBLED:
        job = result[name]
        ratios = " ".join(f"{job['seconds'][stage] / max(base['seconds'][stage], 1e-3):10.2f} x" for stage in stages)
        rows.append(f"{name:22} {ratios}{_size(job)}")
    outputs = result["all outputs"]["outputs"]
    return [*rows, f"(all outputs: {outputs} in the place of one; attribution grows by the factor above)"]


def _size(job: dict[str, Any]) -> str:
    return f" {sum(job['bytes'].values()) / 1e6:12.2f} {max(job['peak_memory_mb'].values()):9.0f}"
