"""Measure whether the policy and the value follow an object, wherever it is placed.

All objects of a type are removed from a saved state, and one is placed to the left or right of the player, above or
below, near or far. The outputs are compared with those for the same state in which the place is empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.agents.capabilities import action_factors, initial_state
from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError, WorldError
from rl_clarity.base.parsing import check_minimum
from rl_clarity.base.statistics import softmax
from rl_clarity.debugging.branching import Brancher
from rl_clarity.debugging.failures import episode_moments
from rl_clarity.debugging.measures import Clustered
from rl_clarity.debugging.places import PLACES, Layout
from rl_clarity.environments.protocol import Combo
from rl_clarity.environments.worlds import HasBackgrounds, World
from rl_clarity.recordings.removals import Moment, Scores, different_pixels
from rl_clarity.recordings.rollouts import observe
from rl_clarity.recordings.samples import Trajectories

BUTTONS = {"left": ("LEFT",), "right": ("RIGHT",), "above": ("UP", "FORWARD"), "below": ("DOWN",)}
"""Buttons of actions that move toward a place."""
BATCH = 128
"""Number of frames that are drawn and evaluated at once."""
TOUCH_STEPS = 3
LEAST_TRIED = 5
"""Smallest number of states in which the player moves onto objects of a type, to determine the type's role."""


