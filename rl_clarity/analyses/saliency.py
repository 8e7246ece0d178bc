"""The analysis `saliency`: saliency maps of the input along each trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import PIL.Image

from rl_clarity.agents.capabilities import is_vector
from rl_clarity.agents.protocol import Agent, FrameRegion, State
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.integrated_gradients import Attribution
from rl_clarity.analyses.attribution.perturbation import BATCH_BYTES, PerturbationGrid
from rl_clarity.analyses.attribution.saliency import POLICY, SaliencyMethod, SaliencyOutput
from rl_clarity.analyses.layers import MEMORY_HINT, gradient_bytes, sample_frames
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.parsing import check_option
from rl_clarity.base.progress import Report
from rl_clarity.base.registry import OptionRegistries, Registry
from rl_clarity.environments.atari import area_weights
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import SEGMENT, ChunkName, segments
from rl_clarity.pages.sections import Note, SectionData

LEVELS = 255
SIGNED_LEVELS = 127
PERCENTILE = 99
MEASURED_FRAMES = 2
"""Number of frames whose maps the forecast computes to measure the time."""


METHODS: Registry[SaliencyMethod] = Registry(
    "rl_clarity.saliency_methods",
    {
        "perturbation": "rl_clarity.analyses.attribution.perturbation:PERTURBATION",
        "signed_perturbation": "rl_clarity.analyses.attribution.perturbation:SIGNED_PERTURBATION",
        "jacobian": "rl_clarity.analyses.attribution.jacobian:JACOBIAN",
        "smooth_gradients": "rl_clarity.analyses.attribution.smooth_gradients:SMOOTH_GRADIENTS",
        "input_integrated_gradients": (
            "rl_clarity.analyses.attribution.input_integrated_gradients:INPUT_INTEGRATED_GRADIENTS"
        ),
    },
    noun="saliency method",
)
"""Saliency methods by name. `METHODS.register` and entry points add methods."""


@dataclass(frozen=True)
class SaliencyOptions:
    """Options of saliency maps of the input."""

    methods: tuple[str, ...] = ()
    """Saliency methods: `perturbation`, `signed_perturbation`, `jacobian`, `smooth_gradients`,
    `input_integrated_gradients`, or those of installed packages. `compare` uses `perturbation` by default, and other
    pages none."""
    every: int = 4
    """Compute maps for every n-th frame of a trajectory: 1 for all frames."""

    registries: ClassVar[OptionRegistries] = {"methods": METHODS}

    def __post_init__(self) -> None:
        METHODS.check("methods", self.methods)
        within = 1 <= self.every <= SEGMENT
        check_option(self, "every", within, f"must be from 1 to {SEGMENT}")


@dataclass(frozen=True)
class MapOutput:
    """An output that has maps."""

    id: str
    """`policy`, `value`, or, for an agent with action values, `greedy` (the best action value). For such an agent,
    `policy` means all action values. Signed maps of `policy` explain the logit or value of the best action."""
    label: str


@dataclass(frozen=True)
class CellCenters:
    """The position of each cell's center in the shown frames, as shares of their height and width."""

    rows: Sequence[float]
    columns: Sequence[float]


@dataclass(frozen=True)
class MethodDescription:
    """A saliency method and the cells of its maps."""

    name: str
    """Name of the method, as in the option `saliency.methods`."""
    label: str
    """Label of the method on the page."""
    parameters: Mapping[str, bool | float | str]
    signed: bool
    """Whether maps have negative values."""
    outputs: Sequence[MapOutput]
    rows: int
    """Number gh of rows of cells."""
    columns: int
    """Number gw of columns of cells."""
    centers: CellCenters


@dataclass(frozen=True)
class MethodEntry(MethodDescription):
    """The maps of a method."""

    maps: Sequence[Sequence[ChunkName]]
    """Chunks by trajectory and segment."""
    scales: Mapping[str, Sequence[float | None]]
    """By output, the largest magnitude of each trajectory's maps; null for a trajectory without maps."""
    percentile: Mapping[str, float]
    """By output, the 99th percentile, over all trajectories, of each map's largest magnitude."""


