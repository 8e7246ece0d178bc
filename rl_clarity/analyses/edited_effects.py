"""Relate edits of an agent to measured effects of objects.

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
"""Margin around an object's box, as a share of the observation's size. Directions are fitted to positions within it,
where the object changes activations most clearly."""
SURROUNDINGS = 1 / 8
"""Margin within which edits at objects are applied. It is larger than `MARGIN`, because convolutions spread the effect
of an object that far."""
FRAMES = 256
"""Number of observations in a batch."""


@dataclass(frozen=True)
class ObjectPairs:
    """Activations of a layer with c channels at N positions of objects, with and without them, and rows to compare."""

    with_object: np.ndarray  # (N, c)
    without_object: np.ndarray  # (N, c)
    others: np.ndarray
    """M rows (M, c) to compare with: the differences that objects of other types make at their positions, followed by
    activations without the object at random positions away from it."""


def object_pairs(
    agent: Agent,
    effects: ObjectEffects,
    layer: str,
    types: str | Collection[str],
    *,
    margin: float = MARGIN,
    seed: int = 0,
) -> ObjectPairs:
    """Return the activations of a layer at the positions of objects, with and without the objects.

    `rl_clarity.fit_directions(pairs.with_object, "pairs", 4, without=pairs.without_object, others=pairs.others)` finds
    the directions that the objects add to the activations.

    Args:
        agent: the agent whose effects were measured
        effects: measured effects of objects of these types, and of other types
        layer: short or full name of a layer (h, w, c)
        types: name of a type, or several names
        margin: margin around each object's box, as a share of the observation's size
        seed: seed of the choice of random positions away from the objects

    Raises OptionError for an unknown layer, for a layer that is not a feature map, and if `effects` has no objects of
    these types.
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
    """Return a mask (N, h, w) of the positions of a layer that lie in the box of each of N objects, or in its margin.

    Raises OptionError for an unknown layer, and for a layer that is not a feature map.
    """
    site = find_site(agent.sites, layer)
    if len(site.shape) != 3:
        raise OptionError(f"layer={layer!r} has the shape {site.shape}; only feature maps (h, w, c) have positions")
    height, width = effects.with_object.shape[1:3]
    return box_cells(effects.box / [width, height, width, height], site.shape[:2], margin)


def box_cells(boxes: np.ndarray, shape: Sequence[int], margin: float) -> np.ndarray:
    """Return a mask (N, h, w) of the positions of a layer of `shape` (h, w) that lie in each of N boxes, or its margin.

    Boxes (N, 4) are left, top, right and bottom. They and the margin are shares of the observation's size.
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
    """Return a mask (N, h, w) of the positions that objects of these types cover in the frame of each of N objects."""
    chosen, cells = _chosen(effects, types), object_cells(agent, effects, layer, margin)
    _, frame = np.unique(np.stack([effects.episode, effects.step], axis=1), axis=0, return_inverse=True)
    frame = frame.ravel()
    covered = np.zeros((frame.max() + 1, *cells.shape[1:]), bool)
    np.logical_or.at(covered, frame[chosen], cells[chosen])
    return covered[frame]


@dataclass(frozen=True)
class EffectLoss:
    """How much of the effects of some objects an edited agent loses, with 95 % intervals that resample episodes.

    *Lost* is 1 minus the ratio of the summed magnitudes of the effects after and before the edit: 1 if the agent no
    longer reacts to the objects, negative if it reacts more strongly. *Changed* is the summed magnitude of the changes
    of the effects, relative to that of the effects before the edit. It is at least the share lost, and also counts
    effects that are replaced by others. Each tuple is a value with the low and the high end of its interval.
    """

    count: int
    episodes: int
    value_lost: tuple[float, float, float]
    value_changed: tuple[float, float, float]
    policy_lost: tuple[float, float, float]
    """Like `value_lost`, but for the total variation between the policies with and without the object."""
    policy_changed: tuple[float, float, float]


@dataclass(frozen=True)
class LostEffects:
    """Effects of N objects on an agent and on its edited version, and the changes that the edit makes without the
    objects.
    """

    type: np.ndarray  # (N,) str
    episode: np.ndarray  # (N,)
    value_effect: np.ndarray  # (N, 2): of the unedited and of the edited agent; NaN without a value
    policy_effect: np.ndarray  # (N, 2, A): the same for the probabilities of actions
    value_shift: np.ndarray  # (N,): change of the value by the edit, without the object
    policy_shift: np.ndarray  # (N,): total variation between the policies of both agents, without the object
    seed: int = 0

    def loss(self, *types: str) -> EffectLoss:
        """Return how much of the effects of objects of some types is lost. By default, all types are included.

        Raises OptionError if there are no objects of these types.
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
        """Return the loss for each type of object, the most frequent type first."""
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

    To test directions of `fit_directions`, use effects that were measured on different levels than those of the fit
    (with a different `seed` of `object_effects`).

    Args:
        agent: the agent whose effects were measured
        effects: measured effects of the objects that the edits target, and of other objects
        edits: see `rl_clarity.edit`
        at: one or more types; edits are then applied only at the positions of objects of these types, in the
            observations with and without the object. By default edits are applied at all positions
        margin: margin around the boxes of these objects, as a share of the observation's size
        seed: seed of the bootstrap

    Raises OptionError for edits that do not fit the agent; with `at`, also if `effects` has no objects of these types,
    for edits of sites that are not feature maps, and for edits that draw replacements.
    """
    edited = edit(agent, *edits)
    if at is not None and any(change.replacements is not None for change in edits):
        raise OptionError(f'at={at!r}: to="resample" draws a row for each observation; use to="zero" or to="mean"')
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
    """Return values (n, h, w, c), edited where the mask (n, h, w, 1) is True; earlier edits, `before`, come first."""
    values = before(values) if callable(before) else values
    return np.where(mask, np.asarray(change.apply(np.asarray(values, np.float32))), values)


def _compared(
    effects: ObjectEffects, forward: Callable[[slice, np.ndarray, State], Outputs]
) -> tuple[np.ndarray, np.ndarray]:
    """Return values (N, 2) and policies (N, 2, A), with and without the objects.

    As in `object_effects`, the value of an agent with action values is the highest one, and its policy is greedy.
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
        raise OptionError(
            f"types={names!r} have no measured effects; available: {', '.join(np.unique(effects.type).tolist())}"
        )
    return chosen


def _ratio(
    parts: np.ndarray, wholes: np.ndarray, clusters: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the ratio of the sums of `parts` (n,) and `wholes` (n,), with its percentile bootstrap interval.

    The bootstrap resamples clusters (n,). The interval is (NaN, NaN) for a single cluster.
    """
    _, index = np.unique(clusters, return_inverse=True)
    sums = np.stack([np.bincount(index, values) for values in (parts, wholes)])  # (2, clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(np.divide(*sums.sum(axis=1)))
        return value, *resampled_interval(sums.shape[1], lambda drawn: np.divide(*(sums @ drawn.T)), rng)
