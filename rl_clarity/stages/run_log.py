"""`run-log.json`: when, where and on how many ranks a page was made, and what each stage and task took.

It is the one file of a page that differs from run to run: the page does not embed it, and nothing reads it back but
the next run, which adds itself.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from rl_clarity.errors import OutputError
from rl_clarity.jobs import Communicator
from rl_clarity.jobs.memory import peak_memory
from rl_clarity.pages.files import Directory
from rl_clarity.stages.provenance import versions

RUN_LOG = "run-log.json"
SECONDS_BETWEEN = 10.0
"""Between two writings of the log while tasks end."""


class RunLog:
    """The log of one run; every rank notes its tasks, rank 0 writes."""

    def __init__(self, directory: Directory, ranks: Communicator) -> None:
        self._directory, self._ranks = directory, ranks
        self._begun = time.perf_counter()
        self._written = self._begun
        self._mine: list[dict[str, Any]] = []
        self._open = False
        hosts = ranks.gather(socket.gethostname())
        self._earlier = _runs(directory) if ranks.rank == 0 else []
        self._run: dict[str, Any] = {
            "started": _now(),
            "outcome": "running",
            "host": socket.gethostname(),
            "hosts": sorted(set(hosts)),
            "ranks": ranks.size,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "versions": versions(),
            "stages": {},
            "peak_memory_mb": {},  # of a rank, up to the end of the stage
            "tasks": [],
        }

    def note(self, **facts: Any) -> None:
        """Facts about this run."""
        self._run.update(facts)

    def begin(self) -> None:
        """From now on the log is written: a run that fails before it writes anything leaves nothing."""
        self._open = True
        self.write()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note how long a stage takes, and which tasks all ranks did in it; entered by all together."""
        start = time.perf_counter()
        yield
        self._collect()
        self._run["stages"][name] = round(time.perf_counter() - start, 3)
        self._run["peak_memory_mb"][name] = round(max(self._ranks.gather(peak_memory()), default=0) / 1e6)
        self.write()

    def task(self, name: str, seconds: float) -> None:
        """Note a task that this rank has done."""
        self._mine.append({"task": name, "rank": self._ranks.rank, "seconds": round(seconds, 3)})
        if time.perf_counter() - self._written > SECONDS_BETWEEN:
            self.write()

    def close(self, outcome: str) -> None:
        """Note how the run ended, as far as the directory still takes it."""
        self._run |= {"outcome": outcome, "ended": _now(), "seconds": round(time.perf_counter() - self._begun, 3)}
        with suppress(OutputError):
            self.write()

    def write(self) -> None:
        """Write what is known so far; tasks of other ranks are known when their stage ends."""
        if self._ranks.rank == 0 and self._open:
            run = {**self._run, "tasks": [*self._run["tasks"], *self._mine]}
            self._directory.write(RUN_LOG, (json.dumps({"runs": [*self._earlier, run]}, indent=1) + "\n").encode())
        self._written = time.perf_counter()

    def _collect(self) -> None:
        for tasks in self._ranks.gather(self._mine):
            self._run["tasks"] += tasks
        self._mine = []


def _runs(directory: Directory) -> list[Any]:
    """Those that are in the log; none where it is not ours."""
    try:
        runs = json.loads(directory.read(RUN_LOG))["runs"]
        return runs if isinstance(runs, list) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
