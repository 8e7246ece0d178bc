"""The tasks of a job. Each task is run once, by any rank that is free. Its time is forecast by measuring a small part
of its work.

A task declares how large it is (`size`, relative to other tasks of its `group`), how much memory a frame takes, and
what determines its result (`inputs`). Everything else is the same for all tasks: order, batches, resuming, forecast,
run log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.base.errors import ClarityError, describe_error
from rl_clarity.base.keys import cache_key
from rl_clarity.base.parallel import SharedProgress, StoppedError, run_in_threads
from rl_clarity.base.progress import Report
from rl_clarity.base.threads import thread_count
from rl_clarity.jobs.communicator import Communicator
from rl_clarity.jobs.store import WorkStore

MAX_FRAMES = 64
"""Largest number of frames in a batch; also the number of steps of a trajectory that are stored in one file."""
BATCH_BYTES = 2**27
"""Largest size of a batch in bytes. It does not depend on the available memory, so that machines with enough memory
compute the same batches."""
BATCH_SHARE = 0.4
"""Share of the available memory that a batch may take. Results of a whole segment are in memory at the same time."""

Results = Mapping[str, Mapping[str, Any]]
"""The facts that finished tasks returned, by the task's name."""


@dataclass(frozen=True)
class TaskResult:
    """The facts that a task returns (JSON values), and the files that it wrote, relative to the output directory."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Work:
    """The arguments of a running task."""

    frames: int
    """Number of frames to process at once."""
    report: Report
    """A function that is called with the share of the work that is done, from 0 to 1."""
    results: Results
    """Facts of the finished tasks on which this one depends."""
    threads: int = 1
    """Number of threads that the task should use. It is lower if other tasks run in parallel."""
    memory: int = 2**33
    """Bytes that the task may use."""


@dataclass(frozen=True)
class Piece:
    """A small part of a task's work, which is run to measure its time and the bytes that it writes. The whole task
    takes `times` as long, and writes `times` as much.
    """

    work: Callable[[], Any]
    times: float
    warm_up: Callable[[], Any] | None = None
    """A function that is called first and not measured, for imports and compilation."""
    name: str = ""
    """Pieces with the same name, including those of other tasks, do the same work, so only one of them is measured."""


@dataclass(frozen=True)
class Task:
    """A unit of work. Its result depends only on its inputs, and no other task writes its files."""

    name: str
    """Name such as `frames/1`. The component before the first `/` is the name of the stage."""
    run: Callable[[Work], TaskResult]
    inputs: Any
    """JSON value of everything that determines the result."""
    size: float = 1.0
    """Amount of work. Larger tasks start first, and the time of tasks in a group is proportional to it."""
    group: str = ""
    """Name of a group of tasks that do the same kind of work. One task of the group is measured. By default, each task
    is its own group."""
    after: tuple[str, ...] = ()
    """Prefixes of the names of tasks that must be finished before this one starts."""
    pieces: Callable[[Any, int], Iterable[Piece]] | None = None
    """A function that returns small parts of the work, from a sample (see `forecast`) and the number of frames to
    process at once. A task without this function is not measured for the forecast."""
    output_bytes: float = 0.0
    """Bytes that the task writes in addition to what its pieces write."""
    frame_bytes: float = 0.0
    """Memory in bytes that each frame in a batch takes."""
    held_bytes: float = 0.0
    """Memory in bytes that is needed in addition to a batch."""
    parallel: int = 1
    """Number of tasks like this that may run at the same time in a process. It is 1 for a task that changes its
    agent."""
    memory_hint: str = ""
    """Advice for the error message if there is not enough memory for a single frame."""

    @property
    def stage(self) -> str:
        return self.name.partition("/")[0]

    @property
    def key(self) -> str:
        """Hash of everything that determines the result."""
        return cache_key([self.name, self.inputs])

    def batch(self, memory: int) -> int:
        """Return the number of frames, a power of two, that can be processed at once in `memory` bytes.

        Raises ClarityError if there is not enough memory for a single frame.
        """
        if not self.frame_bytes:
            return MAX_FRAMES
        if self.frame_bytes > memory:
            hint = f": {self.memory_hint}" if self.memory_hint else ""
            raise ClarityError(
                f"one frame of {self.group or self.name} takes about {self.frame_bytes / 1e6:,.0f} MB of memory, "
                f"but only {memory / 1e6:,.0f} MB are available{hint}"
            )
        fitting = min(BATCH_BYTES, BATCH_SHARE * memory) / self.frame_bytes
        return min(MAX_FRAMES, 1 << max(0, int(fitting).bit_length() - 1))


def guarded(run: Callable[[Work], TaskResult], work: Work) -> TaskResult:
    """Run the work on one of several items. If it fails for any reason, return the fact `problem`, so that the work on
    other items continues.
    """
    try:
        return run(work)
    except StoppedError:
        raise
    except Exception as error:
        return TaskResult({"problem": describe_error(error)})


def slices(count: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of length `size` that cover `count` items. The last slice may be shorter."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def waves(tasks: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks in groups. The tasks in each group depend only on tasks in earlier groups. Raises ValueError for
    circular dependencies.
    """
    waiting, ordered = list(tasks), []
    while waiting:
        ready = [
            task
            for task in waiting
            if not any(other.name.startswith(task.after) for other in waiting if task.after and other is not task)
        ]
        if not ready:
            raise ValueError(f"tasks wait for one another: {', '.join(task.name for task in waiting)}")
        ordered.append(ready)
        waiting = [task for task in waiting if task not in ready]
    return ordered


