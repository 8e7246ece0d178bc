"""The analysis `goals`: which objects the policy and the value follow."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rl_clarity.analyses.analysis import Analysis, Subject
from rl_clarity.analyses.debugging.failures import UNKNOWN, failures_of
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.keys import JsonObject
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import FailureOptions, episode_moments
from rl_clarity.debugging.findings import type_pairs
from rl_clarity.debugging.goals import (
    GoalOptions,
    Pair,
    Placement,
    Role,
    Sides,
    actions_turn,
    compare_types,
    example,
    goal_states,
    measure_background,
    measure_memory,
    measure_role,
    measure_sides,
    place_type,
    role_names,
    seen_types,
)
from rl_clarity.debugging.measures import Clustered
from rl_clarity.debugging.moved_goals import STEPS, MovedGoal, move_object, reach_moved_goal
from rl_clarity.debugging.places import PLACES
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.protocol import Combo
from rl_clarity.environments.worlds import World
from rl_clarity.jobs.tasks import Piece, Results, Task, TaskResult, Work
from rl_clarity.pages.files import slugs
from rl_clarity.pages.images import newest_frames
from rl_clarity.pages.schema import read
from rl_clarity.pages.sections import ImagesSection, Note, PanelImage, TableSection, columns_with_values
from rl_clarity.recordings.rollouts import observe

PARTS = 8
"""Number of tasks among which the states are divided, and also the episodes with a moved goal."""
STEPS_OF_AN_EPISODE = 100
"""Number of steps per episode that the forecast assumes, because episodes are not known before they are played."""
NOISE_SHARE = 0.05
"""Share of the value's range below which changes of the value do not matter."""
NOTE = Note(
    "Goals",
    "All objects of a type are removed from a saved state, and one is placed to the left or right of the player, above "
    "or below, near or far, where nothing else is. The changes of the value, and of the probability of actions that "
    "move toward the object, are relative to the same state with the place empty. The role of an object (deadly, a "
    "goal, or harmless) is determined by moving onto it. Intervals are bootstrap intervals over episodes.",
)


@dataclass(frozen=True)
class GoalsSection(TableSection):
    """Changes of the policy and the value when an object is placed, by type of object and place."""

    kind = "goals"
    title = "What the agent follows"


@dataclass(frozen=True)
class GoalImages(ImagesSection):
    """For each type, the frame in which an object changes the policy most, without and with the object."""

    kind = "goal_images"
    title = "Objects that change the policy most"


_Sections: TypeAlias = GoalsSection | GoalImages


