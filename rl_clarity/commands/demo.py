"""The demo: a small page about an included agent, the checkpoints of an included series, or an agent's memory."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Literal

import numpy as np

from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.resources import models_directory
from rl_clarity.commands import run as pipeline
from rl_clarity.commands.compare import compare
from rl_clarity.commands.memory import explain_memory
from rl_clarity.formats.included import path_of, series_names
from rl_clarity.pages.results import Page

MODEL = "coinrun"
SAMPLES = "coinrun.samples.npz"
TRAJECTORIES = {"num_envs": 2, "num_steps": 128}
OBSERVATIONS = {"num_envs": 32, "num_obs": 16, "obs_every": 32}
LIGHT_SWITCH = "light-switch/memory.safetensors"
"""An agent that sees a lamp in the first frame, and 9 steps later presses the switch that the lamp indicated."""
MEMORY: dict[str, Any] = {
    "play": {"episodes": 48, "max_steps": 16, "info": ("cue",)},
    "windows": {"count": 24, "grid": 16},
    "states": {"influence_samples": 32},
    "interventions": {"count": 2, "episodes": 40},
    "probes": {"labels": ("cue@1",)},
}
SERIES: dict[str, Any] = {"play": {"max_steps": 2000, "return_episodes": 60}, "saliency": {"every": 16}}


def demo(output_dir: str | os.PathLike[str], page: Literal["agent", "training", "memory"] = "agent") -> Page:
    """Write a small page: explain the included CoinRun agent, compare the checkpoints of the first included series, or
    explain what the included agent of the light-switch environment remembers.

    If Procgen is not installed, the CoinRun agent is explained on included samples. Raises CheckpointError if no series
    is included, and EnvironmentSetupError if the environment of the series is not installed.
    """
    if page == "memory":
        return _memory(output_dir)
    if page == "training":
        return _training(output_dir)
    options: dict[str, Any] = {"title": "CoinRun: a small example", "overwrite": True}
    if importlib.util.find_spec("procgen") is not None:
        return pipeline.run(
            path_of(MODEL),
            output_dir,
            load={"temp_files": True},
            trajectories=TRAJECTORIES,
            observations=OBSERVATIONS,
            **options,
        )
    with np.load(models_directory() / SAMPLES) as samples:
        trajectories = {name: samples[name] for name in ("observations", "actions", "rewards", "firsts")}
        combos = [tuple(filter(None, str(combo).split("+"))) for combo in samples["action_combos"]]
        arrays = {"trajectories": trajectories, "observations": samples["varied"], "action_combos": combos}
    return pipeline.run(path_of(MODEL), output_dir, **arrays, **options)


def _training(output_dir: str | os.PathLike[str]) -> Page:
    if not series_names():
        raise CheckpointError("no series of checkpoints is included; `make train-series` trains one")
    name = series_names()[0]
    return compare(path_of(name), output_dir, title=f"{name}: a small example", overwrite=True, **SERIES)


def _memory(output_dir: str | os.PathLike[str]) -> Page:
    agent = models_directory() / LIGHT_SWITCH
    return explain_memory(agent, output_dir, title="Light switch: a small example of memory", overwrite=True, **MEMORY)
