"""Collect rollouts for training, process rewards, and compute advantages."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl_clarity.environments.protocol import Resumable, Step, VectorEnvironment, snapshot
from rl_clarity.recordings.advantages import generalized_advantage_estimation
from rl_clarity.recordings.recorder import Recorder

Arrays = tuple[np.ndarray, ...]

REWARD_LIMIT = 10.0
"""Limit to which normalized rewards are clipped, as in VecNormalize of OpenAI Baselines."""
EPSILON = 1e-8


class RewardProcessor:
    """Processes rewards: `none`, `clip` (to the sign) or `normalize`.

    `normalize` divides by a running estimate of the standard deviation of the discounted return (updated by the
    parallel algorithm of Chan et al.), like VecNormalize of OpenAI Baselines.
    """

    def __init__(self, kind: str, num_envs: int, gamma: float, scale: float = 1.0) -> None:
        self.kind = kind
        self.gamma = gamma
        self.scale = scale
        self.returns = np.zeros(num_envs)
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4

    def __call__(self, rewards: np.ndarray, dones: np.ndarray) -> np.ndarray:
        """Return the processed rewards (N,) of a step. `dones` (N,) is true where the step ended an episode."""
        rewards = np.asarray(rewards, np.float64) * self.scale
        if self.kind == "clip":
            rewards = np.sign(rewards)
        elif self.kind == "normalize":
            self.returns = self.returns * self.gamma + rewards
            self._update(self.returns)
            rewards = np.clip(rewards / np.sqrt(self.variance + EPSILON), -REWARD_LIMIT, REWARD_LIMIT)
            self.returns[dones] = 0
        return rewards.astype(np.float32)

    @property
    def unit(self) -> float:
        """The scaled reward that corresponds to a processed reward of 1. It is 1 unless rewards are normalized."""
        return float(np.sqrt(self.variance + EPSILON)) if self.kind == "normalize" else 1.0

    def _update(self, batch: np.ndarray) -> None:
        total = self.count + batch.size
        delta = batch.mean() - self.mean
        spread = self.variance * self.count + batch.var() * batch.size + delta**2 * self.count * batch.size / total
        self.mean += delta * batch.size / total
        self.variance = spread / total
        self.count = total

    def state(self) -> dict[str, np.ndarray]:
        return {"returns": self.returns.copy(), "moments": np.array([self.mean, self.variance, self.count])}

    def reset_episodes(self) -> None:
        """Reset the returns of the current episodes, but not the running estimate."""
        self.returns = np.zeros_like(self.returns)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.returns = np.array(state["returns"])
        self.mean, self.variance, self.count = map(float, state["moments"])


class Timer:
    """Measures the total time of activities by name, in seconds."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """Return the seconds by name since the last call."""
        seconds = dict(self._seconds)
        self._seconds.clear()
        return seconds


class Policy(Protocol):
    def initial_state(self, n: int) -> Arrays: ...

    def act(self, observations: np.ndarray, firsts: np.ndarray, state: Arrays) -> tuple[np.ndarray, np.ndarray, Arrays]:
        """Return the policy logits (N, A), values (N,) and the next state. `state` is reset first where `firsts` (N,)
        is true.
        """
        ...


@dataclass(frozen=True)
class Episode:
    """Reward and length of a whole game, even if each life in it is an episode in training."""

    reward: float
    length: int


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments, and the episodes that ended during them."""

    observations: np.ndarray  # (T, N, H, W, C) uint8
    actions: np.ndarray  # (T, N) int32
    log_probs: np.ndarray  # (T, N) float32
    values: np.ndarray  # (T, N) float32
    rewards: np.ndarray  # (T, N) float32, processed
    firsts: np.ndarray  # (T, N) bool: the observation begins an episode
    dones: np.ndarray  # (T, N) bool: the step ended the episode
    truncated: np.ndarray  # (T, N) bool: by a time limit, and its last observation is known
    final_values: np.ndarray  # (T, N) float32: the value of that observation
    last_values: np.ndarray  # (N,) float32, of the observations after the last step
    states: Arrays  # (N, n) each: the agent's recurrent state before the first step
    episodes: list[Episode]


