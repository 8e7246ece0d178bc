"""Simulate windows of a recording in three modes, which are compared in measures of quality and in clips."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rl_clarity.world_models.losses import Batch
from rl_clarity.world_models.simulation import Simulation, simulate
from rl_clarity.world_models.simulator import Simulator

MODES = ("posterior", "prior", "closed_loop")
"""Modes in which a window is simulated. `posterior`: the world model gets the true frames. `prior`: it predicts frames
from the true actions. `closed_loop`: the agent acts in the predicted world."""
Rollouts = Mapping[str, Simulation]


def follow(simulator: Simulator, batch: Batch, *, seed: int = 0) -> Rollouts:
    """Simulate windows in all `MODES`, from the same latents and from the recorded state and previous action of the
    agent.

    In each mode, the agent gets the decoded frames, and updates its state from them.
    """
    horizon = batch.mask.shape[1]
    context = batch.frames.shape[1] - horizon
    state = [np.asarray(part) for part in simulator.split_state(batch.states[:, 0])]
    start = simulator.start(batch.frames[:, :context], state=state, action=batch.actions[:, context - 1], seed=seed)
    given = {"actions": batch.actions[:, context:], "seed": seed}
    return {
        "posterior": simulate(simulator, start, horizon, observations=batch.frames[:, context:], **given),
        "prior": simulate(simulator, start, horizon, **given),
        "closed_loop": simulate(simulator, start, horizon, seed=seed),
    }
