"""Continue the training of an imitating network by PPO, with `rl_clarity.train`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.environments import make
from rl_clarity.formats import read
from rl_clarity.ppo import session
from rl_clarity.ppo.options import train_options
from rl_clarity.ppo.trainer import CHECKPOINT, STATE, Trainer, TrainingState
from scripts.coinrun.network import BFLOAT16, Clear
from scripts.coinrun.restarts import FailureRestarts
from scripts.coinrun.search import LEVELS

REWARD = 10.0
"""Reward for completing a level. It counts as 1 in training."""
OPTIONS: Mapping[str, Any] = {
    "env_name": "coinrun",
    "distribution_mode": "easy",
    "num_levels": LEVELS,
    "paint_vel_info": True,
    "gamma": 0.999,
    "num_steps": 128,
    "num_minibatches": 8,
    "ppo_epochs": 1,
    "learning_rate": 3e-4,
    "entropy_coeff": 0.001,
    "clip_range": 0.2,
    "reward_processing": "normalize",
    "precision": "bfloat16" if BFLOAT16 else "float32",
    "seed": 1,
    "save_all": True,
    "tensorboard": False,
}

LAST_UPDATES, LAST_LEARNING_RATE = 80, 1e-4
"""Number of final updates with a lower learning rate, and this learning rate."""


def begin(folder: Path, parameters: Mapping[str, np.ndarray], levels: int = LEVELS) -> None:
    """Write the state and the checkpoint of a training that begins with these parameters, unless they exist.

    The normalization of rewards is fixed: its moments are set as if they came from so many returns that new returns do
    not change them.
    """
    if (folder / STATE).exists():
        return
    options = train_options({**OPTIONS, "num_levels": levels, "timesteps_per_proc": 1})
    folder.mkdir(parents=True, exist_ok=True)
    with closing(make(options.environment(), options.num_envs, options.seed)) as environment:
        trainer = Trainer(options, FailureRestarts(environment))
        state = trainer.state()
        arrays: dict[str, np.ndarray] = {**state.arrays, "0/rewards/moments": np.array([0.0, REWARD**2, 1e9])}
        arrays |= {f"learner/parameters/{name}": array for name, array in parameters.items()}
        state = dataclasses.replace(state, arrays=arrays)
        trainer.restore(state)
        trainer.save_checkpoint(folder / CHECKPOINT)
    state.save(folder / STATE)


def finished_updates(folder: Path) -> int:
    """Return the number of updates that a training has finished."""
    return int(TrainingState.load(folder / STATE).values["updates"])


def advance(folder: Path, updates: int, total: int, levels: int = LEVELS) -> Clear:
    """Train until `updates` of `total` updates are finished, and return the network. Its values are in units of the
    reward.
    """
    rate = LAST_LEARNING_RATE if updates > total - LAST_UPDATES else OPTIONS["learning_rate"]
    steps = updates * train_options(OPTIONS).steps_per_update
    options = train_options({**OPTIONS, "num_levels": levels, "learning_rate": rate, "timesteps_per_proc": steps})
    session.run(folder, options, wrap=FailureRestarts)
    network = Clear()
    network.assign(read(folder / CHECKPOINT).parameters)
    return network