class Runner:
    """Plays in environments to collect rollouts. An episode can continue from one rollout to the next."""

    def __init__(
        self,
        environment: VectorEnvironment,
        rewards: RewardProcessor,
        rng: np.random.Generator,
        timer: Timer,
        recorder: Recorder | None = None,
    ) -> None:
        self._environment = environment
        self._process = rewards
        self._rng = rng
        self._timer = timer
        self._recorder = recorder
        self._observations = environment.reset().observations
        self._firsts = np.ones(environment.num_envs, bool)
        self._state: Arrays | None = None
        self._returns = np.zeros(environment.num_envs)
        self._lengths = np.zeros(environment.num_envs, np.int64)

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of the runner and its environments, or an empty dict if environments cannot be restored."""
        inside = snapshot(self._environment)
        if inside is None:
            return {}
        environment = {f"environment/{name}": array for name, array in inside.items()}
        recurrent = {f"memory/{i}": part for i, part in enumerate(self._state or ())}
        return environment | recurrent | {
            "observations": np.array(self._observations),
            "firsts": np.array(self._firsts),
            "returns": np.array(self._returns),
            "lengths": np.array(self._lengths),
        }  # fmt: skip

    def restore(self, state: Mapping[str, np.ndarray]) -> bool:
        """Resume from a state. Return False, and begin new episodes, if the state is empty or cannot be restored."""
        if not state or not isinstance(self._environment, Resumable):
            return False
        start = "environment/"
        self._environment.restore({name.removeprefix(start): state[name] for name in state if name.startswith(start)})
        names = sorted((name for name in state if name.startswith("memory/")), key=lambda name: int(name[7:]))
        self._state = tuple(state[name] for name in names)
        self._observations, self._firsts = state["observations"], state["firsts"]
        self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
        return True

    def play(self, policy: Policy, num_steps: int, *, first_step: int = 0) -> Rollout:
        """Play `num_steps` steps with actions sampled from the policy. `first_step` is the number of earlier training
        steps, which recordings store.
        """
        n = self._environment.num_envs
        shape = (num_steps, n)
        observations = np.empty((*shape, *self._environment.observation_shape), np.uint8)
        actions = np.empty(shape, np.int32)
        log_probs, values, rewards, final_values = np.zeros((4, *shape), np.float32)
        firsts, dones, truncated = np.zeros((3, *shape), bool)
        episodes: list[Episode] = []
        initial = policy.initial_state(n)
        state = states = initial if self._state is None else self._state
        for t in range(num_steps):
            observations[t], firsts[t] = self._observations, self._firsts
            with self._timer.time("acting"):
                before = state
                logits, values[t], state = policy.act(observations[t], firsts[t], state)
                actions[t], log_probs[t] = sample(logits, self._rng)
            with self._timer.time("environment"):
                step = self._environment.step(actions[t])
            self._observations, self._firsts, dones[t] = step.observations, step.firsts, step.firsts
            rewards[t] = self._process(step.rewards, step.firsts)
            last = {i: frame for i, frame in step.final_observations.items() if step.truncated[i]}
            if last:
                truncated[t], final_values[t] = self._final_values(policy, last, state)
            self._count(step, episodes)
            if self._recorder is not None:
                begins = firsts[t][:, None]
                self._recorder.add(
                    observation=observations[t],
                    action=actions[t],
                    reward=step.rewards,
                    training_reward=rewards[t],
                    terminated=step.firsts & ~step.truncated,
                    truncated=step.truncated,
                    logits=logits,
                    value=values[t] * np.float32(self._process.unit),  # as the checkpoint's
                    state=tuple(np.where(begins, *parts) for parts in zip(initial, before, strict=True)),
                    final_observation=step.final_observations,
                    final_state=state,
                    training_step=first_step + t * n,
                    idle=step.idle,
                )
        with self._timer.time("acting"):
            last_values = policy.act(self._observations, self._firsts, state)[1]
        self._state = state
        return Rollout(
            observations, actions, log_probs, values, rewards, firsts, dones, truncated, final_values, last_values,
            states, episodes,
        )  # fmt: skip

    def _final_values(
        self, policy: Policy, observations: Mapping[int, np.ndarray], state: Arrays
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which environments (N,) have a final observation, and the values (N,) of these observations."""
        batch = np.zeros((self._environment.num_envs, *self._environment.observation_shape), np.uint8)
        present = np.zeros(self._environment.num_envs, bool)
        for i, observation in observations.items():
            batch[i], present[i] = observation, True
        return present, policy.act(batch, ~present, state)[1]

    def _count(self, step: Step, episodes: list[Episode]) -> None:
        self._returns += step.rewards
        self._lengths += 1
        ended = step.firsts if step.new_games is None else step.new_games
        for i in np.flatnonzero(ended):
            episodes.append(Episode(float(self._returns[i]), int(self._lengths[i])))
        self._returns[ended] = 0
        self._lengths[ended] = 0


def sample(logits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sample actions (N,) from softmax(logits), and return them with their log probabilities."""
    log_policy = logits - logits.max(axis=1, keepdims=True)
    log_policy -= np.log(np.exp(log_policy).sum(axis=1, keepdims=True))
    actions = np.argmax(log_policy + rng.gumbel(size=logits.shape), axis=1)
    return actions.astype(np.int32), log_policy[np.arange(len(logits)), actions]


def advantages(rollout: Rollout, gamma: float, lam: float) -> np.ndarray:
    """Return the advantages (T, N) of actions by GAE, bootstrapped from `last_values`. `lam` is the lambda of GAE."""

    def extended(array: np.ndarray, last: np.ndarray | float = 0) -> np.ndarray:
        """Return the array (T, N) as (N, T + 1), with `last` as the step after the last one."""
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
