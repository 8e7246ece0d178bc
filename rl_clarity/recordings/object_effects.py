"""`rl_clarity.object_effects` measures how an agent's outputs change if an object is removed from the environment.

An object is removed from a saved state of the environment, the frame is drawn again, and the agent's outputs are
compared. Everything else, including a recurrent state, stays as it was. If the environment's world is exact
(`World.exact`), the difference is the true effect of the object on the outputs at this step, and not an estimate.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent, State
from rl_clarity.base.errors import OptionError, WorldError
from rl_clarity.base.progress import progress_bar
from rl_clarity.base.statistics import resampled_interval
from rl_clarity.environments import EnvironmentSpec, make, spec_from_metadata
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.worlds import World
from rl_clarity.formats.included import open_agent
from rl_clarity.recordings.evaluation import choose_num_envs, shares
from rl_clarity.recordings.removals import (
    FRAMES,
    Changes,
    Moment,
    Removal,
    different_pixels,
    is_removed,
    measure_removals,
    measure_scores,
    pixel_boxes,
)
from rl_clarity.recordings.rollouts import play

MAX_ENVIRONMENTS = 16
STREAM = 3
"""Random stream of the seeds of environments and actions. Samples and paired play use the streams 0 to 2."""


@dataclass(frozen=True)
class TypeEffect:
    """Effects of the objects of a type: means over objects, with 95 % cluster bootstrap intervals over episodes."""

    type: str
    count: int
    episodes: int
    value_change: tuple[float, float, float]
    """(mean, low, high) of the difference between the values with and without the object."""
    value_magnitude: tuple[float, float, float]
    """(mean, low, high) of the absolute value of that difference."""
    policy_change: tuple[float, float, float]
    """(mean, low, high) of the total variation between the policies with and without the object."""


@dataclass(frozen=True)
class ObjectEffects:
    """Effects of N objects, each of which was removed alone from a step at which it was visible.

    Objects that are out of view or hidden by other objects are left out.
    """

    type: np.ndarray  # (N,) str
    episode: np.ndarray  # (N,) int64
    step: np.ndarray  # (N,) int64, counted from 0 in the episode
    position: np.ndarray  # (N, 2) float32: relative to the player, to the right and upward, in cells
    box: np.ndarray  # (N, 4) int64: left, top, right, bottom in pixels of the observation, which may reach beyond it
    value_change: np.ndarray  # (N,) float32: the value with the object minus that without; NaN without a value
    logits_change: np.ndarray  # (N, A) float32: of the logits, or of the action values
    policy_change: np.ndarray  # (N,) float32: total variation; for action values 1 if the best action differs, else 0
    with_object: np.ndarray  # (N, H, W, C) uint8
    without_object: np.ndarray  # (N, H, W, C) uint8
    exact: np.ndarray  # (N,) bool: whether the object was really removed, not painted over
    state: State = None
    """A recurrent agent's state before the step, (N, ...) for each part."""

    def __len__(self) -> int:
        return len(self.type)

    @property
    def mask(self) -> np.ndarray:
        """Mask (N, H, W) bool of the pixels that each object changes."""
        return np.asarray((self.with_object != self.without_object).any(axis=-1))

    def by_type(self, seed: int = 0) -> list[TypeEffect]:
        """Return the effects of each type, the most frequent type first, with intervals from a cluster bootstrap over
        episodes.
        """
        kinds, counts = np.unique(self.type, return_counts=True)
        rng = np.random.default_rng(seed)
        effects = []
        for kind in kinds[np.argsort(-counts, kind="stable")]:
            chosen = self.type == kind
            episodes = self.episode[chosen]
            means = [
                clustered_mean(values[chosen], episodes, rng)
                for values in (self.value_change, np.abs(self.value_change), self.policy_change)
            ]
            effects.append(TypeEffect(str(kind), int(chosen.sum()), len(np.unique(episodes)), *means))
        return effects


