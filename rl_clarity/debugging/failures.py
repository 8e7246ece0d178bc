"""Examine failures: which object ended an episode, until when the end could be avoided, and how the policy reacted.

An end is avoidable from a step if one of a number of random sequences of actions, taken from the saved state of the
environment before the step, does not fail. Random sequences find only some of the sequences that survive, so the last
avoidable step is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rl_clarity.base.errors import WorldError
from rl_clarity.base.parsing import check_minimum
from rl_clarity.base.statistics import share_interval
from rl_clarity.debugging.branching import Brancher, check_restored
from rl_clarity.environments.worlds import WorldObject, follow
from rl_clarity.recordings.advantages import last_steps
from rl_clarity.recordings.removals import Moment, Removal, measure_removals, measure_scores
from rl_clarity.recordings.rollouts import observe
from rl_clarity.recordings.samples import Trajectories

NOISE = 0.03
"""Changes of the policy with a smaller total variation count as no effect, as in the analysis of objects."""
LUCK = 0.9
"""A failure counts as bad luck if at least this share of continuations survives."""
CANDIDATES = 24
"""Number of nearest objects that are tried as the cause of an end."""
TIME_LIMIT = "time limit"
VERDICTS = {
    "not visible in time": "the cause was first seen after the last step from which the end could be avoided",
    "no reaction": "the policy never reacted to what ended the episode",
    "late": "the policy reacted only after the last step from which the end could be avoided",
    "wrong reaction": "the policy reacted in time, but not in a way that survives",
    "bad luck": "the policy survives in most continuations from the last step from which the end could be avoided",
    "unavoidable": "no sequence of actions that was tried avoids the end",
    "avoidable": "the end could be avoided, but its cause is not known",
    "time ran out": "the episode was ended by its time limit",
    "not tested": "the episode cannot be continued from saved states",
}


@dataclass(frozen=True)
class FailureOptions:
    """Which failures are examined, and how."""

    count: int = 50
    """Largest number of failures that are examined, those with the lowest return first."""
    window: int = 40
    """Number of steps before an end from which episodes are continued."""
    horizon: int = 20
    """Number of steps of a random sequence of actions, and number of steps after the end that a continuation by the
    policy must survive."""
    sequences: int = 64
    """Random sequences of actions that are tried from each step."""
    continuations: int = 16
    """Continuations by the policy from each step."""
    points: int = 6
    """Number of steps of the window from which the policy continues, in addition to the last avoidable one."""

    def __post_init__(self) -> None:
        check_minimum(self, 0, "count")
        check_minimum(self, 1, "window", "horizon", "sequences", "continuations", "points")


@dataclass(frozen=True)
class Ending:
    """An episode of a trajectory that has ended."""

    trajectory: int
    first: int
    """First step of the episode, or 0 if it began before the trajectory."""
    last: int
    """Last step of the episode."""
    total: float
    """Return of the episode."""
    cause: str
    truncated: bool = False


@dataclass(frozen=True)
class Survival:
    """The number of continuations by the policy from a step that survive."""

    step: int
    survived: int
    count: int

    def __str__(self) -> str:
        """Return the number of surviving continuations, with the 95 % interval of their share, for sentences."""
        low, high = share_interval(self.survived, self.count)
        return f"{self.survived} of {self.count} continuations ({low:.0%} to {high:.0%})"


@dataclass(frozen=True)
class Reaction:
    """Effect of the object that ended an episode on the policy and the value at a step."""

    step: int
    policy: float
    """Total variation between the policies with and without the object."""
    value: float | None


@dataclass(frozen=True)
class Failure:
    """Why an episode failed. Steps are counted from 0 along the trajectory."""

    trajectory: int
    first: int
    last: int
    total: float
    cause: str
    verdict: str
    statement: str
    """A sentence that states the measurements behind the verdict."""
    killer: str | None = None
    """Type of the object without which the last step does not end the episode (the killer)."""
    killer_pixels: tuple[float, float, float, float] | None = None
    """Bounding box of the killer in the last observation: left, top, right and bottom, as shares of width and
    height."""
    visible_since: int | None = None
    """First step of the window at which the killer is visible."""
    avoidable_until: int | None = None
    """Last step from which a random sequence of actions survives."""
    policy_until: int | None = None
    """Last step from which at least half of the policy's continuations survive."""
    escapes: int = 0
    """Number of random sequences from the step `avoidable_until` that survive."""
    escape: Sequence[int] = ()
    """Actions of one of these sequences."""
    survival: Sequence[Survival] = ()
    without_killer: Sequence[Survival] = ()
    """Survival after the killer is removed from the environment, from those of the same steps at which it exists."""
    reactions: Sequence[Reaction] = ()


