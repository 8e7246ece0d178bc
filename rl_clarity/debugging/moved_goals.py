"""Play whole episodes with the goal moved, to measure whether the agent reaches it in an unusual place."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import FailureOptions, episode_moments
from rl_clarity.debugging.goals import GoalOptions
from rl_clarity.debugging.measures import Clustered
from rl_clarity.debugging.places import PLACES, Layout
from rl_clarity.environments.worlds import World
from rl_clarity.recordings.removals import Moment
from rl_clarity.recordings.samples import Trajectories

STEPS = 60
"""Number of steps within which the goal, which is moved to a few cells from the player, must be reached."""


@dataclass(frozen=True)
class MovedGoal:
    """Results of episodes that are continued from their first step, with a goal moved to a free place near the player.

    Only episodes are counted in which a random search reaches the moved goal.
    """

    type: str
    episodes: int
    moved: int
    """Number of these episodes in which the agent reaches the moved goal."""
    unmoved: int
    """Number of the same episodes in which the agent reaches the goal at its original place, within as many steps."""
    tried: int
    """Number of episodes in which the goal was moved, whether or not the search reached it."""
    difference: Clustered
    """For each episode, the agent's success minus that of the search, which is always 1: 0 if the agent reaches the
    moved goal, and otherwise -1."""
    trajectory: int = 0
    """Trajectory of the first episode in which the moved goal is not reached."""
    frame: int = 0

    def __add__(self, other: MovedGoal) -> MovedGoal:
        """Combine the results for different episodes."""
        mine, theirs = self.difference, other.difference
        return replace(
            self if self.moved < self.episodes else other,
            episodes=self.episodes + other.episodes,
            moved=self.moved + other.moved,
            unmoved=self.unmoved + other.unmoved,
            tried=self.tried + other.tried,
            difference=Clustered([*mine.sums, *theirs.sums], [*mine.counts, *theirs.counts]),
        )


def reach_moved_goal(
    brancher: Brancher,
    trajectories: Trajectories,
    type: str,
    goals: GoalOptions,
    failures: FailureOptions,
    seed: int = 0,
    part: int = 0,
    parts: int = 1,
) -> MovedGoal | None:
    """Move a goal to a free place near the player at the first step of episodes, and let the policy continue.

    Episodes are left out if no random sequence of actions reaches the moved goal. Only every `parts`-th episode, from
    number `part` on, is used. Return None if no episode is left.
    """
    rng = np.random.default_rng([seed, 5, part])
    starts = _starts(brancher, trajectories, type, goals, part, parts)
    reachable = [
        (moment, state)
        for moment, state in starts
        if brancher.continue_actions(
            [state] * failures.sequences, brancher.random_sequences(failures.sequences, failures.horizon, rng)
        ).succeeded.any()
    ]
    if not reachable:
        return None
    moments = [moment for moment, _ in reachable]
    steps, seeds = [STEPS] * len(moments), [np.random.default_rng([seed, 6, part]) for _ in range(2)]
    moved = brancher.continue_policy(moments, steps, seeds[0], world_states=[state for _, state in reachable]).succeeded
    unmoved = brancher.continue_policy(moments, steps, seeds[1]).succeeded
    first = moments[int(moved.argmin())]
    return MovedGoal(
        type,
        len(moments),
        int(moved.sum()),
        int(unmoved.sum()),
        len(starts),
        Clustered.of(moved.astype(float) - 1, np.arange(len(moments)), len(moments)),
        first.episode,
        first.step,
    )


def _starts(
    brancher: Brancher, trajectories: Trajectories, type: str, goals: GoalOptions, part: int, parts: int
) -> list[tuple[Moment, bytes]]:
    """Return the first steps of episodes, and their states with the only object of the type moved.

    Successive episodes try places in different orders.
    """
    world, found = brancher.world, list[tuple[Moment, bytes]]()
    firsts = [
        (i, int(step))
        for i in range(len(trajectories))
        for step in np.flatnonzero(np.asarray(trajectories.firsts[i], bool)[: trajectories.steps(i)])
    ]
    most = math.ceil((goals.episodes - part) / parts)
    for number, (i, step) in enumerate(firsts[part::parts]):
        if len(found) >= most:
            break
        (moment,) = episode_moments(trajectories, i, [step])
        state = move_object(world, moment.world_state, type, goals.far, number)
        if state is not None:
            found.append((moment, state))
    return found


def move_object(world: World, world_state: bytes, type: str, far: int, first: int = 0) -> bytes | None:
    """Return the state with the only object of a type moved to a place `far` cells from the player.

    Places are tried in turn, beginning with place number `first`. Return None if no place is free, or if there is not
    exactly one object of the type.
    """
    layout = Layout(world.objects(world_state))
    objects = layout.of_types((type,))
    if len(objects) != 1:
        return None
    places = [*PLACES.values()]
    for k in range(len(places)):
        place = layout.free_place(places[(first + k) % len(places)], far, (type,))
        if place is not None:
            with suppress(WorldError):
                return world.moved(world_state, objects[0], place)
    return None
