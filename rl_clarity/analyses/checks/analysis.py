"""The analysis `checks`: sanity checks of saliency methods, with a table, example maps, and bars.

Methods that share their evaluations of the network share a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.sites import short_names
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, check_baseline
from rl_clarity.analyses.attribution.deletion import STEPS, deletion_area, random_maps
from rl_clarity.analyses.attribution.saliency import shared_values
from rl_clarity.analyses.checks.effects import EffectChecks, pack_effects, unpack_effects
from rl_clarity.analyses.checks.methods import (
    RANDOMIZED_FRAMES,
    CheckedFrames,
    check_methods,
    choose_frames,
    chosen_methods,
    find_methods,
    randomized_layers,
    shared_passes,
)
from rl_clarity.analyses.checks.report import (
    CONTROL_LABELS,
    EFFECT_OUTPUTS,
    MethodReport,
    SanityReport,
    interval_text,
)
from rl_clarity.analyses.objects.agreement import Agreement
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.keys import JsonObject, as_json, to_plain
from rl_clarity.base.parsing import check_minimum
from rl_clarity.base.registry import OptionRegistries
from rl_clarity.base.statistics import Interval
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import slugs
from rl_clarity.pages.images import to_bytes
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Bar, BarsSection, Column, ImagesSection, PanelImage, TableSection
from rl_clarity.recordings.object_effects import ObjectEffects, object_effects

REPORT = "checks/report.json"
EFFECTS = "checks/effects.npz"
EFFECT_STEPS = 4
"""Number of steps per episode at which the effects of objects are measured."""
EFFECT_MEASURES = {"correlation": "correlation", "signs": "right signs", "magnitudes": "rank correlation"}
STAGES = 4
"""Number of randomized networks whose maps are shown, spread evenly over the layers."""
EXAMPLES = 2
"""Number of frames whose maps are shown."""
MEASURED_FRAMES = 8
"""Number of frames that are explained to measure the time. Fewer frames would take just as long, because batches are
padded."""
ORDERS = 6
"""Number of pixel orders that are tested on each frame: the map's order, a random order and the order from the center,
each for deletion and for insertion."""
FEATURES = (
    " “features” is the attribution to the features of the page {page} at a layer, as in its images. It omits the "
    "residual, which therefore counts as missing, like the completeness error."
)
"""Text that is added to the caption of `checks` if the features of a page are checked, too."""
CAPTIONS = {
    "checks": "A map that stays the same when the weights of the network are random does not show what the network "
    "learned (Adebayo et al., 2018). If the pixels that matter are blurred first, the output changes faster than with "
    "a random order of pixels (Petsiuk et al., 2018).",
    "check_effects": "Objects that the agent sees were removed from the states of its environment, one at a time, and "
    "the change of its outputs was measured ({count} objects in {episodes} episodes). A method predicts this change by "
    "the sum of its map over the object's box. The table has the correlation with the measured changes, the share of "
    "right signs among changes of more than 5% of the output's range ({large}), and the rank correlation of "
    "magnitudes, each with a 95% bootstrap interval over episodes. Maps without a sign get the sign of most changes, "
    "and so do the controls, which know nothing about the agent. A method that does not beat the controls says nothing "
    "about effects.",
    "check_maps": "The frame, the map of the trained network, and maps of networks whose layers are random, from the "
    "outputs down to the named layer. The number is the mean rank correlation with the trained network's maps.",
    "check_deletion": "Pixels are blurred, those with the largest saliency first. Each bar is the area under the curve "
    "of the output's change, minus this area for another order (random, or from the center outward). Above 0, the "
    "map's order changes the output faster. Lines are 95% bootstrap intervals over frames.",
    "check_insertion": "The reverse of deletion: pixels of the blurred frame are restored, those with the largest "
    "saliency first. Above 0, the map's order changes the output faster than the other order.",
}


@dataclass(frozen=True)
class ChecksOptions:
    """Options of sanity checks of saliency methods."""

    frames: int = 64
    """Number of frames, from all trajectories, on which the methods are checked."""
    methods: tuple[str, ...] | None = None
    """Names of the methods to check: saliency methods (perturbation, jacobian, ..., and those of installed packages),
    "integrated_gradients LAYER", and with `page` "features LAYER"; by default all of them, for every layer."""
    output: str = "policy"
    """Explained output: policy (all logits, or all action values), value, or greedy."""
    baseline: str = DEFAULT_BASELINE
    """Baseline of integrated gradients with respect to layers: `zero-layer`, `zero-input`, `blur` or `narrow-blur`; or
    `mean`, `median` or `expected`, which are computed from the checked frames."""
    page: str | None = None
    """Directory of a page of the same agent. The features of this page are also checked, by the methods `features
    LAYER`: attribution to the features of a layer."""

    registries: ClassVar[OptionRegistries] = {"methods": METHODS}
    input_files: ClassVar[tuple[str, ...]] = ("page",)

    def __post_init__(self) -> None:
        check_minimum(self, 1, "frames")
        check_baseline("baseline", self.baseline)


@dataclass(frozen=True)
class ChecksSection(TableSection):
    """Results of sanity checks of saliency methods."""

    kind = "checks"
    title = "Can these saliency maps be trusted?"
    report: Mapping[str, object]
    """Content of `checks/report.json`."""


@dataclass(frozen=True)
class CheckEffects(TableSection):
    """How well methods and controls predict the measured effects of objects. The table is empty if the effects are not
    known.
    """

    kind = "check_effects"
    title = "Explanations and measured effects"


@dataclass(frozen=True)
class CheckMaps(ImagesSection):
    """Example maps of the trained network and of networks with random layers."""

    kind = "check_maps"
    title = "Maps of the trained network, and of networks with random layers"


@dataclass(frozen=True)
class CheckDeletion(BarsSection):
    """How much faster the output changes when pixels are removed in the order of the maps than in other orders."""

    kind = "check_deletion"
    title = "Deletion of pixels"


@dataclass(frozen=True)
class CheckInsertion(BarsSection):
    """How much faster the output changes when pixels are restored in the order of the maps than in other orders."""

    kind = "check_insertion"
    title = "Insertion of pixels"


_Sections: TypeAlias = ChecksSection | CheckEffects | CheckMaps | CheckDeletion | CheckInsertion


class ChecksAnalysis(Analysis[ChecksOptions, _Sections]):
    """Shows the results of the checks in words, images and numbers, and writes `checks/report.json`."""

    kind = "checks"
    version = 4

    def check(self, agent: Agent, options: ChecksOptions, page: SubjectOptions) -> None:
        chosen_methods(agent, options.methods, options.frames, options.page)
        outputs = ("policy", "value", "greedy")
        if options.output not in outputs:
            raise OptionError(f"output={options.output!r} must be one of {', '.join(outputs)}")

    def tasks(self, subject: Subject, options: ChecksOptions) -> Iterable[Task]:
        names = chosen_methods(subject.agent, options.methods, options.frames, options.page)
        methods = find_methods(subject.agent, names, page=options.page)
        seed = subject.options.seed
        shared = [options.frames, options.output, options.baseline, seed]
        effects = self.task_name("effects")
        yield self.task(
            subject,
            effects,
            partial(_measure_effects, subject, options),
            [seed, options.frames],
            pieces=partial(_effect_pieces, options),
        )
        named = dict(zip(names, slugs(names), strict=True))
        for group in map(list, shared_passes(methods)):
            yield self.task(
                subject,
                self.task_name("method", named[group[0]]),
                partial(_check, subject, options, {name: named[name] for name in group}),
                [shared, group, [METHODS.source(name) if name in METHODS else "" for name in group]],
                after=(effects,),
                pieces=partial(_pieces, options, group),
            )
        yield self.task(
            subject,
            self.task_name("report"),
            partial(_write_report, subject, options),
            [shared, names],
            size=0.01,
            after=(effects, self.task_name("method", "")),
            pieces=lambda sample, batch: (),  # the task takes no time
        )

    def sections(self, subject: Subject, options: ChecksOptions, results: Results) -> Iterable[_Sections]:
        report, methods = _report(options, results), _methods(results)
        columns = {
            "method": "method",
            "weights": "with random weights",
            "deletion": "removing pixels",
            "correlation": "rank correlation",
            "ssim": "SSIM",
            "completeness": "completeness",
        }
        yield ChecksSection(
            [Column(key, label) for key, label in columns.items()],
            [_row(method) for method in report.methods],
            report.to_dict(),
            caption=CAPTIONS[ChecksSection.kind]
            + ("" if options.page is None else FEATURES.format(page=Path(options.page).name)),
        )
        yield _effects_section(report)
        images = [read(PanelImage, image, "image") for facts in methods for image in facts["images"]]
        yield CheckMaps(images, methods[0]["columns"], caption=CAPTIONS[CheckMaps.kind])
        deletion = {method.label: method.deletion for method in report.methods}
        yield CheckDeletion(_bars(deletion), caption=CAPTIONS[CheckDeletion.kind])
        insertion = {method.label: method.insertion for method in report.methods}
        yield CheckInsertion(_bars(insertion), caption=CAPTIONS[CheckInsertion.kind])


def _bars(measures: Mapping[str, Mapping[str, Interval]]) -> list[Bar]:
    """Return bars for how much the deletion or insertion area of each method exceeds those of other pixel orders."""
    return [
        Bar(f"{label}, {name}", above.mean, above.low, above.high)
        for label, areas in measures.items()
        for name in ("random", "center")
        for above in [areas[f"above_{name}"]]
    ]


def _measure_effects(subject: Subject, options: ChecksOptions, work: Work) -> TaskResult:
    """Measure the effects of objects while the agent plays, and how well the controls predict them.

    If the effects cannot be measured, the fact `unknown` contains the reason.
    """
    seed = subject.options.seed
    try:
        effects = _effects(subject, options)
    except ClarityError as error:
        return TaskResult({"unknown": str(error)})
    checks = EffectChecks.measured(subject.agent, effects)
    controls = {
        name: {output: agreement.to_dict() for output, agreement in outputs.items()}
        for name, outputs in checks.controls(seed).items()
    }
    subject.files.write_file(EFFECTS, pack_effects(effects))
    return TaskResult({"unknown": "", "controls": controls}, [EFFECTS])


def _effects(subject: Subject, options: ChecksOptions, episodes: int | None = None) -> ObjectEffects:
    episodes = max(2, options.frames // EFFECT_STEPS) if episodes is None else episodes
    seed, metadata = subject.options.seed, subject.metadata
    return object_effects(subject.agent, episodes=episodes, steps=EFFECT_STEPS, seed=seed, metadata=metadata)


def _check(subject: Subject, options: ChecksOptions, names: Mapping[str, str], work: Work) -> TaskResult:
    """Check methods that share their evaluations of the network, and write images of their maps.

    `names` maps each method to the name of its image directory.
    """
    frames, seed = choose_frames(subject.trajectories, options.frames), subject.options.seed
    methods = find_methods(subject.agent, [*names], options.baseline, frames.observations, options.page)
    checked = check_methods(subject.agent, methods, frames, options.output, seed, work.report)
    agreements: list[dict[str, Agreement]] = [{} for _ in names]
    if not work.results[ChecksAnalysis.task_name("effects")]["unknown"]:
        checks = EffectChecks.measured(subject.agent, unpack_effects(subject.files.read_file(EFFECTS)))
        agreements = checks.methods([*methods.values()], seed)
    facts, files = list[JsonObject](), list[str]()
    for slug, (report, maps), effects in zip(names.values(), checked, agreements, strict=True):
        stages = np.unique(np.linspace(0, len(report.randomization), STAGES + 1).round().astype(int))
        images = _write_images(subject, frames, slug, report, maps, stages)
        report = replace(report, effects=effects)
        facts.append({**report.to_dict(), "frames": len(frames.steps), "images": images, "columns": 1 + len(stages)})
        files += [image["image"] for image in images]
    return TaskResult({"methods": facts}, files)


def _write_images(
    subject: Subject, frames: CheckedFrames, slug: str, report: MethodReport, maps: np.ndarray, stages: np.ndarray
) -> list[JsonObject]:
    """Write example images of a method's `maps` (S + 1, b, H, W), and return their entries in the section.

    `stages` are indices of the first axis: 0 for the trained agent, i for the i-th randomized agent.
    """
    shown = frames[frames.spread]
    layers = [name.replace("/", ".") for name in short_names([stage.layer for stage in report.randomization])]
    correlations = [f"{stage.rank_correlation:.2f}" for stage in report.randomization]
    labels = ["trained", *(f"random to {pair[0]}: {pair[1]}" for pair in zip(layers, correlations, strict=True))]
    images: list[JsonObject] = []
    for example in range(min(EXAMPLES, len(shown.steps))):
        place = {"trajectory": int(shown.trajectories[example]), "frame": int(shown.steps[example])}
        step = slice(place["frame"], place["frame"] + 1)
        row: list[tuple[str, np.ndarray, dict[str, int]]] = [
            (report.label, subject.trajectory_frames(place["trajectory"], step)[0], place)
        ]
        row += [(labels[stage], _map_image(maps[stage, example]), {}) for stage in stages]
        for number, (label, image, at) in enumerate(row, start=1):
            file = f"checks/{slug}/{example + 1}-{number}.png"
            subject.files.write_image(file, image)
            images.append({"image": file, "label": label, **at})
    return images


def _map_image(image: np.ndarray) -> np.ndarray:
    """Return a map (H, W) as a gray image (H, W, 1), white where it is largest."""
    peak = float(image.max())
    return to_bytes(image[..., None] / peak if peak > 0 else image[..., None])


def _write_report(subject: Subject, options: ChecksOptions, work: Work) -> TaskResult:
    report = as_json(to_plain(_report(options, work.results).to_dict(), finite=True))
    subject.files.write_file(REPORT, (report + "\n").encode())
    return TaskResult(files=[REPORT])


def _methods(results: Results) -> list[JsonObject]:
    """Return the facts of the methods, in the order of the tasks."""
    tasks = [facts for name, facts in results.items() if name.startswith(ChecksAnalysis.task_name("method", ""))]
    return [method for facts in tasks for method in facts["methods"]]


def _report(options: ChecksOptions, results: Results) -> SanityReport:
    methods, effects = _methods(results), results[ChecksAnalysis.task_name("effects")]
    facts = {"controls": effects.get("controls", {}), "effects_unknown": effects["unknown"]}
    return SanityReport.from_dict(
        {"output": options.output, "frames": methods[0]["frames"], "methods": methods, **facts}
    )


def _effects_section(report: SanityReport) -> CheckEffects:
    """Return the table of how well methods and controls predict effects; the best method in each column is marked."""
    if report.effects_unknown:
        return CheckEffects([Column("method", "method")], [], caption=report.unknown_text)
    rows = {method.label: method.effects for method in report.methods}
    controls = {f"control: {CONTROL_LABELS[name]}": outputs for name, outputs in report.controls.items()}
    columns, table = [Column("method", "method")], [{"method": label} for label in (*rows, *controls)]
    first = next(iter(next(iter(report.controls.values())).values()))
    for output in next(iter(report.controls.values())):
        for name, label in EFFECT_MEASURES.items():
            key = f"{output}_{name}"
            columns.append(Column(key, f"{EFFECT_OUTPUTS[output]}: {label}"))
            estimates = [getattr(outputs[output], name) for outputs in (*rows.values(), *controls.values())]
            best = max((one.value for one in estimates[: len(rows)] if not np.isnan(one.value)), default=np.nan)
            for row, estimate in zip(table, estimates, strict=True):
                mark = ", best" if estimate.value == best and row["method"] in rows else ""
                row[key] = (interval_text(estimate) or "–") + mark
    caption = CAPTIONS[CheckEffects.kind].format(count=first.count, episodes=first.episodes, large=first.large)
    return CheckEffects(columns, table, caption=caption)


def _row(method: MethodReport) -> dict[str, object]:
    """Return a method's row of the table."""
    last = method.randomization[-1] if method.randomization else None
    return {
        "method": method.label,
        "weights": method.weights_text,
        "deletion": method.deletion_text,
        "correlation": None if last is None else last.rank_correlation,
        "ssim": None if last is None else last.ssim,
        "completeness": method.completeness_text or None,
    }


def _pieces(options: ChecksOptions, names: Sequence[str], sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield pieces that compute the methods' maps of some frames, and delete pixels in one random order."""
    frames = choose_frames(sample.trajectories, MEASURED_FRAMES)
    observations, state = frames.observations, frames.state
    agent, count = sample.agent, len(observations)
    stages = len(randomized_layers(agent))
    methods = [*find_methods(agent, names, options.baseline, observations, options.page).values()]
    explain = partial(shared_values, methods, agent, observations, [options.output], state)
    yield Piece(explain, (2 * options.frames + stages * min(RANDOMIZED_FRAMES, options.frames)) / count, explain)
    order = random_maps(observations.shape[:3], np.random.default_rng(0))
    blur = partial(deletion_area, agent, observations, order, options.output, steps=STEPS, state=state)
    yield Piece(blur, len(names) * ORDERS * options.frames / count, blur)


def _effect_pieces(options: ChecksOptions, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a piece that measures the effects in a single episode, or nothing if they cannot be measured."""
    try:
        _effects(sample, options, 1)
    except ClarityError:
        return
    yield Piece(partial(_effects, sample, options, 1), max(2, options.frames // EFFECT_STEPS))
