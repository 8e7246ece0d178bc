"""Everything around the work of a job: who does it, who else may not, what is said and noted of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rl_clarity.jobs import Communicator, Sentinel, Share, communicator, locked, take_share, watched
from rl_clarity.stages.forecast import Forecast
from rl_clarity.stages.output import Output
from rl_clarity.stages.run_log import RunLog
from rl_clarity.stages.unfinished import UnfinishedPage


@dataclass(frozen=True)
class Team:
    """The ranks of a job, and what this one has of its machine."""

    ranks: Communicator
    sentinel: Sentinel | None

    @property
    def leads(self) -> bool:
        """Rank 0, which plans, plays and writes the page."""
        return self.ranks.rank == 0

    def doing(self, what: str) -> None:
        """What this rank begins now, in case it is killed at it."""
        if self.sentinel is not None:
            self.sentinel.doing(what)

    def share(self) -> Share:
        """Keep to this rank's share of its machine; before anything heavy is imported, by all together."""
        return take_share(self.ranks)


@contextmanager
def team() -> Iterator[Team]:
    """All ranks together: an error on one ends the job on all, as the others would wait for it for ever."""
    ranks = communicator()
    with watched(ranks) as sentinel:
        try:
            yield Team(ranks, sentinel)
        except BaseException as error:
            ranks.fail(error, "the job")
            raise


@dataclass
class Work:
    """A job at work in an output directory that is its own."""

    team: Team
    log: RunLog
    page: UnfinishedPage | None = None
    """Written as tasks end, by the rank that leads."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage of the job, entered by all ranks together."""
        self.team.doing(name)
        with self.log.stage(name):
            yield

    def begun(self, name: str) -> None:
        """Take note that this rank begins a task."""
        self.team.doing(name)

    def ended(self, name: str, seconds: float) -> None:
        """Take note that this rank has done a task."""
        self.log.task(name, seconds)
        if self.page is not None:
            self.page.update()


@contextmanager
def at_work(output: Output, team: Team, said: Forecast | None) -> Iterator[Work]:
    """The directory locked and the run logged, however it ends; `said` is shown first."""
    location = output.directory.location
    alone: Any = locked(location) if team.leads else nullcontext()
    with alone:
        log = RunLog(output.directory, team.ranks)
        if said is not None:
            log.note(forecast=said.to_dict())
            print(said, file=sys.stderr, flush=True)
        try:
            yield Work(team, log)
        except BaseException as error:
            log.close(f"{type(error).__name__}: {error}")
            raise
        log.close("finished")
