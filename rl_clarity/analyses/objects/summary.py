"""Summaries of the effects of objects by type, with intervals over episodes, and what they show as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rl_clarity.analyses.objects.section import AbsentEffect, DistanceEffect, MeanEffect, TypeEffects
from rl_clarity.recordings.object_effects import clustered_mean

POLICY_BAND = 0.03
"""Total variation of the policy below which an object does not matter."""
ABSENT_SHARE = 0.95
"""Share of the objects of a type whose effects must lie in the band, for the effect to be called absent."""
LEAST_EPISODES = 5
"""Episodes with objects of a type that it takes to say anything about the type: an interval of fewer is too narrow."""
NOISE_SHARE = 0.05
"""Share of the value's range up to which changes of the value are not distinguished from 0."""
DISTANCES, LEAST_AT_DISTANCE = 6, 20
"""Most groups of objects by distance, and the fewest objects in one."""
PAINTED = "Only boxes of objects are known here: objects are painted over with their surroundings, not removed."
UNCOUNTABLE = ("food", "fruit", "lava", "fire", "dirt", "water", "exhaust")


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
    """Effects of n objects, each removed on its own."""

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
    enough = len(np.unique(episodes)) >= LEAST_EPISODES
    policy = mean_effect(single.policy[rows], episodes, rng)
    value = magnitude = share = absent_value = together_value = None
    if single.value is not None and together.value is not None and noise is not None:
        values = single.value[rows]
        value = mean_effect(values, episodes, rng)
        magnitude = mean_effect(np.abs(values), episodes, rng)
        share = float((np.abs(values) > noise).mean())
        absent_value = absent(magnitude, np.abs(values), noise, enough)
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
        absent_value=absent_value,
        absent_policy=absent(policy, single.policy[rows], POLICY_BAND, enough),
        by_distance=[*_by_distance(single, rows, rng)],
    )


def mean_effect(values: np.ndarray, episodes: np.ndarray, rng: np.random.Generator) -> MeanEffect:
    """Return the mean of values (n,) with its interval over episodes (n,)."""
    mean, low, high = clustered_mean(values, episodes, rng)
    return MeanEffect(mean, *((None, None) if np.isnan(low) else (low, high)))


def absent(mean: MeanEffect, magnitudes: np.ndarray, band: float, enough: bool) -> AbsentEffect | None:
    """Return how many of the magnitudes (n,) are below the band, if the interval of their mean and nearly all are.

    `enough` says whether they are of enough episodes.
    """
    share = float((magnitudes < band).mean())
    if not enough or mean.high is None or mean.high >= band or share < ABSENT_SHARE:
        return None
    return AbsentEffect(band, share, len(magnitudes))


def _by_distance(single: SingleRemovals, rows: np.ndarray, rng: np.random.Generator) -> Iterator[DistanceEffect]:
    ordered = rows[np.argsort(single.distance[rows], kind="stable")]
    groups = max(1, min(DISTANCES, len(rows) // LEAST_AT_DISTANCE))
    for part in np.array_split(ordered, groups):
        episodes = single.episode[part]
        value = None if single.value is None else mean_effect(np.abs(single.value[part]), episodes, rng)
        near, far = (float(single.distance[part[i]]) for i in (0, -1))
        yield DistanceEffect(near, far, len(part), value, mean_effect(single.policy[part], episodes, rng))


def sentences(types: Sequence[TypeEffects], noise: float | None, exact: bool = True) -> list[str]:
    """Return what the intervals show: effects that are not 0, and types to which the agent does not react.

    Types that were seen in few episodes are left out. Where objects are painted over (not `exact`), the first sentence
    says so.
    """
    known = [effects for effects in types if effects.episodes >= LEAST_EPISODES]
    return [*([] if exact else [PAINTED]), *(text for effects in known for text in _sentences(effects, noise))]


def _sentences(effects: TypeEffects, noise: float | None) -> Iterator[str]:
    name, verb = plural(effects.name)
    seen = f"{effects.count} in {effects.episodes} episodes"
    value, policy = effects.value, effects.policy
    if value is not None and noise is not None and _is_signed(value) and abs(value.mean) > noise:
        change = "raise" if value.mean > 0 else "lower"
        low, high = sorted((abs(value.low or 0), abs(value.high or 0)))
        yield (
            f"{name.capitalize()} {change}{verb} the value by {abs(value.mean):.2g} on average "
            f"({low:.2g} to {high:.2g}; {seen})."
        )
    if policy.low is not None and policy.low > POLICY_BAND:
        yield (
            f"{name.capitalize()} change{verb} the policy by {policy.mean:.2g} on average "
            f"({policy.low:.2g} to {policy.high:.2g}; {seen})."
        )
    if effects.absent_policy is not None:
        yield _absence(f"No reaction to {name}: effect on the policy", effects.absent_policy)
    if effects.absent_value is not None:
        yield _absence(f"No effect of {name} on the value:", effects.absent_value)


def _is_signed(mean: MeanEffect) -> bool:
    return mean.low is not None and mean.high is not None and mean.low * mean.high > 0


def _absence(beginning: str, effect: AbsentEffect) -> str:
    share = min(effect.share, 0.99) if effect.share < 1 else 1
    return f"{beginning} below {effect.band:.2g} in {100 * share:.0f} % of {effect.count}."


def plural(name: str) -> tuple[str, str]:
    """Return the plural of a type's name, and the ending of a verb after it; some names have no plural."""
    if name.split()[-1] in UNCOUNTABLE:
        return name, "s"
    if name.rsplit(" ", 1)[-1].isdigit():
        return f"objects of {name}", ""
    if name.endswith("y"):
        return f"{name[:-1]}ies", ""
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s"), ""


def value_noise(bounds: Sequence[Sequence[float] | None]) -> tuple[float | None, float | None]:
    """Return the range of values whose lowest and highest are given by trajectory, and the changes that are noise.

    Both are None without values. To remove what is not visible changes nothing in a world that can be edited, because
    the frame stays the same, so that the spread of such changes adds nothing.
    """
    known = [bound for pair in bounds if pair is not None for bound in pair]
    if not known:
        return None, None
    extent = max(known) - min(known)
    return extent, NOISE_SHARE * extent


def removals_from_chunks(
    chunks: Sequence[Mapping[str, np.ndarray]], types: Sequence[Sequence[str]], firsts: Sequence[np.ndarray]
) -> tuple[SingleRemovals, Removals]:
    """Join the chunks of all trajectories, whose types are named by their number.

    `firsts` (T,) bool of each trajectory are true where an episode begins.
    """
    single, together = _joined(chunks, types, firsts, ""), _joined(chunks, types, firsts, "together.")
    tracks = [chunk["track"].astype(np.int64) + (i << 32) for i, chunk in enumerate(chunks)]
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

    # No two trajectories share an episode or a frame.
    frames = [chunk[f"{prefix}frame"].astype(np.int64) + (i << 32) for i, chunk in enumerate(chunks)]
    types_of = (np.array(names, str)[chunk[f"{prefix}type"]] for names, chunk in zip(types, chunks, strict=True))
    episodes = (
        (i << 32) + np.cumsum(first)[chunk[f"{prefix}frame"]]
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
