"""Samples of an agent at play, as arrays.

Shapes: N environments, T steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_clarity.environments.protocol import Combo


@dataclass(frozen=True)
class Trajectories:
    """N stretches of T consecutive steps. At step t the agent saw `observations[:, t]` and took `actions[:, t]`."""

    observations: np.ndarray  # (N, T, H, W, C) uint8
    actions: np.ndarray  # (N, T) int
    rewards: np.ndarray  # (N, T) float32: of the action at t (known with observation t + 1)
    firsts: np.ndarray  # (N, T) bool: the observation begins an episode
    truncated: np.ndarray | None = None  # (N, T) bool: the episode was cut by time after step t
    final_values: np.ndarray | None = None  # (N, T) float32: value of the state in which it was cut, else 0
    policy_logits: np.ndarray | None = None  # (N, T, A) float32
    values: np.ndarray | None = None  # (N, T) float32
    q_values: np.ndarray | None = None  # (N, T, A) float32
    states: tuple[np.ndarray, ...] | None = None  # each (N, T, ...): state *before* the step, reset included
    observations_full: np.ndarray | None = None  # (N, T, H', W', 3) uint8: human-scale frames
    action_combos: tuple[Combo, ...] | None = None  # buttons of each action, if the environment has words for them


@dataclass(frozen=True)
class Observations:
    """Observations far apart, on which features are found."""

    observations: np.ndarray  # (M, H, W, C) uint8
    states: tuple[np.ndarray, ...] | None = None  # each (M, ...): state before the observation
    observations_full: np.ndarray | None = None  # (M, H', W', 3) uint8
    ages: np.ndarray | None = None  # (M,) int: steps since the episode began
    trajectory_frames: np.ndarray | None = None  # (M, 2) int: (trajectory, frame) it was taken from, -1 where from none
