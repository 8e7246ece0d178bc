"""Choose the baseline for `auto`: the candidate whose attribution best predicts the measured effects of objects.

Candidates are compared on every second episode; `agreement` judges the chosen one on the other episodes. A candidate
replaces the default only if its advantage exceeds the noise between episodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.baselines import AUTO, DEFAULT_BASELINE
from rl_clarity.analyses.layers import PathOptions
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.base.statistics import LEVEL, resampled_interval
from rl_clarity.environments import source_key
from rl_clarity.jobs.tasks import Results

STAGE = "baseline"
"""First component of the names of the tasks that compare candidates with effects."""
CANDIDATES = (DEFAULT_BASELINE, "narrow-blur", "zero-input", "mean")
"""Other baselines are never clearly better than all of these: `docs/truth.md`. `expected` is better for Breakout, but
much worse for most other agents."""
FEWEST_EPISODES = 4
"""Number of episodes below which the default is kept: resamples of fewer say little about the noise."""
FEWEST_LARGE = 10
"""Number of effects above the threshold below which the default is kept."""


@dataclass(frozen=True)
class CandidateAgreement:
    """How well attribution from a baseline predicts effects."""

    baseline: str
    correlation: float | None
    """Pearson's correlation with the effects."""
    signs: float | None
    """Share of right signs among the effects above the threshold."""
    advantage: tuple[float, float] | None
    """Interval of the advantage over the default baseline in the mean of `correlation` and `signs`; null for the
    default. All candidates' intervals together contain the true numbers with a probability of 95 %."""


@dataclass(frozen=True)
class BaselineChoice:
    """The chosen baseline, and what it was chosen by."""

    baseline: str
    candidates: tuple[CandidateAgreement, ...]
    """The default first."""


def measures_objects(subject: Subject) -> bool:
    """Return whether effects of objects are measured."""
    every = subject.options_of(ObjectsOptions).every
    return "objects" in subject.analyses and every is not None and subject.trajectories.world_states is not None


def measures_effects(subject: Subject) -> bool:
    """Return whether effects of objects are measured, and attribution is computed."""
    return measures_objects(subject) and "attribution" in subject.analyses


def chooses_baseline(subject: Subject) -> bool:
    """Return whether the page's baseline is chosen by measured effects."""
    return subject.options_of(PathOptions).baseline == AUTO and STAGE in subject.analyses and measures_effects(subject)


def choice_inputs(subject: Subject) -> list[object]:
    """Return what decides the baseline, in addition to agent, samples and the options of attribution."""
    states = subject.trajectories.world_states
    if not chooses_baseline(subject) or states is None:
        return []
    return [subject.decisive(ObjectsOptions), source_key(states.spec), subject.output_kind]


def with_baseline(subject: Subject, baseline: str) -> Subject:
    """Return the subject with another option `attribution.baseline`."""
    options = dataclasses.replace(subject.options_of(PathOptions), baseline=baseline)
    return dataclasses.replace(subject, analysis_options=(options, *subject.analysis_options))


def with_chosen_baseline(subject: Subject, results: Results) -> Subject:
    """Return the subject with the baseline that is chosen by the facts of finished tasks in place of `auto`."""
    if subject.options_of(PathOptions).baseline != AUTO:
        return subject
    choice = choice_from_results(results, subject.options.seed)
    return with_baseline(subject, DEFAULT_BASELINE if choice is None else choice.baseline)


def choice_from_results(results: Results, seed: int) -> BaselineChoice | None:
    """Return the choice that the facts of finished tasks lead to, or None if there are no effects to choose by."""
    facts = {name: results.get(f"{STAGE}/{name}") for name in CANDIDATES}
    sums = {name: np.array(one["sums"]) for name, one in facts.items() if one is not None and one["sums"]}
    return choose_baseline(sums, seed) if DEFAULT_BASELINE in sums else None


def agreement_sums(predictions: np.ndarray, change: np.ndarray, episode: np.ndarray, threshold: float) -> np.ndarray:
    """Return sums (E, 8) over the objects of each episode, from which correlation and right signs are computed.

    Args:
        predictions: (N,) predicted effects of objects
        change: (N,) measured effects
        episode: (N,) episode of each object
        threshold: effect above which signs are compared
    """
    large = np.abs(change) > threshold
    right = large & (np.sign(predictions) == np.sign(change))
    x, y = ((one - one.mean()) / (one.std() or 1) for one in (np.asarray(predictions, np.float64), change))
    moments = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y, large, right], axis=1)
    _, index = np.unique(episode, return_inverse=True)
    sums = np.zeros((int(index.max()) + 1, moments.shape[1]))
    np.add.at(sums, index, moments)
    return sums


def choose_baseline(sums: Mapping[str, np.ndarray], seed: int = 0) -> BaselineChoice:
    """Return the candidate with the largest mean of correlation and right signs.

    A candidate can replace the default only if the bootstrap interval, over episodes, of its advantage is above 0. The
    intervals hold at 95 % for all candidates together (Bonferroni).

    Args:
        sums: (E, 8) of each candidate, the default among them; see `agreement_sums`
        seed: of the bootstrap
    """
    usual = sums[DEFAULT_BASELINE]
    enough = len(usual) >= FEWEST_EPISODES and usual[:, 6].sum() >= FEWEST_LARGE
    best, most, level = DEFAULT_BASELINE, 0.0, LEVEL / max(1, len(sums) - 1)
    candidates = [CandidateAgreement(DEFAULT_BASELINE, *_numbers(usual), None)]
    for name, own in sums.items():
        if name == DEFAULT_BASELINE:
            continue

        def advantage(drawn: np.ndarray, own: np.ndarray = own) -> np.ndarray:
            return _quality(drawn @ own) - _quality(drawn @ usual)

        interval, gain = None, float(advantage(np.ones((1, len(usual))))[0])
        if enough and np.isfinite(gain):
            low, high = resampled_interval(len(usual), advantage, np.random.default_rng(seed), level)
            interval = (round(low, 4), round(high, 4))
            if low > 0 and gain > most:
                best, most = name, gain
        candidates.append(CandidateAgreement(name, *_numbers(own), interval))
    return BaselineChoice(best, tuple(candidates))


def _parts(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return correlation and share of right signs (...) of sums (..., 8)."""
    n, sx, sy, sxx, syy, sxy, large, right = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = (n * sxy - sx * sy) / np.sqrt((n * sxx - sx**2) * (n * syy - sy**2))
        return np.where(np.isfinite(correlation), correlation, np.nan), right / large


def _quality(sums: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean(_parts(sums), axis=0))


def _numbers(sums: np.ndarray) -> tuple[float | None, float | None]:
    correlation, signs = (None if np.isnan(one) else round(float(one), 4) for one in _parts(sums.sum(axis=0)))
    return correlation, signs