@dataclass
class _Measured:
    """Measurements of a failure, from which its verdict is derived."""

    killer: str | None = None
    visible_since: int | None = None
    avoidable_until: int | None = None
    escapes: int = 0
    escape: Sequence[int] = ()
    survival: list[Survival] = field(default_factory=list)
    without_killer: list[Survival] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    killers: dict[int, WorldObject] = field(default_factory=dict)
    """The killer at each step at which it exists, whether it is in view or not."""


def failed_episodes(trajectories: Trajectories, most: int | None = None) -> list[Ending]:
    """Return the episodes that failed, those with the lowest return first.

    An episode failed if the environment ended it and its last step gave no reward, or if its time ran out although
    other episodes end with a reward.
    """
    ends = [ending for i in range(len(trajectories)) for ending in _endings(trajectories, i)]
    reached = any(_last_reward(trajectories, end) > 0 and not end.truncated for end in ends)
    failed = [
        end
        for end in ends
        if (end.truncated and reached) or (not end.truncated and _last_reward(trajectories, end) <= 0)
    ]
    failed.sort(key=lambda end: (end.total, end.trajectory, end.last))
    return failed[:most]


def count_episodes(trajectories: Trajectories) -> int:
    """Return the number of episodes that ended."""
    return sum(len(_endings(trajectories, i)) for i in range(len(trajectories)))


def _endings(trajectories: Trajectories, trajectory: int) -> list[Ending]:
    steps = trajectories.steps(trajectory)
    firsts = np.asarray(trajectories.firsts[trajectory], bool)[:steps]
    dones = None if trajectories.dones is None else np.asarray(trajectories.dones[trajectory])[:steps]
    rewards = np.asarray(trajectories.rewards[trajectory], np.float64)
    causes = {(i, t): cause for i, t, cause in trajectories.causes or ()}
    cut = np.zeros(steps, bool) if trajectories.truncated is None else np.asarray(trajectories.truncated[trajectory])
    endings, first = [], 0
    for last in last_steps(firsts, dones).tolist():
        cause = causes.get((trajectory, last)) or (TIME_LIMIT if cut[last] else "end of episode")
        total = float(rewards[first : last + 1].sum())
        endings.append(Ending(trajectory, first, last, total, cause, bool(cut[last])))
        first = last + 1
    return endings


def _last_reward(trajectories: Trajectories, end: Ending) -> float:
    return float(trajectories.rewards[end.trajectory, end.last])


def episode_moments(trajectories: Trajectories, trajectory: int, steps: Sequence[int]) -> list[Moment]:
    """Return steps of a trajectory with the states of the environment and the agent before them.

    Raises WorldError if the states of the environment were not saved.
    """
    saved = trajectories.world_states
    if saved is None:
        raise WorldError("the trajectories have no states of the environment, from which episodes could be continued")
    world_states = saved.read(trajectory, steps)
    parts = trajectories.states or ()
    return [
        Moment(
            trajectory,
            step,
            state,
            np.asarray(trajectories.observations[trajectory, step]),
            tuple(np.asarray(part[trajectory, step]) for part in parts) or None,
        )
        for step, state in zip(steps, world_states, strict=True)
    ]


def examine(
    brancher: Brancher, trajectories: Trajectories, ending: Ending, options: FailureOptions, seed: int = 0
) -> Failure:
    """Find out why an episode ended.

    The same arguments give the same result. If the episode cannot be reproduced from a saved state, the verdict is
    `not tested`.
    """
    if ending.truncated:
        return _verdict(ending, _Measured(), options)
    rng = np.random.default_rng([seed, ending.trajectory, ending.last])
    steps = range(max(ending.first, ending.last + 1 - options.window), ending.last + 1)
    actions = np.asarray(trajectories.actions[ending.trajectory, steps.start : steps.stop])
    try:
        moments = episode_moments(trajectories, ending.trajectory, steps)
        check_restored(brancher, moments, actions)
    except WorldError as error:
        return replace(_verdict(ending, _Measured(), options), verdict="not tested", statement=str(error))
    measured = _Measured()
    _measure_killer(brancher, moments, actions, ending.cause, measured)
    _search(brancher, moments, options, rng, measured)
    _continue(brancher, moments, options, rng, measured)
    others = np.random.default_rng([seed, ending.trajectory, ending.last, 1])
    _continue_without_killer(brancher, moments, options, others, measured)
    return _verdict(ending, measured, options)


