"""Remove the objects of some steps of a trajectory, one at a time and each type at once, and write what changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Subject
from rl_clarity.analyses.attribution.outputs import attributed_outputs
from rl_clarity.analyses.objects.options import ObjectsOptions
from rl_clarity.debugging.failures import Failure
from rl_clarity.environments.kinds import make_world
from rl_clarity.environments.worlds import World, WorldObject, follow
from rl_clarity.jobs.tasks import TaskResult, Work
from rl_clarity.pages.files import ChunkName, segments
from rl_clarity.recordings.advantages import last_steps
from rl_clarity.recordings.removals import (
    FRAMES,
    Moment,
    Removal,
    Scores,
    different_pixels,
    is_removed,
    measure_removals,
    measure_scores,
    pixel_boxes,
)
from rl_clarity.recordings.world_states import BLOCK, WorldStates

FOLLOWED = 0.2
"""Share of a trajectory's work that it takes to list and track its objects, for the progress report."""


@dataclass(frozen=True)
class Row:
    """A removal of one object, or of all objects of a type, and what changed."""

    frame: int
    objects: tuple[WorldObject, ...]
    whole: bool
    """Whether these are all objects of their type that are seen in the frame."""
    value: float
    actions: np.ndarray  # (A,)
    best: int
    """The action that is best with the objects."""
    policy: float
    mask: np.ndarray  # (H, ceil(W / 8)) uint8: bits of the pixels that change
    without: np.ndarray  # (pixels, C) uint8: what these are without the objects, row by row

    @property
    def type(self) -> str:
        return self.objects[0].type


def chunk_name(trajectory: int) -> ChunkName:
    return ChunkName(f"objects/{trajectory + 1}/effects.js")


def expected_frames(options: ObjectsOptions, steps: int) -> int:
    """Return the number of frames that are examined in a trajectory of `steps` steps in which one episode ends."""
    return len(range(0, steps, options.every or steps)) + min(options.last_steps, steps)


def measure_trajectory(subject: Subject, trajectory: int, work: Work) -> TaskResult:
    """Write the effects of the objects of a trajectory.

    The facts are the names of the types, and of those that move; how many frames were examined, skipped, or left out
    because redrawing them does not reproduce the observation; the lowest and the highest value in the examined frames;
    and whether removal is exact.
    """
    options, states = subject.options_of(ObjectsOptions), subject.trajectories.world_states
    assert states is not None
    with closing(make_world(states.spec)) as world:
        seen = _objects_seen(world, states, subject, trajectory, options)
        work.report(FOLLOWED)
        kept = _within(seen, options.most)
        rows: list[Row] = []
        examined, values = list[int](), list[np.ndarray]()
        for start in range(0, len(kept), FRAMES):
            frames = kept[start : start + FRAMES]
            moments = _moments(subject, states, trajectory, frames)
            drawn = np.flatnonzero(different_pixels(subject.agent, world, moments) == 0).tolist()
            moments = [moments[i] for i in drawn]
            if moments:
                scores = measure_scores(subject.agent, moments)
                rows += _rows(subject.agent, world, moments, scores, seen)
                values.append(scores.values)
            examined += [moment.step for moment in moments]
            work.report(FOLLOWED + (1 - FOLLOWED) * (start + len(frames)) / len(kept))
    rows.sort(key=lambda row: row.frame)
    types = sorted({row.type for row in rows})
    arrays = _arrays(rows, types, subject)
    name = chunk_name(trajectory)
    subject.files.write_chunk(name, {"frames": np.array(examined, np.int32), **arrays})
    bounds = [bound for part in values for bound in (float(part.min()), float(part.max()))]
    facts = {
        "types": types,
        "moving": sorted({row.type for row in rows if any(item.moves for item in row.objects)}),
        "skipped": len(seen) - len(kept),
        "frames": len(examined),
        "undrawn": len(kept) - len(examined),
        "values": [min(bounds), max(bounds)] if bounds and np.isfinite(bounds).all() else None,
        "exact": world.exact,
    }
    return TaskResult(facts, [name])


