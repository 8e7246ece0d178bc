"""Goals: does the policy follow an object, does the value, wherever the object is placed?

Objects of a type are removed from a saved state, and one is placed left, right, above or below of the player, near or
far. The outputs are compared with those for the same state in which the place is empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from rl_clarity.environments.protocol import Combo
from rl_clarity.environments.worlds import World, WorldObject
from rl_clarity.recordings.removals import Moment, Scores, different_pixels
from rl_clarity.recordings.rollouts import observe
from rl_clarity.recordings.samples import Trajectories

PLACES = {"left": (-1, 0), "right": (1, 0), "above": (0, 1), "below": (0, -1)}
"""Directions from the player, to the right and upward."""
BUTTONS = {"left": ("LEFT",), "right": ("RIGHT",), "above": ("UP", "FORWARD"), "below": ("DOWN",)}
"""Buttons of actions that move toward a place."""
ROTATIONS = ((1, 0, 0, 1), (0, -1, 1, 0), (-1, 0, 0, -1), (0, 1, -1, 0))
"""How offsets from the player are turned into directions of the world: worlds that show what is in front of the player
give offsets as the player sees them."""
BATCH = 256
TOUCH_STEPS = 3
LEAST_TRIED, MOST_TRIED = 5, 32
"""States in which the player moves onto an object."""


@dataclass(frozen=True)
class GoalOptions:
    """Where objects are placed."""

    states: int = 128
    """States in which objects are placed, evenly spread over the trajectories."""
    near: int = 1
    """Cells from the player to a near place."""
    far: int = 4
    """Cells from the player to a far place."""
    episodes: int = 100
    """Episodes in which a goal is moved; 0 for none."""
    types: tuple[str, ...] | None = None
    """Types to place; by default those that were seen, without terrain."""

    def __post_init__(self) -> None:
        check_minimum(self, 1, "states", "near")
        check_minimum(self, 0, "episodes")
        if self.far <= self.near:
            raise OptionError(f"far={self.far} must be more than near={self.near}")


@dataclass(frozen=True)
class Placement:
    """What changes when an object of a type is placed somewhere, against the same place left empty."""

    type: str
    place: str
    """`left`, `right`, `above` or `below`."""
    far: bool
    policy: Clustered
    """Total variation of the policy."""
    toward: Clustered | None = None
    """Change of the probability of actions that move toward the place; None if no action does."""
    value: Clustered | None = None
    """Change of the value; None without one."""
    usual: float | None = None
    """Mean probability of actions that move toward the place while it is empty."""
    trajectory: int = 0
    """Where the policy changes most."""
    frame: int = 0
    largest: float = 0.0


@dataclass(frozen=True)
class Pair:
    """How much the policy differs between two types in the same places, and between each and nothing."""

    first: str
    second: str
    between: Clustered
    """Total variation between the policies with the first and with the second type."""
    trajectory: int = 0
    frame: int = 0


@dataclass(frozen=True)
class Sides:
    """Probability of moving right less that of moving left, in observations and in their mirror images, averaged."""

    bias: Clustered
    observed: float
    """In the observations alone."""
    mirrored: float
    """In the mirror images alone."""


@dataclass(frozen=True)
class Role:
    """What happens when the player moves onto an object of a type that is placed beside it."""

    type: str
    tried: int
    failed: int
    """How often the episode ended without a reward, and would not have without the object."""
    succeeded: int
    """How often it ended with one."""

    @property
    def name(self) -> str:
        """Return `deadly`, `goal`, `harmless`, or `unknown` if too little was tried."""
        if self.tried < LEAST_TRIED:
            return "unknown"
        if 2 * max(self.failed, self.succeeded) > self.tried:
            return "deadly" if self.failed >= self.succeeded else "goal"
        return "harmless" if 10 * (self.failed + self.succeeded) <= self.tried else "unknown"


@dataclass(frozen=True)
class GoalStates:
    """States in which objects are placed."""

    moments: Sequence[Moment]
    episodes: np.ndarray  # (n,) int64: number of the episode of each
    count: int
    """Number of episodes."""
    turned: bool
    """Whether offsets are those that the player sees, who turns."""


def goal_states(agent: Agent, world: World, trajectories: Trajectories, options: GoalOptions) -> GoalStates:
    """Return states that are evenly spread over the trajectories, and drawn as they were observed.

    Raises WorldError if there are none.
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
        raise WorldError("no state is drawn as it was observed, so that objects cannot be placed")
    known, index = np.unique(episodes, return_inverse=True)
    turned = any(_player(world.objects(moment.world_state))[1] != 0 for moment in moments)
    return GoalStates(moments, index.ravel(), len(known), turned)


