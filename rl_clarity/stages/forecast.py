"""What a job will take, said before it begins: time, memory, and bytes on disk."""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.jobs import WorkStore
from rl_clarity.jobs.memory import peak_memory
from rl_clarity.jobs.tasks import task_key
from rl_clarity.options import InterfaceOptions
from rl_clarity.pages.page_files import PageFiles
from rl_clarity.recordings.preview import Preview
from rl_clarity.stages.assembly import attribution_task, features_task, trajectory_task
from rl_clarity.stages.batches import SHARE, USUAL_BYTES, frames_at_once, gradient_bytes, held_scores
from rl_clarity.stages.features import FIT_POSITIONS
from rl_clarity.stages.output import Output, is_single_file
from rl_clarity.stages.plan import Plan, PlannedLayer, plan_page
from rl_clarity.stages.speeds import Cost, Speeds, measure
from rl_clarity.stages.spool import HELD_BYTES
from rl_clarity.stages.tasks import Explanation, attribution_tasks, first_tasks

DOCUMENT_BYTES = 500_000
CELL_BYTES = 4
"""Of a cell of a grid of dataset examples: index, opacity, both deflated."""
PER_TASK = 0.03
"""Seconds around a task: its entry, synced to disk."""
START = 1.0
"""Seconds of putting a page together, whatever its size."""