def object_effects(
    agent: str | os.PathLike[str] | Agent,
    environment: str | EnvironmentSpec | None = None,
    *,
    episodes: int = 32,
    steps: int = 8,
    last_steps: int = 0,
    types: Collection[str] | None = None,
    seed: int = 0,
    metadata: Mapping[str, Any] | None = None,
) -> ObjectEffects:
    """Let an agent play, remove each visible object from the environment's states, and measure how its outputs change.

    Args:
        agent: a checkpoint of any supported format, an included agent (`models:coinrun`), or an agent.
        environment: name or specification of the environment; the agent's by default.
        episodes: number of episodes to play.
        steps: number of evenly spaced steps of each episode at which objects are removed.
        last_steps: number of steps at the end of each episode at which objects are removed, too.
        types: names of the types to remove; all but terrain (walls, ground, water) by default.
        seed: seed of the levels and the actions. The same arguments give the same effects.
        metadata: overrides the checkpoint's metadata.

    Raises WorldError if states of the environment cannot be edited or no object was visible, and OptionError for
    invalid values and for types that the environment does not have.
    """
    for name, value, least in (("episodes", episodes, 1), ("steps", steps, 1), ("last_steps", last_steps, 0)):
        if value < least:
            raise OptionError(f"{name}={value} must be at least {least}")
    agent, spec = _agent_and_spec(agent, environment, metadata)
    with closing(make_world(spec)) as world:
        unknown = sorted(set(types or ()) - set(world.types))
        if unknown:
            raise OptionError(f"types={unknown!r} are not types of the environment, which has {', '.join(world.types)}")
        moments = _play(agent, spec, world, episodes, steps, last_steps, seed)
        return measure_effects(agent, world, moments, types)


def measure_effects(
    agent: Agent, world: World, moments: Sequence[Moment], types: Collection[str] | None = None
) -> ObjectEffects:
    """Measure the effects of the objects at some moments by removing one object at a time. `types` has the same meaning
    as in `object_effects`.

    Raises WorldError if the frame that is drawn from a saved state differs from the observation, or if no object was
    visible.
    """
    effects: list[ObjectEffects] = []
    with progress_bar("Removing objects") as report:
        for start in range(0, len(moments), FRAMES):
            some = moments[start : start + FRAMES]
            _check_drawn(agent, world, some)
            scores = measure_scores(agent, some)
            terrain = types is not None
            removals = [
                Removal(i, (item,))
                for i, moment in enumerate(some)
                for item in world.objects(moment.world_state, terrain=terrain)
                if is_removed(item, types)
            ]
            effects += [
                _as_effects(changes, some, world.exact)
                for changes in measure_removals(agent, world, some, scores, removals)
            ]
            report((start + len(some)) / len(moments))
    if not effects:
        raise WorldError("no object was seen in the examined steps; play more episodes, or examine more steps of each")
    arrays = {
        name: np.concatenate([getattr(one, name) for one in effects])
        for name in ObjectEffects.__dataclass_fields__
        if name != "state"
    }
    states = [one.state for one in effects if one.state is not None]
    state = tuple(np.concatenate(parts) for parts in zip(*states, strict=True)) if states else None
    return ObjectEffects(**arrays, state=state)


def _check_drawn(agent: Agent, world: World, moments: Sequence[Moment]) -> None:
    for moment, different in zip(moments, different_pixels(agent, world, moments).tolist(), strict=True):
        if different:
            raise WorldError(
                f"step {moment.step} of episode {moment.episode} cannot be drawn again as it was observed: {different} "
                "pixels differ. Therefore, effects of objects cannot be measured"
            )


def _as_effects(changes: Changes, moments: Sequence[Moment], exact: bool) -> ObjectEffects:
    """Return the effects of objects that were removed one at a time."""
    items = [removal.objects[0] for removal in changes.removals]
    their = [moments[removal.moment] for removal in changes.removals]
    states = [moment.state for moment in their if moment.state is not None]
    boxes = pixel_boxes(items, *changes.without.shape[1:3])
    return ObjectEffects(
        type=np.array([item.type for item in items], str),
        episode=np.array([moment.episode for moment in their], np.int64),
        step=np.array([moment.step for moment in their], np.int64),
        position=np.array([item.offset for item in items], np.float32),
        box=np.column_stack([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])]).astype(np.int64),
        value_change=changes.values,
        logits_change=changes.actions,
        policy_change=changes.policy,
        with_object=np.stack([moment.observation for moment in their]),
        without_object=changes.without,
        exact=np.full(len(items), exact),
        state=tuple(np.stack(parts) for parts in zip(*states, strict=True)) if states else None,
    )