@dataclass(frozen=True)
class GoalOptions:
    """Where objects are placed."""

    states: int = 128
    """Number of states in which objects are placed, evenly spread over the trajectories."""
    near: int = 1
    """Distance of a near place from the player, in cells."""
    far: int = 4
    """Distance of a far place from the player, in cells."""
    episodes: int = 100
    """Number of episodes in which a goal is moved; 0 for none."""
    types: tuple[str, ...] | None = None
    """Types of objects to place; by default those that were seen, except terrain."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "states", "near")
        check_minimum(self, 0, "episodes")
        if self.far <= self.near:
            raise OptionError(f"far={self.far} must be more than near={self.near}")


@dataclass(frozen=True)
class Placement:
    """How outputs change when an object of a type is placed somewhere, compared with leaving the place empty."""

    type: str
    place: str
    """`left`, `right`, `above` or `below`."""
    far: bool
    policy: Clustered
    """Total variation of the policy."""
    toward: Clustered | None = None
    """Change of the probability of actions that move toward the place; None if no action does."""
    value: Clustered | None = None
    """Change of the value; None for agents without a value."""
    usual: float | None = None
    """Mean probability of actions that move toward the place while it is empty."""
    trajectory: int = 0
    """Trajectory in which the policy changes most."""
    frame: int = 0
    largest: float = 0.0

    def __add__(self, other: Placement) -> Placement:
        """Combine the measures of the same type and place in different states."""
        usual = None
        if self.usual is not None and other.usual is not None:
            assert self.toward is not None
            assert other.toward is not None
            usual = float(np.average([self.usual, other.usual], weights=[self.toward.n, other.toward.n]))
        return replace(
            self if self.largest >= other.largest else other,
            policy=self.policy + other.policy,
            toward=_sum(self.toward, other.toward),
            value=_sum(self.value, other.value),
            usual=usual,
        )


@dataclass(frozen=True)
class Pair:
    """How much the policy differs between objects of two types in the same places."""

    first: str
    second: str
    between: Clustered
    """Total variation between the policies with the first and with the second type."""
    trajectory: int = 0
    """Trajectory in which the policies differ most."""
    frame: int = 0
    largest: float = 0.0

    def __add__(self, other: Pair) -> Pair:
        """Combine the measures of the same types in different states."""
        return replace(self if self.largest >= other.largest else other, between=self.between + other.between)


@dataclass(frozen=True)
class Sides:
    """Probability of moving right minus that of moving left, averaged over observations and their mirror images."""

    bias: Clustered
    observed: float
    """Mean difference for the observations alone."""
    mirrored: float
    """Mean difference for the mirror images alone."""

    def __add__(self, other: Sides) -> Sides:
        """Combine the preferences in different states."""
        weights = self.bias.n, other.bias.n
        observed = np.average([self.observed, other.observed], weights=weights)
        mirrored = np.average([self.mirrored, other.mirrored], weights=weights)
        return Sides(self.bias + other.bias, float(observed), float(mirrored))


@dataclass(frozen=True)
class Role:
    """What happens when the player moves onto an object of a type that is placed beside it."""

    type: str
    tried: int
    failed: int
    """Number of states in which the episode failed with the object, but not without it."""
    succeeded: int
    """Number of states in which the episode ended with a reward with the object, but not without it."""

    def __add__(self, other: Role) -> Role:
        """Combine the results for the same type in different states."""
        tried, failed = self.tried + other.tried, self.failed + other.failed
        return Role(self.type, tried, failed, self.succeeded + other.succeeded)

    @property
    def name(self) -> str:
        """`deadly`, `goal`, `harmless`, or `unknown` if there were too few states or the results are mixed."""
        if self.tried < LEAST_TRIED:
            return "unknown"
        if 2 * max(self.failed, self.succeeded) > self.tried:
            return "deadly" if self.failed >= self.succeeded else "goal"
        return "harmless" if 10 * (self.failed + self.succeeded) <= self.tried else "unknown"


def role_names(roles: Sequence[Role], killers: Collection[str]) -> dict[str, str]:
    """Return the role of each type.

    If moving onto objects of a type did not determine its role, the type is deadly if it is among `killers`, the types
    that ended failed episodes.
    """
    known = {role.type: role.name for role in roles if role.name != "unknown"}
    return {**{role.type: "unknown" for role in roles}, **dict.fromkeys(killers, "deadly"), **known}


@dataclass(frozen=True)
class GoalStates:
    """States in which objects are placed."""

    world: World
    moments: Sequence[Moment]
    episodes: np.ndarray  # (n,) int64: index of the episode of each state
    count: int
    """Number of episodes."""
    turned: bool
    """Whether the player turns, and offsets of objects are relative to the direction that the player faces."""

    @cached_property
    def layouts(self) -> list[Layout]:
        """The objects of each state."""
        return [Layout(self.world.objects(moment.world_state)) for moment in self.moments]

    def part(self, part: int, parts: int) -> GoalStates:
        """Return every `parts`-th state, beginning with the index `part`."""
        return replace(self, moments=self.moments[part::parts], episodes=self.episodes[part::parts])


def goal_states(
    agent: Agent, world: World, trajectories: Trajectories, options: GoalOptions, *, turns: bool = True
) -> GoalStates:
    """Return states that are evenly spread over the trajectories.

    States are left out if drawing them does not reproduce the observation. `turns` says whether actions turn the
    player. Raises WorldError if no state is left.
    """
    lengths = [trajectories.steps(i) for i in range(len(trajectories))]
    chosen = np.unique(np.linspace(0, sum(lengths) - 1, min(options.states, sum(lengths))).round().astype(int))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    moments, episodes = list[Moment](), list[int]()
    for i in range(len(trajectories)):
        steps = [int(one) for one in chosen - starts[i] if 0 <= one < lengths[i]]
        numbers = trajectories.episode_numbers(i)
        if steps:
            some = episode_moments(trajectories, i, steps)
            drawn = different_pixels(agent, world, some) == 0
            moments += [moment for moment, same in zip(some, drawn, strict=True) if same]
            episodes += [int(numbers[step]) for step, same in zip(steps, drawn, strict=True) if same]
    if not moments:
        raise WorldError("drawing a state never reproduces its observation, so objects cannot be placed")
    known, index = np.unique(episodes, return_inverse=True)
    turned = turns and any(Layout(world.objects(moment.world_state)).turned for moment in moments)
    return GoalStates(world, moments, index.ravel(), len(known), turned)


def seen_types(states: GoalStates, types: Sequence[str] | None = None) -> list[str]:
    """Return the types of objects to place: `types`, or by default those seen in the states, the most frequent first.

    Raises OptionError for types that the environment does not have.
    """
    world = states.world
    unknown = sorted(set(types or ()) - set(world.types))
    if unknown:
        raise OptionError(f"goals.types={unknown!r} are unknown; the environment has {', '.join(world.types)}")
    if types is not None:
        return [*types]
    counts: dict[str, int] = {}
    for moment in states.moments:
        for name in {item.type for item in world.objects(moment.world_state, terrain=False) if item.in_view}:
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))


def place_type(
    agent: Agent, states: GoalStates, combos: Sequence[Combo], type: str, options: GoalOptions
) -> list[Placement]:
    """Place objects of a type around the player, and measure how the outputs change.

    Raises WorldError for types that cannot be removed or inserted.
    """
    empty = [_without(states, i, (type,)) for i in range(len(states.moments))]
    images, without = _evaluate(agent, states, range(len(empty)), empty)
    kinds = [*itertools.product(PLACES, (False, True))]
    edits = [
        (number, i, placed)
        for number, (place, far) in enumerate(kinds)
        for i in range(len(empty))
        if (placed := _placed(states, i, empty[i], type, place, options.far if far else options.near)) is not None
    ]
    if not edits:
        return []
    numbers, rows = np.array([edit[:2] for edit in edits]).T
    frames, with_object = _evaluate(agent, states, rows, [placed for *_, placed in edits])
    seen = (frames != images[rows]).any(axis=(1, 2, 3))
    placements = []
    for number, (place, far) in enumerate(kinds):
        chosen = np.flatnonzero(seen & (numbers == number))
        if len(chosen):
            toward = None if _turns_unseen(states, combos) else actions_toward(combos, place)
            changed = with_object.select(chosen), without.select(rows[chosen])
            placements.append(_placement(states, rows[chosen], *changed, toward, type, place, far=far))
    return placements


def example(world: World, moment: Moment, placement: Placement, options: GoalOptions) -> np.ndarray | None:
    """Return frames (2, H, W, C) of the state where a placement has its largest effect: with the place empty, and with
    the object. Return None if the object cannot be placed.
    """
    states = GoalStates(world, [moment], np.zeros(1, int), 1, turned=False)
    empty = _without(states, 0, (placement.type,))
    distance = options.far if placement.far else options.near
    placed = _placed(states, 0, empty, placement.type, placement.place, distance)
    return None if placed is None else world.draw([empty, placed])


def measure_role(brancher: Brancher, states: GoalStates, combos: Sequence[Combo], type: str) -> Role:
    """Place an object of a type beside the player, and move toward it for `TOUCH_STEPS` steps. For comparison, take the
    same actions without the object.
    """
    chosen = list[tuple[bytes, bytes, int]]()
    for i in range(len(states.moments)):
        place = [*PLACES][i % len(PLACES)]
        toward = actions_toward(combos, place)
        if toward is None or _turns_unseen(states, combos):
            continue
        empty = _without(states, i, (type,))
        placed = _placed(states, i, empty, type, place, 1)
        if placed is not None:
            chosen.append((placed, empty, int(min(toward, key=lambda action: len(combos[action])))))
    if not chosen:
        return Role(type, 0, 0, 0)
    actions = np.repeat([[action] for *_, action in chosen], TOUCH_STEPS, axis=1)
    try:
        with_object = brancher.continue_actions([placed for placed, *_ in chosen], actions)
        without = brancher.continue_actions([empty for _, empty, _ in chosen], actions)
    except WorldError:  # edited in the image only
        return Role(type, 0, 0, 0)
    failed, succeeded = with_object.failed & ~without.failed, with_object.succeeded & ~without.succeeded
    return Role(type, len(chosen), int(failed.sum()), int(succeeded.sum()))


def measure_memory(agent: Agent, states: GoalStates) -> Clustered | None:
    """Return the total variation of the policy when the agent's state is replaced by the initial state.

    Return None for an agent without a state.
    """
    if states.moments[0].state is None:
        return None
    indices = np.arange(len(states.moments))
    images = np.stack([moment.observation for moment in states.moments])
    begun = Scores.forward(agent, images, initial_state(agent, len(images)))
    change = _scores(agent, states.moments, indices, images).policy_change(begun)
    return Clustered.of(change, states.episodes, states.count)


def measure_background(agent: Agent, states: GoalStates) -> Clustered | None:
    """Return the total variation between the policies with and without the background.

    Return None for worlds that cannot be drawn without a background, and if no frame changes without it.
    """
    world = states.world
    if not isinstance(world, HasBackgrounds):
        return None
    indices = np.arange(len(states.moments))
    images = np.stack([moment.observation for moment in states.moments])
    edited = [world.without_background(moment.world_state) for moment in states.moments]
    drawn, without = _evaluate(agent, states, indices, edited)
    if np.array_equal(drawn, images):
        return None
    change = _scores(agent, states.moments, indices, images).policy_change(without)
    return Clustered.of(change, states.episodes, states.count)


def compare_types(agent: Agent, states: GoalStates, first: str, second: str, options: GoalOptions) -> Pair | None:
    """Return how much the policy differs between objects of two types in the same near places.

    All other objects of these types are removed. Return None if no place is free.
    """
    pairs: list[tuple[int, list[bytes]]] = []
    both = (first, second)
    for i, layout in enumerate(states.layouts):
        direction = [*PLACES.values()][i % len(PLACES)]
        base = _without(states, i, both)
        place = layout.free_place(direction, options.near, both)
        if place is not None:
            try:
                pairs.append((i, [states.world.inserted(base, type, place) for type in both]))
            except WorldError:
                continue
    if not pairs:
        return None
    rows = np.array([row for row, _ in pairs])
    scores = [_evaluate(agent, states, rows, [placed[k] for _, placed in pairs])[1] for k in range(2)]
    change = scores[0].policy_change(scores[1])
    largest = int(change.argmax())
    moment = states.moments[int(rows[largest])]
    between = Clustered.of(change, states.episodes[rows], states.count)
    return Pair(first, second, between, moment.episode, moment.step, float(change[largest]))


def measure_sides(agent: Agent, states: GoalStates, combos: Sequence[Combo]) -> Sides | None:
    """Measure how much the policy prefers the left or right side, regardless of what is there. Return None if no
    actions move to the left and right, or if the agent's actions are not a single discrete choice.
    """
    right, left = (actions_toward(combos, side) for side in ("right", "left"))
    if right is None or left is None or not is_single_choice(action_factors(agent)):
        return None
    indices = np.arange(len(states.moments))
    images = np.stack([moment.observation for moment in states.moments])
    preferences = []
    for shown in (images, images[:, :, ::-1]):
        policy = _policies(_scores(agent, states.moments, indices, np.ascontiguousarray(shown)))
        preferences.append(policy[:, right].sum(axis=1) - policy[:, left].sum(axis=1))
    bias = (preferences[0] + preferences[1]) / 2
    return Sides(
        Clustered.of(bias, states.episodes, states.count), float(preferences[0].mean()), float(preferences[1].mean())
    )


def actions_toward(combos: Sequence[Combo], place: str) -> np.ndarray | None:
    """Return the actions whose buttons move toward a place, or None if there are no such actions."""
    buttons = [{button.upper() for button in combo} for combo in combos]
    opposite = {"left": "right", "right": "left", "above": "below", "below": "above"}[place]
    chosen = [
        action
        for action, pressed in enumerate(buttons)
        if pressed & {*BUTTONS[place]} and not pressed & {*BUTTONS[opposite]}
    ]
    return np.array(chosen) if chosen else None


def actions_turn(combos: Sequence[Combo]) -> bool:
    """Return whether actions turn the player. This is assumed if an action moves forward."""
    return any(button.upper() == "FORWARD" for combo in combos for button in combo)


def _turns_unseen(states: GoalStates, combos: Sequence[Combo]) -> bool:
    """Return whether actions turn the player, but offsets are not relative to the direction that the player faces."""
    return actions_turn(combos) and not states.turned


def _without(states: GoalStates, row: int, types: Sequence[str]) -> bytes:
    """Return a state without the objects of some types."""
    state, removed = states.moments[row].world_state, states.layouts[row].of_types(types)
    return states.world.without(state, removed) if removed else state


def _placed(states: GoalStates, row: int, empty: bytes, type: str, place: str, distance: int) -> bytes | None:
    """Return the state `empty` with an object of the type at a place; None if the place is not free."""
    at = states.layouts[row].free_place(PLACES[place], distance, (type,))
    if at is None:
        return None
    try:
        return states.world.inserted(empty, type, at)
    except WorldError:
        return None


def _evaluate(
    agent: Agent, states: GoalStates, rows: Iterable[int], edited: Sequence[bytes]
) -> tuple[np.ndarray, Scores]:
    """Return observations (n, H, W, C) of edited states, and the outputs for them with the agent's states of `rows`."""
    indices, images, scores = np.array([*rows]), list[np.ndarray](), list[Scores]()
    for start in range(0, len(edited), BATCH):
        images.append(observe(agent, states.world.draw(edited[start : start + BATCH])))
        scores.append(_scores(agent, states.moments, indices[start : start + BATCH], images[-1]))
    actions, values = (np.concatenate([getattr(one, name) for one in scores]) for name in ("actions", "values"))
    return np.concatenate(images), replace(scores[0], actions=actions, values=values)