@dataclass(frozen=True)
class Forecast:
    """What a job will take; `run(..., dry_run=True)` returns it and does nothing else."""

    seconds: float
    """Of all ranks together at work."""
    memory: int
    """Bytes that each process takes at its peak."""
    memory_at_hand: int
    """Bytes that each process may take."""
    output: int
    """Bytes that will be written into the output directory."""
    samples: int
    """Bytes that the samples will take, where they are kept."""
    tasks: int
    """Of all tasks, those that are still to be done."""
    tasks_done: int
    ranks: int
    stages: Mapping[str, float]
    """Seconds of each kind of work, of all ranks added up."""
    notes: tuple[str, ...] = ()
    """How large a page of one file will be, and what memory at hand changes about the way it is done."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def nothing_to_do(cls, ranks: int = 1) -> Forecast:
        """The page is there."""
        return cls(0.0, 0, 0, 0, 0, 0, 0, ranks, {})

    def __str__(self) -> str:
        if not self.seconds:
            return "There is nothing to do: the page is there."
        left = "" if not self.tasks_done else f" ({self.tasks_done} of {self.tasks_done + self.tasks} tasks are done)"
        ranks = "" if self.ranks == 1 else f" on {self.ranks} ranks"
        each = "" if self.ranks == 1 else " a rank"
        lines = [
            f"This will take about {_time(self.seconds)}{ranks}, {_size(self.memory)} of memory{each} "
            f"and {_size(self.output + self.samples)} of disk{left}."
        ]
        return "\n".join([*lines, *self.notes])


def forecast(output: Output, agent: Agent, preview: Preview, ranks: int, memory: int) -> Forecast:
    """Measure a little and add it up, for what is still to be done in `output`; `memory` is a rank's, in bytes.

    Raises ClarityError where the job has no room in memory however finely it is cut.
    """
    plan = plan_page(agent, preview.trajectories, preview.observations, output.options, preview.metadata)
    files = PageFiles(output.data, plan.layout)
    job = Explanation(files, agent, plan, *preview.whole(), output.key, memory)
    tasks = [*first_tasks(job), *attribution_tasks(job)]
    store = WorkStore(output.data)
    left = [task.name for task in tasks if store.finished(task.name, task_key(task)) is None]
    speeds = measure(agent, plan, preview, plan.layout, memory)
    costs = _costs(plan, preview, speeds)
    pending = [costs[name] for name in left]
    page = _assembling(plan, preview, speeds)
    stages = {"playing": preview.seconds}
    for kind in ("features", "trajectory", "attribution"):
        stages[kind] = sum(costs[name].seconds for name in left if name.startswith(f"{kind}/"))
    stages["page"] = page.seconds
    alone = preview.seconds + page.seconds + START  # what rank 0 does while the others wait
    return Forecast(
        seconds=alone + _shared(pending, ranks),
        memory=_peak(agent, plan, preview, memory),
        memory_at_hand=memory,
        output=round(sum(cost.bytes for cost in pending) + page.bytes),
        samples=preview.sample_bytes,
        tasks=len(left),
        tasks_done=len(tasks) - len(left),
        ranks=ranks,
        stages={name: round(seconds, 3) for name, seconds in stages.items()},
        notes=(*_one_file(output.options, [*costs.values(), page]), *_notes(agent, plan, memory)),
    )


def _costs(plan: Plan, preview: Preview, speeds: Speeds) -> dict[str, Cost]:
    """Of each task."""
    costs, segment = {}, plan.layout.segment
    fitted = min(plan.options.nmf_fit_observations or preview.observation_count, preview.observation_count)
    for trajectory in range(preview.count):
        frame = speeds.frame
        costs[trajectory_task(trajectory)] = _cost(frame.seconds * preview.steps, frame.bytes * preview.steps)
    for layer in plan.layers:
        speed = speeds.layers[layer.name]
        seconds = speed.fitting.seconds * (fitted + min(128, preview.observation_count - fitted)) + speed.fit.seconds
        seconds += speed.examples.seconds * preview.observation_count
        seconds += speed.features.seconds
        costs[features_task(layer)] = _cost(seconds, 30_000 * layer.channels + speed.features.bytes)
        for trajectory in range(preview.count):
            odd = trajectory == 0 and preview.steps > segment and preview.steps % segment
            one = speed.gradients.seconds + len(plan.outputs) * (speed.written.seconds + speed.pictures.seconds)
            size = len(plan.outputs) * (speed.written.bytes + speed.pictures.bytes)
            costs[attribution_task(layer, trajectory)] = _cost(
                one * preview.steps + (speed.compiling.seconds if odd else 0), size * preview.steps
            )
    return costs


def _cost(seconds: float, size: float) -> Cost:
    return Cost(seconds + PER_TASK, size)


def _assembling(plan: Plan, preview: Preview, speeds: Speeds) -> Cost:
    """The atlas of observations, the grids, the document."""
    cells = sum(
        math.prod(layer.shape[:2]) * layer.channels * density**2
        for layer in plan.layers
        if not layer.is_input
        for density in plan.options.vis_subdiv_mults
    )
    shown = min(preview.observation_count, cells)
    frame = speeds.frame
    return Cost(shown * frame.seconds / 2, cells * CELL_BYTES + shown * frame.bytes / 2 + DOCUMENT_BYTES)


def _shared(pending: Sequence[Cost], ranks: int) -> float:
    """Seconds until ranks that each take the dearest task that is left have done them all."""
    busy = [0.0] * ranks
    for cost in sorted((cost.seconds for cost in pending), reverse=True):
        first = busy.index(min(busy))
        busy[first] += cost
    return max(busy)


def _peak(agent: Agent, plan: Plan, preview: Preview, memory: int) -> int:
    """What this process took for the measurement, or will take for its largest task on top of what it has now."""
    scores = held_scores(plan)
    largest = max(_held(agent, plan, layer, preview, scores, memory) for layer in plan.layers)
    return max(peak_memory(), _now() + largest)


def _held(agent: Agent, plan: Plan, layer: PlannedLayer, preview: Preview, scores: int, memory: int) -> int:
    """Bytes that are held at once for a task at a layer; larger results are on disk (see `spool`)."""
    positions = math.prod(layer.shape[:2])
    segment = 4 * plan.layout.segment * positions * (layer.channels + 1) * len(plan.outputs) * 2
    explaining = gradient_bytes(agent, layer, scores) * frames_at_once(agent, layer, scores, memory) + segment
    if layer.is_input:
        return explaining
    count = preview.observation_count
    fitted_on = min(plan.options.nmf_fit_observations or count, count)
    fitted = 2 * 4 * layer.shape[2] * min(FIT_POSITIONS, fitted_on * positions)
    channel = 4 * positions * count  # as it was computed, and padded
    finding = gradient_bytes(agent, layer, 1) * frames_at_once(agent, layer, 1, memory)
    return max(explaining, finding + fitted, min(HELD_BYTES, layer.channels * channel) + 2 * channel)


def _now() -> int:
    """Bytes that this process has in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return peak_memory()


def _one_file(options: InterfaceOptions, costs: Sequence[Cost]) -> tuple[str, ...]:
    """Says how large the document will be that holds everything."""
    if not is_single_file(options):
        return ()
    return (f"The page will be one file of about {_size(sum(cost.bytes for cost in costs))}.",)


def _notes(agent: Agent, plan: Plan, memory: int) -> tuple[str, ...]:
    """Says where memory forces smaller batches: mostly they give the same bits, but no library promises that."""
    scores, ample = held_scores(plan), 2 * int(USUAL_BYTES / SHARE)
    counts = {layer.name: frames_at_once(agent, layer, scores, memory) for layer in plan.layers}
    return tuple(
        f"Layer {layer.name} is explained {counts[layer.name]} frames at a time, as memory is short; the last bits of "
        "its numbers may differ from those that more memory gives."
        for layer in plan.layers
        if counts[layer.name] < frames_at_once(agent, layer, scores, ample)
    )


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"
