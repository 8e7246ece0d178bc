"""The analysis `goals`: which objects the policy and the value follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.debugging.failures import UNKNOWN
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.keys import JsonObject
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import FailureOptions
from rl_clarity.debugging.findings import type_pairs
from rl_clarity.debugging.goals import (
    GoalOptions,
    GoalStates,
    Pair,
    Placement,
    Role,
    Sides,
    compare_types,
    example,
    goal_states,
    measure_memory,
    measure_role,
    measure_sides,
    place_type,
    seen_types,
)
from rl_clarity.debugging.measures import Clustered
from rl_clarity.debugging.moved_goals import MovedGoal, reach_moved_goal
from rl_clarity.environments.protocol import Combo
from rl_clarity.environments.worlds import World
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import slugs
from rl_clarity.pages.images import newest_frames
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import Column, ImagesSection, Note, PanelImage, TableSection
from rl_clarity.recordings.rollouts import observe

PARTS = 4
"""Tasks among which the types are divided."""
NOISE_SHARE = 0.05
"""Share of the value's range below which changes of the value do not matter."""
NOTE = Note(
    "Goals",
    "Objects of a type are taken out of a saved state, and one is placed left, right, above or below of the player, "
    "near or far, where nothing else is. The change of the probability of actions that move toward it, and of the "
    "value, are against the same state with the place empty. What an object does is found out by moving onto it: it is "
    "deadly, a goal, or harmless. Intervals are bootstrap intervals over episodes.",
)


@dataclass(frozen=True)
class GoalsSection(TableSection):
    """What changes when objects are placed, by type and place."""

    kind = "goals"
    title = "What the agent follows"


@dataclass(frozen=True)
class GoalImages(ImagesSection):
    """For each type the frame in which it changes the policy most, without and with an object."""

    kind = "goal_images"
    title = "Objects that change the policy most"


_Sections: TypeAlias = GoalsSection | GoalImages


class GoalsAnalysis(Analysis[GoalOptions, _Sections]):
    """Places objects of each type around the player in saved states, and measures the policy and the value."""

    kind = "goals"

    def tasks(self, subject: Subject, options: GoalOptions) -> Iterable[Task]:
        for part in range(PARTS):
            yield self.task(
                subject,
                self.task_name("part", part + 1),
                partial(_measure_part, subject, options, part),
                [asdict(options), asdict(subject.options_of(FailureOptions)), subject.options.seed, part],
                group=self.task_name("part"),
                pieces=partial(_pieces, options),
            )

    def sections(self, subject: Subject, options: GoalOptions, results: Results) -> Iterable[_Sections]:
        goals = goals_of(results)
        columns = {
            "type": "object",
            "role": "what it does",
            "place": "placed",
            "toward": "probability of moving toward it",
            "value": "value",
            "policy": "policy (total variation)",
            "n": "states",
        }
        roles = {role.type: role.name for role in goals.roles}
        rows = [_row(one, roles.get(one.type, "unknown")) for one in goals.placements]
        caption = (
            goals.unknown or "Changes against the same place left empty. A row opens the frame of its largest effect."
        )
        yield GoalsSection([Column(key, label) for key, label in columns.items()], rows, caption=caption)
        if goals.images:
            yield GoalImages(goals.images, caption="The same frame with the place empty, and with the object.")

    def notes(self, options: GoalOptions) -> Sequence[Note]:
        return [NOTE]


@dataclass(frozen=True)
class Goals:
    """What all tasks measured."""

    placements: Sequence[Placement]
    roles: Sequence[Role]
    pairs: Sequence[Pair]
    sides: Sides | None
    memory: Clustered | None
    moved: Sequence[MovedGoal]
    value_noise: float | None
    unknown: str
    """Why nothing was measured, or empty."""
    refused: Mapping[str, str]
    """Types that could not be placed, with the reason."""
    images: Sequence[PanelImage]


def goals_of(results: Results) -> Goals:
    """Return what the tasks measured."""
    name = GoalsAnalysis.task_name("part", "")
    parts: list[Mapping[str, Any]] = [facts for task, facts in results.items() if task.startswith(name)]

    def joined(kind: type[Any], key: str) -> list[Any]:
        return [read(kind, one, key) for facts in parts for one in facts[key]]

    sides, memory = joined(Sides, "sides"), joined(Clustered, "memory")
    return Goals(
        joined(Placement, "placements"),
        joined(Role, "roles"),
        joined(Pair, "pairs"),
        sides[0] if sides else None,
        memory[0] if memory else None,
        joined(MovedGoal, "moved"),
        next((facts["noise"] for facts in parts if facts["noise"] is not None), None),
        next((facts["unknown"] for facts in parts if facts["unknown"]), ""),
        {name: reason for facts in parts for name, reason in facts["refused"].items()},
        joined(PanelImage, "images"),
    )


