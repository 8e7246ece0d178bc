"""The section `states`: directions, clusters, behaviors, influence of earlier coordinates, and how far back memory
reaches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rl_clarity.agents.capabilities import has, initial_state
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions, require_single_choice
from rl_clarity.analyses.memory.sample import MEASURED_STATES, random_states, sample_states
from rl_clarity.analyses.memory.source import (
    FIT,
    FOLDER,
    MemorySource,
    direction_names,
    fitted_states,
    memory_source,
    places,
)
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import ChunkName, path_in
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import SectionData
from rl_clarity.reduction.directions import Directions, fitted_rows
from rl_clarity.states.analysis import StateAnalysis, combined_facts
from rl_clarity.states.cards import AUTOCORRELATION_LAGS, BEHAVIOR_LAGS
from rl_clarity.states.clusters import MOST_COMPONENTS
from rl_clarity.states.data import read_states
from rl_clarity.states.influence import memory_jacobians
from rl_clarity.states.options import StateOptions
from rl_clarity.states.parts import PARTS, FittedStates, Part, fit_states, removal_effects
from rl_clarity.world_models.gradients import simulated_influence

Arrays = dict[str, np.ndarray]
Written = tuple[Arrays, dict[str, object]]
"""The arrays of a chunk, and the facts of its task."""
MEASURED_STEPS, MEASURED_SAMPLES = 2, 16
"""Numbers of replayed steps, and of samples of influence, for measuring the time."""
SHOWN = ("cards", "behaviours", "causes", "memory")
"""Parts of the analysis that the section shows. The state map has its own section."""


@dataclass(frozen=True)
class DirectionEntry:
    """A direction in the space of the recurrent state."""

    name: str
    """`ICA 1`, ..."""
    scale: float
    """Standard deviation of the coordinate."""
    explained: float | None
    """Share of the variance that the direction explains; null except for `pca`."""
    seed_stability: float | None
    """Mean |cosine| of the angle to the matching direction of fits with different seeds; null if it was not
    measured."""
    half_stability: float | None
    """Mean |cosine| of the angle to the matching direction of fits to each half of the data; null if it was not
    measured."""
    kurtosis: float | None
    """Excess kurtosis of the coordinate; null if the coordinate is constant, or until it is measured."""
    rare: bool = False
    """Whether fewer than 2 % of the steps account for more than half of the coordinate's variance."""
    fits: Sequence[float] | None = None
    """The values of |cosine| whose means are the stabilities: for two fits with different seeds, then for fits to the
    two halves."""
    effect: float | None = None
    """How much the policy changes, in nats, when the coordinate is set to its mean: a mean over the replayed steps that
    follow; null if it was not measured."""
    effect_interval: tuple[float, float] | None = None
    """95 % bootstrap interval of `effect` over the replays."""


@dataclass(frozen=True)
class ClusterEntry:
    """The clusters of states that one method found."""

    method: str
    count: int
    sizes: Sequence[int]
    agreement: float | None
    """Mean adjusted Rand index with the clusters that different seeds give."""


@dataclass(frozen=True)
class BehaviorsEntry:
    """Behaviors, which are clusters of short windows of steps."""

    count: int
    agreement: float | None
    chunk: ChunkName


@dataclass(frozen=True)
class CausesEntry:
    """Correlation and influence between coordinates and later coordinates."""

    lags: Sequence[int]
    """The L lags, in steps."""
    clusters: Sequence[int]
    """Labels of the K clusters of steps, in the order of the arrays whose names end in `.by`."""
    chunk: ChunkName


@dataclass(frozen=True)
class RememberingEntry:
    """How the outputs change after the state is changed."""

    changes: Sequence[str]
    """Names of the C changes of the state: `reset`, `frozen`, `swapped`, `removed ICA 1`, ..."""
    chunk: ChunkName


