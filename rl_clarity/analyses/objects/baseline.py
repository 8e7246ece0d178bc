"""The analysis `baseline`: finds the baseline that best predicts the measured effects of objects.

It runs if `attribution.baseline="auto"`. Each candidate has a task, and `choice_from_results` makes the choice from the
facts of these tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from rl_clarity.agents.protocol import Score
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE
from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.analyses.attribution.integrated_gradients import attribute
from rl_clarity.analyses.chosen_baseline import (
    CANDIDATES,
    CandidateAgreement,
    agreement_sums,
    choice_from_results,
    chooses_baseline,
    with_baseline,
)
from rl_clarity.analyses.feature_fit import page_baseline
from rl_clarity.analyses.features import reduction_inputs
from rl_clarity.analyses.layers import (
    MEMORY_HINT,
    PageLayer,
    gradient_bytes,
    gradient_piece,
    page_layers,
    parallel_tasks,
    task_size,
)
from rl_clarity.analyses.objects.agreement import box_sums
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.page_effects import PageEffects
from rl_clarity.base.parsing import NoOptions
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.sections import Note, SectionData

FRAMES = 96
"""Largest number of frames whose attribution is compared with effects, evenly spaced over the episodes used."""
NOTE = Note(
    "Choice of the baseline",
    "Integrated gradients from each candidate, at the layer that the page opens with, are summed over the boxes of "
    "objects in every second episode and compared with the measured effects. A baseline other than blur is chosen if "
    "the mean of its correlation and its share of right signs is larger than for blur, and the bootstrap interval of "
    "the difference over episodes excludes 0 (95% for the three others together). The other episodes test the choice.",
)


@dataclass(frozen=True)
class BaselineSection(SectionData):
    """The baseline that was chosen by measured effects; absent if it was not chosen in this way."""

    kind = "baseline"
    title = "Choice of the baseline"
    chosen: str
    layer: str
    """Short name of the layer at which candidates were compared."""
    count: int
    """Number of objects whose effects the choice is based on."""
    large: int
    """Number of these objects whose effect has a magnitude above the threshold."""
    episodes: int
    candidates: Sequence[CandidateAgreement]
    """All candidates, starting with the default."""


class BaselineAnalysis(Analysis[NoOptions, BaselineSection]):
    """Compares attribution from several baselines with the measured effects of objects in every second episode."""

    kind = "baseline"

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        if not chooses_baseline(subject):
            return
        layer = opening_layer(subject)
        inputs = [reduction_inputs(subject), subject.decisive(AttributionOptions), asdict(layer)]
        for name in CANDIDATES:
            yield self.task(
                subject,
                self.task_name(name),
                partial(compare_candidate, with_baseline(subject, name), layer),
                inputs,
                size=task_size(layer, FRAMES),
                group=self.kind,
                after=(ObjectsAnalysis.task_name(""),),
                pieces=partial(_pieces, layer),
                frame_bytes=gradient_bytes(subject.agent, layer.shape, 1),
                parallel=parallel_tasks(subject.agent, 1),
                memory_hint=MEMORY_HINT,
            )

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[BaselineSection]:
        choice = choice_from_results(results, subject.options.seed)
        if choice is None or not chooses_baseline(subject):
            return
        facts = results[self.task_name(choice.baseline)]
        counts = (facts["count"], facts["large"], facts["episodes"])
        yield BaselineSection(choice.baseline, opening_layer(subject).name, *counts, choice.candidates)

    def notes(self, options: NoOptions) -> Sequence[Note]:
        return [NOTE]


def opening_layer(subject: Subject) -> PageLayer:
    """Return the layer that the page opens with."""
    return next(layer for layer in page_layers(subject.agent, subject.options) if not layer.is_input)


def compare_candidate(subject: Subject, layer: PageLayer, work: Work) -> TaskResult:
    """Compare attribution from the subject's baseline with effects, in the episodes from which the baseline is chosen.

    The facts are the sums (E, 8) that `agreement_sums` returns for E episodes, empty without objects, and the numbers
    of objects (`count`), of objects with effects above the threshold (`large`), and of episodes.
    """
    effects = PageEffects.read(subject)
    effects = None if effects is None else _for_choice(effects)
    if effects is None:
        return TaskResult({"sums": [], "count": 0, "large": 0, "episodes": 0})
    options, batch = subject.options_of(AttributionOptions), min(work.frames, subject.options.batch_size)
    baseline = page_baseline(subject, layer, batch)
    places, step = np.unique(np.stack([effects.trajectory, effects.frame], axis=1), axis=0, return_inverse=True)
    scores: list[Score] = [subject.output_kind]
    maps = []
    for part in slices(len(places), batch):
        observations, state = _at(subject, places[part])
        result = attribute(
            subject.agent,
            observations,
            layer.full_name,
            scores,
            steps=options.steps,
            quadrature=options.quadrature,
            state=state,
            baseline=baseline,
            linear_prefix=options.linear_prefix,
        )
        maps.append(result.values[0].sum(axis=-1))
        work.report(part.stop / len(places))
    shape = subject.trajectories.observations.shape[2:4]
    predictions = box_sums(np.concatenate(maps), step.ravel(), effects.box, shape)
    sums = agreement_sums(predictions, effects.change, effects.episode, effects.threshold)
    large = int(sums[:, 6].sum())
    return TaskResult({"sums": sums.tolist(), "count": len(step), "large": large, "episodes": len(sums)})


def _for_choice(effects: PageEffects) -> PageEffects | None:
    """Return the effects selected by `for_choice`, in at most `FRAMES` evenly spaced frames; None if there are none."""
    effects = effects.select(effects.for_choice)
    frames, number = np.unique(np.stack([effects.trajectory, effects.frame], axis=1), axis=0, return_inverse=True)
    if not len(frames):
        return None
    kept = np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int)
    return effects.select(np.isin(number.ravel(), kept))


def _at(subject: Subject, places: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
    """Return the observations at `places` (n, 2), pairs of a trajectory and a frame, and the states before them."""
    states = [subject.states(trajectory, np.array([frame])) for trajectory, frame in places.tolist()]
    observations = np.stack([subject.trajectories.observations[trajectory, frame] for trajectory, frame in places])
    parts = [one for one in states if one is not None]
    return observations, tuple(np.concatenate(part) for part in zip(*parts, strict=True)) if parts else None


def _pieces(layer: PageLayer, sample: Subject, batch: int) -> Iterable[Piece]:
    options = sample.options_of(AttributionOptions)
    path = (options.steps, options.linear_prefix, DEFAULT_BASELINE)
    yield gradient_piece(sample, layer, [sample.output_kind], batch, FRAMES, *path)[0]
