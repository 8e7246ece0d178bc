"""Relate edits to measured effects of objects.

`object_pairs` returns activations with and without objects, to which directions can be fitted. `lost_effects` measures
how much of the effects an edited agent loses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rl_clarity.agents.capabilities import require
from rl_clarity.agents.edited_agent import edit
from rl_clarity.agents.editing import Edit
from rl_clarity.agents.protocol import Agent, Outputs, State, Written
from rl_clarity.agents.scores import action_scores
from rl_clarity.agents.sites import find_site
from rl_clarity.base.errors import OptionError
from rl_clarity.base.statistics import resampled_interval, softmax
from rl_clarity.recordings.object_effects import ObjectEffects

MARGIN = 1 / 32
"""Margin around an object's box, as a share of the observation, within which directions are fitted: there the object is
clearest."""
SURROUNDINGS = 1 / 8
"""Margin within which edits at objects are applied: convolutions spread an object as far."""
FRAMES = 256
"""Observations that are compared at once."""


@dataclass(frozen=True)
class ObjectPairs:
    """Activations (N, c) of a layer at the positions of objects, with and without them, and rows to compare with."""

    with_object: np.ndarray  # (N, c)
    without_object: np.ndarray  # (N, c)
    others: np.ndarray
    """(M, c): the differences that objects of other types make at their positions, followed by activations without the
    object at random positions away from it."""


def object_pairs(
    agent: Agent,
    effects: ObjectEffects,
    layer: str,
    types: str | Collection[str],
    *,
    margin: float = MARGIN,
    seed: int = 0,
) -> ObjectPairs:
    """Return the activations of a layer at the positions of objects, with and without them.

    `rl_clarity.fit_directions(pairs.with_object, "pairs", 4, without=pairs.without_object, others=pairs.others)` finds
    what the objects add.

    Args:
        agent: the agent whose effects were measured
        effects: effects of objects of these types, and of others
        layer: short or full name of a layer (h, w, c)
        types: name of a type, or several
        margin: around each object's box, as a share of the observation
        seed: seed of the choice of random positions away from the objects

    Raises OptionError for an unknown layer, one that is no feature map, and types without an effect.
    """
    agent = require(agent, "activations", for_="object_pairs")
    chosen = _chosen(effects, types)
    cells = object_cells(agent, effects, layer, margin)
    parts: dict[str, list[np.ndarray]] = {"with": [], "without": [], "others": [], "elsewhere": []}
    for start in range(0, len(effects), FRAMES):
        rows = slice(start, start + FRAMES)
        state = None if effects.state is None else tuple(part[rows] for part in effects.state)
        before = agent.activations(effects.with_object[rows], layer, state)
        after = agent.activations(effects.without_object[rows], layer, state)
        within, other = (cells[rows] & mask[rows, None, None] for mask in (chosen, ~chosen))
        parts["with"].append(before[within])
        parts["without"].append(after[within])
        parts["others"].append((before - after)[other])
        parts["elsewhere"].append(after[~cells[rows]])
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    others, elsewhere = joined["others"], joined["elsewhere"]
    count = min(len(elsewhere), max(len(others), len(joined["with"])))
    elsewhere = elsewhere[np.random.default_rng(seed).choice(len(elsewhere), count, replace=False)]
    return ObjectPairs(joined["with"], joined["without"], np.concatenate([others, elsewhere]))


def object_cells(agent: Agent, effects: ObjectEffects, layer: str, margin: float = MARGIN) -> np.ndarray:
    """Return which positions (N, h, w) bool of a layer lie in each object's box with a margin around it.

    Raises OptionError for an unknown layer, and one that is no feature map.
    """
    site = find_site(agent.sites, layer)
    if len(site.shape) != 3:
        raise OptionError(f"layer={layer!r} has the shape {site.shape}; positions are those of feature maps (h, w, c)")
    height, width = effects.with_object.shape[1:3]
    return box_cells(effects.box / [width, height, width, height], site.shape[:2], margin)


def box_cells(boxes: np.ndarray, shape: Sequence[int], margin: float) -> np.ndarray:
    """Return which positions (N, h, w) bool of a layer lie in each box with a margin around it.

    Boxes (N, 4) are left, top, right and bottom. They and the margin are shares of the observation.
    """
    left, top, right, bottom = boxes.T

    def within(low: np.ndarray, high: np.ndarray, cells: int) -> np.ndarray:
        edges = np.arange(cells + 1) / cells
        return np.asarray((edges[1:] > low[:, None] - margin) & (edges[:-1] < high[:, None] + margin))

    rows, columns = within(top, bottom, shape[0]), within(left, right, shape[1])
    return np.asarray(rows[:, :, None] & columns[:, None, :])


def _cells_of_types(
    agent: Agent, effects: ObjectEffects, layer: str, types: str | Collection[str], margin: float
) -> np.ndarray:
    """Return where (N, h, w) the objects of these types are in the frame of each object."""
    chosen, cells = _chosen(effects, types), object_cells(agent, effects, layer, margin)
    _, frame = np.unique(np.stack([effects.episode, effects.step], axis=1), axis=0, return_inverse=True)
    frame = frame.ravel()
    covered = np.zeros((frame.max() + 1, *cells.shape[1:]), bool)
    np.logical_or.at(covered, frame[chosen], cells[chosen])
    return covered[frame]


@dataclass(frozen=True)
class EffectLoss:
    """How much of the effects of some objects an edited agent loses, with 95 % intervals clustered by episode.

    *Lost* is 1 less the sum of the magnitudes that are left, relative to those before: 1 if the agent no longer reacts,
    negative if it reacts more. *Changed* is the sum of the magnitudes of the changes of effects, relative to the
    effects before: it is at least the share lost, and also counts effects that turn into others. Each tuple is
    the value, and the low and the high end of its interval.
    """

    count: int
    episodes: int
    value_lost: tuple[float, float, float]
    value_changed: tuple[float, float, float]
    policy_lost: tuple[float, float, float]
    """The same for the total variation between the policies with and without the object."""
    policy_changed: tuple[float, float, float]


@dataclass(frozen=True)
class LostEffects:
    """Effects of N objects on an agent and on the edited one, and how much the edit changes outputs without them."""

    type: np.ndarray  # (N,) str
    episode: np.ndarray  # (N,)
    value_effect: np.ndarray  # (N, 2): of the unedited and of the edited agent; NaN without a value
    policy_effect: np.ndarray  # (N, 2, A): the same for the probabilities of actions
    value_shift: np.ndarray  # (N,): change of the value by the edit, without the object
    policy_shift: np.ndarray  # (N,): total variation between the policies of both agents, without the object
    seed: int = 0

    def loss(self, *types: str) -> EffectLoss:
        """Return how much of the effects of objects of these types is lost; of all objects if no type is given.

        Raises OptionError for types without an effect.
        """
        chosen = _chosen(self, types) if types else np.full(len(self.type), True)
        episode, rng = self.episode[chosen], np.random.default_rng(self.seed)
        value, policy = self.value_effect[chosen, :, None], self.policy_effect[chosen] / 2
        figures = []
        for before, after in ((values[:, 0], values[:, 1]) for values in (value, policy)):
            sizes = [np.abs(effect).sum(axis=-1) for effect in (before, after, after - before)]
            left, changed = (_ratio(part, sizes[0], episode, rng) for part in sizes[1:])
            figures += [(1 - left[0], 1 - left[2], 1 - left[1]), changed]
        return EffectLoss(int(chosen.sum()), len(np.unique(episode)), *figures)

    def by_type(self) -> dict[str, EffectLoss]:
        """Return the losses of each type, the most frequent first."""
        types, counts = np.unique(self.type, return_counts=True)
        return {str(name): self.loss(str(name)) for name in types[np.argsort(-counts, kind="stable")]}


def lost_effects(
    agent: Agent,
    effects: ObjectEffects,
    *edits: Edit,
    at: str | Collection[str] | None = None,
    margin: float = SURROUNDINGS,
    seed: int = 0,
) -> LostEffects:
    """Measure how much of the effects of objects an edited agent loses.

    To test directions of `fit_directions`, use effects of other levels than they were fitted to (another `seed` of
    `object_effects`).

    Args:
        agent: the agent whose effects were measured
        effects: effects of the objects that the edits are for, and of others
        edits: as for `rl_clarity.edit`
        at: a type or several; each frame is then edited only where its objects of these types are, with and without
            them. By default edits are applied everywhere
        margin: around the boxes of these objects, as a share of the observation
        seed: seed of the bootstrap

    Raises OptionError for edits that do not fit the agent, types without an effect, and with `at` for edits of sites
    that are no feature maps, or that draw replacements.
    """
    edited = edit(agent, *edits)
    if at is not None and any(change.replacements is not None for change in edits):
        raise OptionError(f'at={at!r}: to="resample" draws a row for each observation; use "zero" or "mean"')
    cells = [] if at is None else [_cells_of_types(agent, effects, change.layer, at, margin) for change in edits]

    def with_edits(rows: slice, observations: np.ndarray, state: State) -> Outputs:
        if at is None:
            return edited.forward(observations, state)
        write: dict[str, Written] = {}
        for change, mask in zip(edits, cells, strict=True):
            name = find_site(agent.sites, change.layer).name
            write[name] = partial(edited_within, change, mask[rows, :, :, None], write.get(name))
        return agent.forward(observations, state, write=write)

    values, policies = _compared(effects, lambda rows, observations, state: agent.forward(observations, state))
    edited_values, edited_policies = _compared(effects, with_edits)
    return LostEffects(
        effects.type,
        effects.episode,
        np.stack([both[:, 0] - both[:, 1] for both in (values, edited_values)], axis=1),
        np.stack([both[:, 0] - both[:, 1] for both in (policies, edited_policies)], axis=1),
        edited_values[:, 1] - values[:, 1],
        np.abs(edited_policies[:, 1] - policies[:, 1]).sum(axis=-1) / 2,
        seed,
    )


def edited_within(change: Edit, mask: np.ndarray, before: Written | None, values: np.ndarray) -> np.ndarray:
    """Return values (n, h, w, c), edited where the mask (n, h, w, 1) is true; `before` is applied first."""
    values = before(values) if callable(before) else values
    return np.where(mask, np.asarray(change.apply(np.asarray(values, np.float32))), values)


def _compared(
    effects: ObjectEffects, forward: Callable[[slice, np.ndarray, State], Outputs]
) -> tuple[np.ndarray, np.ndarray]:
    """Return values (N, 2) and policies (N, 2, A), with and without the objects.

    As for `object_effects`, the value of an agent with action values is the highest one, and its policy is greedy.
    """
    values, policies = [], []
    for start in range(0, len(effects), FRAMES):
        rows = slice(start, start + FRAMES)
        state = None if effects.state is None else tuple(part[rows] for part in effects.state)
        for observations in (effects.with_object[rows], effects.without_object[rows]):
            outputs = forward(rows, observations, state)
            scores = action_scores(outputs)
            best = outputs.values if outputs.q_values is None else scores.max(axis=-1)
            values.append(np.full(len(scores), np.nan) if best is None else best)
            policies.append(softmax(scores) if outputs.q_values is None else np.eye(scores.shape[1])[scores.argmax(-1)])
    joined = [[np.concatenate(parts[i::2]).astype(np.float64) for i in (0, 1)] for parts in (values, policies)]
    return np.stack(joined[0], axis=1), np.stack(joined[1], axis=1)


def _chosen(effects: ObjectEffects | LostEffects, types: str | Collection[str]) -> np.ndarray:
    names = [types] if isinstance(types, str) else list(types)
    chosen = np.isin(effects.type, names)
    if not chosen.any():
        raise OptionError(f"types={names!r}: effects were measured of {', '.join(np.unique(effects.type).tolist())}")
    return chosen


def _ratio(
    parts: np.ndarray, wholes: np.ndarray, clusters: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the sum of parts (n,) relative to that of wholes (n,), with its percentile bootstrap interval over
    clusters (n,), which is (NaN, NaN) for a single cluster.
    """
    _, index = np.unique(clusters, return_inverse=True)
    sums = np.stack([np.bincount(index, values) for values in (parts, wholes)])  # (2, clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(np.divide(*sums.sum(axis=1)))
        return value, *resampled_interval(sums.shape[1], lambda drawn: np.divide(*(sums @ drawn.T)), rng)
