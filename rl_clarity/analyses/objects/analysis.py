"""The analysis `objects`: the effect of each object that the agent sees along its trajectories."""

from __future__ import annotations

from collections.abc import Iterable

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.analyses.objects.section import ObjectsSection
from rl_clarity.jobs.tasks import Results, Task


class ObjectsAnalysis(Analysis[ObjectsOptions, ObjectsSection]):
    """Removes the objects of some frames from the state of the environment, and measures what changes."""

    kind = "objects"

    def tasks(self, subject: Subject, options: ObjectsOptions) -> Iterable[Task]:
        return ()

    def sections(self, subject: Subject, options: ObjectsOptions, results: Results) -> Iterable[ObjectsSection]:
        return ()
