"""Compute advantages, and find bookmarks: steps whose outcome was much better or worse than the agent expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.samples import Trajectories


def generalized_advantage_estimation(
    rewards: np.ndarray,
    values: np.ndarray,
    dones: np.ndarray,
    *,
    gamma: float,
    lam: float,
    truncated: np.ndarray | None = None,
    final_values: np.ndarray | None = None,
) -> np.ndarray:
    """Compute advantages (B, T) float32 by generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

    `delta_t = r_t + (1 - done_t) gamma V_{t+1} - V_t`, `A_t = delta_t + (1 - done_t) gamma lam A_{t+1}`. The advantage
    of the last step is 0, because the next value is unknown.

    Args:
        rewards: (B, T) rewards of the actions in B trajectories of T steps
        values: (B, T) values of the observations
        dones: (B, T) bool: the episode ended after step t
        gamma: discount factor
        lam: decay of the estimator
        truncated: (B, T) bool: a time limit ended the episode after step t
        final_values: (B, T) values of the states in which episodes were truncated, which replace V_{t+1} (default 0);
            advantages of the next episode are not propagated back

    Raises OptionError if gamma or lam is not from 0 to 1, and SamplesError if the shapes differ or `final_values` is
    passed without `truncated`.
    """
    for name, factor in (("gamma", gamma), ("lam", lam)):
        if isinstance(factor, bool | str) or not 0 <= factor <= 1:
            raise OptionError(f"{name}={factor!r} must be a number from 0 to 1")
    shape = np.shape(rewards)
    if len(shape) != 2:
        raise SamplesError(f"rewards have shape {shape}, expected (B, T)")
    others = {"values": values, "dones": dones, "truncated": truncated, "final_values": final_values}
    for name, array in others.items():
        if array is not None and np.shape(array) != shape:
            raise SamplesError(f"{name} have shape {np.shape(array)}, but rewards have {shape}: both must be (B, T)")
    if final_values is not None and truncated is None:
        raise SamplesError("final_values need truncated, which marks where episodes were truncated")
    rewards, values = (np.asarray(array, np.float64) for array in (rewards, values))
    ended = np.asarray(dones, bool)
    bootstrap = np.zeros(shape)
    if truncated is not None:
        ended = ended | np.asarray(truncated, bool)
        if final_values is not None:
            bootstrap = np.where(truncated, final_values, 0).astype(np.float64)
    next_values = np.where(ended[:, :-1], bootstrap[:, :-1], values[:, 1:])
    deltas = rewards[:, :-1] + gamma * next_values - values[:, :-1]  # (B, T - 1)
    decay = gamma * lam * ~ended[:, :-1]
    advantages = np.zeros(shape)
    for t in reversed(range(shape[1] - 1)):
        advantages[:, t] = deltas[:, t] + decay[:, t] * advantages[:, t + 1]
    return advantages.astype(np.float32)


def dones_from_firsts(firsts: np.ndarray) -> np.ndarray:
    """Return whether an episode ended after each step (N, T), from the mask `firsts` (N, T) of the first steps of
    episodes. The last step counts as False, because the step after it is unknown.
    """
    firsts = np.asarray(firsts, bool)
    return np.concatenate([firsts[:, 1:], np.zeros_like(firsts[:, :1])], axis=1)


def last_steps(firsts: np.ndarray, dones: np.ndarray | None) -> np.ndarray:
    """Return the steps (n,) of a trajectory at which its episodes end. An episode that continues beyond the trajectory
    has no such step.

    `firsts` (T,) bool marks the first steps of episodes, and `dones` (T,) the steps after which the environment ended
    an episode. Without `dones`, an episode ends where the next one begins.
    """
    return np.flatnonzero(firsts[1:]) if dones is None else np.flatnonzero(dones)


def firsts_from_dones(dones: np.ndarray) -> np.ndarray:
    """Return whether each step (N, T) is the first of an episode: step 0, and each step after the end of an episode."""
    return np.concatenate([np.ones_like(dones[:, :1]), dones[:, :-1]], axis=1)


def compute_advantages(trajectories: Trajectories, gamma: float, lam: float) -> np.ndarray | None:
    """Compute the advantages (N, T) float32 of the actions taken. Return None if there are neither values nor action
    values.

    With values this is generalized advantage estimation. With action values it is Q(a) - max Q, which is never
    positive.
    """
    if trajectories.values is not None:
        return generalized_advantage_estimation(
            trajectories.rewards,
            trajectories.values,
            dones_from_firsts(trajectories.firsts),
            gamma=gamma,
            lam=lam,
            truncated=trajectories.truncated,
            final_values=trajectories.final_values,
        )
    if trajectories.q_values is not None:
        q_values = np.asarray(trajectories.q_values, np.float32)  # (N, T, A)
        actions = np.asarray(trajectories.actions)[..., None]
        return np.take_along_axis(q_values, actions, axis=-1)[..., 0] - q_values.max(-1)
    return None


def find_bookmarks(
    advantages: Sequence[np.ndarray] | np.ndarray, firsts: Sequence[np.ndarray] | np.ndarray, count: int = 16
) -> tuple[np.ndarray, np.ndarray]:
    """Find the steps with the highest and the lowest advantages, at most one of each per episode.

    `advantages` and `firsts` are (N, T), or N arrays (T,) of different lengths. Returns two arrays (n, 2) int64 of
    pairs (trajectory, step): one for positive and one for negative advantages, strongest first, with at most `count`
    steps each. Incomplete episodes at both ends of a trajectory count as episodes.
    """
    return _find_peaks(advantages, firsts, count), _find_peaks([-np.asarray(row) for row in advantages], firsts, count)


def _find_peaks(
    strengths: Sequence[np.ndarray] | np.ndarray, firsts: Sequence[np.ndarray] | np.ndarray, count: int
) -> np.ndarray:
    peaks, heights = [], []
    for trajectory, row in enumerate(strengths):
        starts = np.unique([0, *np.flatnonzero(firsts[trajectory])])
        for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
            step = start + int(np.argmax(row[start:end]))
            if row[step] > 0:
                peaks.append((trajectory, step))
                heights.append(row[step])
    order = np.argsort(-np.array(heights, np.float64), kind="stable")
    return np.array(peaks, np.int64).reshape(-1, 2)[order[:count]]
