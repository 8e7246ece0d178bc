"""The analysis `findings`: statements that were tested, each with its evidence, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.chosen_baseline import measures_objects
from rl_clarity.analyses.debugging.failures import FailuresAnalysis, episodes_of, failures_of
from rl_clarity.analyses.debugging.goals import GoalsAnalysis, goals_of
from rl_clarity.analyses.objects.analysis import ObjectsAnalysis, read_removals, removal_facts
from rl_clarity.analyses.objects.summary import removed_types, value_noise
from rl_clarity.base.keys import as_json, to_plain
from rl_clarity.base.parsing import NoOptions
from rl_clarity.debugging.failures import failed_episodes
from rl_clarity.debugging.findings import (
    FAMILIES,
    REMOVAL_FAMILIES,
    Finding,
    Measured,
    RemovedType,
    Untested,
    make_findings,
)
from rl_clarity.debugging.measures import Clustered
from rl_clarity.environments import source_key
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Note, TableSection, columns_with_values

REPORT = "findings/findings.json"
TESTING = (FailuresAnalysis, GoalsAnalysis, ObjectsAnalysis)
"""Analyses from whose results findings are made."""
TYPES, EPISODES = 8, 16
"""Number of types of objects, and number of episodes with objects of each type, that the forecast assumes."""
NOTE = Note(
    "Findings",
    "A finding is a sentence that was tested. Tests belong to families, each of which has one measure, whose values "
    "are resampled by episode. p-values are corrected within a family by Holm's method, intervals by Bonferroni's; "
    "families are not pooled. The absence of an effect is a finding only if the corrected interval is inside the "
    "stated band. All other effects are listed as neither found nor excluded, with the size of an effect that would "
    "have been found with a probability of 80%. A finding is suspicious if it does not fit what the object does, such "
    "as no reaction to an object that ends episodes.",
)


@dataclass(frozen=True)
class FindingsSection(TableSection):
    """The findings, ordered by family of tests. A row opens the frame that shows its evidence."""

    kind = "findings"
    title = "Findings"


@dataclass(frozen=True)
class NotFoundSection(TableSection):
    """Effects that were neither found nor excluded, or that could not be tested."""

    kind = "not_found"
    title = "Neither found nor excluded"


_Sections: TypeAlias = FindingsSection | NotFoundSection


class FindingsAnalysis(Analysis[NoOptions, _Sections]):
    """Makes findings from what the other analyses of the page measured, and writes `findings/findings.json`."""

    kind = "findings"
    version = 2

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        kinds = [one.kind for one in (FailuresAnalysis, GoalsAnalysis) if one.kind in subject.analyses]
        if not kinds and not measures_objects(subject):
            return
        states = subject.trajectories.world_states
        decisive = subject.decisive(*(one.Options for one in TESTING))
        yield self.task(
            subject,
            self.task_name("report"),
            partial(_write_report, subject),
            [subject.options.seed, kinds, decisive, None if states is None else source_key(states.spec)],
            after=tuple(one.task_name("") for one in TESTING),
            pieces=_pieces,
        )

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[_Sections]:
        findings, untested = findings_of(results.get(self.task_name("report"), {"findings": (), "untested": ()}))
        if not findings and not untested:  # nothing was tested
            return
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
        measures = dict.fromkeys(f" {one.family.capitalize()}: {one.measure}." for one in findings)
        caption = "Nothing was found."
        if findings:
            caption = (
                "A row opens the frame with the largest effect, or an example. The tests are about means."
                f"{''.join(measures)}"
            )
        rows = [_row(one) for one in findings]
        yield FindingsSection(columns_with_values(columns, rows), rows, caption=caption)
        others = {"family": "family", "subject": "subject", "reason": "why", "detectable": "detectable effect"}
        missing = [asdict(one) for one in untested]
        complete = None if missing else "Every effect that was tested was either found or excluded."
        yield NotFoundSection(columns_with_values(others, missing), missing, caption=complete)

    def notes(self, options: NoOptions) -> Sequence[Note]:
        return [NOTE]


def findings_of(facts: Any) -> tuple[list[Finding], list[Untested]]:
    """Return the findings, and the effects that were not found, from the contents of `findings/findings.json`."""
    return (
        [read(Finding, one, "finding") for one in facts["findings"]],
        [read(Untested, one, "untested") for one in facts["untested"]],
    )


def _pieces(sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that tests one type of object, as if it were seen in a few episodes."""
    values = Clustered([0.0] * EPISODES, [1] * EPISODES)
    measured = Measured(EPISODES, removed=[RemovedType("", values, values)], value_noise=1.0)
    yield Piece(partial(make_findings, measured), TYPES)


def _row(one: Finding) -> dict[str, object]:
    low, high = one.interval
    values = {key: value for key, value in asdict(one).items() if key not in ("interval", "evidence", "measure")}
    values["suspicious"] = "yes" if one.suspicious else None
    return {**values, "interval": f"{low:.3g} to {high:.3g}", **one.evidence}


def _measured(subject: Subject, results: Results) -> Measured:
    """Return the measurements of the page's analyses from which findings are made."""
    goals, failures = goals_of(results), failures_of(results)
    unknown = (
        {"goals": goals.unknown} if goals.unknown else {f"goals, {name}": why for name, why in goals.refused.items()}
    )
    measured = Measured(
        episodes_of(results),
        failures,
        goals.placements,
        goals.roles,
        goals.pairs,
        goals.sides,
        goals.background,
        goals.memory,
        goals.moved,
        goals.value_noise,
        unknown,
    )
    if not _removes(subject):
        return measured
    facts, (single, _) = removal_facts(subject, results), read_removals(subject, results)
    return replace(
        measured,
        removed=removed_types(single),
        edit="removed" if all(one["exact"] for one in facts) else "painted over",
        causes={one.cause for one in failed_episodes(subject.trajectories)},
        value_noise=value_noise([one["values"] for one in facts])[1],
        families=FAMILIES if FailuresAnalysis.kind in subject.analyses else REMOVAL_FAMILIES,
    )


def _removes(subject: Subject) -> bool:
    """Return whether findings about objects come from removing objects, because the page does not place any."""
    return measures_objects(subject) and GoalsAnalysis.kind not in subject.analyses


def _write_report(subject: Subject, work: Work) -> TaskResult:
    seed = subject.options.seed
    seeded = f" --seed {seed}" if seed else ""
    command = f"rl-clarity {'run' if _removes(subject) else 'debug'} CHECKPOINT OUT{seeded}"
    findings, untested = make_findings(_measured(subject, work.results), seed, command)
    report: Any = to_plain(
        {"findings": [asdict(one) for one in findings], "untested": [asdict(one) for one in untested]}, finite=True
    )
    subject.files.write_file(REPORT, (as_json(report) + "\n").encode())
    return TaskResult(report, [REPORT])
