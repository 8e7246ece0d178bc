"""Sanity checks of saliency methods as a page: one task per method, a table, example maps, and bars of the orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.sites import short_names
from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.attribution.deletion import STEPS, deletion_area, random_maps
from rl_clarity.analyses.sanity import (
    RANDOMIZED_FRAMES,
    MethodReport,
    SanityReport,
    check_method,
    choose_frames,
    chosen_methods,
    randomized_layers,
    saliency_methods,
)
from rl_clarity.errors import OptionError
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.keys import as_json, to_plain
from rl_clarity.pages.files import slugs
from rl_clarity.pages.images import to_bytes
from rl_clarity.pages.manifest import ImageName, Section
from rl_clarity.parsing import check_minimum

REPORT = "checks/report.json"
STAGES = 4
"""Randomized networks whose maps are shown, spread over the layers."""
EXAMPLES = 2
"""Frames whose maps are shown."""
MEASURED_FRAMES = 2
"""Frames that are explained to measure the time."""
ORDERS = 6
"""Orders of pixels of each frame: the map's, a random one and the center's, for deletion and for insertion."""
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
    """Sanity checks of saliency methods."""

    frames: int = 64
    """Frames that the methods are checked on, spread over the trajectories."""
    methods: tuple[str, ...] | None = None
    """Methods to check: perturbation, jacobian, smooth_gradients, input_integrated_gradients, or
    "integrated_gradients LAYER"; all of them, with every layer, by default."""
    output: str = "policy"
    """Explained output: policy (all logits, or all action values), value, or greedy."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "frames")


class ChecksAnalysis(Analysis):
    """What the checks found, in words; also writes `checks/report.json`."""

    kind = "checks"
    version = 2
    Options = ChecksOptions

    def check(self, agent: Agent, options: ChecksOptions) -> None:
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
                f"{self.kind}/method/{slug}",
                partial(_check, subject, options, name, slug),
                [name, seed],
                pieces=partial(_pieces, options, name),
            )
        yield self.task(
            subject,
            f"{self.kind}/report",
            partial(_write_report, subject, options),
            seed,
            size=0.01,
            after=(f"{self.kind}/method/",),
            pieces=lambda sample, batch: (),  # takes no time
        )

    def section(self, subject: Subject, options: ChecksOptions, results: Results) -> Section:
        columns = {
            "method": "method",
            "weights": "with random weights",
            "deletion": "removing pixels",
            "correlation": "rank correlation",
            "ssim": "SSIM",
            "completeness": "completeness",
        }
        data = {
            "columns": [{"key": key, "label": label} for key, label in columns.items()],
            "rows": [_row(method) for method in _report(options, results).methods],
            "caption": CAPTIONS[self.kind],
            "report": _report(options, results).to_dict(),
        }
        return Section(self.kind, "Can these saliency maps be trusted?", data, panel="table")


class CheckMaps(Analysis):
    """Example maps of the trained network and of networks with random layers."""

    kind = "check_maps"

    def tasks(self, subject: Subject, options: Any) -> Iterable[Task]:
        return ()

    def section(self, subject: Subject, options: Any, results: Results) -> Section:
        methods = _methods(results)
        images = [{**one, "image": ImageName(one["image"])} for facts in methods for one in facts["images"]]
        data = {"images": images, "columns": methods[0]["columns"], "caption": CAPTIONS[self.kind]}
        return Section(
            self.kind, "Maps of the trained network, and of networks with random layers", data, panel="images"
        )


class CheckDeletion(Analysis):
    """How much faster than other orders of pixels the order of the maps changes the output."""

    kind = "check_deletion"
    measure: ClassVar[str] = "deletion"

    def tasks(self, subject: Subject, options: Any) -> Iterable[Task]:
        return ()

    def section(self, subject: Subject, options: Any, results: Results) -> Section:
        bars = [
            {"label": f"{method.label}, {name}", **{"value": one.mean, "low": one.low, "high": one.high}}
            for method in _reports(results)
            for name in ("random", "center")
            for one in [getattr(method, self.measure)[f"above_{name}"]]
        ]
        data = {"bars": bars, "caption": CAPTIONS[self.kind]}
        return Section(self.kind, f"{self.measure.capitalize()} of pixels", data, panel="bars")


class CheckInsertion(CheckDeletion):
    """The same when pixels of the blurred frame are restored."""

    kind = "check_insertion"
    measure = "insertion"


def _check(subject: Subject, options: ChecksOptions, name: str, slug: str, work: Work) -> TaskResult:
    """Check a method, and write images of its maps."""
    frames = choose_frames(subject.trajectories, options.frames)
    report, maps = check_method(subject.agent, name, frames, options.output, subject.options.seed, work.report)
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
    """A map (H, W) as a gray image (H, W, 1), white where it is largest."""
    peak = float(image.max())
    return to_bytes(image[..., None] / peak if peak > 0 else image[..., None])


def _write_report(subject: Subject, options: ChecksOptions, work: Work) -> TaskResult:
    report = as_json(to_plain(_report(options, work.results).to_dict(), finite=True))
    subject.files.write_file(REPORT, (report + "\n").encode())
    return TaskResult(files=[REPORT])


def _methods(results: Results) -> list[Mapping[str, Any]]:
    """Facts of the methods, in their order."""
    return [facts for name, facts in results.items() if name.startswith("checks/method/")]


def _report(options: ChecksOptions, results: Results) -> SanityReport:
    return SanityReport(options.output, _methods(results)[0]["frames"], _reports(results))


def _reports(results: Results) -> list[MethodReport]:
    return [MethodReport.from_dict(facts) for facts in _methods(results)]


def _row(method: MethodReport) -> dict[str, Any]:
    """A method's row of the table."""
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
    explain = partial(saliency_methods(agent)[name], agent, observations, options.output, state)
    yield Piece(explain, (options.frames + stages * min(RANDOMIZED_FRAMES, options.frames)) / count, explain)
    order = random_maps(observations.shape[:3], np.random.default_rng(0))
    blur = partial(deletion_area, agent, observations, order, options.output, steps=STEPS, state=state)
    yield Piece(blur, ORDERS * options.frames / count, blur)