@dataclass(frozen=True)
class SaliencySection(SectionData):
    """Saliency maps of the input."""

    kind = "saliency"
    title = "Saliency"
    every: int
    """Every n-th step of a trajectory has maps."""
    methods: Sequence[MethodEntry]
    agreement: str | None = None
    """On pages of recordings, a text on how the recorded outputs differ from those of the explained agents."""
    differences: Sequence[ChunkName | None] = ()
    """For each trajectory, a chunk with these differences at the m explained steps, as shares of the range of an
    output: `differences` (m,) float32 and `steps` (m,) int32. Null where no outputs were recorded."""


class SaliencyAnalysis(Analysis[SaliencyOptions, SaliencySection]):
    """Computes saliency maps of the policy and of the value along each trajectory."""

    kind = "saliency"
    needs_all = False
    single_episode = True

    def check(self, agent: Agent, options: SaliencyOptions, page: SubjectOptions) -> None:
        if options.methods and is_vector(agent):
            raise OptionError(
                f"saliency.methods={options.methods!r}: saliency maps require images, but the agent observes vectors. "
                "Use methods=(); rl_clarity.generate attributes outputs to each input (layer 'input')"
            )

    def tasks(self, subject: Subject, options: SaliencyOptions) -> Iterable[Task]:
        played, outputs = subject.trajectories, saliency_outputs(subject)
        for name in dict.fromkeys(options.methods):
            method = METHODS.get(name)
            for trajectory in range(len(played)):
                for segment, part in enumerate(segments(played.steps(trajectory))):
                    frames = len(frames_with_map(part, options.every))
                    yield self.task(
                        subject,
                        self.task_name(name, trajectory + 1, segment + 1),
                        partial(write_maps, subject, name, trajectory, segment),
                        [subject.decisive(SaliencyOptions), outputs, name, trajectory, segment],
                        size=frames * method.passes,
                        group=self.task_name(name),
                        pieces=partial(_pieces, name, frames),
                        frame_bytes=0
                        if method.is_grid
                        else gradient_bytes(subject.agent, subject.agent.observation_shape, len(outputs)),
                        held_bytes=3 * BATCH_BYTES if method.is_grid else 0,
                        memory_hint=MEMORY_HINT,
                    )

    def sections(self, subject: Subject, options: SaliencyOptions, results: Results) -> Iterable[SaliencySection]:
        if options.methods:
            methods = [method_entry(subject, name, results) for name in dict.fromkeys(options.methods)]
            yield SaliencySection(options.every, methods)

    def notes(self, options: SaliencyOptions) -> Sequence[Note]:
        return [Note(f"Saliency: {METHODS.get(name).label}", _note(name)) for name in dict.fromkeys(options.methods)]


def saliency_outputs(subject: Subject) -> dict[str, str]:
    """Return the labels of the outputs that have maps, by id of the output."""
    return output_labels(subject.info.kind == "action_values", subject.trajectories.values is not None)


def output_labels(has_action_values: bool, has_value: bool) -> dict[str, str]:
    """Return the labels of an agent's outputs that have maps, by id of the output."""
    if has_action_values:
        return {POLICY: "action values", "greedy": "best action value"}
    return {POLICY: "policy"} | ({"value": "value"} if has_value else {})