def escape_frames(brancher: Brancher, trajectories: Trajectories, failure: Failure) -> np.ndarray | None:
    """Return the observations (n, H, W, C) when the surviving sequence of actions is taken, or None if there is no such
    sequence.
    """
    if failure.avoidable_until is None or not failure.escape:
        return None
    (moment,) = episode_moments(trajectories, failure.trajectory, [failure.avoidable_until])
    continued = brancher.continue_actions([moment.world_state], np.array([failure.escape]), keep=True)
    assert continued.observations is not None
    return observe(brancher.agent, continued.observations[0])


def _measure_killer(
    brancher: Brancher, moments: Sequence[Moment], actions: np.ndarray, cause: str, measured: _Measured
) -> None:
    """Find the object without which the last step does not end the episode (the killer), track it back in time, and
    measure its effect on the outputs.
    """
    killer = _killer(brancher, moments[-1], int(actions[-1]), cause)
    if killer is None:
        return
    measured.killer = killer.type
    world, rows = brancher.world, list[Removal]()
    later = world.objects(moments[-1].world_state, terrain=killer.terrain)
    number = next(item.number for item in later if (item.type, item.box) == (killer.type, killer.box))
    for i in range(len(moments) - 1, -1, -1):
        later = follow(later, world.objects(moments[i].world_state, terrain=killer.terrain))
        found = next((item for item in later if item.number == number), None)
        if found is None:
            break
        measured.killers[moments[i].step] = found
        if found.in_view:
            rows.append(Removal(i, (found,)))
    rows.reverse()
    scores = measure_scores(brancher.agent, moments)
    for changes in measure_removals(brancher.agent, world, moments, scores, rows):
        for row, moment in enumerate(changes.moments.tolist()):
            value = float(changes.values[row])
            measured.reactions.append(
                Reaction(moments[moment].step, float(changes.policy[row]), None if math.isnan(value) else value)
            )
    if measured.reactions:
        measured.visible_since = measured.reactions[0].step


def _killer(brancher: Brancher, moment: Moment, action: int, cause: str) -> WorldObject | None:
    """Return the nearest object without which an action does not end the episode.

    Objects other than terrain are preferred, because without terrain, the player may just fall past what ended the
    episode. If there are none, the nearest object of the type that the environment reports as the cause is returned; if
    there is none, terrain. Return None if no object can be named.
    """
    objects = brancher.world.objects(moment.world_state)
    near = sorted(objects, key=lambda item: (item.terrain, math.hypot(*item.offset)))[:CANDIDATES]
    if not near:
        return None
    try:
        edited = [brancher.world.without(moment.world_state, [item]) for item in near]
        ends = brancher.continue_actions(edited, np.full((len(near), 1), action))
    except WorldError:  # painted over, or edited in the image only
        return None
    survived = [near[i] for i in np.flatnonzero(ends.survived)]
    named = [item for item in near if item.type == cause]
    return next(iter([*(item for item in survived if not item.terrain), *named, *survived]), None)


def _search(
    brancher: Brancher,
    moments: Sequence[Moment],
    options: FailureOptions,
    rng: np.random.Generator,
    measured: _Measured,
) -> None:
    """Search back from the end for the last step from which a random sequence of actions survives."""
    for moment in reversed(moments):
        sequences = brancher.random_sequences(options.sequences, options.horizon, rng)
        survived = brancher.continue_actions([moment.world_state] * len(sequences), sequences).survived
        if survived.any():
            measured.avoidable_until = moment.step
            measured.escapes = int(survived.sum())
            measured.escape = sequences[int(survived.argmax())].tolist()
            return


def _continue(
    brancher: Brancher,
    moments: Sequence[Moment],
    options: FailureOptions,
    rng: np.random.Generator,
    measured: _Measured,
) -> None:
    """Let the policy continue from some steps of the window, and from the last avoidable step."""
    last = moments[-1].step
    spread = np.linspace(0, len(moments) - 1, min(options.points, len(moments))).round().astype(int)
    chosen = sorted(
        {int(i) for i in spread} | {i for i, one in enumerate(moments) if one.step == measured.avoidable_until}
    )
    measured.survival = _survival(brancher, [moments[i] for i in chosen], last, options, rng)


