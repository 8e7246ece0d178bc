"""Remove objects from saved states of the environment, draw the states again, and compare the agent's outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.actions import Categorical, Factor, policy_change
from rl_clarity.agents.capabilities import action_factors
from rl_clarity.agents.protocol import Agent, Outputs, State
from rl_clarity.environments.worlds import World, WorldObject
from rl_clarity.recordings.rollouts import observe

FRAMES = 128
"""Number of observations that are drawn and compared at once."""


@dataclass(frozen=True)
class Moment:
    """A step of an episode, before which the state of the environment was saved."""

    episode: int
    step: int
    world_state: bytes
    observation: np.ndarray  # (H, W, C) uint8, preprocessed
    state: State  # of a recurrent agent before the step, each part without a batch axis


@dataclass(frozen=True)
class Removal:
    """Objects that are removed together from the state of a moment."""

    moment: int
    """Index of the moment in the sequence of moments."""
    objects: tuple[WorldObject, ...]


@dataclass(frozen=True)
class Scores:
    """Outputs for n observations, as arrays that can be subtracted."""

    actions: np.ndarray  # (n, A): logits, or action values
    values: np.ndarray  # (n,): for action values the largest one; NaN for an agent without either
    is_policy: bool
    factors: tuple[Factor, ...] = ()
    """Factors of an action. If they are empty, an action is a single choice."""

    @classmethod
    def forward(cls, agent: Agent, observations: np.ndarray, state: State) -> Scores:
        outputs = agent.forward(observations, state)
        actions = outputs.q_values if outputs.policy_logits is None else outputs.policy_logits
        return cls(np.asarray(actions), _values(outputs), outputs.policy_logits is not None, action_factors(agent))

    def select(self, rows: np.ndarray) -> Scores:
        """Return the outputs for some of the observations."""
        return Scores(self.actions[rows], self.values[rows], self.is_policy, self.factors)

    def policy_change(self, other: Scores) -> np.ndarray:
        """Return the total variation (n,) between two policies. For action values, return 1 where the best actions
        differ, and 0 elsewhere.
        """
        if not self.is_policy:
            return np.asarray(self.actions.argmax(axis=1) != other.actions.argmax(axis=1), np.float32)
        factors = self.factors or (Categorical(self.actions.shape[1]),)
        return np.asarray(policy_change(self.actions, other.actions, factors), np.float32)


@dataclass(frozen=True)
class Changes:
    """Effects of R removals: outputs with the objects minus those without them.

    Removals that change no pixel, because other objects hide the removed ones, are left out.
    """

    removals: Sequence[Removal]
    values: np.ndarray  # (R,) float32; NaN for an agent without values
    actions: np.ndarray  # (R, A) float32: of the logits, or of the action values
    policy: np.ndarray  # (R,) float32
    without: np.ndarray  # (R, H, W, C) uint8: the observations without the objects

    @property
    def moments(self) -> np.ndarray:
        """Index (R,) of the moment of each removal."""
        return np.array([removal.moment for removal in self.removals], np.int64)


def measure_scores(agent: Agent, moments: Sequence[Moment]) -> Scores:
    """Return the agent's outputs at some moments."""
    return Scores.forward(agent, np.stack([moment.observation for moment in moments]), _state(moments))


def measure_removals(
    agent: Agent, world: World, moments: Sequence[Moment], scores: Scores, removals: Sequence[Removal]
) -> Iterator[Changes]:
    """Yield the effects of removals in batches, in their order. `scores` are the agent's outputs at the moments."""
    for start in range(0, len(removals), FRAMES):
        some = removals[start : start + FRAMES]
        edited = [world.without(moments[removal.moment].world_state, removal.objects) for removal in some]
        without = observe(agent, world.draw(edited))
        before = np.stack([moments[removal.moment].observation for removal in some])
        seen = np.flatnonzero((without != before).any(axis=(1, 2, 3)))
        if len(seen):
            chosen = [some[i] for i in seen.tolist()]
            states = _state([moments[removal.moment] for removal in chosen])
            after = Scores.forward(agent, without[seen], states)
            kept = scores.select(np.array([removal.moment for removal in chosen]))
            yield Changes(
                chosen,
                kept.values - after.values,
                (kept.actions - after.actions).astype(np.float32),
                kept.policy_change(after),
                without[seen],
            )


def different_pixels(agent: Agent, world: World, moments: Sequence[Moment]) -> np.ndarray:
    """Return the number of pixels (n,) that differ between the observation of each moment and the frame that the world
    draws of its state.
    """
    drawn = observe(agent, world.draw([moment.world_state for moment in moments]))
    observed = np.stack([moment.observation for moment in moments])
    return np.asarray((drawn != observed).any(axis=-1).sum(axis=(1, 2)))


def is_removed(item: WorldObject, types: Collection[str] | None) -> bool:
    """Return whether an object is in view and has one of the types. By default, these are all types except terrain."""
    return item.in_view and (not item.terrain if types is None else item.type in types)


def pixel_boxes(objects: Sequence[WorldObject], height: int, width: int) -> np.ndarray:
    """Return the boxes (n, 4) of objects: left, top, right and bottom in pixels of the observation. Boxes may extend
    beyond the observation.
    """
    return np.array([item.pixels for item in objects]).reshape(-1, 4) * [width, height, width, height]


def _state(moments: Sequence[Moment]) -> State:
    """Return a recurrent agent's states before moments, as a batch."""
    states = [moment.state for moment in moments if moment.state is not None]
    return tuple(np.stack(parts) for parts in zip(*states, strict=True)) if states else None


def _values(outputs: Outputs) -> np.ndarray:
    if outputs.values is not None:
        return np.asarray(outputs.values, np.float32)
    if outputs.q_values is not None:
        return np.asarray(outputs.q_values.max(axis=-1), np.float32)
    assert outputs.policy_logits is not None
    return np.full(len(outputs.policy_logits), np.nan, np.float32)