def frames_with_map(part: range, every: int) -> range:
    """Return the frames of a segment that have a map: those whose index is a multiple of `every`."""
    return range(-(-part.start // every) * every, part.stop, every)


def chunk_name(method: str, trajectory: int, segment: int) -> ChunkName:
    return ChunkName(f"{SaliencyAnalysis.kind}/{method}/{trajectory + 1}/maps-{segment + 1}.js")


def compute_maps(
    agent: Agent,
    method: str,
    observations: np.ndarray,
    outputs: Sequence[SaliencyOutput],
    state: State = None,
    *,
    batch: int | None = None,
    report: Report = lambda share: None,
) -> np.ndarray:
    """Return maps (S, B, gh, gw) float32 of S outputs for observations (B, H, W, C), at least 0 unless they are signed.

    Gradients are summed, as magnitudes, over the channels and over the pixels of each cell of the grid.

    Args:
        method: a name in `METHODS`
        state: state of a recurrent agent before the observations
        batch: number of observations that are explained at once; all by default
        report: a function that is called with the share of the observations that are explained
    """
    rows, columns = _grid(agent).shape
    maps = [np.zeros((len(outputs), 0, rows, columns), np.float32)]
    for part in slices(len(observations), batch or max(1, len(observations))):
        before = None if state is None else tuple(array[part] for array in state)
        maps.append(_cells(agent, METHODS.get(method), observations[part], outputs, before))
        report(part.stop / len(observations))
    return np.concatenate(maps, axis=1)


def _cells(
    agent: Agent, method: SaliencyMethod, observations: np.ndarray, outputs: Sequence[SaliencyOutput], state: State
) -> np.ndarray:
    """Return the maps (S, B, gh, gw) of a batch."""
    values = _array(method.values(agent, observations, outputs, state))
    if method.is_grid:
        return values
    height, width = agent.observation_shape[:2]
    rows, columns = _grid(agent).shape
    pixels = np.abs(values).sum(axis=-1)  # (S, B, H, W)
    areas = [area_weights(size, count) * size / count for size, count in ((height, rows), (width, columns))]
    return np.asarray(np.einsum("ih,sbhw,jw->sbij", areas[0], pixels, areas[1], optimize=True), np.float32)


def pixel_maps(agent: Agent, method: SaliencyMethod, values: np.ndarray | Attribution) -> np.ndarray:
    """Return magnitudes (S, B, H, W) at each pixel of the observations, from the result of `method.values`.

    Maps on a grid, or on a layer's positions, are interpolated bilinearly.
    """
    maps = _array(values)
    if method.is_grid:
        return np.abs(_grid(agent).upsample(maps))
    maps = np.abs(maps).sum(axis=-1)
    height, width = agent.observation_shape[:2]
    if maps.shape[2:] == (height, width):
        return maps
    size, bilinear = (width, height), PIL.Image.Resampling.BILINEAR
    resized = [PIL.Image.fromarray(np.float32(one)).resize(size, bilinear) for one in maps.reshape(-1, *maps.shape[2:])]
    return np.stack([np.asarray(one) for one in resized]).reshape(*maps.shape[:2], height, width)


def _array(values: np.ndarray | Attribution) -> np.ndarray:
    return values.values if isinstance(values, Attribution) else values


def grid_centers(agent: Agent, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the cells' centers, as shares of an observation's height (gh,) and width (gw,).

    The cells of a perturbation grid lie around the pixels of its centers; other methods divide the observation evenly.
    """
    grid = _grid(agent)
    rows, columns = (
        (np.arange(count) * grid.stride + 0.5) / size
        if METHODS.get(method).is_grid
        else (np.arange(count) + 0.5) / count
        for count, size in zip(grid.shape, agent.observation_shape, strict=False)
    )
    return rows, columns


def _grid(agent: Agent) -> PerturbationGrid:
    return PerturbationGrid.for_shape(*agent.observation_shape[:2])


def write_maps(subject: Subject, method: str, trajectory: int, segment: int, work: Work) -> TaskResult:
    """Write the maps of a segment of a trajectory. Return, by output, the largest magnitude of each map, and the total
    saliency summed over the maps.
    """
    part = segments(subject.trajectories.steps(trajectory))[segment]
    options = subject.options_of(SaliencyOptions)
    frames = np.array(frames_with_map(part, options.every), int)
    outputs = list(saliency_outputs(subject))
    values = np.zeros((len(outputs), len(frames), *_grid(subject.agent).shape), np.float32)
    for rows, agent in subject.agents(frames):
        observations = np.asarray(subject.trajectories.observations[trajectory, frames[rows]])
        state = subject.states(trajectory, frames[rows])
        report = partial(_report_part, work.report, rows, len(frames))
        values[:, rows] = compute_maps(agent, method, observations, outputs, state, batch=work.frames, report=report)
    name = chunk_name(method, trajectory, segment)
    maps = dict(zip(outputs, values, strict=True))
    subject.files.write_chunk(name, map_arrays(frames, maps, signed=METHODS.get(method).signed))
    totals = {output: float(map_totals(own).sum(dtype=np.float64)) for output, own in maps.items()}
    return TaskResult({"peaks": map_peaks(maps), "totals": totals}, [name])


def _report_part(report: Report, rows: np.ndarray, count: int, share: float) -> None:
    """Report progress on `count` observations, of which those before `rows` and a `share` of `rows` are explained."""
    report((rows[0] + share * len(rows)) / count)


def map_peaks(maps: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """Return the largest magnitude of each map (m, gh, gw), by output."""
    return {output: _peaks(values).tolist() for output, values in maps.items()}


def map_arrays(
    frames: np.ndarray, maps: dict[str, np.ndarray], *, signed: bool = False
) -> dict[str, np.ndarray | bytes]:
    """Return the arrays of a chunk of maps (m, gh, gw), by output, of some frames (m,); see docs/page-format.md.

    Raises ClarityError for maps that are not finite.
    """
    arrays: dict[str, np.ndarray | bytes] = {"steps": frames.astype(np.int32)}
    for output, values in maps.items():
        scales = _peaks(values)
        if not np.isfinite(scales).all():
            frame = frames[~np.isfinite(scales)][0]
            raise ClarityError(f"the saliency of frame {frame} is not finite; check the agent's parameters for NaN")
        divisors = np.where(scales > 0, scales, np.inf)[:, None, None]
        levels, dtype = (SIGNED_LEVELS, np.int8) if signed else (LEVELS, np.uint8)
        arrays[f"codes.{output}"] = np.rint(values / divisors * levels).astype(dtype)
        arrays[f"scales.{output}"] = scales
        arrays[f"totals.{output}"] = map_totals(values)
    return arrays


def map_totals(maps: np.ndarray) -> np.ndarray:
    """Return the total saliency (m,) float32 of maps (m, gh, gw): the sum of their magnitudes."""
    totals: np.ndarray = np.abs(maps).sum(axis=(1, 2)).astype(np.float32)
    return totals


def mean_totals(results: Results) -> dict[str, dict[str, float]]:
    """Return the mean total saliency of the maps of an episode, by method and output, from the facts of its tasks."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for task, facts in results.items():
        kind, method, *_ = task.split("/")
        if kind == SaliencyAnalysis.kind and "totals" in facts:
            found.setdefault(method, []).append(facts)
    return {
        method: {
            output: sum(one["totals"][output] for one in parts) / sum(len(one["peaks"][output]) for one in parts)
            for output in parts[0]["totals"]
            if any(one["peaks"][output] for one in parts)
        }
        for method, parts in found.items()
    }


def _peaks(maps: np.ndarray) -> np.ndarray:
    """Return the largest magnitude (m,) float32 of each map, or 0 for a constant map, which has no information."""
    low, high = maps.min(axis=(1, 2)), maps.max(axis=(1, 2))
    return np.where(low == high, 0, np.maximum(-low, high)).astype(np.float32)


def method_entry(subject: Subject, name: str, results: Results) -> MethodEntry:
    """Return the section's entry for a method, with the scales of the finished maps."""
    played = subject.trajectories
    count = len(played)
    parts = [range(len(segments(played.steps(trajectory)))) for trajectory in range(count)]
    outputs = saliency_outputs(subject)
    peaks: dict[str, list[list[float]]] = {output: [[] for _ in range(count)] for output in outputs}
    for trajectory in range(count):
        for segment in parts[trajectory]:
            facts = results.get(SaliencyAnalysis.task_name(name, trajectory + 1, segment + 1))
            for output, values in ({} if facts is None else facts["peaks"]).items():
                peaks[output][trajectory] += values
    return MethodEntry(
        **vars(describe_method(name, subject.agent, outputs, subject.info.observation.region)),
        maps=[[chunk_name(name, t, s) for s in parts[t]] for t in range(count)],
        scales={output: [max(one, default=0.0) for one in lists] for output, lists in peaks.items()},
        percentile={output: peak_percentile(lists) for output, lists in peaks.items()},
    )


def join_sections(
    episodes: Sequence[Sequence[tuple[SaliencySection, Results]]], agreement: str
) -> SaliencySection | None:
    """Join the sections of single episodes into one section, or return None if there are no maps.

    Args:
        episodes: for each episode, its sections with the facts of their tasks; empty for an episode without maps.
            Sections may have different methods
        agreement: see `SaliencySection`
    """
    found = [{one.name: (one, results) for data, results in own for one in data.methods} for own in episodes]
    firsts: dict[str, MethodEntry] = {}
    for own in found:
        firsts |= {name: method for name, (method, _) in own.items() if name not in firsts}
    joined = []
    for name, first in firsts.items():
        pairs = [own.get(name) for own in found]
        facts = [one for pair in pairs if pair for task, one in pair[1].items() if task.startswith(f"saliency/{name}/")]
        outputs = [output.id for output in first.outputs]
        joined.append(
            replace(
                first,
                maps=[pair[0].maps[0] if pair else () for pair in pairs],
                scales={
                    out: [pair[0].scales.get(out, [None])[0] if pair else None for pair in pairs] for out in outputs
                },
                percentile={out: peak_percentile([one["peaks"].get(out, []) for one in facts]) for out in outputs},
            )
        )
    every = min((data.every for own in episodes for data, _ in own), default=1)
    differences = [next((one for data, _ in own for one in data.differences), None) for own in episodes]
    return SaliencySection(every, joined, agreement, differences) if joined else None


def describe_method(
    name: str, agent: Agent, outputs: Mapping[str, str], region: FrameRegion | None = None
) -> MethodDescription:
    """Return the description of a method for an agent. `region` is the part of a frame that the agent observes."""
    method = METHODS.get(name)
    rows, columns = grid_centers(agent, name)
    top, left, bottom, right = region or (0.0, 0.0, 1.0, 1.0)
    return MethodDescription(
        name,
        method.label,
        method.parameters,
        method.signed,
        [MapOutput(output, label) for output, label in outputs.items()],
        len(rows),
        len(columns),
        CellCenters((top + (bottom - top) * rows).tolist(), (left + (right - left) * columns).tolist()),
    )


def peak_percentile(lists: Sequence[Sequence[float]]) -> float:
    """Return the 99th percentile of the largest magnitudes of maps, or 0 without maps."""
    values = [value for one in lists for value in one]
    return float(np.percentile(values, PERCENTILE)) if values else 0.0


def _note(name: str) -> str:
    method = METHODS.get(name)
    parameters = ", ".join(f"{key} {value}" for key, value in method.parameters.items())
    return f"{method.text} {parameters and f'Parameters: {parameters}.'}".strip()


def _pieces(method: str, frames: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that computes the maps of a few frames. A segment has `frames` frames with maps."""
    seen, state = sample_frames(sample, min(batch, MEASURED_FRAMES))
    outputs = list(saliency_outputs(sample))

    def work() -> None:
        maps = compute_maps(sample.agent, method, seen, outputs, state)
        arrays = map_arrays(
            np.arange(len(seen)), dict(zip(outputs, maps, strict=True)), signed=METHODS.get(method).signed
        )
        sample.files.write_chunk("maps.js", arrays)

    yield Piece(work, frames / len(seen), partial(compute_maps, sample.agent, method, seen, outputs, state))
