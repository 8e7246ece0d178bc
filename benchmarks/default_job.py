"""Measure the default job with and without causal numbers and measured effects of objects.

The times are compared with the time that the job's convolutions would take at the machine's peak speed.

Jobs are a fraction of the default size. Each kind of job runs several times, in turns, in separate processes. Times are
those of the fastest run, because other load only makes them longer. Processor time is reported, too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import convolution_peak, multiply_adds

FRACTION = 8
"""The default job is this many times larger than the measured jobs."""
REPEATS = 2
NO_EFFECTS: dict[str, Any] = {"objects": {"every": None}}
KINDS: dict[str, dict[str, Any]] = {
    "without causal numbers": {"ablation_every": None, **NO_EFFECTS},
    "without measured effects": NO_EFFECTS,
    "default": {},
}


def measure(fraction: int = FRACTION, repeats: int = REPEATS) -> dict[str, Any]:
    """Return the time, processor time, memory and bytes of each kind of job, and the times of their convolutions at
    peak speed.
    """
    operations, ablation = _operations(fraction)
    jobs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    peaks: dict[str, list[float]] = {"seconds": [], "cpu_seconds": []}
    for _ in range(repeats):
        for kind, options in KINDS.items():
            peaks["seconds"].append(operations / convolution_peak())
            peaks["cpu_seconds"].append(operations / convolution_peak(clock=time.process_time))
            jobs[kind].append(_run(options, fraction))
    fastest = {kind: {key: min(job[key] for job in runs) for key in runs[0]} for kind, runs in jobs.items()}
    bounds = {key: min(values) for key, values in peaks.items()}
    return {"fraction": fraction, "jobs": fastest, "convolutions": bounds, "ablation": ablation / operations}


def lines(result: dict[str, Any]) -> list[str]:
    """Return a table of the jobs, and ratios of their times."""
    bound, jobs = result["convolutions"], result["jobs"]
    title = f"1 / {result['fraction']} of the default job"
    rows = [f"{title:28} {'time':>8} {'processor':>10} {'memory':>8} written"]
    for kind, job in jobs.items():
        rows.append(
            f"{kind:28} {job['seconds']:6.1f} s {job['cpu_seconds']:8.1f} s {job['memory_mb']:5.0f} MB "
            f"{job['bytes'] / 1e6:4.1f} MB"
        )
    rows.append(f"{'convolutions at peak speed':28} {bound['seconds']:6.1f} s {bound['cpu_seconds']:8.1f} s")
    plain, causal, default = (jobs[kind] for kind in KINDS)
    with_ablation = 1 + result["ablation"]  # its passes are neither gradients nor steps of the policy
    for key, name in (("seconds", "time"), ("cpu_seconds", "processor time")):
        rows.append(
            f"{name}: {causal[key] / plain[key] - 1:+.0%} with causal numbers, "
            f"{default[key] / causal[key] - 1:+.0%} with measured effects, "
            f"{default[key] / bound[key]:.2f} times the convolutions, "
            f"{default[key] / bound[key] / with_ablation:.2f} times with those of ablation"
        )
    return rows


def _operations(fraction: int) -> tuple[float, float]:
    """Return the multiply-adds of the policy's steps and of the gradients together, and those of ablation."""
    import rl_clarity
    from benchmarks.pipeline import OPTIONS, operations_after
    from rl_clarity.analyses.attribution import choose_layers
    from rl_clarity.pages.options import ObservationsOptions, TrajectoriesOptions

    agent: Any = rl_clarity.load_agent("models:coinrun")
    costs = multiply_adds(agent.network.model)
    played, varied = TrajectoriesOptions(), ObservationsOptions()
    frames = played.num_envs * played.num_steps
    steps = frames + varied.num_envs * varied.num_obs * varied.obs_every
    forward = sum(costs.values())
    gradients = ablation = 0
    for layer in choose_layers(agent):
        after = operations_after(costs, layer.site.name)
        gradients += 2 * after * OPTIONS.attribution.steps + forward + after
        ablation += forward + int(OPTIONS.features.count) * after
    explained = frames + (OPTIONS.features.fit_observations or 0)
    ablated = frames / (OPTIONS.ablation.every or np.inf)
    return (steps * forward + explained * gradients) / fraction, ablated * ablation / fraction


def _run(options: dict[str, Any], fraction: int) -> dict[str, float]:
    """Run a job in a separate process, and return its time, memory and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.default_job", json.dumps([options, fraction]), folder]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    imports = json.loads(done.stdout.splitlines()[-1])
    return {
        "seconds": seconds - imports["seconds"],
        "cpu_seconds": processor - imports["cpu_seconds"],
        "memory_mb": imports["memory_mb"],
        "bytes": written,
    }


def _main() -> None:
    options, fraction = json.loads(sys.argv[1])
    from rl_clarity.base.quiet import import_keras

    start = time.perf_counter()
    import_keras()
    imports = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time()}

    import rl_clarity
    from rl_clarity.pages.options import InterfaceOptions, ObservationsOptions, TrajectoriesOptions

    rl_clarity.run(
        "models:coinrun",
        sys.argv[2],
        load_kwargs={"temp_files": True},
        trajectories_kwargs={"num_steps": TrajectoriesOptions().num_steps // fraction},
        observations_kwargs={"num_obs": ObservationsOptions().num_obs // fraction},
        nmf_fit_observations=(InterfaceOptions().features.fit_observations or 0) // fraction,
        **options,
    )
    from rl_clarity.jobs.machine import peak_memory

    print(json.dumps({**imports, "memory_mb": peak_memory() / 1e6}))


if __name__ == "__main__":
    _main()
