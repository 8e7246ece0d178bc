"""The baseline `auto`: worlds in which the best baseline is known, noise, and what it is chosen and judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from rl_clarity.analyses import Subject
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis
from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.analyses.chosen_baseline import agreement_sums, choose_baseline, with_chosen_baseline
from rl_clarity.analyses.features import FeatureOptions, FeaturesAnalysis
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.baseline import BaselineAnalysis, BaselineSection
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.page_effects import PageEffects
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.tasks import Work
from rl_clarity.pages.files import PageFiles
from rl_clarity.recordings.samples import Observations
from tests.analyses.objects.dots import CELL, SIZE, Dot, dot_subject
from tests.fakes import TinyAgent

ANALYSES = ("attribution", "objects", "baseline", "agreement")
EPISODES, STEPS, CELLS = 8, 2, SIZE // CELL
Episodes = list[list[list[Dot]]]


@dataclass(frozen=True)
class CellAgent(TinyAgent):
    """An agent whose value is the sum of the brightness of all cells, but for 0.1 %."""

    observation_shape: tuple[int, int, int] = (SIZE, SIZE, 1)
    num_actions: int = 3
    patch: int = CELL

    def _weights(self) -> dict[str, np.ndarray]:
        shapes = {"first": (CELL**2, 12), "second": (12, 10), "dense": (CELLS**2 * 10, 6), "recurrent": (6, 6)}
        weights = {name: np.full(shape, 1 / shape[0]) for name, shape in shapes.items()}
        weights["dense"] *= 1e-3 * CELLS**2
        return {**weights, "policy": np.zeros((6, 3)), "value": np.full((6, 1), 1e3 / 6)}


def full_cells(floor: int) -> Episodes:
    """A coin of random brightness in every cell, above a floor that is seen without it."""
    rng = np.random.default_rng(0)
    cells = [(x, y) for x in range(CELLS) for y in range(CELLS)]
    walls: list[Dot] = [("wall", x, y, floor) for x, y in cells]
    return [
        [[*walls, *(("coin", x, y, int(rng.integers(1, 256))) for x, y in cells)] for _ in range(STEPS)]
        for _ in range(EPISODES)
    ]


def measured(folder: Any, episodes: Episodes, baseline: str = "auto") -> Subject:
    """A subject whose effects are measured."""
    subject = dot_subject(episodes, objects={"every": 1, "most": 10_000}, attribution={"baseline": baseline})
    images = np.asarray(subject.trajectories.observations[0])
    agent = CellAgent()
    values = agent.forward(images).values
    assert values is not None
    subject = replace(
        subject,
        agent=agent,
        trajectories=replace(subject.trajectories, values=values[None]),
        observations=Observations(images),
        files=PageFiles(open_directory(str(folder))),
        analyses=ANALYSES,
    )
    run(subject, ObjectsAnalysis(), subject.options_of(ObjectsOptions))
    return subject


def run(subject: Subject, analysis: Any, options: Any = None) -> dict[str, Any]:
    """Return the facts of an analysis's tasks."""
    work = Work(64, lambda share: None, {})
    return {task.name: task.run(work).facts for task in analysis.tasks(subject, options or NoOptions())}


def chosen(subject: Subject) -> BaselineSection:
    """Compare the candidates and return the section."""
    analysis = BaselineAnalysis()
    (section,) = analysis.sections(subject, NoOptions(), run(subject, analysis))
    analysis.checked(section)
    return section