@dataclass(frozen=True)
class StatesSection(SectionData):
    """The states of a recurrent agent, analyzed along D directions."""

    kind = "states"
    title = "States"
    method: str
    """`ica`, `pca`, `nmf`, `nmf_positive` or `units`."""
    directions: Sequence[DirectionEntry]
    autocorrelation_lags: Sequence[int]
    outputs: Sequence[str]
    """Labels of the columns of `readout`: the actions, and `value function` if there is one."""
    coordinates: Sequence[ChunkName]
    """A chunk for each trajectory."""
    clusters: Sequence[ClusterEntry]
    skipped: Mapping[str, str]
    """By part of the analysis (`causes`, ...), the reason why it was skipped."""
    behaviours: BehaviorsEntry | None
    causes: CausesEntry | None
    memory: RememberingEntry | None
    cards: ChunkName | None = None


class StatesAnalysis(Analysis[StateOptions, StatesSection]):
    """Analyzes the states of a recurrent agent."""

    kind = "states"
    needs_all = False

    def check(self, agent: Agent, options: StateOptions, page: SubjectOptions) -> None:
        require_single_choice(agent, "pages of memory")
        if initial_state(agent, 1) is None:
            raise OptionError("the agent has no recurrent state, but a page about memory requires a recurrent agent")

    def tasks(self, subject: Subject, options: StateOptions) -> Iterable[Task]:
        inputs = subject.decisive(StateOptions)
        steps = sum(subject.trajectories.steps(one) for one in range(len(subject.trajectories)))
        yield self.task(subject, FIT, partial(_fit, subject), inputs, size=steps, pieces=partial(_fit_pieces, steps))
        yield self.task(
            subject, f"{FOLDER}/coordinates", partial(_write_coordinates, subject), inputs, size=steps,
            after=(FIT, f"{FOLDER}/behaviours"),
            pieces=lambda sample, batch: (),  # the task only copies numbers
            output_bytes=4 * steps * (options.count + 2),
        )  # fmt: skip
        for name in SHOWN:
            yield self.task(
                subject, f"{FOLDER}/{name}", partial(_write_part, subject, name), inputs, size=steps, after=(FIT,),
                pieces=partial(_PIECES[name], steps),
            )  # fmt: skip

    def sections(self, subject: Subject, options: StateOptions, results: Results) -> Iterable[StatesSection]:
        fit = results.get(FIT)
        if fit is None:
            return
        parts = {name: results.get(f"{FOLDER}/{name}", {}) for name in ("coordinates", *SHOWN)}
        shown = {name: parts[name].get("section") for name in ("behaviours", "causes", "memory")}
        kurtosis = parts["cards"].get("kurtosis") or [None] * len(fit["directions"])
        effects = parts["memory"].get("effects") or [{}] * len(fit["directions"])
        data = {
            "method": options.method,
            "directions": [
                {**direction, "kurtosis": value, **effect}
                for direction, value, effect in zip(fit["directions"], kurtosis, effects, strict=True)
            ],
            "autocorrelation_lags": AUTOCORRELATION_LAGS,
            "outputs": [action.label for action in subject.info.actions] + ["value function"] * fit["has_value"],
            "coordinates": parts["coordinates"].get("chunks", ()),
            "clusters": fit["clusters"],
            "skipped": {key: text for part in parts.values() for key, text in part.get("skipped", {}).items()},
            "cards": parts["cards"].get("chunk"),
            **{name: one and {**one, "chunk": parts[name]["chunk"]} for name, one in shown.items()},
        }
        yield read(StatesSection, data, self.kind)


def _fit(subject: Subject, work: Work) -> TaskResult:
    """Write directions, coordinates and clusters in the format of `StateAnalysis.save`.

    Returns the section's entries for directions and clusters.
    """
    fitted = fit_states(
        subject.agent, read_states(memory_source(subject).required_recording), subject.options_of(StateOptions)
    )
    directions, facts = fitted.directions, fitted.facts()
    facts["recording"] = facts["recording"].rstrip("/").rpartition("/")[2]  # independent of the recording's location
    analysis = StateAnalysis(directions, fitted.arrays(), combined_facts(facts, []))
    names = []
    for name, content in analysis.files().items():
        names.append(path_in(FOLDER, name))
        subject.files.write_file(names[-1], content)
    entries = [
        {
            "name": name,
            "scale": fitted.spread[i],
            "rare": directions.rare is not None and directions.rare[i],
            **{
                key: None if values is None else values[i]
                for key in ("explained", "seed_stability", "half_stability", "fits")
                for values in [getattr(directions, key)]
            },
        }
        for i, name in enumerate(direction_names(directions))
    ]
    has_value = any(site.name == "values" for site in subject.agent.sites)
    return TaskResult(
        to_plain({"directions": entries, "clusters": facts["clusters"], "has_value": has_value}, finite=True), names
    )