def run_tasks(
    tasks: Sequence[Task],
    store: WorkStore,
    ranks: Communicator,
    report: Report = lambda share: None,
    *,
    memory: int = 2**33,
    results: Results | None = None,
    largest_first: bool = True,
    started: Callable[[str], None] = lambda name: None,
    finished: Callable[[str, float], None] = lambda name, seconds: None,
) -> dict[str, Mapping[str, Any]]:
    """Run tasks that do not depend on each other, and return the facts of each task by its name. Tasks that are already
    finished are not run again.

    All ranks must call it together. Files and facts do not depend on the number of ranks, or on which rank runs a task.
    With `largest_first`, larger tasks start first; otherwise tasks start in their order in the list. `started` and
    `finished` are called for the tasks that this rank runs, `finished` also with the seconds that the task took.

    A single rank runs tasks in parallel if they declare it (`parallel`), so that one task computes while another waits
    or writes. With several ranks, each rank runs one task at a time.
    """
    keys = {task.name: task.key for task in tasks}
    store.refresh()
    pending = ranks.broadcast([task.name for task in tasks if store.finished(task.name, keys[task.name]) is None])
    waiting = [task for task in tasks if task.name in set(pending)]
    if largest_first:
        waiting.sort(key=lambda task: -task.size)
    together = [task for task in waiting if task.parallel > 1] if ranks.size == 1 else []
    waiting = together + [task for task in waiting if task not in together]
    progress, lock = SharedProgress(report, [task.size for task in waiting]), threading.Lock()

    def run(index: int, threads: int) -> None:
        task = waiting[index]
        with lock:
            started(task.name)
        start = time.perf_counter()
        work = Work(task.batch(memory), progress.of(index), results or {}, threads, memory)
        _run(task, keys[task.name], work, store, ranks)
        with lock:
            finished(task.name, time.perf_counter() - start)

    threads = thread_count()
    if together:
        parallel = min(task.parallel for task in together)
        run_in_threads(lambda index: run(index, max(1, threads // parallel)), len(together), parallel, progress)
    with ranks.counter() as next_index:
        while (index := len(together) + next_index()) < len(waiting):
            run(index, threads)
    ranks.barrier()
    store.refresh()
    report(1.0)
    facts: dict[str, Mapping[str, Any]] = {}
    for task in tasks:
        entry = store.finished(task.name, keys[task.name])
        if entry is None:
            raise RuntimeError(f"task {task.name!r} has finished, but its files are missing")
        facts[task.name] = entry
    return facts


def _run(task: Task, key: str, work: Work, store: WorkStore, ranks: Communicator) -> None:
    try:
        work.report(0.0)
        store.withdraw(task.name)
        result = task.run(work)
        store.enter(task.name, key, result.facts, result.files)
        work.report(1.0)
    except StoppedError:
        raise
    except BaseException as error:
        ranks.fail(error, task.name)
        raise