def steps_before_ends(firsts: np.ndarray, dones: np.ndarray | None, count: int) -> list[int]:
    """Return the last `count` steps, or fewer, of each episode that ends in a trajectory.

    `firsts` (T,) bool marks the first steps of episodes, `dones` (T,) the steps after which the environment ended an
    episode.
    """
    starts = np.flatnonzero(firsts)
    chosen: set[int] = set()
    for end in last_steps(firsts, dones).tolist():
        start = max((int(first) for first in starts if first <= end), default=0)
        chosen |= set(range(max(start, end + 1 - count), end + 1))
    return sorted(chosen)


def _objects_seen(
    world: World, states: WorldStates, subject: Subject, trajectory: int, options: ObjectsOptions
) -> dict[int, list[WorldObject]]:
    """Return the objects to remove at each step that may be examined. The number of an object is the number of its
    track.
    """
    played, steps = subject.trajectories, subject.trajectories.steps(trajectory)
    firsts = np.asarray(played.firsts[trajectory], bool)
    dones = None if played.dones is None else np.asarray(played.dones[trajectory], bool)
    examined = set(range(0, steps, options.every or steps))
    examined |= set(steps_before_ends(firsts, dones, options.last_steps))
    listed = tracked_objects(world, states, trajectory, firsts, options.types)
    return {
        step: [item for item in objects if is_removed(item, options.types)]
        for step, objects in enumerate(listed)
        if step in examined
    }


def tracked_objects(
    world: World, states: WorldStates, trajectory: int, firsts: np.ndarray, types: Collection[str] | None
) -> Iterator[list[WorldObject]]:
    """Yield the objects of each step of a trajectory. An object has the same number at all steps.

    Terrain is included only if `types` is not None.
    """
    before: list[WorldObject] = []
    fresh = 0
    for part in segments(len(firsts), BLOCK):
        for step, state in zip(part, states.read(trajectory, part), strict=True):
            objects = world.objects(state, terrain=types is not None)
            if types is not None:
                objects = [item for item in objects if item.type in types]
            before = follow([] if firsts[step] else before, objects, fresh=fresh)
            fresh = max([fresh, *(item.number + 1 for item in before)])
            yield before


