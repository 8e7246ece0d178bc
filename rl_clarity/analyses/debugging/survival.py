"""The analysis `survival`: whether failures are survived more or less often without a feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.debugging.failures import FailuresAnalysis, continuations_piece, expected_failures, failures_of
from rl_clarity.analyses.given_components import read_components
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import FailureOptions
from rl_clarity.debugging.measures import LEAST_EPISODES
from rl_clarity.debugging.survival import (
    BEFORE_CHANCE,
    SurvivalOptions,
    compare_survival,
    continued_failures,
    measure_survival,
)
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.results import open_results
from rl_clarity.pages.sections import Note, TableSection, columns_with_values

UNEDITED = "unedited"
NOTE = Note(
    "Survival without a feature",
    f"Failures that could be avoided are continued by the policy from {BEFORE_CHANCE} steps before the last avoidable "
    "one, with the same random numbers: by the agent as it is, and by the agent without each feature of a layer. "
    "Shares that survive are compared by failure. Intervals and p-values are corrected for the number of features. "
    "Where no difference was found, the table has the one that would have been found with a probability of 80 %.",
)


@dataclass(frozen=True)
class SurvivalSection(TableSection):
    """How often failures are survived with and without each feature of a layer."""

    kind = "survival"
    title = "Survival without a feature"


class SurvivalAnalysis(Analysis[SurvivalOptions, SurvivalSection]):
    """Continues failures by the agent without each feature of a layer."""

    kind = "survival"

    def check(self, agent: Agent, options: SurvivalOptions, page: SubjectOptions) -> None:
        if options.features is None:
            return
        layer, components = _chosen(options)
        try:
            edit(agent, Ablate(layer, component=components))
        except OptionError as error:
            raise OptionError(f"survival.features={options.features!r} does not fit the agent: {error}") from None

    def tasks(self, subject: Subject, options: SurvivalOptions) -> Iterable[Task]:
        if options.features is None:
            return
        layer, components = _chosen(options)
        for number, component in enumerate([None, *components]):
            yield self.task(
                subject,
                self.task_name(UNEDITED if component is None else "without", number),
                partial(_measure, subject, options, layer, component),
                [
                    *(asdict(options), asdict(subject.options_of(FailureOptions)), subject.options.seed),
                    *(layer, None if component is None else component.tolist()),
                ],
                group=self.task_name(""),
                after=(FailuresAnalysis.task_name(""),),
                pieces=partial(_pieces, options, expected_failures(subject, subject.options_of(FailureOptions))),
            )

    def sections(self, subject: Subject, options: SurvivalOptions, results: Results) -> Iterable[SurvivalSection]:
        if options.features is None:
            return
        layer, components = _chosen(options)
        failures = continued_failures(failures_of(results))
        ablated = [results[self.task_name("without", number)]["survived"] for number in range(1, len(components) + 1)]
        unedited = results[self.task_name(UNEDITED, 0)]["survived"]
        rows = compare_survival(np.asarray(unedited), np.asarray(ablated), subject.options.seed)
        names = open_results(options.features).feature_names(layer) if Path(options.features).is_dir() else {}
        columns = {
            "feature": "feature",
            "name": "name",
            "verdict": "without it, the policy",
            "unedited": "survives",
            "ablated": "survives without it",
            "difference": "difference",
            "interval": "corrected interval",
            "p": "corrected p",
            "detectable": "difference that would be found",
        }
        caption = f"Layer {layer}, {len(failures)} failures that could be avoided, {options.continuations} times each."
        if not rows:
            caption += (
                f" At least {LEAST_EPISODES} are needed to compare anything: play more, or examine more failures."
            )
        shown = [
            {
                "feature": row.feature,
                "name": names.get(row.feature),
                "verdict": row.verdict,
                **{key: round(getattr(row, key), 3) for key in ("unedited", "ablated", "difference")},
                "detectable": round(row.detectable, 3) or None,  # without any spread it is not known
                "interval": f"{row.interval[0]:.2f} to {row.interval[1]:.2f}",
                "p": row.p,
                "trajectory": failures[row.failure].trajectory,
                "frame": failures[row.failure].avoidable_until,
            }
            for row in rows
        ]
        yield SurvivalSection(columns_with_values(columns, shown), shown, caption=caption)

    def notes(self, options: SurvivalOptions) -> Sequence[Note]:
        return () if options.features is None else (NOTE,)


def _chosen(options: SurvivalOptions) -> tuple[str, np.ndarray]:
    """Return the layer and its components (K, c). Raises OptionError if they are not there, or not unambiguous."""
    arrays = read_components(options.features, "survival.features")
    layers = [name for name in arrays if options.layer in (None, name)]
    if len(layers) != 1:
        given = "" if options.layer is None else f" and survival.layer={options.layer!r}"
        raise OptionError(
            f"survival.features={options.features!r}{given}: choose one layer with survival.layer; there are features "
            f"of {', '.join(arrays) or 'no layer'}"
        )
    return layers[0], np.atleast_2d(np.asarray(arrays[layers[0]], np.float32))


def _pieces(options: SurvivalOptions, failures: float, sample: Subject, batch: int) -> Iterable[Piece]:
    """The continuations of one failure, of which a task takes those of all."""
    states = sample.trajectories.world_states
    if states is None:
        return
    with suppress(ClarityError), closing(Brancher(sample.agent, states.spec, 0)) as brancher:
        length = BEFORE_CHANCE + 1 + options.horizon
        yield continuations_piece(brancher, sample, options.continuations, length, failures)


def _measure(
    subject: Subject, options: SurvivalOptions, layer: str, component: np.ndarray | None, work: Work
) -> TaskResult:
    played, seed = subject.trajectories, subject.options.seed
    failures = continued_failures(failures_of(work.results))
    if not failures:
        return TaskResult({"survived": []})
    assert played.world_states is not None
    agent = None if component is None else edit(subject.agent, Ablate(layer, component=component))
    with closing(Brancher(subject.agent, played.world_states.spec, seed)) as brancher:
        survived = measure_survival(brancher, played, failures, options, agent, seed)
    return TaskResult({"survived": survived.tolist()})
