"""Forecast the time, the memory and the disk space of a job by measuring a small part of one task of each kind."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl_clarity.base.progress import Report, duration
from rl_clarity.jobs.directory import Checksum
from rl_clarity.jobs.machine import available_memory, peak_memory
from rl_clarity.jobs.store import WorkStore
from rl_clarity.jobs.tasks import BATCH_BYTES, BATCH_SHARE, Piece, Task

DOCUMENT_BYTES = 500_000
SECONDS_PER_TASK = 0.03
"""Time in seconds to write a task's entry in the store, which is synced to disk."""
SECONDS_OF_DOCUMENT = 1.0


@dataclass(frozen=True)
class Cost:
    """A cost: the time in seconds that one process takes, and the number of bytes that are written."""

    seconds: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """The estimated time, memory and disk space of a job. `run(..., dry_run=True)` returns it without running
    the job.
    """

    seconds: float
    """Wall-clock time, in seconds, of all ranks working together."""
    memory: int
    """Peak memory of each process during the job, in bytes."""
    memory_at_hand: int
    """Memory available to each process, in bytes."""
    output: int
    """Bytes that will be written to the output directory."""
    samples: int
    """Bytes of the samples that will be written."""
    tasks: int
    """Number of tasks that are still to be run."""
    tasks_done: int
    ranks: int
    stages: Mapping[str, float]
    """Seconds of each stage, summed over all ranks."""
    notes: tuple[str, ...] = ()
    """Remarks on the checkpoint, on the size of a single-file page, and on batches that are smaller because memory is
    short."""
    at_most: float = 0.0
    """Longest time in seconds if the time depends on intermediate results (`seconds` is then the shortest time), else
    0."""

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as JSON values."""
        return asdict(self)

    @classmethod
    def nothing_to_do(cls, ranks: int = 1) -> Forecast:
        """Return the forecast for a page that is already finished."""
        return cls(0.0, 0, 0, 0, 0, 0, 0, ranks, {})

    @classmethod
    def of_seconds(cls, stage: str, seconds: float) -> Forecast:
        """Return the forecast of a command that has a single stage and writes nothing."""
        memory = peak_memory()
        return cls(seconds, memory, available_memory(), 0, 0, 1, 0, 1, {stage: round(seconds, 3)})

    def __str__(self) -> str:
        if not self.seconds:
            return "There is nothing to do: the page is finished."
        done = "" if not self.tasks_done else f" ({self.tasks_done} of {self.tasks_done + self.tasks} tasks are done)"
        ranks, each = ("", "") if self.ranks == 1 else (f" on {self.ranks} ranks", " per rank")
        written = self.output + self.samples
        times = [duration(seconds) for seconds in (self.seconds, self.at_most) if seconds]
        parts = [f"{' to '.join(dict.fromkeys(times))}{ranks}", f"{_size(self.memory)} of memory{each}"]
        parts += [f"{_size(written)} of disk"] * bool(written)
        line = f"This will take about {', '.join(parts[:-1])} and {parts[-1]}{done}."
        return "\n".join([line, *self.notes])


class CountingDirectory:
    """A directory that discards what is written to it, but counts the bytes."""

    location = "memory"

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        self.bytes += len(data) if isinstance(data, bytes) else sum(map(len, data))

    def read(self, name: str) -> bytes:
        raise FileNotFoundError(name)

    def remove(self, name: str) -> None:
        pass

    def names(self) -> Set[str]:
        return frozenset()

    def sizes(self) -> Mapping[str, int]:
        return {}

    def links(self) -> Set[str]:
        return frozenset()

    def checksum(self, name: str) -> Checksum:
        raise FileNotFoundError(name)


def forecast(
    tasks: Sequence[Task],
    store: WorkStore,
    sample: Any,
    written: CountingDirectory,
    *,
    ranks: int,
    memory: int,
    playing: Cost = Cost(),
    single_file: bool = False,
    report: Report = lambda share: None,
) -> Forecast:
    """Measure the pieces of one task of each group, and add up the costs of the tasks that are still to be run.

    Args:
        tasks: all tasks of the job
        sample: a small example of what the job explains, which is passed to the tasks' `pieces`; they write to
            `written`
        ranks: number of ranks, which are processes
        memory: bytes of memory that each process may use
        playing: cost of collecting the samples, if they do not exist yet
        report: a function that is called with the share of the measurements that is done

    Raises ClarityError if there is not enough memory for one frame of a task.
    """
    peak = peak_memory()  # of what the process did before, such as training
    pending = [task for task in tasks if store.finished(task.name, task.key) is None]
    batches = {task.name: task.batch(memory) for task in tasks}
    rates: dict[str, Cost] = {}
    measured: dict[str, Cost] = {}
    groups: dict[str, Task] = {}
    for task in tasks:
        if task.pieces is not None:
            groups.setdefault(task.group or task.name, task)
    for number, (group, task) in enumerate(groups.items(), start=1):
        rates[group] = _measure(task, sample, batches[task.name], written, measured)
        report(number / len(groups))
    costs = {task.name: _cost(task, rates) for task in tasks}
    stages = {"playing": playing.seconds}
    for task in tasks:
        stages[task.stage] = stages.get(task.stage, 0.0) + (costs[task.name].seconds if task in pending else 0.0)
    stages["page"] = SECONDS_OF_DOCUMENT
    together = max((task.parallel for task in tasks), default=1) if ranks == 1 else 1
    held = sum(sorted(task.held_bytes for task in tasks)[-together:])
    batch = max((task.frame_bytes * batches[task.name] for task in tasks), default=0.0)
    waiting = _makespan([costs[task.name].seconds for task in pending], ranks)
    unmeasured = sorted({task.stage for task in pending if task.pieces is None})
    notes = [f"Not included: {stage}, which cannot be measured beforehand." for stage in unmeasured]
    if single_file:
        size = DOCUMENT_BYTES + sum(cost.bytes for cost in costs.values())
        notes.append(f"The page will be a single file of about {_size(size)}.")
    return Forecast(
        seconds=playing.seconds + SECONDS_OF_DOCUMENT + waiting,
        memory=max(peak_memory() if peak_memory() > peak else 0, _resident() + round(held + batch)),
        memory_at_hand=memory,
        output=round(DOCUMENT_BYTES + sum(costs[task.name].bytes for task in pending)),
        samples=round(playing.bytes),
        tasks=len(pending),
        tasks_done=len(tasks) - len(pending),
        ranks=ranks,
        stages={name: round(seconds, 3) for name, seconds in stages.items()},
        notes=(*notes, *_small_batches(tasks, batches)),
    )


def measure(pieces: Iterable[Piece]) -> float:
    """Measure pieces of some work, and return the estimated seconds that the whole work takes."""
    return sum(piece.times * _measure_piece(piece, CountingDirectory()).seconds for piece in pieces)


def _measure(task: Task, sample: Any, frames: int, written: CountingDirectory, measured: dict[str, Cost]) -> Cost:
    """Measure the pieces of a task, and return the cost of one unit of the task's size. `measured` contains the costs
    of named pieces that were measured before. The costs of other named pieces are measured and added to it.
    """
    assert task.pieces is not None
    seconds = size = 0.0
    for piece in task.pieces(sample, frames):
        cost = measured.get(piece.name) or _measure_piece(piece, written)
        if piece.name:
            measured[piece.name] = cost
        seconds += piece.times * cost.seconds
        size += piece.times * cost.bytes
    return Cost(seconds / task.size, size / task.size)


def _measure_piece(piece: Piece, written: CountingDirectory) -> Cost:
    if piece.warm_up is not None:
        piece.warm_up()
    before, start = written.bytes, time.perf_counter()
    piece.work()
    return Cost(time.perf_counter() - start, written.bytes - before)


def _cost(task: Task, rates: Mapping[str, Cost]) -> Cost:
    rate = rates.get(task.group or task.name, Cost())
    return Cost(rate.seconds * task.size + SECONDS_PER_TASK, rate.bytes * task.size + task.output_bytes)


def _makespan(seconds: Sequence[float], ranks: int) -> float:
    """Return the seconds until all tasks are done if each free rank takes the longest remaining task."""
    busy = [0.0] * ranks
    for one in sorted(seconds, reverse=True):
        busy[busy.index(min(busy))] += one
    return max(busy)


def _resident() -> int:
    """Return the bytes of memory that this process uses now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return peak_memory()


def _small_batches(tasks: Sequence[Task], batches: Mapping[str, int]) -> list[str]:
    """Return notes on tasks whose batches are smaller because memory is short. The last bits of their results may
    differ.
    """
    ample = 2 * int(BATCH_BYTES / BATCH_SHARE)
    smaller = {task.group or task.name: batches[task.name] for task in tasks if batches[task.name] < task.batch(ample)}
    return [
        f"{group} processes {frames} frames at a time, because memory is short; the last bits of its results may "
        "differ from those computed with more memory."
        for group, frames in smaller.items()
    ]


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"
