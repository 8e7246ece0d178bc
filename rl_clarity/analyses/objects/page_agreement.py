"""The analysis `agreement`: how well a page's attribution predicts the effects of objects that were measured for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.analysis import AttributionAnalysis, attribution_inputs
from rl_clarity.analyses.attribution.files import AttributionOptions
from rl_clarity.analyses.attribution.files import chunk_name as attribution_name
from rl_clarity.analyses.chosen_baseline import chooses_baseline, measures_effects
from rl_clarity.analyses.layers import PageLayer, page_layers
from rl_clarity.analyses.objects.agreement import Agreement, Estimate, box_sums, compare
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.page_effects import PageEffects
from rl_clarity.base.parsing import NoOptions
from rl_clarity.environments import source_key
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import SEGMENT, segments
from rl_clarity.pages.sections import SectionData
from rl_clarity.visualization.quantization import dequantize


@dataclass(frozen=True)
class AgreementNumber:
    """A value with its 95 % bootstrap interval over episodes; null if too little was measured."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LayerAgreement:
    """How well attribution to a layer predicts the effects of objects."""

    layer: str
    """Short name."""
    correlation: AgreementNumber
    """Pearson's correlation of the attribution, summed over the objects' boxes, with their effects."""
    signs: AgreementNumber
    """Share of correct signs among the effects above the threshold."""
    magnitudes: AgreementNumber
    """Spearman's rank correlation of the magnitudes of summed attribution and effects."""


@dataclass(frozen=True)
class AgreementSection(SectionData):
    """How well the page's attribution predicts the effects of objects; absent if these were not measured."""

    kind = "agreement"
    title = "Attribution and measured effects"
    output: str
    """`value`, or `greedy` for an agent without a value."""
    count: int
    """Number of objects."""
    large: int
    """Number of objects whose effect has a magnitude above the threshold."""
    episodes: int
    threshold: float
    """Magnitude of an effect above which signs are compared: 5 % of the output's range."""
    layers: Sequence[LayerAgreement]


class AgreementAnalysis(Analysis[NoOptions, AgreementSection]):
    """Compares the attribution of each layer with the measured effects of objects."""

    kind = "agreement"

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        states = subject.trajectories.world_states
        if states is None or not measures_effects(subject):
            return
        inputs = [attribution_inputs(subject), subject.decisive(ObjectsOptions), source_key(states.spec)]
        for layer in _layers(subject):
            yield self.task(
                subject,
                self.task_name(layer.name),
                partial(_compare, subject, layer),
                [inputs, asdict(layer)],
                size=0.05,
                after=(ObjectsAnalysis.task_name(""), AttributionAnalysis.task_name(layer.name, "")),
                pieces=partial(
                    _pieces, layer, len(subject.trajectories) * len(segments(subject.trajectories.steps(0)))
                ),
            )

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[AgreementSection]:
        if not measures_effects(subject):
            return
        facts = {layer.name: results[self.task_name(layer.name)]["agreement"] for layer in _layers(subject)}
        found = {name: Agreement.from_dict(one) for name, one in facts.items() if one is not None}
        for first in [*found.values()][:1]:
            yield AgreementSection(
                output=subject.output_kind,
                count=first.count,
                large=first.large,
                episodes=first.episodes,
                threshold=first.threshold,
                layers=[
                    LayerAgreement(name, _number(one.correlation), _number(one.signs), _number(one.magnitudes))
                    for name, one in found.items()
                ],
            )


def _layers(subject: Subject) -> list[PageLayer]:
    return [layer for layer in page_layers(subject.agent, subject.options) if not layer.is_input]


def _number(estimate: Estimate) -> AgreementNumber:
    return AgreementNumber(
        *(None if np.isnan(one) else float(one) for one in (estimate.value, estimate.low, estimate.high))
    )


def _compare(subject: Subject, layer: PageLayer, work: Work) -> TaskResult:
    """Compare sums of the stored attribution over the boxes of objects with the stored effects of the objects.

    If the baseline was chosen by measured effects, the effects used for the choice are left out.
    """
    effects = PageEffects.read(subject)
    if effects is not None and chooses_baseline(subject):
        effects = effects.select(~effects.for_choice)
    if effects is None:
        return TaskResult({"agreement": None})
    predictions = []
    for trajectory in np.unique(effects.trajectory).tolist():
        own = effects.select(effects.trajectory == trajectory)
        frames, step = np.unique(own.frame, return_inverse=True)
        maps = _maps(subject, layer, subject.output_kind, trajectory, frames)
        predictions.append(box_sums(maps, step, own.box, subject.trajectories.observations.shape[2:4]))
    types = np.zeros(len(effects.change), int)  # not compared by type, whose numbers differ by trajectory
    predicted, seed = np.concatenate(predictions), subject.options.seed
    agreement = compare(predicted, effects.change, types, effects.episode, effects.threshold, seed)
    return TaskResult({"agreement": agreement.to_dict()})


def _maps(subject: Subject, layer: PageLayer, output: str, trajectory: int, frames: np.ndarray) -> np.ndarray:
    """Return the stored attribution (n, h, w) at some frames, summed over features and residual."""
    options = subject.options_of(AttributionOptions)
    maps = []
    for segment in np.unique(frames // SEGMENT).tolist():
        arrays = subject.files.read_chunk(attribution_name(options, layer, output, trajectory, segment))
        here = frames[frames // SEGMENT == segment] % SEGMENT
        maps.append(dequantize(arrays["codes"][here], arrays["scales"][here]).sum(axis=-1))
    return np.concatenate(maps)


def _pieces(layer: PageLayer, count: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a piece that decodes the maps of a segment, of which the page has `count`."""
    codes = np.zeros((SEGMENT, *layer.shape[:2], layer.channels + 1), np.int8)
    yield Piece(lambda: dequantize(codes, np.ones(SEGMENT)).sum(axis=-1), count)