def _write_coordinates(subject: Subject, work: Work) -> TaskResult:
    """Write a chunk for each trajectory, with the coordinates, cluster and behavior of each step."""
    fitted = fitted_states(subject)
    centered = (fitted.coordinates - fitted.center).astype(np.float32)
    behavior = np.full(len(centered), -1, np.int32)
    facts = work.results[f"{FOLDER}/behaviours"]
    if facts.get("chunk"):
        arrays = subject.files.read_chunk(facts["chunk"])
        behavior[arrays["rows"]] = arrays["labels"]
    names = []
    ends = [*fitted.data.starts[1:], len(centered)]
    for number, (start, end) in enumerate(zip(fitted.data.starts, ends, strict=True), start=1):
        names.append(path_in(FOLDER, f"coordinates-{number}.js"))
        now = slice(start, end)
        arrays = {"coordinates": centered[now], "cluster": fitted.labels[now], "behaviour": behavior[now]}
        subject.files.write_chunk(names[-1], arrays)
    return TaskResult({"chunks": names}, names)


def _write_part(subject: Subject, name: str, work: Work) -> TaskResult:
    """Write the chunk of a part of the analysis.

    Returns the chunk's name, the section's entry for the part, and the reasons why anything was skipped.
    """
    fitted = fitted_states(subject)
    part = PARTS[name](fitted)
    arrays, facts = _WRITERS[name](fitted, part)
    if name == "causes" and arrays:
        arrays |= _influence_through_world(memory_source(subject), fitted, part.facts["lags"])
    skipped = dict(part.skipped)
    if not arrays:
        return TaskResult({"skipped": skipped})
    chunk = path_in(FOLDER, f"{name}.js")
    subject.files.write_chunk(chunk, {key: _as_stored(array) for key, array in arrays.items()})
    return TaskResult(to_plain({"chunk": chunk, "skipped": skipped, **facts}, finite=True), [chunk])


def _influence_through_world(source: MemorySource, fitted: FittedStates, lags: Sequence[int]) -> Arrays:
    """Return the influence through memory and world, or an empty dict without a simulator or a long enough episode."""
    options = fitted.options
    if source.simulator is None or fitted.data.length.max() < source.context + max(lags):
        return {}
    influence = simulated_influence(
        source.simulator, source.required_recording, fitted.directions, lags, context=source.context,
        samples=max(1, options.influence_samples), seed=options.seed,
    )  # fmt: skip
    return {"influence.world": influence}


def _cards(fitted: FittedStates, part: Part) -> Written:
    arrays = _without_prefix("card", part.arrays)
    arrays["edges"] = arrays["edges"] - fitted.center[:, None]
    for end in ("top", "middle", "bottom"):
        arrays[end] = places(fitted, arrays[end])
    return arrays, {"kurtosis": arrays.pop("kurtosis")}


def _behaviors(fitted: FittedStates, part: Part) -> Written:
    arrays = _without_prefix("behaviour", part.arrays)
    if "clips" not in arrays:
        return {}, {}
    arrays["clips"] = places(fitted, arrays["clips"])
    arrays["components"] = arrays["components"] - fitted.center
    arrays["sizes"] = np.bincount(arrays["labels"], minlength=len(arrays["clips"]))
    return arrays, {"section": part.facts["behaviours"]}


def _causes(fitted: FittedStates, part: Part) -> Written:
    if not part.arrays:
        return {}, {}
    arrays = {key: array for key, array in part.arrays.items() if key != "correlation.labels"}
    return arrays, {"section": {"lags": part.facts["lags"], "clusters": part.arrays["correlation.labels"]}}


