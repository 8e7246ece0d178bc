"""Measure survival without a feature: failed episodes are continued by the agent without each feature of a layer, and
by the unedited agent, from the same steps with the same random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rl_clarity.base.parsing import check_minimum
from rl_clarity.base.statistics import LEVEL, compare, holm
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import Failure, episode_moments
from rl_clarity.debugging.measures import LEAST_EPISODES, Clustered
from rl_clarity.recordings.rollouts import Player
from rl_clarity.recordings.samples import Trajectories

BEFORE_CHANCE = 5
"""Failures are continued from this number of steps before the last avoidable step."""


@dataclass(frozen=True)
class SurvivalOptions:
    """Which features failures are continued without, and how."""

    features: str | None = None
    """Page of the agent, or .npz file of components by layer, whose features are removed one by one. Numbers and names
    are those of the page."""
    layer: str | None = None
    """Layer of the features; needed if the page or the file has several. Without `features`, the features are those of
    the page that is made. By default, no features are removed."""
    continuations: int = 16
    """Number of continuations of each failure by each agent."""
    horizon: int = 20
    """Number of steps after the end of the episode that a continuation must survive."""

    input_files: ClassVar[tuple[str, ...]] = ("features",)

    def __post_init__(self) -> None:
        check_minimum(self, 1, "continuations", "horizon")

    @property
    def removes_features(self) -> bool:
        """Whether there are features to remove."""
        return self.features is not None or self.layer is not None


@dataclass(frozen=True)
class WithoutFeature:
    """How survival differs without a feature."""

    feature: int
    """Number of the feature, from 1."""
    unedited: float
    """Mean over failures of the share of continuations that survive with the unedited agent."""
    ablated: float
    """Mean over failures of the share of continuations that survive without the feature."""
    difference: float
    interval: tuple[float, float]
    """95 % bootstrap interval over failures, corrected for the number of features."""
    p: float
    """p-value of a sign-flip test over failures, corrected for the number of features."""
    detectable: float
    """Difference that would have been found with a probability of 80 %."""
    failure: int
    """Index of the failure whose survival differs most."""

    @property
    def verdict(self) -> str:
        """Whether a difference was found, in words. Only the interval can show that there is no difference."""
        if self.p >= LEVEL:
            return "no difference found"
        return "survives more often" if self.difference > 0 else "survives less often"


def continued_failures(failures: Sequence[Failure]) -> list[Failure]:
    """Return the failures to continue: those that could have been avoided."""
    return [one for one in failures if one.avoidable_until is not None]


def first_step(failure: Failure) -> int:
    """Return the step from which an avoidable failure is continued: `BEFORE_CHANCE` steps before the last avoidable
    step, but not before the episode begins.
    """
    assert failure.avoidable_until is not None
    return max(failure.first, failure.avoidable_until - BEFORE_CHANCE)


def measure_survival(
    brancher: Brancher,
    trajectories: Trajectories,
    failures: Sequence[Failure],
    options: SurvivalOptions,
    agent: Player | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Return the shares (n,) of continuations that survive, for n avoidable failures.

    They are continued by `agent`, by default the agent of the brancher, from the steps that `first_step` returns. Calls
    with the same seed use the same random numbers.
    """
    repeated, steps = [], []
    for one in failures:
        start = first_step(one)
        (moment,) = episode_moments(trajectories, one.trajectory, [start])
        repeated += [moment] * options.continuations
        steps += [one.last + 1 - start + options.horizon] * options.continuations
    rng = np.random.default_rng([seed, 7])
    survived = brancher.continue_policy(repeated, steps, rng, agent=agent).survived
    return np.asarray(survived.reshape(len(failures), options.continuations).mean(axis=1))


def compare_survival(unedited: np.ndarray, ablated: np.ndarray, seed: int = 0) -> list[WithoutFeature]:
    """Compare the shares (n,) of continuations that survive with the unedited agent with those (K, n) without each of K
    features.

    The list is empty for fewer than `LEAST_EPISODES` failures.
    """
    if len(unedited) < LEAST_EPISODES or not len(ablated):
        return []
    compared = compare(np.repeat(unedited[:, None], len(ablated), axis=1), ablated.T, seed)
    rows = []
    for index, shares in enumerate(ablated):
        measured, changes = compared[index], shares - unedited
        rows.append(
            WithoutFeature(
                index + 1,
                measured.unedited,
                measured.ablated,
                measured.difference,
                measured.corrected_interval,
                measured.adjusted_p,
                Clustered(changes.tolist(), [1] * len(changes)).detectable(),
                int(np.abs(changes).argmax()),
            )
        )
    return rows


def changed_survival(unedited: int, ablated: Sequence[int], count: int) -> list[int]:
    """Return the numbers (from 1) of features without which one failure is survived significantly more or less often.

    Of `count` continuations, `unedited` survive with the unedited agent, and `ablated` (K) without each feature. The
    test is Fisher's exact test, corrected for the number of features.
    """
    p = np.array([_fisher(unedited, number, count) for number in ablated])
    return [int(index) + 1 for index in np.flatnonzero(holm(p) < LEVEL)]


def least_change(count: int, tests: int) -> int | None:
    """Return the smallest difference in survivors of `count` continuations that `changed_survival` always finds.

    It finds this difference whatever the two numbers of survivors are, even if only one of `tests` features has an
    effect. Return None if there is no such difference.
    """
    return next(
        (
            difference
            for difference in range(1, count + 1)
            if max(_fisher(low, low + difference, count) for low in range(count - difference + 1)) < LEVEL / tests
        ),
        None,
    )


def _fisher(one: int, other: int, count: int) -> float:
    from scipy.stats import fisher_exact

    return float(fisher_exact([[one, count - one], [other, count - other]]).pvalue)