def test_auto_chooses_a_black_baseline_where_no_object_is_black(tmp_path: Any) -> None:
    subject = measured(tmp_path, full_cells(floor=0))
    section = chosen(subject)
    numbers = {one.baseline: one for one in section.candidates}
    assert section.chosen == "zero-input"
    assert list(numbers) == ["blur", "narrow-blur", "zero-input", "mean"]
    assert numbers["zero-input"].correlation == pytest.approx(0.91, abs=0.01)  # the margins contain other objects
    assert numbers["zero-input"].signs == 1
    assert numbers["zero-input"].advantage is not None
    assert numbers["zero-input"].advantage[0] > 0
    assert numbers["blur"].advantage is None
    assert (section.layer, section.episodes) == ("1a", EPISODES // 2)
    assert section.count == EPISODES // 2 * STEPS * CELLS**2


def test_auto_keeps_the_blur_baseline_for_objects_on_a_gray_floor(tmp_path: Any) -> None:
    section = chosen(measured(tmp_path, full_cells(floor=128)))
    zeros = next(one for one in section.candidates if one.baseline == "zero-input")
    assert section.chosen == "blur"
    assert zeros.signs is not None
    assert zeros.signs < 0.6


def test_the_baseline_is_chosen_and_evaluated_on_different_episodes(tmp_path: Any) -> None:
    subject = measured(tmp_path, full_cells(floor=0))
    before = run(subject, BaselineAnalysis())
    effects = PageEffects.read(subject)
    assert effects is not None
    choosing, judging = effects.select(effects.for_choice), effects.select(~effects.for_choice)
    assert not {*choosing.episode.tolist()} & {*judging.episode.tolist()}
    assert len(choosing.change) + len(judging.change) == len(effects.change)
    name = "objects/1/effects.js"
    arrays = subject.files.read_chunk(name)
    spoiled = np.where(np.isin(arrays["frame"], judging.frame), -arrays["effect.value"], arrays["effect.value"])
    subject.files.write_chunk(name, {**arrays, "effect.value": spoiled})
    assert run(subject, BaselineAnalysis()) == before
    subject.files.write_chunk(name, {**arrays, "effect.value": -arrays["effect.value"]})
    assert run(subject, BaselineAnalysis()) != before


def test_the_chosen_baseline_replaces_auto_in_features_and_attribution(tmp_path: Any) -> None:
    subject = measured(tmp_path, full_cells(floor=0))
    results = run(subject, BaselineAnalysis())
    assert with_chosen_baseline(subject, results).options_of(AttributionOptions).baseline == "zero-input"
    assert with_chosen_baseline(subject, {}).options_of(AttributionOptions).baseline == "blur"
    explicit = measured(tmp_path, full_cells(floor=0), "mean")
    assert with_chosen_baseline(explicit, results).options_of(AttributionOptions).baseline == "mean"


@pytest.mark.parametrize(
    "without",
    [
        lambda subject: replace(subject, trajectories=replace(subject.trajectories, world_states=None)),
        lambda subject: replace(subject, analyses=("attribution", "baseline")),
        lambda subject: replace(subject, analysis_options=(AttributionOptions(baseline="blur"),)),
    ],
    ids=["states", "objects", "auto"],
)
def test_baselines_are_not_compared_without_effects_attribution_or_auto(tmp_path: Any, without: Any) -> None:
    subject = without(measured(tmp_path, full_cells(floor=0)))
    assert run(subject, BaselineAnalysis()) == {}
    assert [*BaselineAnalysis().sections(subject, NoOptions(), {})] == []


def test_cache_keys_change_with_the_options_that_decide_the_baseline(tmp_path: Any) -> None:
    def keys(subject: Subject) -> list[str]:
        tasks = [
            *FeaturesAnalysis().tasks(subject, FeatureOptions()),
            *AttributionAnalysis().tasks(subject, subject.options_of(AttributionOptions)),
        ]
        return [task.key for task in tasks]

    def shared(first: Subject, second: Subject) -> set[str]:
        return {*keys(first)} & {*keys(second)}

    subject = measured(tmp_path, full_cells(floor=0))
    fewer = replace(subject, analysis_options=(ObjectsOptions(every=2), subject.options_of(AttributionOptions)))
    blur = replace(subject, analysis_options=(AttributionOptions(baseline="blur"),))
    assert not shared(subject, fewer)
    assert not shared(subject, blur)
    other = replace(fewer, analysis_options=(ObjectsOptions(every=2), AttributionOptions(baseline="blur")))
    plain = replace(other, analysis_options=(ObjectsOptions(every=1), AttributionOptions(baseline="blur")))
    assert keys(other) == keys(plain)


def sums(noise: float, seed: int, episodes: int = 16) -> np.ndarray:
    """Sums of predictions that differ from the effects by noise; the effects are always the same."""
    change = np.random.default_rng(0).normal(size=20 * episodes)
    predictions = change + noise * np.random.default_rng([seed, 1]).normal(size=len(change))
    return agreement_sums(predictions, change, np.repeat(np.arange(episodes), 20), 0.5)


def test_only_a_significantly_better_baseline_replaces_the_default() -> None:
    for seed in range(1, 6):
        assert choose_baseline({"blur": sums(1, 0), "mean": sums(1, seed)}).baseline == "blur"
    better = {"blur": sums(2, 0), "mean": sums(1, 1), "zero-input": sums(0.3, 2)}
    assert choose_baseline(better).baseline == "zero-input"
    few = {name: one[:3] for name, one in better.items()}
    assert choose_baseline(few).baseline == "blur"
    assert all(one.advantage is None for one in choose_baseline(few).candidates)


def test_a_baseline_with_constant_predictions_is_never_chosen() -> None:
    change = np.random.default_rng(0).normal(size=80)
    constant = agreement_sums(np.zeros(80), change, np.repeat(np.arange(8), 10), 0.5)
    choice = choose_baseline({"blur": sums(1, 0, episodes=8), "mean": constant})
    assert choice.baseline == "blur"
    assert choice.candidates[1].correlation is None
