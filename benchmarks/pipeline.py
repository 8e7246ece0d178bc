"""What explaining an agent costs, stage by stage, and how it grows.

Every stage is measured on the shipped agent and the samples beside it, in seconds for 256 frames (or observations);
where convolutions bound it, also as the fraction of what they would take at the speed measured in the same run.
`default_job` adds the stages up at the sizes of the default job: 8 x 512 frames, 4096 observations.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rl_clarity
from benchmarks.machine import convolution_peak, multiply_adds, seconds
from rl_clarity.attribution import attribute, choose_layers
from rl_clarity.demo import MODEL, SAMPLES
from rl_clarity.interface.files import open_directory
from rl_clarity.interface.layers import attribution_chunk
from rl_clarity.interface.page_files import PageFiles
from rl_clarity.interface.trajectories import write_frames
from rl_clarity.networks.network import full_name
from rl_clarity.options import InterfaceOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.reduction import ChannelReduction
from rl_clarity.resources import models_directory
from rl_clarity.visualization.dataset_examples import dataset_grids

FRAMES = 128
UNIT = 256


def measure() -> dict[str, Any]:
    """Seconds for 256 frames of every stage, fractions of the peak, and the default job they add up to."""
    agent: Any = rl_clarity.load_agent(f"models:{MODEL}")
    with np.load(models_directory() / SAMPLES) as samples:
        varied = samples["varied"][:FRAMES]
    peak = convolution_peak()
    costs = multiply_adds(agent.network.model)
    options = InterfaceOptions()
    per_unit = UNIT / len(varied)
    stages: dict[str, dict[str, float]] = {}

    def enter(name: str, work: Any, operations: float = 0.0) -> None:
        taken = seconds(work) * per_unit
        stages[name] = {"seconds": taken}
        if operations:
            stages[name]["fraction_of_peak"] = operations * UNIT / peak / taken

    enter("policy", lambda: agent.forward(varied), sum(costs.values()))
    for layer in choose_layers(agent):
        after = _after(costs, layer.operation.name)
        rule = {"steps": options.attr_integrate_steps, "quadrature": options.attr_quadrature}
        # A path point is one pass forward and one backward through what follows the layer, without kernels' gradients.
        enter(
            f"gradients {layer.name}",
            lambda name=layer.name, rule=rule: attribute(agent, varied, name, **rule),
            2 * after * options.attr_integrate_steps + sum(costs.values()) + after,
        )
        values = attribute(agent, varied, layer.name, steps=1).values[0]
        reduction = ChannelReduction.fit(values)
        enter(f"reduction {layer.name}", lambda r=reduction, v=values: r.signed_transform(v))
        channels, residual = reduction.signed_transform(values)
        enter(
            f"examples {layer.name}",
            lambda c=channels: dataset_grids(np.maximum(c[..., 0], 0), options.vis_subdiv_mults),
        )
        stages[f"examples {layer.name}"]["seconds"] *= channels.shape[-1]
        with tempfile.TemporaryDirectory() as folder:
            files = PageFiles(open_directory(folder))
            enter(
                f"writing {layer.name}",
                lambda f=files, c=channels, r=residual: f.write(
                    attribution_chunk(f.layout, "layer", "value", 0, 0, c, r)
                ),
            )
            stages[f"writing {layer.name}"]["bytes"] = _bytes_below(Path(folder)) * per_unit
    with tempfile.TemporaryDirectory() as folder:
        files = PageFiles(open_directory(folder))
        enter("frames", lambda: write_frames(files, 0, 0, varied, workers=2))
        stages["frames"]["bytes"] = _bytes_below(Path(folder)) * per_unit
    return {
        "convolution_gmacs": peak / 1e9,
        "stages": stages,
        "default_job": default_job(stages),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def default_job(stages: dict[str, dict[str, float]]) -> dict[str, float]:
    """Seconds of the default job by stage, from seconds for 256 frames; bytes written; seconds of its convolutions."""
    played, varied = TrajectoriesOptions(), ObservationsOptions()
    frames = played.num_envs * played.num_steps / UNIT
    observations = varied.num_envs * varied.num_obs / UNIT
    fitted = (InterfaceOptions().nmf_fit_observations or 0) / UNIT
    times = {
        "policy": frames + observations * varied.obs_every,
        "gradients": frames + fitted,
        "reduction": frames + observations / 2,  # of activations there is no negative part
        "examples": observations,
        "writing": frames,
        "frames": frames,
    }
    total = dict.fromkeys(times, 0.0)
    written, bound = 0.0, 0.0
    for name, stage in stages.items():
        kind = name.split()[0]
        total[kind] += stage["seconds"] * times[kind]
        written += stage.get("bytes", 0.0) * times[kind]
        bound += stage.get("fraction_of_peak", 0.0) * stage["seconds"] * times[kind]
    return {**total, "seconds": sum(total.values()), "megabytes": written / 1e6, "bound": bound}


def _after(costs: dict[str, int], layer: str) -> int:
    """Multiply-adds behind a layer: of the layers that come after the convolution it belongs to."""
    scope = layer.rsplit("/", 1)[0]
    last = max(i for i, name in enumerate(costs) if full_name(name).startswith(scope))
    return sum(list(costs.values())[last + 1 :])


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def lines(result: dict[str, Any]) -> list[str]:
    """The result as a table."""
    rows = [f"convolutions: {result['convolution_gmacs']:.0f} billion multiply-adds a second", ""]
    rows.append(f"{'stage (256 frames)':24} {'seconds':>9} {'of peak':>9} {'MB':>8}")
    for name, stage in result["stages"].items():
        fraction = f"{stage['fraction_of_peak']:9.0%}" if "fraction_of_peak" in stage else " " * 9
        size = f"{stage['bytes'] / 1e6:8.1f}" if "bytes" in stage else ""
        rows.append(f"{name:24} {stage['seconds']:9.3f} {fraction} {size}")
    job = result["default_job"]
    shares = {kind: taken for kind, taken in job.items() if kind not in ("seconds", "megabytes", "bound")}
    rows += ["", f"default job, added up: {job['seconds']:.0f} s, {job['megabytes']:.0f} MB"]
    rows += [f"  {kind:22} {taken:9.1f} {taken / job['seconds']:9.0%}" for kind, taken in shares.items()]
    rows.append(
        f"{job['seconds'] / job['bound']:.2f} times what its convolutions take at that speed ({job['bound']:.0f} s)"
    )
    return [*rows, f"peak memory {result['peak_memory_mb']:.0f} MB"]
