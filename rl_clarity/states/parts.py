"""The parts of an analysis of states. Each depends on the directions and clusters, but not on other parts.

`analyze_states` computes all parts at once. A page computes each part in a separate task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rl_clarity.agents.capabilities import has
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError
from rl_clarity.base.keys import to_plain
from rl_clarity.reduction.directions import FEWEST_STATES, Directions, fit_directions
from rl_clarity.reduction.embedding import embed, usable_perplexity
from rl_clarity.states import cards
from rl_clarity.states.clusters import Clusters, find_clusters, principal_coordinates
from rl_clarity.states.correlation import consistency, correlation_intervals, lagged_correlation
from rl_clarity.states.data import StateData
from rl_clarity.states.influence import mean_jacobian, memory_jacobians
from rl_clarity.states.options import StateOptions
from rl_clarity.states.replay import replay

Arrays = dict[str, np.ndarray]
LONGEST = 256
"""Largest number of steps in a sequence for correlations over time. Longer episodes are split."""
PERPLEXITY = 30


@dataclass(frozen=True, eq=False)
class FittedStates:
    """The states of a recording, with their directions and clusters."""

    agent: Agent
    data: StateData
    directions: Directions
    clusters: Mapping[str, Clusters]
    """Clusters by the method that found them."""
    options: StateOptions

    @cached_property
    def coordinates(self) -> np.ndarray:
        """(n, D) float32 coordinates of the states."""
        return self.directions.to(self.data.states).astype(np.float32)

    @cached_property
    def points(self) -> np.ndarray:
        """(n, at most 16) coordinates of the states in the space of their principal components."""
        return principal_coordinates(self.data.states, self.options.seed, self.rows)

    @cached_property
    def rows(self) -> np.ndarray:
        """(m,) rows whose state has changed since the episode began. All statistics are computed from these rows."""
        return self.data.changed_rows

    @cached_property
    def center(self) -> np.ndarray:
        """(D,) mean coordinates at `rows`."""
        return np.asarray(self.coordinates[self.rows].mean(axis=0, dtype=np.float64))

    @cached_property
    def spread(self) -> np.ndarray:
        """(D,) standard deviations of the coordinates at `rows`."""
        return np.asarray(self.coordinates[self.rows].std(axis=0, dtype=np.float64))

    @property
    def labels(self) -> np.ndarray:
        """(n,) cluster of each state by the first clustering method."""
        return self.clusters[self.options.clustering[0]].labels

    @property
    def differentiable_agent(self) -> Agent | None:
        """The agent, or None if only a part of its state is analyzed, because gradients and replays need the whole
        state.
        """
        is_whole = self.options.part is None or len(self.agent.initial_state(1) or ()) == 1
        return self.agent if is_whole else None

    def arrays(self) -> Arrays:
        """Return the arrays `coordinates`, `episode`, `time` and `cluster.METHOD` of `StateAnalysis`."""
        arrays = {"coordinates": self.coordinates, "episode": self.data.episode, "time": self.data.time}
        return arrays | {f"cluster.{method}": cluster.labels for method, cluster in self.clusters.items()}

    def facts(self) -> dict[str, Any]:
        """Return the facts of an analysis about the recording, the options and the clusters, as JSON."""
        facts = {
            "recording": self.data.recording.location,
            "steps": len(self.data),
            "episodes": len(self.data.starts),
            "dropped": self.directions.dropped,
            "options": asdict(self.options),
            "clusters": [
                {
                    "method": method,
                    "count": cluster.count,
                    "sizes": cluster.sizes.tolist(),
                    "agreement": cluster.agreement,
                }
                for method, cluster in self.clusters.items()
            ],
            "autocorrelation_lags": list(cards.AUTOCORRELATION_LAGS),
        }
        return dict(to_plain(facts, finite=True))


@dataclass(frozen=True)
class Part:
    """The result of a part of the analysis: arrays by name, and facts."""

    arrays: Arrays = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Names of skipped analyses, with the reasons."""


def fit_states(agent: Agent, data: StateData, options: StateOptions) -> FittedStates:
    """Fit directions and clusters to states. Raises OptionError if the states are those of a different agent."""
    check_states(agent, data, options.part)
    rows = data.changed_rows
    states = data.states[rows]
    directions = fit_directions(
        states, options.method, options.count, options.seed, outliers=options.outliers, episodes=data.episode[rows]
    ).rare_last(states)
    points = principal_coordinates(data.states, options.seed, rows)
    clusters = {
        method: find_clusters(points, method, options.clusters, options.seed, rows=rows)  # type: ignore[arg-type]
        for method in options.clustering
    }
    return FittedStates(agent, data, directions, clusters, options)


def check_states(agent: Agent, data: StateData, part: int | None = None) -> None:
    """Raise OptionError for states whose sizes differ from the agent's, and for too few states."""
    sizes = tuple(int(np.prod(np.shape(one)[1:])) for one in agent.initial_state(1) or ())
    expected = sizes if part is None else sizes[part : part + 1]
    if data.parts != expected:
        raise OptionError(
            f"the states of {data.recording.location} have parts of the sizes {data.parts}, but those of the agent "
            f"have {expected}; this is a recording of a different agent"
        )
    if len(data) < FEWEST_STATES:
        raise OptionError(
            f"{data.recording.location} has {len(data)} steps; at least {FEWEST_STATES} are needed, and some "
            "hundreds for meaningful results; record longer or more episodes"
        )


