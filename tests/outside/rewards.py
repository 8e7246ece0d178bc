"""An analysis with a panel of its own: entry point `rl_clarity.analyses: rewards = rewards:Rewards`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rl_clarity.analyses import Analysis, Subject
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.sections import SectionData

PANEL = """
rlClarity.panel("rewards", (element, { section }) => {
  element.textContent = `${section.data.unit}: ${section.data.total}`;
});
"""


@dataclass(frozen=True)
class RewardsOptions:
    unit: str = "points"
    """What rewards are called."""


@dataclass(frozen=True)
class RewardsSection(SectionData):
    kind = "rewards"
    title = "Rewards"
    module = PANEL
    total: float
    unit: str


class Rewards(Analysis[RewardsOptions, RewardsSection]):
    """The sum of all rewards."""

    kind = "rewards"
    single_episode = True

    def tasks(self, subject: Subject, options: RewardsOptions) -> Iterable[Task]:
        def run(work: Work) -> TaskResult:
            rows = range(len(subject.trajectories))
            return TaskResult({"total": float(sum(subject.trajectories.rewards[row].sum() for row in rows))})

        yield self.task(subject, self.task_name("sum"), run, pieces=lambda sample, batch: ())

    def sections(self, subject: Subject, options: RewardsOptions, results: Results) -> Iterable[RewardsSection]:
        yield RewardsSection(results[self.task_name("sum")]["total"], options.unit)
