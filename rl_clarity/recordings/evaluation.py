"""Evaluation: returns of complete episodes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make
from rl_clarity.environments.procgen import LEVELS
from rl_clarity.errors import OptionError
from rl_clarity.recordings.rollouts import Player, Progress, play

MAX_STEPS = 27_000
"""Half an hour of an Atari game, after which episodes are cut; no Procgen episode is as long."""
MAX_ENVIRONMENTS = 64


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of E complete episodes."""

    returns: np.ndarray  # (E,) float64, undiscounted
    lengths: np.ndarray  # (E,) int64: steps
    environments: np.ndarray  # (E,) int64: the environment of each episode
    truncated: np.ndarray  # (E,) bool: ended by a time limit
    cut: int = 0
    """Number of episodes that were still running after `max_steps` steps and count with their return until then."""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, assuming independent episodes; NaN for a single episode."""
        return float(self.returns.std(ddof=1) / np.sqrt(len(self.returns))) if len(self.returns) > 1 else float("nan")

    def bootstrap_interval(
        self, rng: np.random.Generator, *, confidence: float = 0.95, resamples: int = 10_000
    ) -> tuple[float, float]:
        """Percentile bootstrap interval of the mean."""
        indices = rng.integers(len(self.returns), size=(resamples, len(self.returns)))
        means = self.returns[indices].mean(axis=1)
        low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)


def evaluate(
    agent: Player,
    spec: EnvironmentSpec,
    episodes: int,
    seed: int,
    *,
    num_envs: int | None = None,
    max_steps: int = MAX_STEPS,
    progress: Progress | None = None,
) -> Evaluation:
    """Play episodes, with the policy (or greedily, with action values), and return their returns.

    The number of episodes of each environment is fixed in advance and all are played to their end, because the episodes
    that end within a given time are biased toward short ones. `num_envs` defaults to `choose_num_envs(episodes)`.
    Episodes are whole games and rewards are unscaled, whatever the options in training. An episode that is longer than
    `max_steps` is cut.
    """
    for name, count in (("episodes", episodes), ("num_envs", num_envs), ("max_steps", max_steps)):
        if count is not None and count < 1:
            raise OptionError(f"{name}={count} must be at least 1")
    environment = make(_whole_games(spec), min(num_envs or choose_num_envs(episodes), episodes), seed)
    rng = np.random.default_rng([seed % 2**63, 1])
    try:
        return evaluate_in(agent, environment, episodes, rng, max_steps=max_steps, progress=progress)
    finally:
        environment.close()


def choose_num_envs(episodes: int) -> int:
    """Return the largest number from 32 to 64 that divides `episodes`, else 64, or fewer for fewer episodes."""
    equal = max(n for n in range(1, MAX_ENVIRONMENTS + 1) if episodes % n == 0)
    return equal if equal >= MAX_ENVIRONMENTS // 2 else min(MAX_ENVIRONMENTS, episodes)


def evaluate_in(
    agent: Player,
    environment: VectorEnvironment,
    episodes: int,
    rng: np.random.Generator,
    *,
    max_steps: int = MAX_STEPS,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate an agent in an existing environment; `progress` counts episodes.

    The first environments play the remainder of `episodes / num_envs`. Environments cannot be reset one by one: the
    rest of an episode that was cut counts as the next episode.
    """
    n = environment.num_envs
    quota = episodes // n + (np.arange(n) < episodes % n)  # episodes of each environment
    played = np.zeros(n, np.int64)
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    results: list[tuple[int, float, int, bool]] = []
    cut = 0
    transitions = play(agent, environment, rng)
    while (played < quota).any():
        step = next(transitions).result
        returns += step.rewards
        lengths += 1
        too_long = ~step.firsts & (lengths >= max_steps)
        ended = step.firsts | too_long
        for i in np.flatnonzero(ended & (played < quota)):
            results.append((int(i), returns[i], lengths[i], bool(step.truncated[i] or too_long[i])))
            cut += int(too_long[i])
        played += ended
        returns[ended], lengths[ended] = 0, 0
        if progress is not None:
            progress(len(results), episodes)
    transitions.close()
    results.sort(key=lambda result: result[0])
    environments, totals, steps, truncated = zip(*results, strict=True)
    return Evaluation(np.array(totals), np.array(steps), np.array(environments), np.array(truncated), cut)


def unseen_levels(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    """Return the spec of all levels after the training levels; None if training was not limited to some levels."""
    count = int(spec.options.get("num_levels") or 0)
    if spec.kind != "procgen" or not count:
        return None
    start = int(spec.options.get("start_level") or 0) + count
    # For Procgen num_levels=0 means all levels, whatever start_level is.
    return dataclasses.replace(spec, options={**spec.options, "start_level": start, "num_levels": LEVELS - start})


def _whole_games(spec: EnvironmentSpec) -> EnvironmentSpec:
    options = dict(spec.options)
    if spec.kind == "atari":
        options["episodic_life"] = False
    return dataclasses.replace(spec, options=options, reward_scale=1.0)