def _continue_without_killer(
    brancher: Brancher,
    moments: Sequence[Moment],
    options: FailureOptions,
    rng: np.random.Generator,
    measured: _Measured,
) -> None:
    """Let the policy continue from the same steps in an environment without what ended the episode."""
    chosen = {one.step for one in measured.survival} & measured.killers.keys()
    try:
        edited = [
            replace(moment, world_state=brancher.world.without(moment.world_state, [measured.killers[moment.step]]))
            for moment in moments
            if moment.step in chosen
        ]
    except WorldError:  # nothing is known about survival without it
        return
    if edited:
        measured.without_killer = _survival(brancher, edited, moments[-1].step, options, rng)


def _survival(
    brancher: Brancher, moments: Sequence[Moment], last: int, options: FailureOptions, rng: np.random.Generator
) -> list[Survival]:
    """Return how many of the policy's continuations from each moment survive `options.horizon` steps beyond `last`."""
    repeated = [moment for moment in moments for _ in range(options.continuations)]
    steps = [last + 1 - moment.step + options.horizon for moment in repeated]
    survived = brancher.continue_policy(repeated, steps, rng).survived.reshape(len(moments), -1).sum(axis=1)
    return [
        Survival(moment.step, count, options.continuations)
        for moment, count in zip(moments, survived.tolist(), strict=True)
    ]


def _verdict(ending: Ending, measured: _Measured, options: FailureOptions) -> Failure:
    """Return the failure with its verdict, which fixed rules derive from the measurements."""
    until = measured.avoidable_until
    at = next((one for one in measured.survival if one.step == until), None)
    policy = [one.step for one in measured.survival if 2 * one.survived >= one.count]
    before = [one for one in measured.reactions if until is not None and one.step <= until]
    after = [one.policy for one in measured.reactions if until is not None and one.step > until]
    cause = measured.killer or ending.cause
    left = "" if until is None else ago(ending.last, until)
    largest = max((one.policy for one in before), default=0.0)
    if ending.truncated:
        verdict, text = (
            "time ran out",
            f"The time limit ended the episode after {ending.last + 1 - ending.first} steps.",
        )
    elif until is None or at is None:
        tried = f"{options.sequences} random sequences of {options.horizon} steps"
        verdict, text = (
            "unavoidable",
            f"None of {tried} avoided the end ({cause}), from any of the last {options.window} steps.",
        )
    else:
        known = f"{cause}; avoidable until {left}: {measured.escapes} of {options.sequences} random sequences survive"
        ours = f"and the policy in {at}"
        if at.survived >= LUCK * at.count:
            verdict, text = "bad luck", f"Ended by {known}, {ours}."
        elif measured.killer is None:
            verdict, text = "avoidable", f"Ended by {known}, {ours}; which object caused it is not known."
        elif measured.visible_since is None or measured.visible_since > until:
            seen = (
                "was never seen"
                if measured.visible_since is None
                else f"was first seen {ago(ending.last, measured.visible_since)}"
            )
            verdict, text = "not visible in time", f"Ended by {known}, {ours}; this {cause} {seen}."
        elif largest < NOISE:
            late = max(after, default=0.0) >= NOISE
            verdict = "late" if late else "no reaction"
            then = (
                f"by up to {max(after, default=0.0):.2g} afterwards" if late else f"by less than {NOISE} at every step"
            )
            changed = f"this {cause} changed the policy by at most {largest:.2g} until then, {then}"
            text = f"Ended by {known}, {ours}; {changed}."
        else:
            verdict = "wrong reaction"
            peak, latest = max(before, key=lambda one: one.policy), before[-1]
            changed = f"this {cause} changed the policy by up to {largest:.2g}, {ago(ending.last, peak.step)}"
            if latest is not peak:
                changed += f", and by {latest.policy:.2g}, {ago(ending.last, latest.step)}"
            text = f"Ended by {known}, {ours}; {changed} ({NOISE} or more at any step is a reaction)."
    return Failure(
        ending.trajectory,
        ending.first,
        ending.last,
        ending.total,
        ending.cause if ending.cause != "end of episode" or measured.killer is None else measured.killer,
        verdict,
        text,
        killer=measured.killer,
        killer_pixels=measured.killers[ending.last].pixels if ending.last in measured.killers else None,
        visible_since=measured.visible_since,
        avoidable_until=until,
        policy_until=max(policy, default=None),
        escapes=measured.escapes,
        escape=measured.escape,
        survival=measured.survival,
        without_killer=measured.without_killer,
        reactions=measured.reactions,
    )


def ago(last: int, step: int) -> str:
    """Return a description of a step relative to the last step of an episode, such as "3 steps before the last"."""
    return "the last step" if step == last else f"{last - step} step{'s' * (last - step != 1)} before the last"
