"""Small training runs, shared by tests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from rl_clarity.ppo.learner import Learner, Minibatch
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.ppo.trainer import Trainer
from tests.ppo.toys import Columns

COLUMNS_ID = "tests.ppo.toys:RlClarityColumns-v0"
TINY: dict[str, Any] = {
    "env_kind": "gymnasium",
    "env_id": COLUMNS_ID,
    "num_envs": 4,
    "num_steps": 8,
    "num_minibatches": 2,
}
FAST: dict[str, Any] = {
    "learning_rate": 2e-3,
    "num_envs": 16,
    "num_steps": 16,
    "num_minibatches": 4,
    "ppo_epochs": 2,
    "gamma": 0.5,
}


def tiny(updates: int, **changes: Any) -> dict[str, Any]:
    """Options of a training of a few updates."""
    options = {**TINY, "ppo_epochs": 1, "tensorboard": False, **changes}
    return {**options, "timesteps_per_proc": updates * options["num_envs"] * options["num_steps"]}


def make_trainer(environment: type[Columns], **changes: Any) -> Trainer:
    options = TrainOptions(env_name="columns", **{**FAST, **changes})
    return Trainer(options, environment(options.num_envs, seed=1))


def parameters(trainer: Trainer) -> dict[str, np.ndarray]:
    return trainer.learner.network.parameters()


def stop_in_update(update: int, stop: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Call `stop` in the middle of an update: some of its optimizer steps are done."""
    learn, calls = Learner.learn, count(1)

    def learn_or_stop(self: Learner, batch: Minibatch) -> Any:
        if next(calls) == update * TINY["num_minibatches"]:
            stop()
        return learn(self, batch)

    monkeypatch.setattr(Learner, "learn", learn_or_stop)


STATEFUL: dict[str, Any] = {
    "env_kind": "columns",
    "env_id": None,
    "env_name": "columns",
    "save_interval": 3,
    "use_lstm": True,
    "frame_stack": 2,
    "epsilon_greedy": 0.2,
    "reward_processing": "normalize",
}
"""Options of a training with all kinds of state."""
