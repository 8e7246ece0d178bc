"""Frames as they are shown: human-scale where they were kept, else the newest of an observation's stack."""

from __future__ import annotations

import numpy as np

from rl_clarity.pages.frames import newest_frames
from rl_clarity.recordings.samples import Observations, Trajectories


def trajectory_frames(trajectories: Trajectories, trajectory: int, steps: slice, stack: int) -> np.ndarray:
    """Frames (n, H, W, 1 or 3) uint8 of some steps of a trajectory."""
    if trajectories.observations_full is not None:
        return np.asarray(trajectories.observations_full[trajectory, steps])
    return newest_frames(np.asarray(trajectories.observations[trajectory, steps]), stack)


def observation_frames(observations: Observations, stack: int) -> np.ndarray:
    """Frames (M, H, W, 1 or 3) uint8 of the extra observations."""
    if observations.observations_full is not None:
        return observations.observations_full
    return newest_frames(observations.observations, stack)
