"""Summaries of the effects of objects by type, with intervals over episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.analyses.objects.section import DistanceEffect, MeanEffect, TypeEffects
from rl_clarity.debugging.findings import RemovedType
from rl_clarity.debugging.measures import Clustered
from rl_clarity.recordings.object_effects import clustered_mean

TRAJECTORY_BITS = 32
"""Bits by which the number of a trajectory is shifted, to number frames, episodes and tracks across trajectories."""
NOISE_SHARE = 0.05
"""Share of the value's range up to which changes of the value are not distinguished from 0."""
DISTANCES, LEAST_AT_DISTANCE = 6, 20
"""Largest number of groups of objects by distance, and smallest number of objects in a group."""


@dataclass(frozen=True)
class Removals:
    """Effects of n removals, of one object each or of all objects of a type."""

    type: np.ndarray  # (n,) str
    episode: np.ndarray  # (n,) int
    frame: np.ndarray  # (n,) int, different in each trajectory
    policy: np.ndarray  # (n,)
    value: np.ndarray | None  # (n,)
    logits: np.ndarray  # (n, A)

    def select(self, name: str) -> np.ndarray:
        """Return the indices of the removals of a type."""
        return np.flatnonzero(self.type == name)


@dataclass(frozen=True)
class SingleRemovals(Removals):
    """Effects of n objects that were removed one at a time."""

    track: np.ndarray  # (n,) int, different in each trajectory
    distance: np.ndarray  # (n,): from the player, in cells


def summarize_types(
    single: SingleRemovals, together: Removals, moving: Sequence[str], noise: float | None, seed: int
) -> list[TypeEffects]:
    """Return the effects of each type, the most frequent first."""
    names, counts = np.unique(single.type, return_counts=True)
    rng = np.random.default_rng(seed)
    return [
        _summarize(str(name), single, together, str(name) in moving, noise, rng)
        for name in names[np.argsort(-counts, kind="stable")]
    ]


def _summarize(
    name: str, single: SingleRemovals, together: Removals, moves: bool, noise: float | None, rng: np.random.Generator
) -> TypeEffects:
    rows, whole = single.select(name), together.select(name)
    episodes = single.episode[rows]
    policy = mean_effect(single.policy[rows], episodes, rng)
    value = magnitude = share = together_value = None
    if single.value is not None and together.value is not None and noise is not None:
        values = single.value[rows]
        value = mean_effect(values, episodes, rng)
        magnitude = mean_effect(np.abs(values), episodes, rng)
        share = float((np.abs(values) > noise).mean())
        together_value = mean_effect(together.value[whole], together.episode[whole], rng)
    return TypeEffects(
        name=name,
        moves=moves,
        count=len(rows),
        tracks=len(np.unique(single.track[rows])),
        frames=len(np.unique(single.frame[rows])),
        episodes=len(np.unique(episodes)),
        value=value,
        value_magnitude=magnitude,
        policy=policy,
        logits=single.logits[rows].mean(axis=0, dtype=np.float64).tolist(),
        share_above_noise=share,
        together_value=together_value,
        together_policy=mean_effect(together.policy[whole], together.episode[whole], rng),
        by_distance=[*_by_distance(single, rows, rng)],
    )


def removed_types(single: SingleRemovals) -> list[RemovedType]:
    """Return the effects of each type, the most frequent first, clustered by episode."""
    episodes, index = np.unique(single.episode, return_inverse=True)
    names, counts = np.unique(single.type, return_counts=True)

    def clustered(values: np.ndarray, rows: np.ndarray) -> Clustered:
        return Clustered.of(values[rows], index[rows], len(episodes))

    types = []
    for name in names[np.argsort(-counts, kind="stable")].tolist():
        rows = single.select(name)
        largest = rows[single.policy[rows].argmax()]
        trajectory, frame = divmod(int(single.frame[largest]), 1 << TRAJECTORY_BITS)
        types.append(
            RemovedType(
                name,
                clustered(single.policy, rows),
                None if single.value is None else clustered(single.value, rows),
                trajectory,
                frame,
                float(single.policy[largest]),
            )
        )
    return types


def mean_effect(values: np.ndarray, episodes: np.ndarray, rng: np.random.Generator) -> MeanEffect:
    """Return the mean of values (n,) with its bootstrap interval over episodes (n,)."""
    mean, low, high = clustered_mean(values, episodes, rng)
    return MeanEffect(mean, *((None, None) if np.isnan(low) else (low, high)))


def _by_distance(single: SingleRemovals, rows: np.ndarray, rng: np.random.Generator) -> Iterator[DistanceEffect]:
    ordered = rows[np.argsort(single.distance[rows], kind="stable")]
    groups = max(1, min(DISTANCES, len(rows) // LEAST_AT_DISTANCE))
    for part in np.array_split(ordered, groups):
        episodes = single.episode[part]
        value = None if single.value is None else mean_effect(np.abs(single.value[part]), episodes, rng)
        near, far = (float(single.distance[part[i]]) for i in (0, -1))
        yield DistanceEffect(near, far, len(part), value, mean_effect(single.policy[part], episodes, rng))


def value_noise(bounds: Sequence[Sequence[float] | None]) -> tuple[float | None, float | None]:
    """Return the range of the values, and the largest change of a value that counts as noise.

    `bounds` has the lowest and the highest value of each trajectory, or None. Both results are None without values.
    Removing an object that is not visible does not change the frame in a world that can be edited, so the noise needs
    no allowance for such changes.
    """
    known = [bound for pair in bounds if pair is not None for bound in pair]
    if not known:
        return None, None
    extent = max(known) - min(known)
    return extent, NOISE_SHARE * extent


def removals_from_chunks(
    chunks: Sequence[Mapping[str, np.ndarray]], types: Sequence[Sequence[str]], firsts: Sequence[np.ndarray]
) -> tuple[SingleRemovals, Removals]:
    """Join the chunks of all trajectories. Return the removals of single objects, and of all objects of a type.

    `types` has the names of the types by their number in each chunk. `firsts` has a mask (T,) of the steps of each
    trajectory at which an episode begins.
    """
    single, together = _joined(chunks, types, firsts, ""), _joined(chunks, types, firsts, "together.")
    tracks = [chunk["track"].astype(np.int64) + (i << TRAJECTORY_BITS) for i, chunk in enumerate(chunks)]
    distances = [np.hypot(*chunk["offset"].T.astype(np.float64)) for chunk in chunks]
    return SingleRemovals(**vars(single), track=np.concatenate(tracks), distance=np.concatenate(distances)), together


def _joined(
    chunks: Sequence[Mapping[str, np.ndarray]],
    types: Sequence[Sequence[str]],
    firsts: Sequence[np.ndarray],
    prefix: str,
) -> Removals:
    def joined(name: str) -> np.ndarray:
        return np.concatenate([chunk[prefix + name] for chunk in chunks])

    frames = [chunk[f"{prefix}frame"].astype(np.int64) + (i << TRAJECTORY_BITS) for i, chunk in enumerate(chunks)]
    types_of = (np.array(names, str)[chunk[f"{prefix}type"]] for names, chunk in zip(types, chunks, strict=True))
    episodes = (
        (i << TRAJECTORY_BITS) + np.cumsum(first)[chunk[f"{prefix}frame"]]
        for i, (first, chunk) in enumerate(zip(firsts, chunks, strict=True))
    )
    return Removals(
        type=np.concatenate([*types_of]),
        episode=np.concatenate([*episodes]),
        frame=np.concatenate(frames),
        policy=joined("policy"),
        value=joined("value") if f"{prefix}value" in chunks[0] else None,
        logits=joined("logits"),
    )