class GoalsAnalysis(Analysis[GoalOptions, _Sections]):
    """Places objects of each type around the player in saved states, and measures the policy and the value."""

    kind = "goals"

    def tasks(self, subject: Subject, options: GoalOptions) -> Iterable[Task]:
        inputs = [asdict(options), asdict(subject.options_of(FailureOptions)), subject.options.seed]
        parts = self.task_name("part")
        for part in range(PARTS):
            yield self.task(
                subject,
                self.task_name("part", part + 1),
                partial(_measure_part, subject, options, part),
                [*inputs, part],
                group=parts,
                pieces=partial(_pieces, options, min(options.states, subject.trajectories.rewards.size)),
            )
        for part in range(PARTS):
            yield self.task(
                subject,
                self.task_name("moved", part + 1),
                partial(_move_goals, subject, options, part),
                [*inputs, part],
                group=self.task_name("moved"),
                after=(parts,),
                pieces=partial(_moved_pieces, options, min(options.episodes, expected_episodes(subject))),
            )
        yield self.task(
            subject,
            self.task_name("images"),
            partial(_write_images, subject, options),
            inputs,
            size=0.01,
            after=(parts,),
            pieces=lambda sample, batch: (),  # the task takes little time
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
        roles = role_names(goals.roles, {one.killer for one in failures_of(results) if one.killer is not None})
        rows = [_row(one, roles.get(one.type, "unknown")) for one in goals.placements]
        caption = (
            goals.unknown
            or "Changes compared with the same place left empty. A row opens the frame with its largest effect."
        )
        yield GoalsSection(columns_with_values(columns, rows), rows, caption=caption)
        if goals.images:
            yield GoalImages(goals.images, caption="The same frame with the place empty, and with the object.")

    def notes(self, options: GoalOptions) -> Sequence[Note]:
        return [NOTE]


@dataclass(frozen=True)
class Goals:
    """The combined measurements of all tasks."""

    placements: Sequence[Placement]
    roles: Sequence[Role]
    pairs: Sequence[Pair]
    sides: Sides | None
    background: Clustered | None
    memory: Clustered | None
    moved: Sequence[MovedGoal]
    value_noise: float | None
    unknown: str
    """Reason why nothing was measured; empty if something was."""
    refused: Mapping[str, str]
    """Types that could not be placed, with the reason."""
    images: Sequence[PanelImage]


def goals_of(results: Results) -> Goals:
    """Return the combined measurements of all tasks."""
    parts = _facts(results, "part")
    joined = partial(_joined, [*parts, *_facts(results, "moved")])
    placements = joined(Placement, "placements", "type", "place", "far")
    types = {name: i for i, name in enumerate(dict.fromkeys(name for facts in parts for name in facts["types"]))}
    places = {name: i for i, name in enumerate(PLACES)}
    placements.sort(key=lambda one: (types[one.type], places[one.place], one.far))  # parts may lack some
    sides = joined(Sides, "sides")
    background, memory = (joined(Clustered, name) for name in ("background", "memory"))
    values = [value for facts in parts for value in facts["values"]]
    return Goals(
        placements,
        joined(Role, "roles", "type"),
        joined(Pair, "pairs", "first", "second"),
        sides[0] if sides else None,
        background[0] if background else None,
        memory[0] if memory else None,
        joined(MovedGoal, "moved", "type"),
        NOISE_SHARE * (max(values) - min(values)) if values else None,
        next((facts["unknown"] for facts in parts if facts["unknown"]), ""),
        {name: reason for facts in parts for name, reason in facts["refused"].items()},
        [read(PanelImage, one, "image") for facts in _facts(results, "images") for one in facts["images"]],
    )


def _facts(results: Results, name: str) -> list[Mapping[str, Any]]:
    prefix = GoalsAnalysis.task_name(name)
    return [facts for task, facts in results.items() if task.startswith(prefix)]


def _joined(parts: Iterable[Mapping[str, Any]], kind: type[Any], key: str, *names: str) -> list[Any]:
    """Return the results of type `kind` that the tasks store under `key`.

    Results that agree in the fields `names` are added up.
    """
    found: dict[tuple[object, ...], Any] = {}
    for facts in parts:
        for values in facts.get(key, ()):
            one = read(kind, values, key)
            identity = tuple(getattr(one, name) for name in names)
            found[identity] = found[identity] + one if identity in found else one
    return [*found.values()]


def _open(subject: Subject) -> Brancher:
    """Return a `Brancher` for the subject's agent. Raises ClarityError if episodes cannot be continued from saved
    states.
    """
    saved = subject.trajectories.world_states
    if saved is None:
        raise ClarityError(UNKNOWN)
    return Brancher(subject.agent, saved.spec, subject.options.seed)


def _measure_part(subject: Subject, options: GoalOptions, part: int, work: Work) -> TaskResult:
    """Measure the effects of all types, and of pairs of types, in every `PARTS`-th state."""
    played, agent = subject.trajectories, subject.agent
    names = ("types", "placements", "roles", "pairs", "sides", "background", "memory", "values")
    facts: dict[str, Any] = {**{name: [] for name in names}, "unknown": "", "refused": {}}
    try:
        brancher = _open(subject)
    except ClarityError as error:
        return TaskResult({**facts, "unknown": error.message})
    with closing(brancher):
        combos = _combos(subject, brancher)
        known = goal_states(agent, brancher.world, played, options, turns=actions_turn(combos))
        facts["types"] = types = seen_types(known, options.types)
        states, pairs = known.part(part, PARTS), type_pairs(types)
        if not states.moments:
            return TaskResult(facts)
        for number, name in enumerate(types):
            try:
                facts["placements"] += [asdict(one) for one in place_type(agent, states, combos, name, options)]
                facts["roles"].append(asdict(measure_role(brancher, states, combos, name)))
            except ClarityError as error:
                facts["refused"][name] = error.message
            work.report((number + 1) / (len(types) + 1))
        for first, second in pairs:
            with contextlib.suppress(ClarityError):  # its types are among the refused ones
                pair = compare_types(agent, states, first, second, options)
                facts["pairs"] += [] if pair is None else [asdict(pair)]
        sides = measure_sides(agent, states, combos)
        background, memory = measure_background(agent, states), measure_memory(agent, states)
        facts["sides"] = [] if sides is None else [asdict(sides)]
        facts["background"] = [] if background is None else [asdict(background)]
        facts["memory"] = [] if memory is None else [asdict(memory)]
        if played.values is not None:
            facts["values"] = [float(played.values[moment.episode, moment.step]) for moment in states.moments]
    return TaskResult(facts)


def _move_goals(subject: Subject, options: GoalOptions, part: int, work: Work) -> TaskResult:
    """Move objects that are goals, in every `PARTS`-th episode, and measure whether the agent reaches them.

    Which types are goals follows from the roles that the other tasks measured.
    """
    roles = _joined(_facts(work.results, "part"), Role, "roles", "type") if options.episodes else []
    goals = [role.type for role in roles if role.name == "goal"]
    found: list[JsonObject] = []
    if goals:
        searched, seed = subject.options_of(FailureOptions), subject.options.seed
        with closing(_open(subject)) as brancher:
            for name in goals:
                with contextlib.suppress(ClarityError):  # it is not moved in this world
                    moved = reach_moved_goal(brancher, subject.trajectories, name, options, searched, seed, part, PARTS)
                    found += [] if moved is None else [asdict(moved)]
    return TaskResult({"moved": found})


def _write_images(subject: Subject, options: GoalOptions, work: Work) -> TaskResult:
    """Write, for each type, the frame with its largest effect, without and with the object."""
    placements, images = goals_of(work.results).placements, list[JsonObject]()
    if placements:
        with closing(_open(subject)) as brancher:
            for name in dict.fromkeys(one.type for one in placements):
                largest = max((one for one in placements if one.type == name), key=lambda one: one.largest)
                images += _write_image(subject, brancher.world, largest, options)
    return TaskResult({"images": images}, [str(image["image"]) for image in images])


def _write_image(subject: Subject, world: World, largest: Placement, options: GoalOptions) -> list[JsonObject]:
    (moment,) = episode_moments(subject.trajectories, largest.trajectory, [largest.frame])
    drawn = example(world, moment, largest, options)
    if drawn is None:
        return []
    (empty,), (placed,) = (newest_frames(observe(subject.agent, frame[None]), subject.stack) for frame in drawn)
    name = f"goals/{slugs([largest.type])[0]}.png"
    subject.files.write_image(name, np.concatenate([empty, placed], axis=1))
    place = f"{largest.place}, {'far' if largest.far else 'near'}"
    label = f"{largest.type}, {place}: the policy changes by {largest.largest:.2g}"
    return [{"image": name, "label": label, "trajectory": largest.trajectory, "frame": largest.frame}]


def _combos(subject: Subject, brancher: Brancher) -> Sequence[Combo]:
    """Return the buttons of the actions from the page's options, or by default from the environment."""
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


def _pieces(options: GoalOptions, expected: int, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that measures some states of the sample with all types in them, whether or not the agent sees
    them.

    `expected` is the number of states in all tasks.
    """
    played = sample.trajectories
    if played.world_states is None:
        return
    with contextlib.suppress(ClarityError), closing(make_world(played.world_states.spec)) as world:
        states = played.world_states.read(0, range(played.steps(0)))
        types = options.types or tuple({one.type: 1 for state in states for one in world.objects(state, terrain=False)})
        count = min(expected, len(states))
        chosen, work = replace(options, types=types, states=count), Work(batch, lambda share: None, {})
        measure = partial(_measure_part, sample, chosen, 0, work)
        yield Piece(measure, expected / count, measure)  # fewer states would leave functions to be compiled


def expected_episodes(subject: Subject) -> float:
    """Return the expected number of episodes that begin in the trajectories, for forecasts."""
    return len(subject.trajectories) + subject.trajectories.rewards.size / STEPS_OF_AN_EPISODE


def _moved_pieces(options: GoalOptions, episodes: float, sample: Subject, batch: int) -> Iterable[Piece]:
    """Yield a `Piece` that searches for a goal, and one that continues episodes, if any object can be moved.

    `episodes` is the number of episodes in which a goal is moved.
    """
    if sample.trajectories.world_states is None or not episodes:
        return
    with contextlib.suppress(ClarityError), closing(_open(sample)) as brancher:
        searched = sample.options_of(FailureOptions)
        (moment,) = episode_moments(sample.trajectories, 0, [0])
        world, state = brancher.world, moment.world_state
        types = {one.type for one in world.objects(state, terrain=False)}
        if not any(move_object(world, state, name, options.far) for name in types):
            return
        count = math.ceil(episodes / PARTS)
        rng = np.random.default_rng(0)
        sequences = brancher.random_sequences(searched.sequences, searched.horizon, rng)
        search = partial(brancher.continue_actions, [moment.world_state] * searched.sequences, sequences)
        follow = partial(brancher.continue_policy, [moment] * count, [STEPS] * count, rng)
        yield Piece(search, count, search)
        yield Piece(follow, 2, follow)
