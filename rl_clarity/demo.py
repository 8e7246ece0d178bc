"""The demo: a small page that explains an included agent."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np

from rl_clarity import pipeline
from rl_clarity.models import path_of
from rl_clarity.pages.results import Page
from rl_clarity.resources import models_directory

MODEL = "coinrun"
SAMPLES = "coinrun.samples.npz"
TRAJECTORIES = {"num_envs": 2, "num_steps": 128}
OBSERVATIONS = {"num_envs": 32, "num_obs": 16, "obs_every": 32}


def demo(output_dir: str | os.PathLike[str]) -> Page:
    """Explain the included CoinRun agent; without Procgen, on samples that are included with it."""
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
        combos = [tuple(filter(None, str(combo).split("+"))) for combo in samples["action_combos"]]
        arrays = {"trajectories": trajectories, "observations": samples["varied"], "action_combos": combos}
    return pipeline.run(path_of(MODEL), output_dir, **arrays, **options)