def seen_types(world: World, states: GoalStates, types: Sequence[str] | None = None) -> list[str]:
    """Return the types that are placed: those that are asked for, or seen in the states, the most frequent first.

    Raises OptionError for types that the environment does not have.
    """
    unknown = sorted(set(types or ()) - set(world.types))
    if unknown:
        raise OptionError(f"goals.types={unknown!r}: the environment has {', '.join(world.types)}")
    if types is not None:
        return [*types]
    counts: dict[str, int] = {}
    for moment in states.moments:
        for name in {item.type for item in world.objects(moment.world_state, terrain=False) if item.in_view}:
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))


def place_type(
    agent: Agent, world: World, states: GoalStates, combos: Sequence[Combo], type: str, options: GoalOptions
) -> list[Placement]:
    """Place objects of a type around the player, and measure what changes.

    Raises WorldError for types that cannot be removed or inserted.
    """
    placements = list[Placement]()
    for (place, direction), far in itertools.product(PLACES.items(), (False, True)):
        edits = [
            edit
            for i, moment in enumerate(states.moments)
            if (edit := _edit(world, moment, i, type, direction, options.far if far else options.near)) is not None
        ]
        if edits:
            toward = None if _turns_unseen(states, combos) else actions_toward(combos, place)
            placements += _measure(agent, world, states, edits, toward, type, place, far=far)
    return placements


def example(world: World, moments: Sequence[Moment], placement: Placement, options: GoalOptions) -> np.ndarray | None:
    """Return the frame of a placement's largest effect with the place empty and with the object, (2, H, W, C)."""
    at = (placement.trajectory, placement.frame)
    moment = next(moment for moment in moments if (moment.episode, moment.step) == at)
    distance = options.far if placement.far else options.near
    edit = _edit(world, moment, 0, placement.type, PLACES[placement.place], distance)
    return None if edit is None else world.draw([edit.empty, edit.placed])


def measure_role(brancher: Brancher, states: GoalStates, combos: Sequence[Combo], type: str) -> Role:
    """Place objects of a type beside the player, and move onto them for `TOUCH_STEPS` steps, and without them."""
    world, chosen = brancher.world, list[tuple[bytes, bytes, int]]()
    for i, moment in enumerate(states.moments):
        place = [*PLACES][i % len(PLACES)]
        toward = actions_toward(combos, place)
        if toward is None or _turns_unseen(states, combos):
            continue
        edit = _edit(world, moment, i, type, PLACES[place], 1)
        if edit is not None:
            chosen.append((edit.placed, edit.empty, int(min(toward, key=lambda action: len(combos[action])))))
        if len(chosen) == MOST_TRIED:
            break
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
    """Return the total variation between policies with the agent's state and with that of an episode's beginning.

    None for an agent without a state.
    """
    if states.moments[0].state is None:
        return None
    indices = np.arange(len(states.moments))
    images = np.stack([moment.observation for moment in states.moments])
    begun = Scores.forward(agent, images, initial_state(agent, len(images)))
    change = _scores(agent, states.moments, indices, images).policy_change(begun)
    return Clustered.of(change, states.episodes, states.count)


def compare_types(
    agent: Agent, world: World, states: GoalStates, first: str, second: str, options: GoalOptions
) -> Pair | None:
    """Return how much the policy differs between two types in the same near places, without others of either type."""
    pairs: list[tuple[int, bytes, bytes]] = []
    for i, moment in enumerate(states.moments):
        direction = [*PLACES.values()][i % len(PLACES)]
        base = _without(world, moment.world_state, (first, second))
        place = free_place(world, moment.world_state, direction, options.near, (first, second))
        if place is not None:
            try:
                pairs.append((i, world.inserted(base, first, place), world.inserted(base, second, place)))
            except WorldError:
                continue
    if not pairs:
        return None
    indices = np.array([pair[0] for pair in pairs])
    drawn = [observe(agent, world.draw(part)) for part in ([one for _, one, _ in pairs], [two for *_, two in pairs])]
    scores = [_scores(agent, states.moments, indices, images) for images in drawn]
    change = scores[0].policy_change(scores[1])
    moment = states.moments[int(indices[int(change.argmax())])]
    return Pair(
        first,
        second,
        Clustered.of(change, states.episodes[indices], states.count),
        moment.episode,
        moment.step,
    )


def measure_sides(agent: Agent, states: GoalStates, combos: Sequence[Combo]) -> Sides | None:
    """Return whether the policy prefers a side whatever is there; None if no actions move to the sides."""
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
    """Return the actions that move toward a place, by their buttons, or None if there are none."""
    buttons = [{button.upper() for button in combo} for combo in combos]
    opposite = {"left": "right", "right": "left", "above": "below", "below": "above"}[place]
    chosen = [
        action
        for action, pressed in enumerate(buttons)
        if pressed & {*BUTTONS[place]} and not pressed & {*BUTTONS[opposite]}
    ]
    return np.array(chosen) if chosen else None


def _turns_unseen(states: GoalStates, combos: Sequence[Combo]) -> bool:
    """Return whether actions turn the player, but offsets are not those that the player sees."""
    return any("FORWARD" in (button.upper() for button in combo) for combo in combos) and not states.turned


