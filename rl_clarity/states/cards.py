"""Compute cards: statistics and examples of each direction of the states, and of each behavior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rl_clarity.agents.capabilities import has
from rl_clarity.agents.protocol import Agent
from rl_clarity.agents.recurrence import agent_state
from rl_clarity.reduction.directions import Directions, fitted_rows
from rl_clarity.states.clusters import Clusters, find_clusters, principal_directions
from rl_clarity.states.data import StateData

BINS = 40
EXAMPLES = 8
"""Number of example frames at each of the top, middle and bottom of a direction, and of clips of a behavior."""
TAIL = 0.01
"""Share of the steps from which the examples of the top, the middle and the bottom are each chosen."""
AUTOCORRELATION_LAGS = (1, 2, 4, 8, 16)
READOUT_FRAMES = 128
"""Number of frames over which gradients of outputs are averaged."""
BEHAVIOR_LAGS = (2, 4, 6)


def step_facts(data: StateData) -> dict[str, np.ndarray]:
    """Return named arrays (n,) with a number for each step, to color maps and to correlate with directions.

    `entropy` (in nats) and `largest_log_probability` describe the agent's policy. They are left out for agents with
    action values.
    """
    facts = {
        "reward": data.rewards.astype(np.float64),
        "return": data.returns.astype(np.float64),
        "rewarded": (data.returns > 0).astype(np.float64),
        "time": data.time.astype(np.float64),
        "length": data.length.astype(np.float64),
        "share": data.time / np.maximum(data.length - 1, 1),
    }
    if data.values is not None:
        facts["value"] = data.values.astype(np.float64)
    log_probabilities = data.log_probabilities
    if log_probabilities is not None:
        facts["entropy"] = -(np.exp(log_probabilities) * log_probabilities).sum(axis=1)
        facts["largest_log_probability"] = log_probabilities.max(axis=1)
    return facts


def direction_cards(
    agent: Agent | None, data: StateData, directions: Directions, coordinates: np.ndarray, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return statistics of D directions as arrays by name. Without an agent, `readout` is left out.

    Steps before the state first changes in an episode are ignored.

    - `histogram` (D, 40) and its bin `edges` (D, 41); `kurtosis` (D,): the excess kurtosis, 0 for a normal
      distribution.
    - `top`, `middle`, `bottom` (D, 8): rows of example steps from the highest, median and lowest 1 %, each from a
      different episode; -1 where there are fewer episodes.
    - `readout` (D, outputs): mean gradient of each logit, and of the value if there is one, with respect to the
      coordinate of the state before the step, by the chain rule (`Directions.pull`). It is left out for agents without
      gradients.
    - `cosine` (D, D): cosine similarities of the directions' vectors in state space.
    - `correlation.NAME` (D,): correlation with each number of `step_facts`; `correlation.action` (D, actions):
      correlation with the indicator of each action.
    - `autocorrelation` (D, 5): at lags of 1, 2, 4, 8 and 16 steps, to show how fast the coordinate changes.
    """
    rows = data.changed_rows
    histograms = [np.histogram(column, BINS) for column in coordinates[rows].T]
    deviations = coordinates - coordinates[rows].mean(axis=0)
    centered = deviations[rows]
    spread = centered.std(axis=0)
    cards = {
        "histogram": np.stack([counts for counts, _ in histograms]),
        "edges": np.stack([edges for _, edges in histograms]),
        "kurtosis": (centered**4).mean(axis=0) / np.maximum(spread, 1e-12) ** 4 - 3,
        "cosine": _cosines(directions.vectors),
        "autocorrelation": np.stack(
            [_autocorrelation(data, rows, deviations, lag) for lag in AUTOCORRELATION_LAGS], axis=1
        ),
    }
    for name, wanted in (("top", 1.0), ("middle", 0.5), ("bottom", 0.0)):
        cards[name] = np.stack([_examples(data, rows, column[rows], wanted) for column in coordinates.T])
    for name, values in step_facts(data).items():
        cards[f"correlation.{name}"] = _correlations(centered, values[rows, None])[:, 0]
    if data.actions.ndim == 1 and data.logits is not None:
        taken = data.actions[rows, None] == np.arange(data.logits.shape[1])
        cards["correlation.action"] = _correlations(centered, taken.astype(np.float64))
    if agent is not None and has(agent, "gradients"):
        cards["readout"] = _readout(agent, data, directions, seed)
    return cards


def _readout(agent: Agent, data: StateData, directions: Directions, seed: int) -> np.ndarray:
    rows = np.sort(np.random.default_rng(seed).choice(len(data), min(READOUT_FRAMES, len(data)), replace=False))
    observations = data.observations(rows)
    state = agent_state(agent, data.states[rows])
    outputs = [*range(agent.num_actions), *(["value"] if _has_value(agent) else [])]
    parts = [agent.gradients(observations, f"state/{i}", outputs, state=state) for i in range(len(state or ()))]
    gradients = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)  # (outputs, n, H)
    return np.asarray(directions.pull(gradients.mean(axis=1, dtype=np.float64)).T)


def _has_value(agent: Agent) -> bool:
    return any(site.name == "values" for site in agent.sites)


def _examples(data: StateData, rows: np.ndarray, values: np.ndarray, wanted: float) -> np.ndarray:
    """Return 8 of the rows (m,) whose values (m,) are nearest to the quantile `wanted`, each from a different episode.

    They are chosen from the nearest 1 % of the rows. If these are from fewer than 8 episodes, the rest is -1.
    """
    distance = np.abs(values - float(np.quantile(values, wanted)))
    count = max(EXAMPLES, round(TAIL * len(values)))
    nearest = np.argpartition(distance, min(count, len(values)) - 1)[:count]
    order = rows[nearest[np.argsort(distance[nearest], kind="stable")]]
    _, first = np.unique(data.episode[order], return_index=True)
    chosen = order[np.sort(first)][:EXAMPLES]
    return np.pad(chosen, (0, EXAMPLES - len(chosen)), constant_values=-1)


