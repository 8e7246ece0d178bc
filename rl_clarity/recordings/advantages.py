"""How much better than expected each action turned out."""

from __future__ import annotations

import numpy as np

from rl_clarity.errors import OptionError, SamplesError
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
    """Advantages (B, T) float32 by generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

    `delta_t = r_t + (1 - done_t) gamma V_{t+1} - V_t`, `A_t = delta_t + (1 - done_t) gamma lam A_{t+1}`; the last
    step's is 0, since nothing is known of what follows it.

    Parameters
    ----------
    rewards: (B, T), of the action at t
    values: (B, T), of the observation at t
    dones: (B, T) bool: the episode ended after step t
    gamma, lam: discount, and how far an advantage looks ahead
    truncated: (B, T) bool: it ended because time ran out. The state it was left in was worth `final_values` (B, T)
        rather than 0, which stands for V_{t+1}; still nothing flows back from the next episode.

    Raises OptionError for a gamma or lam that is not from 0 to 1, SamplesError for shapes that differ and for
    `final_values` without `truncated`.
    """
    for name, share in (("gamma", gamma), ("lam", lam)):
        if isinstance(share, bool | str) or not 0 <= share <= 1:
            raise OptionError(f"{name}={share!r} must be a number from 0 to 1")
    shape = np.shape(rewards)
    given = {"values": values, "dones": dones, "truncated": truncated, "final_values": final_values}
    for name, array in given.items():
        if array is not None and np.shape(array) != shape:
            raise SamplesError(f"{name} has the shape {np.shape(array)}, rewards {shape}: both are (B, T)")
    if final_values is not None and truncated is None:
        raise SamplesError("final_values are given, but no truncated that says where time cut an episode short")
    if len(shape) != 2:
        raise SamplesError(f"rewards of shape {shape} must be (B, T)")
    rewards, values = (np.asarray(array, np.float64) for array in (rewards, values))
    ended = np.asarray(dones, bool)
    after_end = np.zeros(shape)
    if truncated is not None:
        ended = ended | np.asarray(truncated, bool)
        if final_values is not None:
            after_end = np.where(truncated, final_values, 0).astype(np.float64)
    next_values = np.where(ended[:, :-1], after_end[:, :-1], values[:, 1:])
    deltas = rewards[:, :-1] + gamma * next_values - values[:, :-1]  # (B, T - 1)
    flow = gamma * lam * ~ended[:, :-1]
    advantages = np.zeros(shape)
    for t in reversed(range(shape[1] - 1)):
        advantages[:, t] = deltas[:, t] + flow[:, t] * advantages[:, t + 1]
    return advantages.astype(np.float32)


def dones_of(firsts: np.ndarray) -> np.ndarray:
    """Whether an episode ended after each step (B, T), from whether each observation begins one.

    Of the last step that is not known; it counts as False.
    """
    firsts = np.asarray(firsts, bool)
    return np.concatenate([firsts[:, 1:], np.zeros_like(firsts[:, :1])], axis=1)


def advantages_of(trajectories: Trajectories, gamma: float, lam: float) -> np.ndarray:
    """Advantages (N, T) float32 of the actions taken.

    Of an agent with values, by generalised advantage estimation; of one with action values, Q(a) less the best Q,
    which is never positive. Raises `SamplesError` if the trajectories have neither.
    """
    if trajectories.values is not None:
        return generalized_advantage_estimation(
            trajectories.rewards,
            trajectories.values,
            dones_of(trajectories.firsts),
            gamma=gamma,
            lam=lam,
            truncated=trajectories.truncated,
            final_values=trajectories.final_values,
        )
    if trajectories.q_values is not None:
        q_values = np.asarray(trajectories.q_values, np.float32)  # (N, T, A)
        actions = np.asarray(trajectories.actions)[..., None]
        return np.take_along_axis(q_values, actions, axis=-1)[..., 0] - q_values.max(-1)
    raise SamplesError("the trajectories have neither values nor action values: let the agent see them first")