def _cards(fitted: FittedStates) -> Part:
    arrays = cards.direction_cards(
        fitted.differentiable_agent, fitted.data, fitted.directions, fitted.coordinates, fitted.options.seed
    )
    return Part(_named("card", arrays))


def _behaviors(fitted: FittedStates) -> Part:
    options = fitted.options
    rows, behaviors, arrays = cards.find_behaviors(fitted.data, fitted.coordinates, options.clusters, options.seed)
    facts = {"count": len(arrays.get("clips", ())), "agreement": behaviors.agreement}
    return Part(_named("behaviour", {"rows": rows, "labels": behaviors.labels, **arrays}), {"behaviours": facts})


def _maps(fitted: FittedStates) -> Part:
    options, data = fitted.options, fitted.data
    rows = fitted.rows
    if len(rows) > options.map_points:
        rows = np.sort(np.random.default_rng(options.seed).choice(rows, options.map_points, replace=False))
    arrays = {"map.rows": rows}
    for method in options.maps:
        arrays[f"map.{method}"] = embed(
            fitted.points[rows],
            method,
            perplexity=map_perplexity(len(rows)),
            seed=options.seed,
        )[0]
    colors = cards.map_colors(data, fitted.coordinates, fitted.clusters)
    return Part(arrays | {f"map.color.{name}": values[rows] for name, values in colors.items()})


def map_perplexity(points: int) -> float:
    """Return the t-SNE perplexity for a map of this many points."""
    return usable_perplexity(PERPLEXITY, min(points, 5000))


def _causes(fitted: FittedStates) -> Part:
    """Return correlation and influence over time, for all steps and by cluster, and how often they agree."""
    options, data, labels = fitted.options, fitted.data, fitted.labels
    longest = int((data.length - data.time)[fitted.rows].max())
    lags = tuple(lag for lag in options.lags if lag < min(LONGEST, longest))
    if not lags:
        why = f"the longest episode has {data.length.max()} steps, so none of the lags {options.lags} is possible"
        return Part(skipped={"causes": why})
    coordinates = np.full(fitted.coordinates.shape, np.nan)
    coordinates[fitted.rows] = fitted.coordinates[fitted.rows]
    sequences = data.sequences(coordinates, LONGEST)
    by_step = data.sequences(labels[:, None].astype(np.float64), LONGEST)[..., 0]
    arrays = {
        "correlation": lagged_correlation(sequences, lags),
        "correlation.interval": correlation_intervals(sequences, lags, seed=options.seed),
        "correlation.by": lagged_correlation(sequences, lags, by=np.nan_to_num(by_step, nan=-2).astype(np.int64)),
        "correlation.labels": np.unique(np.nan_to_num(by_step, nan=-2)).astype(np.int64),
    }
    members = arrays["correlation.labels"] >= -1  # -2 marks steps after the end of an episode
    arrays["correlation.by"] = arrays["correlation.by"][members]
    arrays["correlation.labels"] = arrays["correlation.labels"][members]
    agent = fitted.differentiable_agent
    if agent is None or not has(agent, "state_gradients") or not options.influence_samples:
        why = "the agent has no gradients through its recurrent cell, or influence_samples is 0"
        return Part(arrays, {"lags": list(lags)}, {"influence": why})
    ends, gradients = memory_jacobians(
        agent, data, fitted.directions.readout, lags, samples=options.influence_samples, seed=options.seed
    )
    jacobians = np.swapaxes(fitted.directions.pull(gradients), -1, -2)
    for name, by in (("", None), (".by", labels)):
        values = mean_jacobian(jacobians, ends, lags, by)
        arrays[f"influence{name}"] = values
        by_episode: dict[str, Any] = {"sequences": sequences, "lags": lags} if not name and len(sequences) > 1 else {}
        agreement = consistency(values, arrays[f"correlation{name}"], seed=options.seed, **by_episode)
        for key in ("share", "null", "p", "count"):
            arrays[f"consistency{name}.{key}"] = getattr(agreement, key)
    return Part(arrays, {"lags": list(lags)})


def _memory(fitted: FittedStates) -> Part:
    options, agent = fitted.options, fitted.differentiable_agent
    if agent is None or not options.replay_steps or fitted.data.length.max() <= 1:
        return Part()
    removed = fitted.directions if options.replay_directions else None
    curves = replay(
        agent, fitted.data, removed, steps=options.replay_steps, samples=options.replay_samples, seed=options.seed
    )
    return Part(_named("replay", curves.arrays()))


def removal_effects(directions: Directions, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return how much the policy changes when each direction is removed, (D, 3): the mean over the replayed steps in
    nats, and its 95 % interval. Return None if this was not measured. `arrays` are those of the part `memory`.
    """
    changes = list(map(str, arrays.get("replay.changes", ())))
    if f"removed {directions.names[0]}" not in changes or "replay.effect" not in arrays:
        return None
    rows = [changes.index(f"removed {name}") for name in directions.names]
    return np.column_stack([arrays["replay.effect"][rows], arrays["replay.effect_interval"][rows]])


PARTS: Mapping[str, Callable[[FittedStates], Part]] = {
    "cards": _cards,
    "behaviours": _behaviors,
    "maps": _maps,
    "causes": _causes,
    "memory": _memory,
}
"""Functions that compute the parts of an analysis from directions and clusters, by name."""


def _named(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}
