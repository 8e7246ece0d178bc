"""The analysis `survival`: whether the agent survives failures more or less often without a feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Ablate
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.ablation import AblatedPlayer, AblationOptions, ablation_baseline
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.baselines import OBSERVED_BASELINES
from rl_clarity.analyses.debugging.failures import (
    FailuresAnalysis,
    continuations_piece,
    expected_failures,
    failure_name,
    failures_of,
)
from rl_clarity.analyses.feature_names import layer_feature_names
from rl_clarity.analyses.features import (
    FeatureOptions,
    FeaturesAnalysis,
    feature_layers,
    load_features,
    reduction_inputs,
)
from rl_clarity.analyses.given_components import read_components
from rl_clarity.analyses.layers import PageLayer, page_layers
from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.parsing import find_part
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import Failure, FailureOptions
from rl_clarity.debugging.measures import LEAST_EPISODES
from rl_clarity.debugging.survival import (
    BEFORE_CHANCE,
    SurvivalOptions,
    changed_survival,
    compare_survival,
    continued_failures,
    first_step,
    least_change,
    measure_survival,
)
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.results import open_results
from rl_clarity.pages.sections import Note, TableSection, columns_with_values

UNEDITED = "unedited"
NOTE = Note(
    "Survival without a feature",
    f"Failures that could be avoided are continued from {BEFORE_CHANCE} steps before the last at which they could be "
    "avoided, with the same random numbers: by the agent as it is, and by the agent without each feature of a layer. "
    "The feature is set to its value at the page's baseline at each step, as for the page's other numbers without a "
    "feature; features from a file are multiplied by 0. "
    "The shares of continuations that survive are compared by failure. Intervals and p-values are corrected for the "
    "number of features. Where no difference was found, the table has the difference that would have been found with "
    "a probability of 80%.",
)


@dataclass(frozen=True)
class SurvivalSection(TableSection):
    """How often the agent survives failures with and without each feature of a layer."""

    kind = "survival"
    title = "Survival without a feature"


@dataclass(frozen=True)
class FailureSurvivalSection(TableSection):
    """How often the agent survives each failure when one feature of a layer is ablated, for each feature."""

    kind = "failure_survival"
    title = "Each failure without a feature"


_Sections: TypeAlias = SurvivalSection | FailureSurvivalSection


class SurvivalAnalysis(Analysis[SurvivalOptions, _Sections]):
    """Continues failed episodes with the agent without each feature of a layer, and counts how many survive."""

    kind = "survival"
    version = 2

    def check(self, agent: Agent, options: SurvivalOptions, page: SubjectOptions) -> None:
        if options.features is None:
            if options.layer is not None and find_part(page, FeatureOptions) is None:
                raise OptionError(
                    f"survival.layer={options.layer!r} requires survival.features, because this page has no features"
                )
            if options.layer is not None:
                _page_layer(options, page_layers(agent, page))
            return
        layer, components = _chosen(options)
        try:
            edit(agent, Ablate(layer, component=components))
        except OptionError as error:
            raise OptionError(f"survival.features={options.features!r} does not fit the agent: {error}") from None

    def tasks(self, subject: Subject, options: SurvivalOptions) -> Iterable[Task]:
        if not options.removes_features:
            return
        chosen = (*subject.analysis_options, *vars(subject.options).values())
        if not any(isinstance(one, FailureOptions) for one in chosen):
            raise OptionError("the analysis survival continues failures; add the analysis failures, too")
        tested = _tested(subject, options, {})
        for number in range(tested.count + 1):
            yield self.task(
                subject,
                self.task_name("without", number) if number else self.task_name(UNEDITED, 0),
                partial(_measure, subject, options, number),
                [
                    *(asdict(options), asdict(subject.options_of(FailureOptions)), subject.options.seed),
                    *(tested.inputs(subject), number),
                ],
                group=self.task_name(""),
                after=(FailuresAnalysis.task_name(""), *tested.after),
                pieces=partial(_pieces, options, expected_failures(subject, subject.options_of(FailureOptions))),
            )

    def sections(self, subject: Subject, options: SurvivalOptions, results: Results) -> Iterable[_Sections]:
        if not options.removes_features:
            return
        tested = _tested(subject, options, results)
        failures = continued_failures(failures_of(results))
        ablated = [results[self.task_name("without", number)]["survived"] for number in range(1, tested.count + 1)]
        unedited = results[self.task_name(UNEDITED, 0)]["survived"]
        rows = compare_survival(np.asarray(unedited), np.asarray(ablated), subject.options.seed)
        names = tested.names(subject, options)
        columns = {
            "feature": "feature",
            "name": "name",
            "verdict": "without it, the policy",
            "unedited": "survives",
            "ablated": "survives without it",
            "difference": "difference",
            "interval": "corrected interval",
            "p": "corrected p",
            "detectable": "detectable difference",
        }
        caption = (
            f"Layer {tested.layer}, {len(failures)} failures that could be avoided, each continued "
            f"{options.continuations} times. {tested.removed}"
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
        if failures:
            yield _by_failure(tested, names, options, failures, np.asarray(unedited), np.asarray(ablated))
        if rows or not failures:
            yield SurvivalSection(columns_with_values(columns, shown), shown, caption=caption)

    def notes(self, options: SurvivalOptions) -> Sequence[Note]:
        return (NOTE,) if options.removes_features else ()


def _by_failure(
    tested: _Tested,
    names: Mapping[int, str | None],
    options: SurvivalOptions,
    failures: Sequence[Failure],
    unedited: np.ndarray,
    ablated: np.ndarray,
) -> FailureSurvivalSection:
    """Return the table of failures with the number of continuations that survive.

    `unedited` (n,) contains the share of continuations that survive each of n failures, `ablated` (K, n) the shares
    without each of K features.
    """
    count = options.continuations
    columns = {"failure": "failure", "unedited": "survives", "changes": "differs beyond chance"}
    columns |= {
        f"without.{number}": f"{number} {names.get(number) or ''}".rstrip() for number in range(1, tested.count + 1)
    }
    rows = []
    for index, one in enumerate(failures):
        own = round(unedited[index] * count)
        without = [round(share * count) for share in ablated[:, index]]
        changed = [f"{number}: {without[number - 1]}" for number in changed_survival(own, without, count)]
        rows.append(
            {
                "failure": failure_name(one),
                "unedited": own,
                "changes": ", ".join(changed) or "none",
                **{f"without.{number}": survivors for number, survivors in enumerate(without, start=1)},
                "trajectory": one.trajectory,
                "frame": first_step(one),
                "edit": "effects",  # with which What if opens
            }
        )
    least = least_change(count, tested.count)
    caption = (
        f"How many of {count} continuations survive from {BEFORE_CHANCE} steps before the last at which the failure "
        f"could be avoided: by the agent as it is, and without feature 1, 2, ... of layer {tested.layer}. "
        f"{tested.removed} A row opens the step from which the failure is continued. "
    )
    caption += (
        f"Only differences of about {least} of {count} would be found reliably."
        if least
        else "No difference could be found with so few continuations: increase survival.continuations."
    )
    if len(failures) < LEAST_EPISODES:
        caption += (
            f" Means over all failures are compared only if there are at least {LEAST_EPISODES} failures: play more "
            "episodes, or examine more failures."
        )
    return FailureSurvivalSection(columns_with_values(columns, rows), rows, caption=caption)


@dataclass(frozen=True)
class _Tested:
    """The features that are removed one by one, from a different page, a file, or a layer of this page."""

    layer: str
    count: int
    baseline: str
    """Name of the baseline that the features are set to. Features from a file are multiplied by 0."""
    components: np.ndarray | None = None  # (K, c) of a page or a file
    own: PageLayer | None = None

    @property
    def after(self) -> tuple[str, ...]:
        return () if self.own is None else (FeaturesAnalysis.task_name(self.own.name),)

    def inputs(self, subject: Subject) -> object:
        """Return the values that determine the components, for the cache keys of tasks."""
        if self.components is not None:
            return [self.layer, self.components.tolist()]
        return [self.layer, *reduction_inputs(subject), subject.decisive(AblationOptions)]

    def player(self, subject: Subject, number: int) -> AblatedPlayer:
        """Return a player that uses the agent without one feature. `number` counts the features from 1."""
        if self.own is None:
            assert self.components is not None
            return AblatedPlayer(subject.agent, self.layer, self.components[number - 1], self.baseline)
        features = load_features(subject.files, self.own)
        component, baseline = features.reduction.components[number - 1], features.baseline(self.baseline)
        return AblatedPlayer(subject.agent, self.own.full_name, component, baseline)

    @property
    def removed(self) -> str:
        """A sentence that says how a feature is removed."""
        if self.baseline == "zero-layer":
            return "A feature is removed by multiplying it by 0 at each step."
        return (
            f"A feature is removed by setting it to the page's baseline ({self.baseline}) at each step, as for the "
            "bars “lost without it” and in the panel “What if”."
        )

    def names(self, subject: Subject, options: SurvivalOptions) -> Mapping[int, str | None]:
        if self.own is not None:
            return dict(enumerate(layer_feature_names(subject.options_of(FeatureOptions), self.own), start=1))
        assert options.features is not None
        is_page = Path(options.features).is_dir()
        return {**open_results(options.features).feature_names(self.layer)} if is_page else {}


def _tested(subject: Subject, options: SurvivalOptions, results: Results) -> _Tested:
    if options.features is None:
        layer = _page_layer(options, feature_layers(subject))
        return _Tested(layer.name, layer.channels, ablation_baseline(subject, results), own=layer)
    name, components = _chosen(options)
    return _Tested(name, len(components), _page_baseline(options.features), components)


def _page_baseline(path: str) -> str:
    """Return the baseline of another page, or "zero-layer" for a file.

    A baseline that depends on other observations is also replaced by "zero-layer".
    """
    name = open_results(path).baseline if Path(path).is_dir() else "zero-layer"
    return "zero-layer" if name in OBSERVED_BASELINES else name


def _page_layer(options: SurvivalOptions, layers: Sequence[PageLayer]) -> PageLayer:
    """Return the layer that `survival.layer` names. Raises OptionError if the page has no such layer with features."""
    known = {layer.name: layer for layer in layers if not layer.is_input}
    found = next((one for one in known.values() if options.layer in (one.name, one.slug, one.full_name)), None)
    if found is None:
        raise OptionError(
            f"survival.layer={options.layer!r} is not a layer with features on this page; available: "
            f"{', '.join(known) or 'none'}"
        )
    return found


def _chosen(options: SurvivalOptions) -> tuple[str, np.ndarray]:
    """Return the name of the layer in `survival.features`, and the components (K, c) of its features.

    Raises OptionError if there is no such layer, or more than one.
    """
    arrays = read_components(options.features, "survival.features")
    layers = [name for name in arrays if options.layer in (None, name)]
    if len(layers) != 1:
        given = "" if options.layer is None else f" and survival.layer={options.layer!r}"
        raise OptionError(
            f"survival.features={options.features!r}{given} must select exactly one layer; set "
            f"survival.layer to a layer with features: {', '.join(arrays) or 'none'}"
        )
    return layers[0], np.atleast_2d(np.asarray(arrays[layers[0]], np.float32))


def _pieces(options: SurvivalOptions, failures: float, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that continues one episode. A task continues all `failures`."""
    states = sample.trajectories.world_states
    if states is None:
        return
    with suppress(ClarityError), closing(Brancher(sample.agent, states.spec, 0)) as brancher:
        length = BEFORE_CHANCE + 1 + options.horizon
        yield continuations_piece(brancher, sample, options.continuations, length, failures)


def _measure(subject: Subject, options: SurvivalOptions, number: int, work: Work) -> TaskResult:
    """Continue the failures with the agent without a feature, or with the unedited agent if `number` is 0."""
    played, seed = subject.trajectories, subject.options.seed
    failures = continued_failures(failures_of(work.results))
    if not failures:
        return TaskResult({"survived": []})
    assert played.world_states is not None
    agent = _tested(subject, options, work.results).player(subject, number) if number else None
    with closing(Brancher(subject.agent, played.world_states.spec, seed)) as brancher:
        survived = measure_survival(brancher, played, failures, options, agent, seed)
    return TaskResult({"survived": survived.tolist()})
