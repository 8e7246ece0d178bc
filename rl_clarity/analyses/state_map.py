"""The state map shows the recurrent state, or the activations of a layer, at each step as a point in the plane."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from rl_clarity.agents.held_inputs import split_held
from rl_clarity.agents.protocol import Agent, Site, State
from rl_clarity.agents.sites import feature_maps, find_site
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.layers import sample_frames
from rl_clarity.analyses.trajectories import compute_advantages
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import check_minimum
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work, slices
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.schema import as_dicts, read
from rl_clarity.pages.sections import Note, SectionData
from rl_clarity.recordings.samples import Trajectories
from rl_clarity.reduction.embedding import FITTED_ON, Method, embed, usable_perplexity

STATE = "state"
"""The source of a map of recurrent states. Other sources are names of layers."""
MOST_POINTS = 20_000
"""Largest number of steps that a map shows. If there are more, evenly spaced steps are chosen."""
MEASURED_POINTS = 500
"""Number of points that are embedded to measure the time."""
LABELS = {
    "value": "value",
    "action": "action",
    "time": "time in the episode",
    "episode": "episode",
    "reward": "reward",
    "return_to_come": "return-to-go",
    "advantage": "advantage",
    "training_step": "training step",
    "entropy": "entropy of the policy",
    "largest_log_probability": "largest log-probability",
    "return": "return of the episode",
    "rewarded": "rewarded episode",
    "length": "length of the episode",
    "share": "elapsed share of the episode",
    "end": "end of the episode",
    "cluster": "cluster",
    "behaviour": "behaviour",
    "strongest": "strongest component",
}
"""Values that can color points, with their labels, in order."""
INTEGERS = ("trajectory", "frame", "color.action", "color.end", "color.cluster", "color.behaviour", "color.strongest")
"""Arrays of a chunk that are integers."""


@dataclass(frozen=True)
class StateMapOptions:
    """Options of a map of recurrent states, or of activations of a layer."""

    show: bool = False
    """Show the steps of all trajectories as points in the plane, close together where the agent's state is similar."""
    layer: str | None = None
    """Layer whose activations are mapped (means over positions); by default the recurrent state, or the last dense
    layer before the policy."""
    methods: tuple[Method, ...] = ("tsne", "pca")
    """Embedding methods: `tsne`, `pca`, `umap`."""
    perplexity: float = 30
    """Perplexity of t-SNE, approximately the number of neighbors of a point."""

    def __post_init__(self) -> None:
        check_methods("methods", self.methods)
        check_minimum(self, 1, "perplexity")


def check_methods(name: str, methods: Sequence[str]) -> None:
    """Raise OptionError for methods that `embed` does not support."""
    for method in methods:
        if method not in get_args(Method):
            raise OptionError(f"{name}={method!r} is not one of {', '.join(get_args(Method))}")


@dataclass(frozen=True)
class MapEntry:
    """A map made by one embedding method."""

    source: str
    """`state` for the recurrent state, or the name of a layer."""
    label: str
    """Label of the source."""
    method: str
    """`tsne`, `pca` or `umap`."""
    chunk: ChunkName
    perplexity: float | None
    """Perplexity of t-SNE; null for other methods."""
    fitted_on: int
    """Number of points to which the map was fitted. The other points are placed among them."""


@dataclass(frozen=True)
class MapColor:
    """Values by which points can be colored."""

    key: str
    label: str
    kind: Literal["number", "category"]
    names: Sequence[str] | None = None
    """Names of a category's values 0, 1, ..."""


@dataclass(frozen=True)
class StateMapSection(SectionData):
    """Every step as a point in the plane, close to others where the agent's state is similar."""

    kind = "state_map"
    title = "State map"
    maps: Sequence[MapEntry]
    """A map for each method."""
    colors: Sequence[MapColor]


@dataclass(frozen=True)
class Source:
    """The source of a map's vectors: the recurrent state, or a layer."""

    name: str
    """`state`, or the name of a layer."""
    label: str
    site: Site | None = None

    def vectors(self, agent: Agent | None, observations: np.ndarray, state: State) -> np.ndarray:
        """Return vectors (B, D) float32 for B observations: the concatenated parts of the recurrent state, or the
        activations of the layer, averaged over positions.
        """
        if self.site is None:
            memory, _ = split_held(agent, state)
            return np.concatenate([np.reshape(part, (len(part), -1)) for part in memory], axis=1).astype(np.float32)
        assert agent is not None
        values = agent.activations(observations, self.site.name, state)  # (B, *shape)
        return np.asarray(values.mean(axis=(1, 2)) if values.ndim == 4 else values.reshape(len(values), -1), np.float32)


