"""Evaluate an agent by the returns of complete episodes."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.agents.capabilities import action_factors, uses_action_masks
from rl_clarity.base.progress import counted, progress_bar
from rl_clarity.environments import EnvironmentSpec, VectorEnvironment, make
from rl_clarity.environments.procgen import LEVELS
from rl_clarity.environments.wrappers import check_observed, watch_ends
from rl_clarity.recordings.action_choice import ActionChoice
from rl_clarity.recordings.collection import as_vector_environment
from rl_clarity.recordings.options import EvaluationOptions
from rl_clarity.recordings.rollouts import Player, Progress, Transition, play

MAX_ENVIRONMENTS = 64
LAST_FRAMES = 8
"""Largest number of last observations of an episode that a `Cause` function receives."""
Cause = Callable[[Mapping[str, Any], np.ndarray], str]
"""A function (info, frames) that returns the cause of an episode's end. `info` has what the environment reports about
the end: `cause`, if the environment names one, `return`, `length`, and `truncated`, whether a time limit ended the
episode. `frames` (n, H, W, C) uint8 are its last observations, at most `LAST_FRAMES`."""
Measure = Callable[[Transition], np.ndarray]
"""A function that returns M measures, (N, M), for a step of N environments."""


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of E complete episodes."""

    returns: np.ndarray  # (E,) float64, undiscounted
    lengths: np.ndarray  # (E,) int64: steps
    environments: np.ndarray  # (E,) int64: the environment of each episode
    truncated: np.ndarray  # (E,) bool: ended by a time limit
    cut: int = 0
    """Number of episodes that were still running after `max_steps` steps; they count with their return until then."""
    sampled: bool = True
    """Whether actions were sampled from the policy, instead of always taking the most likely action or the one with the
    highest value."""
    # (E, A) int64: how often each action was taken, or (E, 0) if an action is not a single choice
    actions: np.ndarray | None = None
    causes: tuple[str, ...] = ()
    """The cause of each episode's end, if it was requested."""
    # (E, M) float64: sums of the measures over the steps of each episode, if a measure was given
    measured: np.ndarray | None = None
    # (E,) bool: the last step gave no reward, or a time limit ended the episode
    failed: np.ndarray | None = None

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, assuming independent episodes, or NaN for a single episode."""
        return float(self.returns.std(ddof=1) / np.sqrt(len(self.returns))) if len(self.returns) > 1 else float("nan")

    def bootstrap_interval(
        self, rng: np.random.Generator, *, confidence: float = 0.95, resamples: int = 10_000
    ) -> tuple[float, float]:
        """Return the percentile bootstrap interval of the mean."""
        indices = rng.integers(len(self.returns), size=(resamples, len(self.returns)))
        means = self.returns[indices].mean(axis=1)
        low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)


def choose_num_envs(episodes: int, most: int = MAX_ENVIRONMENTS) -> int:
    """Return the number of environments in which to play some episodes: the largest number from `most // 2` to `most`
    that divides `episodes`. If there is none, return the smaller of `most` and `episodes`.
    """
    equal = max(n for n in range(1, most + 1) if episodes % n == 0)
    return equal if equal >= most // 2 else min(most, episodes)


def shares(count: int, num_envs: int) -> np.ndarray:
    """Return the number of episodes or steps (N,) that each environment plays. If `count` cannot be divided equally,
    the first environments play one more.
    """
    return count // num_envs + (np.arange(num_envs) < count % num_envs)


def play_episodes(
    agent: Player,
    environment: VectorEnvironment,
    episodes: int,
    rng: np.random.Generator,
    *,
    deterministic: bool = False,
    max_steps: int = EvaluationOptions.max_steps,
    progress: Progress | None = None,
    cause: Cause | None = None,
    measure: Measure | None = None,
) -> Evaluation:
    """Play complete episodes, and return their evaluation. `progress` counts episodes.

    An episode here is a whole game. If a game has several episodes for the agent (one per life, as in training), they
    are counted as one. The number of episodes of each environment is fixed in advance, because the episodes that end
    within a given time are biased toward short ones. If `episodes` cannot be divided equally, the first environments
    play one more. An episode that is longer than `max_steps` is cut; because environments cannot be reset individually,
    its remaining steps count as the next episode. `cause` returns the cause of each episode's end; see `known_cause`.
    `measure` returns M measures per environment, which are summed over the steps of an episode.
    """
    n = environment.num_envs
    quota = shares(episodes, n)
    played = np.zeros(n, np.int64)
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    is_choice = is_single_choice(action_factors(environment))
    actions = np.zeros((n, environment.num_actions if is_choice else 0), np.int64)
    measured = np.zeros((n, 1))  # (n, M) after the first step
    results: list[tuple[int, float, int, bool, np.ndarray, str, np.ndarray, bool]] = []
    cut, last = 0, deque[np.ndarray](maxlen=LAST_FRAMES)
    choice, sampled = ActionChoice(greedy=deterministic), False
    transitions = play(agent, environment, rng, choice=choice, active=lambda: played < quota)
    while (played < quota).any():
        if cause is not None:
            watch_ends(environment, played < quota)
        transition = next(transitions)
        step, sampled = transition.result, choice.is_random(transition.outputs)
        active = np.ones(n, bool) if step.idle is None else ~step.idle
        over = (step.firsts if step.new_games is None else step.new_games) & active
        returns += step.rewards * active
        lengths += active
        if is_choice:
            actions[np.arange(n), transition.actions] += active
        if measure is not None:
            measured = measured + measure(transition) * active[:, None]
        last.append(transition.observations)
        too_long = ~over & (lengths >= max_steps)
        ended = over | too_long
        for i in np.flatnonzero(ended & (played < quota)):
            total = step.game_returns[i] if step.game_returns is not None and over[i] else returns[i]
            truncated = bool(step.truncated[i] or too_long[i])
            about = {"return": float(total), "length": int(lengths[i]), "truncated": truncated}
            name = ""
            if cause is not None:
                frames = np.stack([frame[i] for frame in list(last)[-int(lengths[i]) :]])
                name = str(cause({**step.ends.get(int(i), {}), **about}, frames))
            counted = actions[i].copy(), name, measured[i].copy(), truncated or bool(step.rewards[i] <= 0)
            results.append((int(i), float(total), int(lengths[i]), truncated, *counted))
            cut += int(too_long[i])
        played += ended
        returns[ended], lengths[ended], actions[ended], measured[ended] = 0, 0, 0, 0
        if progress is not None:
            progress(len(results), episodes)
    transitions.close()
    check_observed(environment)
    results.sort(key=lambda result: result[0])
    environments, totals, steps, cuts, taken, causes, sums, failed = zip(*results, strict=True)
    return Evaluation(
        np.array(totals),
        np.array(steps),
        np.array(environments),
        np.array(cuts),
        cut,
        sampled,
        np.stack(taken),
        causes if cause is not None else (),
        np.stack(sums) if measure is not None else None,
        np.array(failed),
    )


def evaluate_agent(
    name: str, agent: Player, env: Any, options: EvaluationOptions, cause: Cause | None = None
) -> Evaluation:
    """Play complete episodes in an environment, and return their evaluation.

    `env` is an `EnvironmentSpec`, or an environment that `collect` accepts. `name` is the label of the progress bar,
    and `cause` is a function that returns the cause of each episode's end.
    """
    rng = np.random.default_rng([options.seed % 2**63, 1])
    with (
        _opened(env, options, action_masks=uses_action_masks(agent)) as environment,
        progress_bar(f"Playing: {name}") as report,
    ):
        return play_episodes(
            agent,
            environment,
            options.episodes,
            rng,
            deterministic=options.deterministic,
            max_steps=options.max_steps,
            progress=counted(report),
            cause=cause,
        )


@contextmanager
def _opened(env: Any, options: EvaluationOptions, *, action_masks: bool) -> Iterator[VectorEnvironment]:
    """Yield the environment. If it is made from a specification, it is closed at the end."""
    if not isinstance(env, EnvironmentSpec):
        yield as_vector_environment(env, options.seed, action_masks=action_masks)
        return
    epsilon = 0.0 if options.deterministic else env.epsilon_greedy
    spec = dataclasses.replace(env, reward_scale=1.0, epsilon_greedy=epsilon)
    with closing(make(spec, choose_num_envs(options.episodes), options.seed)) as environment:
        yield environment


UNKNOWN_CAUSE = "end of episode"


def known_cause(info: Mapping[str, Any], frames: np.ndarray) -> str:
    """Return the cause that the environment reports. If there is none, return `time limit` or `end of episode`."""
    return str(info.get("cause") or ("time limit" if info["truncated"] else UNKNOWN_CAUSE))


def unseen_levels(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    """Return the specification with all levels after the training levels. Return None if the environment is not from
    Procgen, or if training was not limited to some levels.
    """
    count = int(spec.options.get("num_levels") or 0)
    if spec.kind != "procgen" or not count:
        return None
    start = int(spec.options.get("start_level") or 0) + count
    # For Procgen num_levels=0 means all levels, whatever start_level is.
    return dataclasses.replace(spec, options={**spec.options, "start_level": start, "num_levels": LEVELS - start})