def _memory(fitted: FittedStates, part: Part) -> Written:
    arrays = _without_prefix("replay", part.arrays)
    if not arrays:
        return {}, {}
    names = dict(zip(fitted.directions.names, direction_names(fitted.directions), strict=True))
    changes = []
    for change in map(str, arrays.pop("changes")):
        kind, space, name = change.partition(" ")
        changes.append(f"{kind}{space}{names.get(name, name)}")
    facts: dict[str, object] = {"section": {"changes": changes}}
    effects = removal_effects(fitted.directions, part.arrays)
    if effects is not None:
        facts["effects"] = [{"effect": mean, "effect_interval": (low, high)} for mean, low, high in effects]
    return arrays, facts


_WRITERS: Mapping[str, Callable[[FittedStates, Part], Written]] = {
    "cards": _cards,
    "behaviours": _behaviors,
    "causes": _causes,
    "memory": _memory,
}


def _without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {name.removeprefix(f"{prefix}."): array for name, array in arrays.items()}


def _as_stored(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)


# --- forecast --------------------------------------------------------------------------------------------------------


def _fit_pieces(steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    fitted, few = (random_states(sample, min(steps, count)).data for count in (MEASURED_STATES, 1))
    fit = partial(fit_states, sample.agent, options=sample.options_of(StateOptions))
    times = fitted_rows(steps, fitted.states.shape[1]) / len(fitted)
    yield Piece(partial(fit, fitted), times, partial(fit, few))


def _cards_pieces(steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    cards = partial(PARTS["cards"], sample_states(sample))
    yield Piece(cards, 1, cards)


def _behaviors_pieces(steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    fitted = random_states(sample, min(steps, MEASURED_STATES))
    count, units = fitted.data.states.shape
    vectors = np.zeros((count, (1 + len(BEHAVIOR_LAGS)) * units), np.float32)
    used = fitted_rows(steps, vectors.shape[1])
    yield Piece(partial(PARTS["behaviours"], fitted), used / count)
    if used < steps:  # the others are only projected
        basis = np.eye(MOST_COMPONENTS, vectors.shape[1])
        directions = Directions(np.zeros(vectors.shape[1]), np.ones(vectors.shape[1]), basis)
        yield Piece(partial(directions.to, vectors), (steps - used) / count)


def _causes_pieces(steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield pieces for correlations, and for Jacobians over one step of a few samples, through memory and world."""
    fitted, source = sample_states(sample), memory_source(sample)
    options, samples = fitted.options, min(fitted.options.influence_samples, MEASURED_SAMPLES)
    correlation = dataclasses.replace(fitted, options=dataclasses.replace(options, influence_samples=0))
    yield Piece(partial(PARTS["causes"], correlation), 1)
    if fitted.differentiable_agent is None or not has(sample.agent, "state_gradients"):
        return
    if samples:
        times = max(options.lags) * options.influence_samples / samples
        memory = partial(memory_jacobians, sample.agent, fitted.data, fitted.directions.readout, (1,), samples=samples)
        yield Piece(memory, times, memory)
    if source.simulator is not None:
        times = max(options.lags) * max(1, options.influence_samples) / max(1, samples)
        world = partial(
            simulated_influence, source.simulator, fitted.data.recording, fitted.directions, (1,),
            context=source.context, samples=max(1, samples),
        )  # fmt: skip
        yield Piece(world, times, world)


def _memory_pieces(steps: int, sample: Subject, batch: int) -> Iterable[Piece]:
    fitted = sample_states(sample)
    options = fitted.options
    count = min(options.replay_steps, MEASURED_STEPS)
    short = dataclasses.replace(options, replay_steps=count)
    work, warm_up = (
        partial(PARTS["memory"], dataclasses.replace(fitted, options=one))
        for one in (short, dataclasses.replace(short, replay_directions=False))
    )
    if count:
        yield Piece(work, options.replay_steps / count, warm_up)


_PIECES: Mapping[str, Callable[[int, Subject, int], Iterable[Piece]]] = {
    "cards": _cards_pieces,
    "behaviours": _behaviors_pieces,
    "causes": _causes_pieces,
    "memory": _memory_pieces,
}
