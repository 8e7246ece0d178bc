"""Playing: what N environments saw, did and got in T steps, and the advantages of what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl_clarity.environments.protocol import Resumable, Step, VectorEnvironment, snapshot
from rl_clarity.recordings.advantages import generalized_advantage_estimation
from rl_clarity.training.clock import Clock
from rl_clarity.training.rewards import RewardProcessor

Arrays = tuple[np.ndarray, ...]


class Policy(Protocol):
    def initial_state(self, n: int) -> Arrays: ...

    def act(self, observations: np.ndarray, firsts: np.ndarray, state: Arrays) -> tuple[np.ndarray, np.ndarray, Arrays]:
        """Policy logits (N, A), values (N,) and the state after; the state before is reset where `firsts` (N,)."""
        ...


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments, and how the episodes that ended meanwhile went."""

    observations: np.ndarray  # (T, N, H, W, C) uint8
    actions: np.ndarray  # (T, N) int32
    log_probs: np.ndarray  # (T, N) float32
    values: np.ndarray  # (T, N) float32
    rewards: np.ndarray  # (T, N) float32, processed
    firsts: np.ndarray  # (T, N) bool: the observation begins an episode
    dones: np.ndarray  # (T, N) bool: the step ended the episode
    truncated: np.ndarray  # (T, N) bool: by time, and its last observation is known
    final_values: np.ndarray  # (T, N) float32: the value of that observation
    last_values: np.ndarray  # (N,) float32, of the observations after the last step
    states: tuple[np.ndarray, ...]  # (N, n) each: what the agent's memory held before the first step
    episodes: list[Episode]


@dataclass(frozen=True)
class Episode:
    """A whole game, though training may take each of its lives for an episode."""

    reward: float
    length: int


class Runner:
    """Plays environments on and on: an episode goes over from one rollout to the next."""

    def __init__(
        self, environment: VectorEnvironment, rewards: RewardProcessor, rng: np.random.Generator, clock: Clock
    ) -> None:
        self._environment = environment
        self._process = rewards
        self._rng = rng
        self._clock = clock
        self._observations = environment.reset().observations
        self._firsts = np.ones(environment.num_envs, bool)
        self._memory: Arrays | None = None
        self._returns = np.zeros(environment.num_envs)
        self._lengths = np.zeros(environment.num_envs, np.int64)

    def state(self) -> dict[str, np.ndarray]:
        """Where play stands; empty for environments that cannot be put back there."""
        inside = snapshot(self._environment)
        if inside is None:
            return {}
        environment = {f"environment/{name}": array for name, array in inside.items()}
        own = {
            "observations": self._observations,
            "firsts": self._firsts,
            "returns": self._returns,
            "lengths": self._lengths,
        }
        memory = {f"memory/{i}": part for i, part in enumerate(self._memory or ())}
        return environment | memory | {name: np.array(array) for name, array in own.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> bool:
        """Go on from there, or, from an empty state, with new episodes; whether it goes on from there."""
        if not state or not isinstance(self._environment, Resumable):
            return False
        start = "environment/"
        self._environment.restore({name.removeprefix(start): state[name] for name in state if name.startswith(start)})
        memory = sorted((name for name in state if name.startswith("memory/")), key=lambda name: int(name[7:]))
        self._memory = tuple(state[name] for name in memory)
        self._observations, self._firsts = state["observations"], state["firsts"]
        self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
        return True

    def play(self, policy: Policy, num_steps: int) -> Rollout:
        """The next `num_steps` steps, with actions drawn from the policy."""
        n = self._environment.num_envs
        shape = (num_steps, n)
        observations = np.empty((*shape, *self._environment.observation_shape), np.uint8)
        actions = np.empty(shape, np.int32)
        log_probs, values, rewards, final_values = np.zeros((4, *shape), np.float32)
        firsts, dones, truncated = np.zeros((3, *shape), bool)
        episodes: list[Episode] = []
        memory = states = policy.initial_state(n) if self._memory is None else self._memory
        for t in range(num_steps):
            observations[t], firsts[t] = self._observations, self._firsts
            with self._clock.time("acting"):
                logits, values[t], memory = policy.act(observations[t], firsts[t], memory)
                actions[t], log_probs[t] = sample(logits, self._rng)
            with self._clock.time("environment"):
                step = self._environment.step(actions[t])
            self._observations, self._firsts, dones[t] = step.observations, step.firsts, step.firsts
            rewards[t] = self._process(step.rewards, step.firsts)
            if step.final_observations:
                truncated[t], final_values[t] = self._values_of(policy, step.final_observations, memory)
            self._count(step, episodes)
        with self._clock.time("acting"):
            last_values = policy.act(self._observations, self._firsts, memory)[1]
        self._memory = memory
        return Rollout(
            observations,
            actions,
            log_probs,
            values,
            rewards,
            firsts,
            dones,
            truncated,
            final_values,
            last_values,
            states,
            episodes,
        )

    def _values_of(
        self, policy: Policy, observations: Mapping[int, np.ndarray], memory: Arrays
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which environments (N,) have an observation here, and its values (N,)."""
        batch = np.zeros((self._environment.num_envs, *self._environment.observation_shape), np.uint8)
        there = np.zeros(self._environment.num_envs, bool)
        for i, observation in observations.items():
            batch[i], there[i] = observation, True
        return there, policy.act(batch, ~there, memory)[1]

    def _count(self, step: Step, episodes: list[Episode]) -> None:
        self._returns += step.rewards
        self._lengths += 1
        ended = step.firsts if step.new_games is None else step.new_games
        for i in np.flatnonzero(ended):
            episodes.append(Episode(float(self._returns[i]), int(self._lengths[i])))
        self._returns[ended] = 0
        self._lengths[ended] = 0


def sample(logits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Actions (N,) drawn from softmax(logits), and the logarithms of their probabilities."""
    log_policy = logits - logits.max(axis=1, keepdims=True)
    log_policy -= np.log(np.exp(log_policy).sum(axis=1, keepdims=True))
    actions = np.argmax(log_policy + rng.gumbel(size=logits.shape), axis=1)
    return actions.astype(np.int32), log_policy[np.arange(len(logits)), actions]


def advantages(rollout: Rollout, gamma: float, lam: float) -> np.ndarray:
    """Advantages (T, N) of the actions, the last of which look on to `last_values`."""

    def extended(array: np.ndarray, last: np.ndarray | float = 0) -> np.ndarray:
        """The array as (N, T + 1): the step after the last one closes the estimate."""
        return np.concatenate([array, np.broadcast_to(np.asarray(last, array.dtype), array[:1].shape)]).T

    estimated = generalized_advantage_estimation(
        extended(rollout.rewards),
        extended(rollout.values, rollout.last_values),
        extended(rollout.dones),
        gamma=gamma,
        lam=lam,
        truncated=extended(rollout.truncated),
        final_values=extended(rollout.final_values),
    )
    return estimated.T[:-1]
