"""The demonstration: a small page of the agent that ships with the package."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np

from rl_clarity import pipeline
from rl_clarity.models import path_of
from rl_clarity.pages.notebook import Page
from rl_clarity.resources import models_directory

MODEL = "coinrun"
SAMPLES = "coinrun.samples.npz"
TRAJECTORIES = {"num_envs": 2, "num_steps": 128}
OBSERVATIONS = {"num_envs": 32, "num_obs": 16, "obs_every": 32}


def demo(output_dir: str | os.PathLike[str]) -> Page:
    """Make a page of the shipped agent; where Procgen cannot be had, of samples that ship beside it."""
    options: dict[str, Any] = {"title": "CoinRun: a small example", "overwrite": True}
    if importlib.util.find_spec("procgen") is not None:
        return pipeline.run(
            path_of(MODEL),
            output_dir,
            load_kwargs={"temp_files": True},
            trajectories_kwargs=TRAJECTORIES,
            observations_kwargs=OBSERVATIONS,
            **options,
        )
    with np.load(models_directory() / SAMPLES) as samples:
        trajectories = {name: samples[name] for name in ("observations", "actions", "rewards", "firsts")}
        varied = samples["varied"]
        combos = [tuple(filter(None, str(combo).split("+"))) for combo in samples["action_combos"]]
    given = {"trajectories": trajectories, "observations": varied, "action_combos": combos}
    return pipeline.run(path_of(MODEL), output_dir, **given, **options)
