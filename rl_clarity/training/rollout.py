"""Playing: what N environments saw, did and got in T steps, and the advantages of what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rl_clarity.environments.protocol import VectorEnvironment
from rl_clarity.training.clock import Clock
from rl_clarity.training.rewards import RewardProcessor


class Policy(Protocol):
    def act(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (N, A) and values (N,)."""
        ...


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments, and how the episodes that ended meanwhile went."""

    observations: np.ndarray  # (T, N, H, W, C) uint8
    actions: np.ndarray  # (T, N) int32
    log_probs: np.ndarray  # (T, N) float32
    values: np.ndarray  # (T, N) float32
    rewards: np.ndarray  # (T, N) float32, processed
    dones: np.ndarray  # (T, N) bool: the step ended the episode
    bootstraps: np.ndarray  # (T, N) float32: value of the last observation of an episode cut by time, else 0
    last_values: np.ndarray  # (N,) float32, of the observations after the last step
    episodes: list[Episode] = field(default_factory=list)


@dataclass(frozen=True)
class Episode:
    reward: float
    length: int


class Player:
    """Plays environments on and on: an episode goes over from one rollout to the next."""

    def __init__(
        self, environment: VectorEnvironment, rewards: RewardProcessor, rng: np.random.Generator, clock: Clock
    ) -> None:
        self._environment = environment
        self._process = rewards
        self._rng = rng
        self._clock = clock
        self._observations = environment.reset().observations
        self._returns = np.zeros(environment.num_envs)
        self._lengths = np.zeros(environment.num_envs, np.int64)

    def play(self, policy: Policy, num_steps: int) -> Rollout:
        """The next `num_steps` steps, with actions drawn from the policy."""
        shape = (num_steps, self._environment.num_envs)
        observations = np.empty((*shape, *self._environment.observation_shape), np.uint8)
        actions = np.empty(shape, np.int32)
        log_probs, values, rewards, bootstraps = np.zeros((4, *shape), np.float32)
        dones = np.empty(shape, bool)
        episodes: list[Episode] = []
        for t in range(num_steps):
            observations[t] = self._observations
            with self._clock.time("acting"):
                logits, values[t] = policy.act(observations[t])
                actions[t], log_probs[t] = sample(logits, self._rng)
            with self._clock.time("environment"):
                step = self._environment.step(actions[t])
            self._observations, dones[t] = step.observations, step.firsts
            rewards[t] = self._process(step.rewards, step.firsts)
            if step.final_observations:
                bootstraps[t] = self._values_of(policy, step.final_observations)
            self._count(step.rewards, step.firsts, episodes)
        with self._clock.time("acting"):
            last_values = policy.act(self._observations)[1]
        return Rollout(observations, actions, log_probs, values, rewards, dones, bootstraps, last_values, episodes)

    def _values_of(self, policy: Policy, observations: Mapping[int, np.ndarray]) -> np.ndarray:
        """Values (N,) of the given observations, 0 where there is none."""
        batch = np.zeros((self._environment.num_envs, *self._environment.observation_shape), np.uint8)
        there = np.zeros(self._environment.num_envs, bool)
        for i, observation in observations.items():
            batch[i], there[i] = observation, True
        return np.where(there, policy.act(batch)[1], 0)

    def _count(self, rewards: np.ndarray, firsts: np.ndarray, episodes: list[Episode]) -> None:
        self._returns += rewards
        self._lengths += 1
        for i in np.flatnonzero(firsts):
            episodes.append(Episode(float(self._returns[i]), int(self._lengths[i])))
        self._returns[firsts] = 0
        self._lengths[firsts] = 0


def sample(logits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Actions (N,) drawn from softmax(logits), and the logarithms of their probabilities."""
    log_policy = logits - logits.max(axis=1, keepdims=True)
    log_policy -= np.log(np.exp(log_policy).sum(axis=1, keepdims=True))
    actions = np.argmax(log_policy + rng.gumbel(size=logits.shape), axis=1)
    return actions.astype(np.int32), log_policy[np.arange(len(logits)), actions]


def advantages(rollout: Rollout, gamma: float, lam: float) -> np.ndarray:
    """Generalised advantage estimation (T, N) (Schulman et al. 2015, https://arxiv.org/abs/1506.02438).

    The last step looks on to `last_values`. An episode that ended has no value after it, one cut by time that of its last
    observation.
    """
    result = np.zeros_like(rollout.rewards)
    next_values, following = rollout.last_values, np.zeros_like(rollout.last_values)
    for t in reversed(range(len(result))):
        goes_on = ~rollout.dones[t]
        after = np.where(goes_on, next_values, rollout.bootstraps[t])
        delta = rollout.rewards[t] + gamma * after - rollout.values[t]
        following = delta + gamma * lam * goes_on * following
        result[t], next_values = following, rollout.values[t]
    return result