def find_source(agent: Agent | None, layer: str | None, observations: np.ndarray, state: State) -> Source:
    """Return the source of a map: the layer with the given name, or by default the recurrent state.

    For an agent without a recurrent state, the default is the last dense layer on which the policy's logits, or the
    action values, depend. If there is none, it is the last feature map. The dependencies are found with a few
    `observations` (B, H, W, C).

    Raises OptionError for an unknown layer, and for an agent that has neither a state nor layers.
    """
    if layer is None and split_held(agent, state)[0]:
        return Source(STATE, "recurrent state")
    assert agent is not None
    site = _last_dense(agent, observations, state) if layer is None else find_site(agent.sites, layer)
    name = layer or site.name
    return Source(name, f"layer {name}", site)


def _last_dense(agent: Agent, observations: np.ndarray, state: State) -> Site:
    outputs = {(1,), (agent.num_actions,)}
    for site in reversed(agent.sites):
        inner = len(site.shape) == 1 and site.kind not in ("input", "state", "head") and site.shape not in outputs
        if inner and np.any(agent.gradients(observations, site.name, [*range(agent.num_actions)], state=state)):
            return site
    maps = feature_maps(agent.sites)
    if not maps:
        raise OptionError("the agent has neither a recurrent state nor layers to map")
    return maps[-1]


def map_colors(played: Trajectories, advantages: np.ndarray | None, row: int = 0) -> dict[str, np.ndarray]:
    """Return named values (T,) by which the points of a trajectory can be colored.

    `row` is the index of the trajectory in `played`. `advantages` (T,) contains the advantages at its steps, if they
    are known.
    """
    rewards = np.asarray(played.rewards[row], np.float64)
    firsts = np.asarray(played.firsts[row], bool)
    steps = np.arange(len(rewards))
    starts = np.maximum.accumulate(np.where(firsts, steps, 0))
    remaining = np.cumsum(rewards[::-1])[::-1]  # sum from each step to the end of the trajectory
    later = np.append(np.flatnonzero(firsts), len(steps))
    ends = later[np.searchsorted(later, steps, side="right")]
    colors = {
        "time": steps - starts,
        "reward": rewards,
        "return_to_come": remaining - np.append(remaining, 0)[ends],
    }
    if advantages is not None:
        colors["advantage"] = advantages
    if played.values is not None:
        colors["value"] = np.asarray(played.values[row])
    elif played.q_values is not None:
        colors["value"] = np.asarray(played.q_values[row]).max(axis=-1)
    actions = np.asarray(played.actions[row])
    if actions.ndim == 1 and actions.dtype.kind in "iu":
        colors["action"] = actions
    return colors


def color_entries(keys: Iterable[str], names: Mapping[str, Sequence[str]]) -> list[MapColor]:
    """Return the section's entries for colors. Colors whose values have names are categories."""
    present = set(keys)
    return [
        MapColor(key, label, "category" if key in names else "number", names.get(key))
        for key, label in LABELS.items()
        if key in present
    ]


