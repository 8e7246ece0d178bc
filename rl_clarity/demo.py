"""The demo: a small page that explains an included agent, or compares the checkpoints of an included series."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Literal

import numpy as np

from rl_clarity import pipeline
from rl_clarity.comparison import compare
from rl_clarity.errors import CheckpointError
from rl_clarity.models import path_of, series_names
from rl_clarity.pages.results import Page
from rl_clarity.resources import models_directory

MODEL = "coinrun"
SAMPLES = "coinrun.samples.npz"
TRAJECTORIES = {"num_envs": 2, "num_steps": 128}
OBSERVATIONS = {"num_envs": 32, "num_obs": 16, "obs_every": 32}
SERIES: dict[str, Any] = {"max_steps": 256, "saliency_every": 8, "return_episodes": 8}


def demo(output_dir: str | os.PathLike[str], page: Literal["agent", "training"] = "agent") -> Page:
    """Explain the included CoinRun agent (without Procgen, on samples that are included with it), or compare the
    checkpoints of the first included series.

    Raises CheckpointError where no series is included, EnvironmentSetupError where its environment is not installed.
    """
    if page == "training":
        return _training(output_dir)
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


def _training(output_dir: str | os.PathLike[str]) -> Page:
    if not series_names():
        raise CheckpointError("no series of checkpoints is included; `make train-series` trains one")
    name = series_names()[0]
    return compare(path_of(name), output_dir, title=f"{name}: a small example", overwrite=True, **SERIES)