def _within(seen: dict[int, list[WorldObject]], most: int) -> list[int]:
    """Return all steps or, if they have more than `most` objects in total, an evenly spaced subset of them."""
    steps, count = sorted(seen), sum(map(len, seen.values()))
    if count <= most:
        return steps
    kept = max(1, len(steps) * most // count)
    return [steps[i] for i in np.linspace(0, len(steps) - 1, kept).round().astype(int)]


def _moments(subject: Subject, states: WorldStates, trajectory: int, frames: Sequence[int]) -> list[Moment]:
    chosen = np.array(frames)
    observations = np.asarray(subject.trajectories.observations[trajectory, chosen])
    memory = subject.states(trajectory, chosen)
    return [
        Moment(trajectory, frame, state, observations[i], None if memory is None else tuple(part[i] for part in memory))
        for i, (frame, state) in enumerate(zip(frames, states.read(trajectory, frames), strict=True))
    ]


def _rows(
    agent: Agent,
    world: World,
    moments: Sequence[Moment],
    scores: Scores,
    seen: dict[int, list[WorldObject]],
) -> Iterator[Row]:
    removals = [removal for i, moment in enumerate(moments) for removal in _removals(i, seen[moment.step])]
    counts = [Counter(item.type for item in seen[moment.step]) for moment in moments]
    best = scores.actions.argmax(axis=1)
    for changes in measure_removals(agent, world, moments, scores, removals):
        for i, removal in enumerate(changes.removals):
            moment = moments[removal.moment]
            changed = (changes.without[i] != moment.observation).any(axis=-1)
            yield Row(
                moment.step,
                removal.objects,
                len(removal.objects) == counts[removal.moment][removal.objects[0].type],
                float(changes.values[i]),
                changes.actions[i],
                int(best[removal.moment]),
                float(changes.policy[i]),
                np.packbits(changed, axis=-1),
                changes.without[i][changed],
            )


def _removals(moment: int, objects: Sequence[WorldObject]) -> Iterator[Removal]:
    """Yield the removal of each object, and of all objects of each type of which there are several."""
    types: defaultdict[str, list[WorldObject]] = defaultdict(list)
    for item in objects:
        types[item.type].append(item)
        yield Removal(moment, (item,))
    for same in types.values():
        if len(same) > 1:
            yield Removal(moment, tuple(same))


def _arrays(rows: Sequence[Row], types: Sequence[str], subject: Subject) -> dict[str, np.ndarray]:
    """Return the arrays of the chunk."""
    height, width, channels = subject.trajectories.observations.shape[2:]
    single = [row for row in rows if len(row.objects) == 1]
    together = sorted((row for row in rows if row.whole), key=lambda row: (row.frame, row.type))
    items = [row.objects[0] for row in single]
    numbers = {number: i for i, number in enumerate(dict.fromkeys(item.number for item in items))}
    masks = [row.mask for row in single]
    return {
        "frame": np.array([row.frame for row in single], np.int32),
        "type": np.array([types.index(row.type) for row in single], np.uint8),
        "track": np.array([numbers[item.number] for item in items], np.int32),
        "box": pixel_boxes(items, height, width).astype(np.float32),
        "offset": np.array([item.offset for item in items], np.float32).reshape(-1, 2),
        "mask": np.array(masks, np.uint8).reshape(len(masks), height, -(-width // 8)),
        "without": np.concatenate([np.zeros((0, channels), np.uint8), *(row.without for row in single)]),
        **_effects(single, subject),
        "together.frame": np.array([row.frame for row in together], np.int32),
        "together.type": np.array([types.index(row.type) for row in together], np.uint8),
        "together.count": np.array([len(row.objects) for row in together], np.int32),
        **{f"together.{name}": array for name, array in _effects(together, subject).items()},
    }


def _effects(rows: Sequence[Row], subject: Subject) -> dict[str, np.ndarray]:
    """Return the effects of removals on the attributed outputs, on all logits, on the value and on the policy."""
    actions = np.array([row.actions for row in rows], np.float32).reshape(-1, subject.info.num_actions)
    values = np.array([row.value for row in rows], np.float32)
    best = np.array([row.best for row in rows], np.int64)
    groups = [list(group.actions) for group in subject.info.action_groups]
    arrays = {}
    for output in attributed_outputs(subject):
        if output.kind == "value":
            effect = values
        elif output.kind == "greedy":
            effect = actions[np.arange(len(rows)), best]
        elif output.action is not None:
            effect = actions[:, output.action]
        else:
            assert output.group is not None
            effect = actions[:, groups[output.group]].sum(axis=1)
        arrays[f"effect.{output.id}"] = effect
    has_values = subject.info.kind == "action_values" or subject.info.has_value
    return {
        **arrays,
        "logits": actions,
        **({"value": values} if has_values else {}),
        "policy": np.array([row.policy for row in rows], np.float32),
    }


def ending_track(subject: Subject, failure: Failure, types: Sequence[str]) -> int | None:
    """Return the track of the object that ended the episode of a failure.

    This is the removed object of the same type at the same position in the last frame; None if there is none.
    """
    if failure.killer not in types or failure.killer_pixels is None:
        return None
    height, width = subject.trajectories.observations.shape[2:4]
    place = np.multiply(failure.killer_pixels, (width, height, width, height))
    arrays = subject.files.read_chunk(chunk_name(failure.trajectory))
    rows = np.flatnonzero((arrays["frame"] == failure.last) & (arrays["type"] == types.index(failure.killer)))
    distances = np.abs(arrays["box"][rows] - place).max(axis=1, initial=0)
    if not len(rows) or distances.min() >= 1:
        return None
    return int(arrays["track"][rows[distances.argmin()]])