def clustered_mean(values: np.ndarray, clusters: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the mean of values (n,) with its cluster bootstrap interval (mean, low, high). `clusters` (n,) contains
    the cluster number of each value.

    The interval of a single cluster is (NaN, NaN), because it does not show the spread between clusters.
    """
    _, index = np.unique(clusters, return_inverse=True)
    sums, counts = np.bincount(index, values.astype(np.float64)), np.bincount(index)
    return float(values.mean()), *resampled_interval(len(counts), lambda drawn: drawn @ sums / (drawn @ counts), rng)


def _agent_and_spec(agent: Any, environment: Any, metadata: Mapping[str, Any] | None) -> tuple[Agent, EnvironmentSpec]:
    if isinstance(agent, str | os.PathLike):
        _, agent = open_agent(agent, metadata)
    if isinstance(environment, EnvironmentSpec):
        spec = environment
    else:
        known = {**agent.metadata, **(metadata or {})}
        if environment is not None:
            known = {**{name: value for name, value in known.items() if name != "env_id"}, "env_name": environment}
        spec = spec_from_metadata(known, num_actions=agent.num_actions)
    return agent, spec


def _play(
    agent: Agent, spec: EnvironmentSpec, world: World, episodes: int, steps: int, last_steps: int, seed: int
) -> list[Moment]:
    """Play complete episodes, and return the moments to examine, ordered by episode and step."""
    count = choose_num_envs(episodes, MAX_ENVIRONMENTS)
    levels, actions = np.random.SeedSequence([seed, STREAM]).generate_state(2)
    quota = shares(episodes, count)
    first = np.concatenate([[0], np.cumsum(quota)[:-1]])
    played, ages = np.zeros(count, np.int64), np.zeros(count, np.int64)
    kept = [_Spread(steps, last_steps) for _ in range(count)]
    moments: list[Moment] = []
    with (
        closing(make(replace(spec, epsilon_greedy=0.0), count, int(levels % 2**31))) as env,
        progress_bar("Playing") as report,
    ):
        transitions = play(
            agent,
            env,
            np.random.default_rng(actions),
            active=lambda: played < quota,
            save=lambda _: world.states(env),
        )
        while (played < quota).any():
            transition = next(transitions)
            for i in np.flatnonzero(played < quota):
                kept[i].add(
                    Moment(
                        int(first[i] + played[i]),
                        int(ages[i]),
                        transition.saved[i],
                        np.array(transition.observations[i]),
                        None if transition.state is None else tuple(np.array(part[i]) for part in transition.state),
                    )
                )
                ages[i] += 1
                if transition.result.firsts[i]:
                    moments += kept[i].take()
                    ages[i], played[i] = 0, played[i] + 1
                    report(played.sum() / episodes)
    return sorted(moments, key=lambda moment: (moment.episode, moment.step))


class _Spread:
    """Keeps evenly spaced moments of an episode of unknown length, and its last moments."""

    def __init__(self, count: int, last: int) -> None:
        self._count, self._stride = count, 1
        self._moments: list[Moment] = []
        self._last = deque[Moment](maxlen=last)

    def add(self, moment: Moment) -> None:
        self._last.append(moment)
        if moment.step % self._stride == 0:
            self._moments.append(moment)
            if len(self._moments) > 2 * self._count:
                self._moments, self._stride = self._moments[::2], 2 * self._stride

    def take(self) -> list[Moment]:
        """Return the kept moments of the episode, which has ended, and prepare for the next one."""
        spread = np.linspace(0, len(self._moments) - 1, min(self._count, len(self._moments))).round().astype(int)
        taken = {moment.step: moment for moment in [*(self._moments[i] for i in spread), *self._last]}
        self._moments, self._stride = [], 1
        self._last.clear()
        return [*taken.values()]
