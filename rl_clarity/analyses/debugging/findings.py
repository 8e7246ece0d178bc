"""The analysis `findings`: sentences that were tested, each with its evidence, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.debugging.failures import FailuresAnalysis, episodes_of, failures_of
from rl_clarity.analyses.debugging.goals import GoalsAnalysis, goals_of
from rl_clarity.base.keys import as_json, to_plain
from rl_clarity.base.parsing import NoOptions
from rl_clarity.debugging.findings import FAMILIES, Finding, Measured, Untested, make_findings
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Note, TableSection, columns_with_values

REPORT = "findings/findings.json"
COMMAND = "rl-clarity debug CHECKPOINT OUT"
"""The command that repeats a test, without the options that decide it."""
NOTE = Note(
    "Findings",
    "A finding is a sentence that was tested. Tests belong to families, each of which has one measure: "
    + "; ".join(f"{family}: {measure}" for family, measure in FAMILIES.items())
    + ". p-values are corrected within a family by Holm's method, intervals by Bonferroni's; families are not pooled. "
    "That there is no effect is a finding only where the corrected interval is inside the stated band. Everything else "
    "is listed as not found, with the effect that would have been found with a probability of 80 %.",
)


@dataclass(frozen=True)
class FindingsSection(TableSection):
    """What was found, by family; a row opens its evidence."""

    kind = "findings"
    title = "Findings"


@dataclass(frozen=True)
class NotFoundSection(TableSection):
    """What was not found, and what could not be tested."""

    kind = "not_found"
    title = "Neither found nor excluded"


_Sections: TypeAlias = FindingsSection | NotFoundSection


class FindingsAnalysis(Analysis[NoOptions, _Sections]):
    """Makes findings from what the analyses of failures and goals measured, and writes `findings/findings.json`."""

    kind = "findings"

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        yield self.task(
            subject,
            self.task_name("report"),
            partial(_write_report, subject),
            subject.options.seed,
            size=0.01,
            after=(FailuresAnalysis.task_name(""), GoalsAnalysis.task_name("")),
            pieces=lambda sample, batch: (),  # the task takes no time
        )

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[_Sections]:
        facts = results[self.task_name("report")]
        findings, untested = findings_of(facts)
        columns = {
            "statement": "finding",
            "family": "family",
            "suspicious": "suspicious",
            "effect": "effect",
            "interval": "corrected interval",
            "p": "corrected p",
            "n": "n",
            "command": "repeat",
        }
        caption = "Nothing was found." if not findings else "Each opens the frame in which it can be seen."
        rows = [_row(one) for one in findings]
        yield FindingsSection(columns_with_values(columns, rows), rows, caption=caption)
        others = {"family": "family", "subject": "subject", "reason": "why", "detectable": "effect that would be found"}
        missing = [asdict(one) for one in untested]
        complete = None if missing else "Every effect that was tested was found, or excluded."
        yield NotFoundSection(columns_with_values(others, missing), missing, caption=complete)

    def notes(self, options: NoOptions) -> Sequence[Note]:
        return [NOTE]


def findings_of(facts: Any) -> tuple[list[Finding], list[Untested]]:
    """Return the findings, and what was not found, from `findings/findings.json`."""
    return (
        [read(Finding, one, "finding") for one in facts["findings"]],
        [read(Untested, one, "untested") for one in facts["untested"]],
    )


def _row(one: Finding) -> dict[str, object]:
    low, high = one.interval
    values = {key: value for key, value in asdict(one).items() if key not in ("interval", "evidence", "measure")}
    values["suspicious"] = "yes" if one.suspicious else None
    return {**values, "interval": f"{low:.3g} to {high:.3g}", **one.evidence}


def _write_report(subject: Subject, work: Work) -> TaskResult:
    goals, seed = goals_of(work.results), subject.options.seed
    unknown = (
        {"goals": goals.unknown} if goals.unknown else {f"goals, {name}": why for name, why in goals.refused.items()}
    )
    measured = Measured(
        episodes_of(work.results),
        failures_of(work.results),
        goals.placements,
        goals.roles,
        goals.pairs,
        goals.sides,
        goals.memory,
        goals.moved,
        goals.value_noise,
        unknown,
    )
    command = COMMAND + (f" --seed {seed}" if seed else "")
    findings, untested = make_findings(measured, seed, command)
    report: Any = to_plain(
        {"findings": [asdict(one) for one in findings], "untested": [asdict(one) for one in untested]}, finite=True
    )
    subject.files.write_file(REPORT, (as_json(report) + "\n").encode())
    return TaskResult(report, [REPORT])
