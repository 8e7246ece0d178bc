"""How well an agent plays."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make
from rl_clarity.environments.procgen import LEVELS
from rl_clarity.errors import OptionError
from rl_clarity.recordings.players import Player
from rl_clarity.recordings.rollouts import Progress, play

MAX_STEPS = 27_000
"""Half an hour of an Atari game, after which it is cut; no Procgen game lasts as long."""

MOST_ENVIRONMENTS = 64


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of episodes that were all played to their end."""

    returns: np.ndarray  # (E,) float64, not discounted
    lengths: np.ndarray  # (E,) int64: steps
    environments: np.ndarray  # (E,) int64: the environment each was played in
    truncated: np.ndarray  # (E,) bool: ended by time
    cut: int = 0
    """Of these, episodes that had not ended after `max_steps` steps and were taken as they were then."""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, of independent episodes; NaN of a single one."""
        return float(self.returns.std(ddof=1) / np.sqrt(len(self.returns))) if len(self.returns) > 1 else float("nan")

    def bootstrap_interval(
        self, rng: np.random.Generator, *, confidence: float = 0.95, resamples: int = 10_000
    ) -> tuple[float, float]:
        """Percentile interval of the mean over resamples of the episodes."""
        drawn = rng.integers(len(self.returns), size=(resamples, len(self.returns)))
        means = self.returns[drawn].mean(axis=1)
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
    """Play a number of episodes, by the policy (or the best action values), and keep their returns.

    How many each environment plays is settled beforehand and all are played to their end: of episodes in a given time,
    short ones would be too many. There are `num_envs` environments, by default those of `environments_for`.
    Whole games are played, and rewards are not scaled, whatever the agent was trained with. An episode that does not
    end within `max_steps` is counted as it is then: an environment need not have an end.
    """
    for name, count in (("episodes", episodes), ("num_envs", num_envs), ("max_steps", max_steps)):
        if count is not None and count < 1:
            raise OptionError(f"{name}={count} must be at least 1")
    environment = make(_whole_games(spec), min(num_envs or environments_for(episodes), episodes), seed)
    rng = np.random.default_rng([seed % 2**63, 1])
    try:
        return evaluate_in(agent, environment, episodes, rng, max_steps=max_steps, progress=progress)
    finally:
        environment.close()


def environments_for(episodes: int) -> int:
    """How many environments play: of 32 to 64 the most that have equal shares, else 64 of shares that differ by one."""
    equal = max(n for n in range(1, MOST_ENVIRONMENTS + 1) if episodes % n == 0)
    return equal if equal >= MOST_ENVIRONMENTS // 2 else min(MOST_ENVIRONMENTS, episodes)


def evaluate_in(
    agent: Player,
    environment: VectorEnvironment,
    episodes: int,
    rng: np.random.Generator,
    *,
    max_steps: int = MAX_STEPS,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate an agent in given environments; `progress` counts episodes. The first ones play what is left over.

    Environments cannot be reset one by one: what follows an episode that was cut counts as the next one.
    """
    n = environment.num_envs
    share = episodes // n + (np.arange(n) < episodes % n)  # episodes of each environment
    played = np.zeros(n, np.int64)
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    results: list[tuple[int, float, int, bool]] = []
    cut = 0
    moments = play(agent, environment, rng)
    while (played < share).any():
        after = next(moments).after
        returns += after.rewards
        lengths += 1
        too_long = ~after.firsts & (lengths >= max_steps)
        ended = after.firsts | too_long
        for i in np.flatnonzero(ended & (played < share)):
            results.append((int(i), returns[i], lengths[i], bool(after.truncated[i] or too_long[i])))
            cut += int(too_long[i])
        played += ended
        returns[ended], lengths[ended] = 0, 0
        if progress is not None:
            progress(len(results), episodes)
    moments.close()
    results.sort(key=lambda result: result[0])
    where, totals, steps, truncated = zip(*results, strict=True)
    return Evaluation(np.array(totals), np.array(steps), np.array(where), np.array(truncated), cut)


def unseen_levels(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    """All levels after those of the training; None where the agent was not trained on a limited number of levels."""
    count = int(spec.options.get("num_levels") or 0)
    if spec.kind != "procgen" or not count:
        return None
    start = int(spec.options.get("start_level") or 0) + count
    # Procgen takes num_levels=0 for all levels there are, whatever start_level says.
    return dataclasses.replace(spec, options={**spec.options, "start_level": start, "num_levels": LEVELS - start})


def _whole_games(spec: EnvironmentSpec) -> EnvironmentSpec:
    options = dict(spec.options)
    if spec.kind == "atari":
        options["episodic_life"] = False
    return dataclasses.replace(spec, options=options, reward_scale=1.0)
