"""A running job: its ranks, the lock on its output directory, and its log.

`run-log.json` records when, where and on how many ranks a page was made, and how long each stage and task took. It is
the only file that differs from run to run. The page does not contain it. Only the next run reads it, to append to it.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rl_clarity.base.errors import OutputError
from rl_clarity.base.keys import package_versions
from rl_clarity.base.progress import progress_bar
from rl_clarity.base.quiet import environment_variables
from rl_clarity.jobs.communicator import Communicator, communicator
from rl_clarity.jobs.directory import Directory
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.machine import Share, peak_memory, take_share
from rl_clarity.jobs.sentinel import Sentinel, watched
from rl_clarity.jobs.store import WorkStore, locked
from rl_clarity.jobs.tasks import Results, Task, run_tasks, waves

RUN_LOG = "run-log.json"
SECONDS_BETWEEN_WRITES = 10.0
"""Minimum time, in seconds, between two writes of the log while tasks finish."""


@dataclass(frozen=True)
class Team:
    """The ranks of a job."""

    ranks: Communicator
    sentinel: Sentinel | None
    context: ExitStack
    """An exit stack that is closed when the job ends."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which plans, samples and writes the page."""
        return self.ranks.rank == 0

    def doing(self, what: str) -> None:
        """Tell the sentinel what this rank is about to do. The sentinel reports this if the rank is killed."""
        if self.sentinel is not None:
            self.sentinel.doing(what)

    def share(self) -> Share:
        """Limit this rank to its share of the machine, and return the share. All ranks must call this together, before
        a framework is imported.
        """
        share = take_share(self.ranks)
        self.context.enter_context(environment_variables(share.variables))
        return share


@contextmanager
def team() -> Iterator[Team]:
    """Yield the team of all ranks. An error on one rank aborts the job on all ranks, because the others would wait
    forever.
    """
    ranks = communicator()
    with watched(ranks) as sentinel, ExitStack() as context:
        try:
            yield Team(ranks, sentinel, context)
        except BaseException as error:
            ranks.fail(error, "the job")
            raise


class Job:
    """A job in a locked output directory. Every rank records its tasks, and rank 0 writes the log."""

    def __init__(self, team: Team, directory: Directory) -> None:
        self.team = team
        self.update: Callable[[], None] = lambda: None
        """A function that is called after each task, and writes the results that are finished so far."""
        self._directory = directory
        self._start = self._written = time.perf_counter()
        self._tasks: list[dict[str, Any]] = []
        self._open = False
        hosts = team.ranks.gather(socket.gethostname())
        self._earlier = _earlier_runs(directory) if team.leads else []
        self._run: dict[str, Any] = {
            "started": _now(),
            "outcome": "running",
            "host": socket.gethostname(),
            "hosts": sorted(set(hosts)),
            "ranks": team.ranks.size,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "versions": package_versions(),
            "stages": {},
            "processor": {},  # seconds of processor time of each stage, of all ranks
            "peak_memory_mb": {},  # facts of this rank until the end of the stage
            "tasks": [],
        }

    def note(self, **facts: Any) -> None:
        """Add facts to the log."""
        self._run.update(facts)

    def begin(self) -> None:
        """Start writing the log. A run that fails before this leaves no files."""
        self._open = True
        self._write()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Log the block as a stage of the job. All ranks must enter it together."""
        self.team.doing(name)
        start, used = time.perf_counter(), time.process_time()
        yield
        ranks = self.team.ranks
        for tasks in ranks.gather(self._tasks):
            self._run["tasks"] += tasks
        self._tasks = []
        self._run["stages"][name] = round(time.perf_counter() - start, 3)
        self._run["processor"][name] = round(sum(ranks.gather(time.process_time() - used)), 3)
        self._run["peak_memory_mb"][name] = round(max(ranks.gather(peak_memory()), default=0) / 1e6)
        self._write()

    def run(self, tasks: Sequence[Task], store: WorkStore, memory: int) -> Results:
        """Run all tasks in an order that respects their dependencies, and return the facts of each task by its name."""
        results: dict[str, Any] = {}
        for wave in waves(tasks):
            name = " and ".join(dict.fromkeys(task.stage for task in wave))
            with self.stage(name), progress_bar(name.capitalize(), shown=self.team.leads) as report:
                options: dict[str, Any] = {"started": self.team.doing, "finished": self._finished}
                results |= run_tasks(wave, store, self.team.ranks, report, memory=memory, results=results, **options)
            self.update()
        return results

    def close(self, outcome: str) -> None:
        """Log how the run ended, if the directory can still be written."""
        self._run |= {"outcome": outcome, "ended": _now(), "seconds": round(time.perf_counter() - self._start, 3)}
        with suppress(OutputError):
            self._write()

    def _finished(self, name: str, seconds: float) -> None:
        self._tasks.append({"task": name, "rank": self.team.ranks.rank, "seconds": round(seconds, 3)})
        if time.perf_counter() - self._written > SECONDS_BETWEEN_WRITES:
            self._write()
        self.update()

    def _write(self) -> None:
        """Write the current log. The tasks of other ranks are included when their stage ends."""
        if self.team.leads and self._open:
            run = {**self._run, "tasks": [*self._run["tasks"], *self._tasks]}
            self._directory.write(RUN_LOG, (json.dumps({"runs": [*self._earlier, run]}, indent=1) + "\n").encode())
        self._written = time.perf_counter()


@contextmanager
def open_job(team: Team, directory: Directory, forecast: Forecast | None) -> Iterator[Job]:
    """Lock the directory, print and log the forecast, run the job, and log its outcome."""
    lock: Any = locked(directory.location) if team.leads else nullcontext()
    with lock:
        job = Job(team, directory)
        if forecast is not None:
            job.note(forecast=forecast.to_dict())
            print(forecast, file=sys.stderr, flush=True)
        try:
            yield job
        except BaseException as error:
            job.close(f"{type(error).__name__}: {error}")
            raise
        job.close("finished")


def _earlier_runs(directory: Directory) -> list[Any]:
    """Return the runs in the log, or an empty list if the log is missing or has an unknown format."""
    try:
        runs = json.loads(directory.read(RUN_LOG))["runs"]
        return runs if isinstance(runs, list) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
