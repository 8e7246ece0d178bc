"""The analysis `checks`: sanity checks of saliency methods, with a table, example maps, and bars. Each method has a
task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.sites import short_names
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.baselines import DEFAULT_BASELINE, check_baseline
from rl_clarity.analyses.attribution.deletion import STEPS, deletion_area, random_maps
from rl_clarity.analyses.checks.methods import (
    RANDOMIZED_FRAMES,
    check_method,
    choose_frames,
    chosen_methods,
    find_method,
    randomized_layers,
)
from rl_clarity.analyses.checks.report import MethodReport, SanityReport
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import JsonObject, as_json, to_plain
from rl_clarity.base.parsing import check_minimum
from rl_clarity.base.registry import OptionRegistries
from rl_clarity.base.statistics import Interval
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import slugs
from rl_clarity.pages.images import to_bytes
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Bar, BarsSection, Column, ImagesSection, PanelImage, TableSection

REPORT = "checks/report.json"
STAGES = 4
"""Number of randomized networks whose maps are shown, evenly chosen from the layers."""
EXAMPLES = 2
"""Number of frames whose maps are shown."""
MEASURED_FRAMES = 2
"""Number of frames that are explained to measure the time."""
ORDERS = 6
"""Number of orders of pixels of each frame: those of the map, at random and from the center, for deletion and for
insertion."""
CAPTIONS = {
    "checks": "A map that stays the same when the weights of the network are random does not show what the network "
    "learned (Adebayo et al., 2018). Pixels that matter, blurred first, change the output faster than pixels in a "
    "random order (Petsiuk et al., 2018).",
    "check_maps": "The frame, the map of the trained network, and maps of the network whose layers are random from the "
    "outputs down to the one that is named, with their mean rank correlation with the trained network's maps.",
    "check_deletion": "Pixels are blurred, those with the largest saliency first. Area under the change of the output, "
    "less the area of another order (random, or from the center outwards): above 0, the map's order changes the output "
    "faster. Lines are 95 % bootstrap intervals over frames.",
    "check_insertion": "The same from the other end: pixels of the blurred frame are restored, those with the largest "
    "saliency first. Above 0, the map's order changes the output faster than the other order.",
}


@dataclass(frozen=True)
class ChecksOptions:
    """Options of sanity checks of saliency methods."""

    frames: int = 64
    """Number of frames, from all trajectories, on which the methods are checked."""
    methods: tuple[str, ...] | None = None
    """Methods to check: those of saliency (perturbation, jacobian, ..., and those of installed packages), and
    "integrated_gradients LAYER"; by default all of them, with every layer."""
    output: str = "policy"
    """Explained output: policy (all logits, or all action values), value, or greedy."""
    baseline: str = DEFAULT_BASELINE
    """What integrated gradients of layers are measured against: `zero-layer`, `zero-input`, `blur`, or the `mean`,
    `median` or `expected` of the checked frames."""

    registries: ClassVar[OptionRegistries] = {"methods": METHODS}

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
class CheckMaps(ImagesSection):
    """Example maps of the trained network and of networks with random layers."""

    kind = "check_maps"
    title = "Maps of the trained network, and of networks with random layers"


@dataclass(frozen=True)
class CheckDeletion(BarsSection):
    """How much faster the order of the maps changes the output than other orders of pixels."""

    kind = "check_deletion"
    title = "Deletion of pixels"


@dataclass(frozen=True)
class CheckInsertion(BarsSection):
    """The same, when pixels of the blurred frame are restored."""

    kind = "check_insertion"
    title = "Insertion of pixels"


class ChecksAnalysis(Analysis[ChecksOptions, ChecksSection | CheckMaps | CheckDeletion | CheckInsertion]):
    """Shows the results of the checks in words, images and numbers, and writes `checks/report.json`."""

    kind = "checks"
    version = 2

    def check(self, agent: Agent, options: ChecksOptions, page: SubjectOptions) -> None:
        chosen_methods(agent, options.methods, options.frames)
        outputs = ("policy", "value", "greedy")
        if options.output not in outputs:
            raise OptionError(f"output={options.output!r} must be one of {', '.join(outputs)}")

    def tasks(self, subject: Subject, options: ChecksOptions) -> Iterable[Task]:
        names = chosen_methods(subject.agent, options.methods, options.frames)
        seed = subject.options.seed
        for name, slug in zip(names, slugs(names), strict=True):
            yield self.task(
                subject,
                self.task_name("method", slug),
                partial(_check, subject, options, name, slug),
                [name, seed, METHODS.source(name) if name in METHODS else ""],
                pieces=partial(_pieces, options, name),
            )
        yield self.task(
            subject,
            self.task_name("report"),
            partial(_write_report, subject, options),
            seed,
            size=0.01,
            after=(self.task_name("method", ""),),
            pieces=lambda sample, batch: (),  # the task takes no time
        )

    def sections(
        self, subject: Subject, options: ChecksOptions, results: Results
    ) -> Iterable[ChecksSection | CheckMaps | CheckDeletion | CheckInsertion]:
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
            caption=CAPTIONS[ChecksSection.kind],
        )
        images = [read(PanelImage, image, "image") for facts in methods for image in facts["images"]]
        yield CheckMaps(images, methods[0]["columns"], caption=CAPTIONS[CheckMaps.kind])
        deletion = {method.label: method.deletion for method in report.methods}
        yield CheckDeletion(_bars(deletion), caption=CAPTIONS[CheckDeletion.kind])
        insertion = {method.label: method.insertion for method in report.methods}
        yield CheckInsertion(_bars(insertion), caption=CAPTIONS[CheckInsertion.kind])


def _bars(measures: Mapping[str, Mapping[str, Interval]]) -> list[Bar]:
    """Return how much larger the area of each method is than those of the other orders of pixels."""
    return [
        Bar(f"{label}, {name}", above.mean, above.low, above.high)
        for label, areas in measures.items()
        for name in ("random", "center")
        for above in [areas[f"above_{name}"]]
    ]


def _check(subject: Subject, options: ChecksOptions, name: str, slug: str, work: Work) -> TaskResult:
    """Check a method, and write images of its maps."""
    frames = choose_frames(subject.trajectories, options.frames)
    settings = (options.output, subject.options.seed, options.baseline)
    report, maps = check_method(subject.agent, name, frames, *settings, work.report)
    stages = np.unique(np.linspace(0, len(report.randomization), STAGES + 1).round().astype(int))
    shown = frames[frames.spread]
    layers = [name.replace("/", ".") for name in short_names([stage.layer for stage in report.randomization])]
    correlations = [f"{stage.rank_correlation:.2f}" for stage in report.randomization]
    labels = ["trained", *(f"random to {pair[0]}: {pair[1]}" for pair in zip(layers, correlations, strict=True))]
    images: list[dict[str, Any]] = []
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
    facts = {**report.to_dict(), "frames": len(frames.steps), "images": images, "columns": 1 + len(stages)}
    return TaskResult(facts, [one["image"] for one in images])


def _map_image(image: np.ndarray) -> np.ndarray:
    """Return a map (H, W) as a gray image (H, W, 1), white where it is largest."""
    peak = float(image.max())
    return to_bytes(image[..., None] / peak if peak > 0 else image[..., None])


def _write_report(subject: Subject, options: ChecksOptions, work: Work) -> TaskResult:
    report = as_json(to_plain(_report(options, work.results).to_dict(), finite=True))
    subject.files.write_file(REPORT, (report + "\n").encode())
    return TaskResult(files=[REPORT])


def _methods(results: Results) -> list[JsonObject]:
    """Return the facts of the methods, in their order."""
    return [facts for name, facts in results.items() if name.startswith(ChecksAnalysis.task_name("method", ""))]


def _report(options: ChecksOptions, results: Results) -> SanityReport:
    methods = _methods(results)
    return SanityReport(options.output, methods[0]["frames"], [MethodReport.from_dict(facts) for facts in methods])


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


def _pieces(options: ChecksOptions, name: str, sample: Subject, batch: int) -> Iterable[Piece]:
    """The method's maps of two frames, and one order of their pixels."""
    frames = choose_frames(sample.trajectories, MEASURED_FRAMES)
    observations, state = frames.observations, frames.state
    agent, count = sample.agent, len(observations)
    stages = len(randomized_layers(agent))
    method = find_method(agent, name, options.baseline, observations)
    explain = partial(method.values, agent, observations, [options.output], state)
    yield Piece(explain, (options.frames + stages * min(RANDOMIZED_FRAMES, options.frames)) / count, explain)
    order = random_maps(observations.shape[:3], np.random.default_rng(0))
    blur = partial(deletion_area, agent, observations, order, options.output, steps=STEPS, state=state)
    yield Piece(blur, ORDERS * options.frames / count, blur)
