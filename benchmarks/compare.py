"""Compare two results of `python -m benchmarks`."""

from __future__ import annotations

from typing import Any

SECONDS = "s"


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a table of the quantities in both results.

    Ratios of times are normalized by the speed of convolutions, because machines differ.
    """
    speed = after["convolution_gmacs"] / before["convolution_gmacs"]
    rows = [f"{'':36} {'before':>14} {'after':>14} {'ratio':>9}"]
    first, second = quantities(before), quantities(after)
    for name, (value, unit) in second.items():
        if name in first:
            old = first[name][0]
            scale = {SECONDS: speed, "ms": speed, "steps/s": 1 / speed}.get(unit, 1.0)
            ratio = f"x {value * scale / old:.2f}" if old else ""
            rows.append(f"{name:36} {f'{old:.4g} {unit}':>14} {f'{value:.4g} {unit}':>14} {ratio:>9}")
    return [*rows, "", f"ratios of times and speeds are normalized by the speed of convolutions: x {speed:.2f}"]


def quantities(result: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Return the value and the unit of each quantity that can be compared, by name."""
    parts = result["parts"]
    values: dict[str, tuple[float, str]] = {"convolutions": (result["convolution_gmacs"], "GMAC/s")}
    values |= {f"start: {name}": (seconds, SECONDS) for name, seconds in parts.get("start", {}).items()}
    if "pipeline" in parts:
        values |= _pipeline(parts["pipeline"])
    for name, job in parts.get("growth", {}).items():
        values[f"small job, {name}"] = sum(job["seconds"].values()), SECONDS
        values[f"small job, {name}: written"] = sum(job["bytes"].values()) / 1e6, "MB"
        values[f"small job, {name}: memory"] = job["peak_memory_mb"], "MB"
    if "training" in parts:
        values["training"] = parts["training"]["steps_per_second"], "steps/s"
        values["training: memory"] = parts["training"]["peak_memory_mb"], "MB"
    for model, page in parts.get("page", {}).items():
        values[f"page of {model}: first image"] = page["first_image_ms"], "ms"
        values[f"page of {model}: heap"] = page["heap_mb"], "MB"
        for layer, pace in page["layers"].items():
            values[f"page of {model}: a key, {layer}"] = pace["key_ms_p95"], "ms"
    for model, panel in parts.get("what_if", {}).items():
        values[f"What if of {model}: a forward pass"] = panel["forward_ms"], "ms"
    return values


def _pipeline(pipeline: dict[str, Any]) -> dict[str, tuple[float, str]]:
    job = pipeline["default_job"]
    stages = {name: (stage["seconds"], SECONDS) for name, stage in pipeline["stages"].items()}
    memory = max(stage["peak_memory_mb"] for stage in pipeline["stages"].values())
    return {
        **stages,
        "default job": (job["seconds"], SECONDS),
        "default job: written": (job["megabytes"], "MB"),
        "stages: memory": (memory, "MB"),
    }