def _cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    return np.asarray(unit @ unit.T)


def _correlations(centered: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation (D, M) of centered coordinates (n, D) with other variables (n, M); 0 for constant
    variables.
    """
    others = others - others.mean(axis=0)
    products = centered.T @ others / len(others)
    deviations = np.outer(centered.std(axis=0), others.std(axis=0))
    return np.divide(products, deviations, out=np.zeros_like(products), where=deviations > 1e-12)


def _autocorrelation(data: StateData, rows: np.ndarray, coordinates: np.ndarray, lag: int) -> np.ndarray:
    """Return the correlation (D,) of coordinates (n, D) at some rows with the same coordinates `lag` steps later.

    The result is NaN if no episode is long enough.
    """
    earlier = rows[data.length[rows] - data.time[rows] > lag]
    if not len(earlier):
        return np.full(coordinates.shape[1], np.nan)
    a, b = (part - part.mean(axis=0) for part in (coordinates[earlier], coordinates[earlier + lag]))
    scale = a.std(axis=0) * b.std(axis=0)
    products = (a * b).mean(axis=0)
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 1e-12)


# --- behaviors -------------------------------------------------------------------------------------------------------


def find_behaviors(
    data: StateData, coordinates: np.ndarray, count: int = 8, seed: int = 0
) -> tuple[np.ndarray, Clusters, dict[str, np.ndarray]]:
    """Find behaviors. Return rows of steps (m,), the behavior of each, and statistics of behaviors as arrays by name.

    A behavior is a cluster (k-means) of the principal components of standardized feature vectors

        [v(t), v(t) - v(t + 2), v(t) - v(t + 4), v(t) - v(t + 6)],    where v(t) is the state before step t,

    of all steps t with at least 6 more steps after them in their episode, except steps before the state first changes.
    The statistics of K behaviors are `components` (K, D), the mean coordinates at t; `actions` (K, actions), the
    frequency of each action at t; and `clips` (K, 8), rows of the steps nearest to the cluster's center, each from a
    different episode, -1 where there are fewer. With too few steps, all results are empty.
    """
    rows = data.changed_rows
    rows = rows[(data.length - data.time)[rows] > max(BEHAVIOR_LAGS)]
    if len(rows) <= count:
        return rows[:0], Clusters("kmeans", np.zeros(0, np.int32), float("nan")), {}

    def vectors(steps: np.ndarray) -> np.ndarray:
        now = data.states[steps]
        return np.concatenate([now, *(now - data.states[steps + lag] for lag in BEHAVIOR_LAGS)], axis=1)

    group = fitted_rows(len(rows), vectors(rows[:1]).shape[1])  # steps whose vectors are computed at once
    sample = np.sort(np.random.default_rng(seed).choice(rows, group, replace=False))
    directions = principal_directions(vectors(sample), seed)
    points = np.concatenate(
        [directions.to(vectors(rows[start : start + group])) for start in range(0, len(rows), group)]
    )
    clusters = find_clusters(points, "kmeans", count, seed)
    return rows, clusters, _behavior_cards(data, rows, points, clusters, coordinates)


def _behavior_cards(
    data: StateData, rows: np.ndarray, points: np.ndarray, clusters: Clusters, coordinates: np.ndarray
) -> dict[str, np.ndarray]:
    actions = 0 if data.logits is None or data.actions.ndim > 1 else data.logits.shape[1]
    components, frequencies, clips = [], [], []
    for label in range(clusters.count):
        members = np.flatnonzero(clusters.labels == label)
        components.append(coordinates[rows[members]].mean(axis=0))
        taken = data.actions[rows[members]]
        frequencies.append(np.array([np.mean(taken == action) for action in range(actions)]))
        distance = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
        order = rows[members[np.argsort(distance, kind="stable")]]
        _, first = np.unique(data.episode[order], return_index=True)
        chosen = order[np.sort(first)][:EXAMPLES]
        clips.append(np.pad(chosen, (0, EXAMPLES - len(chosen)), constant_values=-1))
    return {"components": np.stack(components), "actions": np.stack(frequencies), "clips": np.stack(clips)}


def map_colors(data: StateData, coordinates: np.ndarray, clusters: Mapping[str, Clusters]) -> dict[str, np.ndarray]:
    """Return named arrays (n,) by which a map of states can be colored: floats, or integers for categories."""
    changed = coordinates[data.changed_rows]
    scale = np.maximum(changed.std(axis=0), 1e-12)
    _, ends = np.unique(_ends(data), return_inverse=True)
    colors = {**step_facts(data), "episode": data.episode, "end": ends[data.episode]}
    if data.actions.ndim == 1:
        colors["action"] = data.actions
    colors |= {f"cluster.{name}": cluster.labels for name, cluster in clusters.items()}
    colors["strongest"] = np.abs((coordinates - changed.mean(axis=0)) / scale).argmax(axis=1)
    return colors


def ends_of_episodes(data: StateData) -> list[str]:
    """Return the distinct causes of ends of episodes. The map color `end` contains indices into this list."""
    return sorted({*_ends(data)})


def _ends(data: StateData) -> list[str]:
    return [episode.cause or episode.end for episode in data.recording]