def _measure_part(subject: Subject, options: GoalOptions, part: int, work: Work, most: int | None = None) -> TaskResult:
    """Measure some of the types and of their pairs, at most `most` types; the first part measures what has no type."""
    played, agent = subject.trajectories, subject.agent
    facts: dict[str, Any] = {
        name: [] for name in ("placements", "roles", "pairs", "sides", "memory", "moved", "images")
    }
    facts |= {"noise": None, "unknown": "", "refused": {}}
    try:
        if played.world_states is None:
            raise ClarityError(UNKNOWN)
        brancher = Brancher(agent, played.world_states.spec, subject.options.seed)
    except ClarityError as error:
        return TaskResult({**facts, "unknown": error.message})
    with closing(brancher):
        world, combos = brancher.world, _combos(subject, brancher)
        states = goal_states(agent, world, played, options)
        types = seen_types(world, states, options.types)
        chosen = types[part::PARTS][:most]
        pairs = type_pairs(types)[part::PARTS][: None if most is None else 0]
        for number, name in enumerate(chosen):
            try:
                placements = place_type(agent, world, states, combos, name, options)
                facts["placements"] += [asdict(one) for one in placements]
                facts["images"] += _write_image(subject, world, states, placements, options)
                role = measure_role(brancher, states, combos, name)
                facts["roles"].append(asdict(role))
                if role.name == "goal" and most is None:
                    searched, seed = subject.options_of(FailureOptions), subject.options.seed
                    moved = reach_moved_goal(brancher, played, name, options, searched, seed)
                    facts["moved"] += [] if moved is None else [asdict(moved)]
            except ClarityError as error:
                facts["refused"][name] = error.message
            work.report((number + 1) / (len(chosen) + len(pairs)))
        for first, second in pairs:
            try:
                pair = compare_types(agent, world, states, first, second, options)
            except ClarityError:  # its types are among the refused ones
                continue
            facts["pairs"] += [] if pair is None else [asdict(pair)]
        if part == 0:
            sides, memory = measure_sides(agent, states, combos), measure_memory(agent, states)
            facts["sides"] = [] if sides is None else [asdict(sides)]
            facts["memory"] = [] if memory is None else [asdict(memory)]
        if played.values is not None:
            values = [float(played.values[moment.episode, moment.step]) for moment in states.moments]
            facts["noise"] = NOISE_SHARE * (max(values) - min(values))
    return TaskResult(facts, [image["image"] for image in facts["images"]])


def _write_image(
    subject: Subject, world: World, states: GoalStates, placements: Sequence[Placement], options: GoalOptions
) -> list[JsonObject]:
    """Write the frame of the largest effect of a type, without and with the object."""
    largest = max(placements, key=lambda one: one.largest, default=None)
    drawn = None if largest is None else example(world, states.moments, largest, options)
    if largest is None or drawn is None:
        return []
    (empty,), (placed,) = (newest_frames(observe(subject.agent, frame[None]), subject.stack) for frame in drawn)
    name = f"goals/{slugs([largest.type])[0]}.png"
    subject.files.write_image(name, np.concatenate([empty, placed], axis=1))
    place = f"{largest.place}, {'far' if largest.far else 'near'}"
    label = f"{largest.type}, {place}: the policy changes by {largest.largest:.2g}"
    return [{"image": name, "label": label, "trajectory": largest.trajectory, "frame": largest.frame}]


def _combos(subject: Subject, brancher: Brancher) -> Sequence[Combo]:
    """Return the buttons of the actions, by the page's options or by the environment."""
    return subject.options.action_combos or brancher.combos


def _row(one: Placement, role: str) -> dict[str, object]:
    def text(values: Clustered | None) -> str | None:
        if values is None:
            return None
        low, high = values.interval(0)
        return f"{values.mean:+.2g} ({low:+.2g} to {high:+.2g})" if low == low else f"{values.mean:+.2g}"

    return {
        "type": one.type,
        "role": role,
        "place": f"{one.place}, {'far' if one.far else 'near'}",
        "toward": text(one.toward),
        "value": text(one.value),
        "policy": text(one.policy),
        "n": one.policy.n,
        "trajectory": one.trajectory,
        "frame": one.frame,
    }


def _pieces(options: GoalOptions, sample: Subject, batch: int) -> Iterable[Piece]:
    """A single type, of about four in a part with its pairs."""
    if sample.trajectories.world_states is None:
        return
    work = Work(batch, lambda share: None, {})
    measure = partial(_measure_part, sample, options, 0, work, 1)
    yield Piece(measure, 2.0, measure)
