"""Choose the baseline for `auto`: the candidate whose attribution best predicts the measured effects of objects.

Candidates are compared on every second episode; the analysis `agreement` evaluates the chosen one on the others. A
candidate replaces the default only if its advantage exceeds the noise between episodes.
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
"""Baselines that are compared. No other baseline is clearly better than all of these, except `expected` for Breakout;
for most other agents, `expected` is much worse (`docs/truth.md`)."""
FEWEST_EPISODES = 4
"""With fewer episodes than this, the default is kept, because resampling so few says little about the noise."""
FEWEST_LARGE = 10
"""If fewer effects than this are above the threshold, the default is kept."""


@dataclass(frozen=True)
class CandidateAgreement:
    """How well attribution relative to a baseline predicts the measured effects of objects."""

    baseline: str
    correlation: float | None
    """Pearson correlation of predicted and measured effects; null if either is constant."""
    signs: float | None
    """Share of the effects above the threshold whose sign is predicted correctly."""
    advantage: tuple[float, float] | None
    """Confidence interval of the mean of `correlation` and `signs`, minus that of the default baseline. The intervals
    of all candidates hold together with a probability of 95 %. Null for the default, and if there is too little
    data."""


@dataclass(frozen=True)
class BaselineChoice:
    """The chosen baseline, and the comparison of all candidates."""

    baseline: str
    candidates: tuple[CandidateAgreement, ...]
    """All candidates, starting with the default."""


def measures_objects(subject: Subject) -> bool:
    """Return whether the page measures effects of objects."""
    every = subject.options_of(ObjectsOptions).every
    return "objects" in subject.analyses and every is not None and subject.trajectories.world_states is not None


def measures_effects(subject: Subject) -> bool:
    """Return whether the page measures effects of objects and computes attribution."""
    return measures_objects(subject) and "attribution" in subject.analyses


def chooses_baseline(subject: Subject) -> bool:
    """Return whether the page chooses its baseline by the measured effects of objects."""
    return subject.options_of(PathOptions).baseline == AUTO and STAGE in subject.analyses and measures_effects(subject)


def choice_inputs(subject: Subject) -> list[object]:
    """Return the values that determine the chosen baseline, in addition to agent, samples and attribution options.

    The list is part of cache keys. It is empty if the baseline is not chosen.
    """
    states = subject.trajectories.world_states
    if not chooses_baseline(subject) or states is None:
        return []
    return [subject.decisive(ObjectsOptions), source_key(states.spec), subject.output_kind]


def with_baseline(subject: Subject, baseline: str) -> Subject:
    """Return the subject with a different value of the option `attribution.baseline`."""
    options = dataclasses.replace(subject.options_of(PathOptions), baseline=baseline)
    return dataclasses.replace(subject, analysis_options=(options, *subject.analysis_options))


def with_chosen_baseline(subject: Subject, results: Results) -> Subject:
    """Return the subject with the baseline `auto` replaced by the baseline that the facts of finished tasks determine.

    This is the default baseline if no effects were measured.
    """
    if subject.options_of(PathOptions).baseline != AUTO:
        return subject
    choice = choice_from_results(results, subject.options.seed)
    return with_baseline(subject, DEFAULT_BASELINE if choice is None else choice.baseline)


def choice_from_results(results: Results, seed: int) -> BaselineChoice | None:
    """Choose a baseline from the facts of finished tasks. Return None if no effects were measured."""
    facts = {name: results.get(f"{STAGE}/{name}") for name in CANDIDATES}
    sums = {name: np.array(one["sums"]) for name, one in facts.items() if one is not None and one["sums"]}
    return choose_baseline(sums, seed) if DEFAULT_BASELINE in sums else None


def agreement_sums(predictions: np.ndarray, change: np.ndarray, episode: np.ndarray, threshold: float) -> np.ndarray:
    """Return sums (E, 8) over the objects in each of E episodes, for the correlation and the share of correct signs.

    Args:
        predictions: (N,) predicted effects of N objects
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
    """Choose the candidate with the largest mean of correlation and share of correct signs.

    A candidate can replace the default only if the bootstrap interval of its advantage, over episodes, is above 0. The
    intervals hold at 95 % for all candidates together (Bonferroni).

    Args:
        sums: sums (E, 8) of each candidate, including the default; see `agreement_sums`
        seed: seed of the bootstrap
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
    """Return the correlation and the share of correct signs (...) from sums (..., 8) of `agreement_sums`."""
    n, sx, sy, sxx, syy, sxy, large, right = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = (n * sxy - sx * sy) / np.sqrt((n * sxx - sx**2) * (n * syy - sy**2))
        return np.where(np.isfinite(correlation), correlation, np.nan), right / large


def _quality(sums: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean(_parts(sums), axis=0))


def _numbers(sums: np.ndarray) -> tuple[float | None, float | None]:
    correlation, signs = (None if np.isnan(one) else round(float(one), 4) for one in _parts(sums.sum(axis=0)))
    return correlation, signs
