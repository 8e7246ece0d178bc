"""Two results of `python -m benchmarks`, side by side."""

from __future__ import annotations

from typing import Any

SECONDS = "s"


def compared(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What both measured, and ratios; those of times are at equal speed of convolutions: machines are noisy."""
    speed = after["convolution_gmacs"] / before["convolution_gmacs"]
    rows = [f"{'':36} {'before':>14} {'after':>14} {'ratio':>9}"]
    first, second = quantities(before), quantities(after)
    for name, (value, unit) in second.items():
        if name in first:
            old = first[name][0]
            scale = {SECONDS: speed, "ms": speed, "steps/s": 1 / speed}.get(unit, 1.0)
            ratio = f"x {value * scale / old:.2f}" if old else ""
            rows.append(f"{name:36} {f'{old:.4g} {unit}':>14} {f'{value:.4g} {unit}':>14} {ratio:>9}")
    return [*rows, "", f"ratios of times and speeds are at equal speed of convolutions, which was x {speed:.2f}"]


def quantities(result: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """What can be compared, by name: value and unit."""
    parts = result["parts"]
    found: dict[str, tuple[float, str]] = {"convolutions": (result["convolution_gmacs"], "GMAC/s")}
    found |= {f"start: {name}": (seconds, SECONDS) for name, seconds in parts.get("start", {}).items()}
    if "pipeline" in parts:
        found |= _of_pipeline(parts["pipeline"])
    for name, job in parts.get("growth", {}).items():
        found[f"small job, {name}"] = sum(job["seconds"].values()), SECONDS
        found[f"small job, {name}: written"] = sum(job["bytes"].values()) / 1e6, "MB"
        found[f"small job, {name}: memory"] = job["peak_memory_mb"], "MB"
    if "training" in parts:
        found["training"] = parts["training"]["steps_per_second"], "steps/s"
        found["training: memory"] = parts["training"]["peak_memory_mb"], "MB"
    if "page" in parts:
        found["page: first picture"] = parts["page"]["first_picture_ms"], "ms"
        found["page: heap"] = parts["page"]["heap_mb"], "MB"
    for name, pace in parts.get("page", {}).get("layers", {}).items():
        found[f"page: a key, {name}"] = pace["key_ms_p95"], "ms"
    return found


def _of_pipeline(pipeline: dict[str, Any]) -> dict[str, tuple[float, str]]:
    job = pipeline["default_job"]
    found = {name: (stage["seconds"], SECONDS) for name, stage in pipeline["stages"].items()}
    memory = max(stage["peak_memory_mb"] for stage in pipeline["stages"].values())
    return {
        **found,
        "default job": (job["seconds"], SECONDS),
        "default job: written": (job["megabytes"], "MB"),
        "stages: memory": (memory, "MB"),
    }