def map_arrays(positions: np.ndarray, colors: Mapping[str, np.ndarray], **places: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a chunk of points (n, 2), as in docs/page-format.md.

    `places` are additional arrays (n,) that identify the step of each point, such as `trajectory` and `frame`.
    """
    arrays = dict(zip("xy", positions.T, strict=True)) | places
    arrays |= {f"color.{key}": colors[key] for key in LABELS if key in colors}
    return {key: np.asarray(values, np.int32 if key in INTEGERS else np.float32) for key, values in arrays.items()}


def map_entry(source: Source, method: str, chunk: str, perplexity: float, fitted_on: int) -> MapEntry:
    """Return the section's entry for a map."""
    known = perplexity if method == "tsne" else None
    return MapEntry(source.name, source.label, method, ChunkName(chunk), known, fitted_on)


NOTE = Note(
    "Maps of states",
    "Read t-SNE with care (Wattenberg et al. 2016, “How to use t-SNE effectively”, distill.pub/2016/misread-tsne): it "
    "shows which steps are neighbors. The size of a group and its distance from others mean little; the "
    "perplexity decides how many neighbors count, and with a small one even noise forms groups. Compare with principal "
    "components before you trust a group.",
)


class StateMapAnalysis(Analysis[StateMapOptions, StateMapSection]):
    """Makes maps of the steps of all trajectories."""

    kind = "state_map"
    needs_all = False

    def check(self, agent: Agent, options: StateMapOptions, page: SubjectOptions) -> None:
        if options.show and options.layer is not None:
            find_site(agent.sites, options.layer)

    def tasks(self, subject: Subject, options: StateMapOptions) -> Iterable[Task]:
        if not options.show:
            return
        points = sum(len(steps) for steps in mapped_steps(subject.trajectories))
        yield self.task(
            subject,
            self.task_name("map"),
            partial(write_map, subject),
            [subject.decisive(StateMapOptions), subject.options.seed],
            size=50 * points,
            pieces=partial(_pieces, points),
        )

    def sections(self, subject: Subject, options: StateMapOptions, results: Results) -> Iterable[StateMapSection]:
        facts = results.get(self.task_name("map"))
        if facts is not None:
            yield read(StateMapSection, facts, self.kind)

    def notes(self, options: StateMapOptions) -> Sequence[Note]:
        return [NOTE]


def mapped_steps(played: Trajectories) -> list[range]:
    """Return the steps of each trajectory that the map shows."""
    lengths = [played.steps(one) for one in range(len(played))]
    every = math.ceil(sum(lengths) / MOST_POINTS)
    return [range(0, length, every) for length in lengths]


def write_map(subject: Subject, work: Work) -> TaskResult:
    """Write a chunk for each method. Return the contents of the section."""
    played, options = subject.trajectories, subject.options_of(StateMapOptions)
    steps = mapped_steps(played)
    source = find_source(subject.agent, options.layer, *sample_frames(subject, 4))
    vectors = []
    for trajectory, chosen in enumerate(steps):
        for part in slices(len(chosen), work.frames):
            frames = np.array(chosen[part])
            observations = np.asarray(played.observations[trajectory, frames])
            vectors.append(source.vectors(subject.agent, observations, subject.states(trajectory, frames)))
        work.report(0.5 * (trajectory + 1) / len(steps))
    points = np.concatenate(vectors)
    advantages = compute_advantages(subject)
    rows = [
        {key: values[chosen] for key, values in map_colors(played, advantages[t], t).items()} | {"episode": [t] * n}
        for t, chosen in enumerate(np.array(step) for step in steps)
        for n in [len(chosen)]
    ]
    colors = {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}
    places = {"trajectory": colors["episode"], "frame": np.concatenate([np.array(step) for step in steps])}
    fitted_on = min(len(points), FITTED_ON)
    perplexity = usable_perplexity(options.perplexity, fitted_on)
    maps = []
    for index, method in enumerate(dict.fromkeys(options.methods)):
        positions, _ = embed(points, method, perplexity=perplexity, seed=subject.options.seed)
        name = f"{StateMapAnalysis.kind}/{method}.js"
        subject.files.write_chunk(name, map_arrays(positions, colors, **places))
        maps.append(map_entry(source, method, name, perplexity, fitted_on))
        work.report(0.5 + 0.5 * (index + 1) / len(options.methods))
    names = {
        "action": [action.label for action in subject.info.actions],
        "episode": [f"trajectory {number}" for number in range(1, len(steps) + 1)],
    }
    facts = as_dicts(StateMapSection(maps, color_entries(colors, names)))
    return TaskResult(facts, [one.chunk for one in maps])


def _pieces(points: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that computes the vectors of a batch, and others that compute the maps."""
    options = sample.options_of(StateMapOptions)
    seen, state = sample_frames(sample, batch)
    source = find_source(sample.agent, options.layer, seen[:4], _head(state, 4))
    vectors = source.vectors(sample.agent, seen, state)
    yield Piece(partial(source.vectors, sample.agent, seen, state), points / len(seen))
    yield from map_pieces(points, vectors.shape[1], options.methods, options.perplexity)


def map_pieces(points: int, width: int, methods: Sequence[Method], perplexity: float) -> Iterable[Piece]:
    """Yield, for each method, a `Piece` that maps a few random points with `width` dimensions.

    The time is extrapolated to a map of `points` points, as if it were proportional to n log n.
    """
    count = min(points, MEASURED_POINTS)
    few = np.random.default_rng(0).normal(size=(count, width))
    usable = usable_perplexity(perplexity, count)
    fitted = min(points, FITTED_ON)
    growth = fitted * math.log(fitted + 1) / (count * math.log(count + 1))
    for method in methods:
        yield Piece(partial(embed, few, method, perplexity=usable), growth)


def _head(state: State, count: int) -> State:
    return None if state is None else tuple(part[:count] for part in state)
