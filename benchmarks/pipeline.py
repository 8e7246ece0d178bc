"""Measure the cost of explaining an agent, stage by stage.

Each stage is measured on the included agent and its samples, in seconds for 256 frames (or observations). Stages that
are limited by convolutions are also measured as a fraction of the peak speed of convolutions in the same run.
`default_job` adds up the stages for the default job: 8 x 512 frames, 4,096 observations.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from benchmarks.machine import convolution_peak, multiply_adds, peak_memory_mb, reset_peak_memory, seconds
from rl_clarity.agents.network import full_name
from rl_clarity.analyses.attribution import attribute, choose_layers
from rl_clarity.analyses.attribution.files import attribution_chunk
from rl_clarity.base.resources import models_directory
from rl_clarity.commands.demo import MODEL, SAMPLES
from rl_clarity.jobs.directory import open_directory
from rl_clarity.pages.files import PageFiles
from rl_clarity.pages.frames import frame_arrays
from rl_clarity.pages.options import InterfaceOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.reduction import ChannelReduction
from rl_clarity.visualization.dataset_examples import dataset_grids

FRAMES = 128
UNIT = 256
OPTIONS = InterfaceOptions()
NOT_STAGES = ("seconds", "megabytes", "bound")
"""Values of the default job that are not seconds of a stage."""


class Stages:
    """Measured stages, for 256 frames each."""

    def __init__(self, peak: float) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._peak = peak

    def enter(self, name: str, work: Callable[[], Any], operations: float = 0.0, times: int = 1) -> None:
        """Measure a stage that takes `times` calls of `work` for `FRAMES` frames, and `operations` multiply-adds per
        frame.
        """
        reset_peak_memory()
        taken = seconds(work) * times * UNIT / FRAMES
        self.found[name] = {"seconds": taken, "peak_memory_mb": peak_memory_mb()}
        if operations:
            self.found[name]["fraction_of_peak"] = operations * UNIT / self._peak / taken

    def enter_writing(self, name: str, work: Callable[[PageFiles], Any]) -> None:
        """Measure a stage that writes files."""
        with tempfile.TemporaryDirectory() as folder:
            files = PageFiles(open_directory(folder))
            self.enter(name, lambda: work(files))
            written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        self.found[name]["bytes"] = written * UNIT / FRAMES


def measure(peak: float | None = None) -> dict[str, Any]:
    """Measure all stages, and add them up to the default job.

    peak: multiply-adds per second of convolutions on this machine; None measures it
    """
    agent: Any = rl_clarity.load_agent(f"models:{MODEL}")
    with np.load(models_directory() / SAMPLES) as samples:
        varied = samples["varied"][:FRAMES]
    peak = convolution_peak() if peak is None else peak
    stages = Stages(peak)
    stages.enter("policy", lambda: agent.forward(varied), sum(multiply_adds(agent.network.model).values()))
    for layer in choose_layers(agent):
        _measure_layer(stages, agent, layer, varied)
    stages.enter_writing("frames", lambda files: files.write_chunk("frames.js", frame_arrays(varied, workers=2)))
    found = stages.found
    job = default_job(found)
    for name, stage in found.items():
        stage["share"] = stage["seconds"] * repeats(name) / job["seconds"]
    return {"convolution_gmacs": peak / 1e9, "stages": found, "default_job": job}


def _measure_layer(stages: Stages, agent: Any, layer: Any, varied: np.ndarray) -> None:
    costs = multiply_adds(agent.network.model)
    after = operations_after(costs, layer.site.name)
    steps, rule, prefix = OPTIONS.attribution.steps, OPTIONS.attribution.quadrature, OPTIONS.attribution.linear_prefix
    # A point on the path is a forward and a backward pass through the later layers, without gradients of kernels.
    stages.enter(
        f"gradients {layer.name}",
        lambda: attribute(agent, varied, layer.name, steps=steps, quadrature=rule, linear_prefix=prefix),
        2 * after * steps + sum(costs.values()) + after,
    )
    values = attribute(agent, varied, layer.name, steps=1).values[0]
    reduction = ChannelReduction.fit(values)
    stages.enter(f"reduction {layer.name}", lambda: reduction.signed_transform(values))
    channels, residual = reduction.signed_transform(values)
    stages.enter(
        f"examples {layer.name}",
        lambda: dataset_grids(np.maximum(channels[..., 0], 0), OPTIONS.examples.densities),
        times=channels.shape[-1],
    )
    stages.enter_writing(
        f"writing {layer.name}",
        lambda files: files.write(attribution_chunk("layer.js", channels, residual)),
    )


def repeats(stage: str) -> float:
    """Return how many times 256 frames (or observations) the default job processes in a stage."""
    played, varied = TrajectoriesOptions(), ObservationsOptions()
    frames = played.num_envs * played.num_steps / UNIT
    observations = varied.num_envs * varied.num_obs / UNIT
    fitted = (OPTIONS.features.fit_observations or 0) / UNIT
    return {
        "policy": frames + observations * varied.obs_every,
        "gradients": frames + fitted,
        "reduction": frames + observations / 2,  # activations have no negative part
        "examples": observations,
        "writing": frames,
        "frames": frames,
    }[stage.split()[0]]


def default_job(stages: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the seconds of the default job by stage, its megabytes, and the seconds that its convolutions take at peak
    speed.
    """
    total: dict[str, float] = {}
    written, bound = 0.0, 0.0
    for name, stage in stages.items():
        kind, times = name.split()[0], repeats(name)
        total[kind] = total.get(kind, 0.0) + stage["seconds"] * times
        written += stage.get("bytes", 0.0) * times
        bound += stage.get("fraction_of_peak", 0.0) * stage["seconds"] * times
    return {**total, "seconds": sum(total.values()), "megabytes": written / 1e6, "bound": bound}


def operations_after(costs: dict[str, int], layer: str) -> int:
    """Return the multiply-adds of the layers after the convolution that a layer belongs to."""
    scope = layer.rsplit("/", 1)[0]
    last = max(i for i, name in enumerate(costs) if full_name(name).startswith(scope))
    return sum(list(costs.values())[last + 1 :])


def lines(result: dict[str, Any]) -> list[str]:
    """Return the result as tables."""
    rows = [f"convolutions: {result['convolution_gmacs']:.0f} billion multiply-adds per second", ""]
    rows.append(f"{'256 frames':22} {'time':>9} {'of job':>7} {'of peak':>8} {'memory':>9} {'written':>9}")
    for name, stage in result["stages"].items():
        fraction = f"{stage['fraction_of_peak']:.0%}" if "fraction_of_peak" in stage else ""
        size = f"{stage['bytes'] / 1e6:.2f} MB" if "bytes" in stage else ""
        memory = f"{stage['peak_memory_mb']:.0f} MB"
        rows.append(f"{name:22} {stage['seconds']:7.3f} s {stage['share']:7.1%} {fraction:>8} {memory:>9} {size:>9}")
    job = result["default_job"]
    rows += [
        "",
        f"{'default job, added up':22} {job['seconds']:7.1f} s {job['megabytes']:33.0f} MB",
    ]
    kinds = {kind: taken for kind, taken in job.items() if kind not in NOT_STAGES}
    rows += [f"  {kind:20} {taken:7.1f} s {taken / job['seconds']:7.1%}" for kind, taken in kinds.items()]
    times = job["seconds"] / job["bound"]
    return [*rows, f"{times:.2f} times its convolutions at peak speed, {job['bound']:.0f} s"]