@dataclass(frozen=True)
class _Edit:
    index: int
    empty: bytes
    placed: bytes


def _edit(
    world: World, moment: Moment, index: int, type: str, direction: tuple[int, int], distance: int
) -> _Edit | None:
    """Return a state with an object of the type at a place, and with none; None if the place is not free."""
    empty = _without(world, moment.world_state, (type,))
    place = free_place(world, moment.world_state, direction, distance, (type,))
    if place is None:
        return None
    try:
        return _Edit(index, empty, world.inserted(empty, type, place))
    except WorldError:
        return None


def _without(world: World, state: bytes, types: Sequence[str]) -> bytes:
    removed = [item for item in world.objects(state) if item.type in types]
    return world.without(state, removed) if removed else state


def free_place(
    world: World, state: bytes, direction: tuple[int, int], distance: int, ignored: Collection[str]
) -> tuple[float, float] | None:
    """Return the center of a place, in cells, or None if the player's place is not known, or an object is there.

    Objects of the `ignored` types do not count.
    """
    objects = world.objects(state)
    (x, y), rotation = _player(objects)
    if np.isnan(x):
        return None
    a, b, c, d = ROTATIONS[rotation]
    right, up = (distance * part for part in direction)
    at = (x + a * right + b * up, y + c * right + d * up)
    for item in objects:
        if item.type in ignored:
            continue
        left, bottom, rightmost, top = item.box
        if left - 0.45 < at[0] < rightmost + 0.45 and bottom - 0.45 < at[1] < top + 0.45:
            return None
    return at


def _player(objects: Sequence[WorldObject]) -> tuple[tuple[float, float], int]:
    """Return the player's place, and the number of the rotation that turns offsets into the world's directions."""
    if not objects:
        return (float("nan"), float("nan")), 0
    centers = np.array([item.center for item in objects])
    offsets = np.array([item.offset for item in objects])
    spreads = []
    for a, b, c, d in ROTATIONS:
        places = centers - offsets @ np.array([[a, c], [b, d]])
        spreads.append((float(np.ptp(places, axis=0).max()), places[0]))
    best = min(range(len(ROTATIONS)), key=lambda i: (round(spreads[i][0], 3), i))
    place = spreads[best][1]
    return (float(place[0]), float(place[1])), best


def _measure(
    agent: Agent,
    world: World,
    states: GoalStates,
    edits: Sequence[_Edit],
    toward: np.ndarray | None,
    type: str,
    place: str,
    *,
    far: bool,
) -> Iterator[Placement]:
    """Yield the measures of one place; nothing if no object is seen there."""
    parts: list[Mapping[str, np.ndarray]] = []
    for start in range(0, len(edits), BATCH):
        some = edits[start : start + BATCH]
        empty, placed = (
            observe(agent, world.draw(part)) for part in zip(*((e.empty, e.placed) for e in some), strict=True)
        )
        seen = np.flatnonzero((empty != placed).any(axis=(1, 2, 3)))
        if len(seen):
            indices = np.array([some[i].index for i in seen.tolist()])
            without = _scores(agent, states.moments, indices, empty[seen])
            with_object = _scores(agent, states.moments, indices, placed[seen])
            part = {"index": indices, "policy": with_object.policy_change(without)}
            part["value"] = with_object.values - without.values
            if toward is not None:
                chosen = [_policies(one)[:, toward].sum(axis=1) for one in (with_object, without)]
                part["toward"], part["usual"] = chosen[0] - chosen[1], chosen[1]
            parts.append(part)
    if not parts:
        return
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    episodes = states.episodes[arrays["index"]]
    clustered = {
        name: Clustered.of(values, episodes, states.count)
        for name, values in arrays.items()
        if name not in ("index", "usual") and not np.isnan(values).any()
    }
    usual = float(arrays["usual"].mean()) if "usual" in arrays else None
    largest = int(arrays["policy"].argmax())
    moment = states.moments[int(arrays["index"][largest])]
    yield Placement(
        type,
        place,
        far,
        **clustered,
        usual=usual,
        trajectory=moment.episode,
        frame=moment.step,
        largest=float(arrays["policy"][largest]),
    )


def _scores(agent: Agent, moments: Sequence[Moment], indices: np.ndarray, images: np.ndarray) -> Scores:
    parts = [moments[i].state for i in indices.tolist()]
    known = [part for part in parts if part is not None]
    state = tuple(np.stack(part) for part in zip(*known, strict=True)) if known else None
    return Scores.forward(agent, images, state)


def _policies(scores: Scores) -> np.ndarray:
    """Return the probabilities of actions (n, A); those of action values are 1 for the best."""
    if scores.is_policy:
        return softmax(np.asarray(scores.actions, np.float64))
    return np.eye(scores.actions.shape[1])[scores.actions.argmax(axis=1)]
