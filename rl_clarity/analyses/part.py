"""`Part`, the analyses of one subject on a page that may have several subjects, with their tasks and sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.base.keys import JsonObject
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.sections import Section, SectionData


@dataclass(frozen=True)
class Part:
    """Analyses of one subject. If the page has several agents, `folder` is the directory of the subject's files;
    otherwise it is empty.
    """

    subject: Subject
    analyses: Sequence[tuple[Analysis[Any, SectionData], Any]]
    folder: str = ""
    recording: str = ""

    def tasks(self) -> list[Task]:
        tasks = [task for analysis, options in self.analyses for task in analysis.tasks(self.subject, options)]
        return [self._in_folder(task) for task in tasks] if self.folder else tasks

    def sections(self, results: Results, *, complete: bool) -> list[Section]:
        """Return the sections, made from the facts of finished tasks. If the page is `complete`, all tasks are
        finished.
        """
        own = OwnResults(results, self.folder) if self.folder else results
        place = {"agent": self.subject.info.id, "recording": self.recording, "folder": self.folder}
        sections = []
        for analysis, options in self.analyses:
            if complete or not analysis.needs_all:
                notes = analysis.notes(options)
                for section in analysis.sections(self.subject, options, own):
                    sections.append(Section(analysis.checked(section), notes, **place))
                    notes = ()
        return sections

    def pending(self, results: Results) -> list[str]:
        """Return the titles of the sections that wait for unfinished tasks."""
        own = OwnResults(results, self.folder) if self.folder else results
        waiting = [
            analysis
            for analysis, options in self.analyses
            if analysis.needs_all and any(task.name not in own for task in analysis.tasks(self.subject, options))
        ]
        return [section.title for analysis in waiting for section in analysis.Sections]

    def _in_folder(self, task: Task) -> Task:
        def run(work: Work) -> TaskResult:
            result = task.run(replace(work, results=OwnResults(work.results, self.folder)))
            return replace(result, files=[f"{self.folder}/{name}" for name in result.files])

        after = tuple(_name_in(self.folder, name) for name in task.after)
        return replace(task, name=_name_in(self.folder, task.name), run=run, after=after)


class OwnResults(Mapping[str, JsonObject]):
    """The facts of one agent's tasks, by the names of the tasks without the agent's folder."""

    def __init__(self, results: Results, folder: str) -> None:
        self._results, self._folder = results, folder

    def __getitem__(self, name: str) -> JsonObject:
        return self._results[_name_in(self._folder, name)]

    def __iter__(self) -> Iterator[str]:
        for name in self._results:
            stage, _, rest = name.partition("/")
            folder, slash, rest = rest.partition("/")
            if folder == self._folder:
                yield f"{stage}{slash}{rest}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _name_in(folder: str, name: str) -> str:
    """Return a task's name on a page of several agents, such as `saliency/agent-2/1` for `saliency/1`."""
    stage, slash, rest = name.partition("/")
    return f"{stage}/{folder}{slash}{rest}"