def _placement(
    states: GoalStates,
    rows: np.ndarray,
    with_object: Scores,
    without: Scores,
    toward: np.ndarray | None,
    type: str,
    place: str,
    *,
    far: bool,
) -> Placement:
    """Return the measures of a type of object at one place."""
    measures = {"policy": with_object.policy_change(without), "value": with_object.values - without.values}
    usual = None
    if toward is not None:
        chosen = [_policies(one)[:, toward].sum(axis=1) for one in (with_object, without)]
        measures["toward"], usual = chosen[0] - chosen[1], float(chosen[1].mean())
    clustered = {
        name: Clustered.of(values, states.episodes[rows], states.count)
        for name, values in measures.items()
        if not np.isnan(values).any()
    }
    largest = int(measures["policy"].argmax())
    moment = states.moments[int(rows[largest])]
    change = float(measures["policy"][largest])
    return Placement(
        type, place, far, **clustered, usual=usual, trajectory=moment.episode, frame=moment.step, largest=change
    )


def _sum(first: Clustered | None, second: Clustered | None) -> Clustered | None:
    return None if first is None or second is None else first + second


def _scores(agent: Agent, moments: Sequence[Moment], indices: np.ndarray, images: np.ndarray) -> Scores:
    parts = [moments[i].state for i in indices.tolist()]
    known = [part for part in parts if part is not None]
    state = tuple(np.stack(part) for part in zip(*known, strict=True)) if known else None
    return Scores.forward(agent, images, state)


def _policies(scores: Scores) -> np.ndarray:
    """Return the probabilities of actions (n, A). With action values, the best action has the probability 1."""
    if scores.is_policy:
        return softmax(np.asarray(scores.actions, np.float64))
    return np.eye(scores.actions.shape[1])[scores.actions.argmax(axis=1)]
