"""The section `objects`: measured effects of the objects that the agent sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.sections import SectionData


@dataclass(frozen=True)
class MeanEffect:
    """A mean with its 95 % bootstrap interval over episodes, which is null if the objects are from a single episode."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class DistanceEffect:
    """Effects of the objects of a type at similar distances from the player."""

    near: float
    """Smallest distance, in cells."""
    far: float
    """Largest distance."""
    count: int
    value: MeanEffect | None
    """Mean absolute change of the value; null without a value."""
    policy: MeanEffect


@dataclass(frozen=True)
class TypeEffects:
    """Effects of removing objects of a type, one at a time, and of removing all visible ones at once."""

    name: str
    moves: bool
    """Whether an object of the type moves by itself."""
    count: int
    """Number of removed objects; an object counts in every frame in which it is removed."""
    tracks: int
    """Number of different objects."""
    frames: int
    episodes: int
    value: MeanEffect | None
    """Mean of the value with the object minus the value without it; null without a value. For agents with action
    values, the value is the largest one."""
    value_magnitude: MeanEffect | None
    """Mean absolute value of this change."""
    policy: MeanEffect
    """Mean total variation between the policies with and without the object, from 0 to 1. For action values, it is the
    share of objects without which a different action is best."""
    logits: Sequence[float]
    """Mean change of the logit, or action value, of each action."""
    share_above_noise: float | None
    """Share of the removed objects that change the value by more than `noise`; null without a value."""
    together_value: MeanEffect | None
    """Like `value`, but with all objects of the type that are seen in a frame removed at once."""
    together_policy: MeanEffect
    by_distance: Sequence[DistanceEffect]
    """Effects in groups of about equally many objects, from the nearest to the farthest."""


@dataclass(frozen=True)
class EndingObject:
    """An object that ended an episode, according to the analysis `failures`."""

    track: int
    """Number of the object's track, as in the chunk."""
    frame: int
    """The episode's last frame."""


@dataclass(frozen=True)
class TrajectoryObjects:
    """Effects along a trajectory."""

    chunk: ChunkName
    types: Sequence[str]
    """Names of the types by their number in the chunk."""
    ended: Sequence[EndingObject] | None = None
    """Objects that ended episodes; absent without the analysis `failures`."""


@dataclass(frozen=True)
class ObjectsSection(SectionData):
    """Effects of the objects that the agent sees, measured by removing them from the state of the environment."""

    kind = "objects"
    title = "Objects"
    types: Sequence[TypeEffects]
    """Effects by type, the most frequent type first."""
    trajectories: Sequence[TrajectoryObjects]
    every: int
    """Objects are removed at every n-th step."""
    last_steps: int
    """Number of steps before the end of each episode at which objects are also removed."""
    frames: int
    """Number of frames whose objects were removed."""
    skipped: int
    """Number of frames that were left out, at even distances, because there were too many objects."""
    undrawn: int
    """Number of frames that were left out because redrawing them does not reproduce the observation."""
    exact: bool
    """Whether frames are drawn as if the removed objects had never been there. Otherwise, objects are painted over."""
    unit: str
    """Unit of the changes of the value: `value`, `action value`, or `logit` for an agent with neither."""
    value_range: float | None
    """Range of the value in these frames; null without a value."""
    noise: float | None
    """Changes of the value up to this size, 5 % of its range, are not distinguished from 0; null without a value."""
    height: int
    """Height of the observation, to which boxes and masks refer."""
    width: int
