"""Convert the episodes of a recording to the arrays that `generate` takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.recordings.layout import DONE, TIME_LIMIT
from rl_clarity.recordings.samples import Observations, RaggedArray, Trajectories, from_arrays

if TYPE_CHECKING:
    from rl_clarity.recordings.episode import Episode
    from rl_clarity.recordings.recording import Recording

NAMES = {"frames": "observations_full"}
"""Names that fields of episodes have in samples, for fields whose names differ."""
COPIED = ("observations", "frames", "actions", "rewards", "policy_logits", "values", "q_values")
IMAGES = ("observations", "frames")
DEFAULT_TRAJECTORIES = 8


def recorded_trajectories(recording: Recording, count: int | None, max_steps: int) -> Trajectories:
    """Return `count` trajectories of consecutive steps; see `Recording.to_trajectories`."""
    lengths = _lengths(recording)
    total = int(lengths.sum())
    if count is None:
        count = max(1, min(DEFAULT_TRAJECTORIES, len(recording)))
    if count < 1 or max_steps < 1:
        raise OptionError(f"count={count} and max_steps={max_steps} must be at least 1")
    steps = min(max_steps, total // count)
    if not steps:
        raise OptionError(f"{recording.location} has {total} steps, which are too few for {count} trajectories")
    begins = np.cumsum(lengths) - lengths
    rows = []
    for start in np.arange(count) * (total // count):
        latest = start + total // count - steps
        later = begins[(begins >= start) & (begins <= latest)]
        first = int(later[0]) if len(later) else int(start)  # begin with an episode, if enough steps follow
        rows.append(_concatenate(recording, begins, lengths, first, steps))
    return _trajectories(recording, {name: np.stack([row[name] for row in rows]) for name in _common(rows)})


def recorded_observations(recording: Recording, count: int) -> Observations:
    """Return at most `count` evenly spaced observations; see `Recording.to_observations`."""
    lengths = _lengths(recording)
    total = int(lengths.sum())
    if count < 1 or not total:
        raise OptionError(
            f"count={count} must be at least 1, and {recording.location} must have steps (it has {total})"
        )
    chosen = np.linspace(0, total - 1, min(count, total)).astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    episodes = np.searchsorted(begins, chosen, side="right") - 1
    parts = []
    for index in np.unique(episodes):
        ages = chosen[episodes == index] - begins[index]
        episode = recording[int(index)]
        arrays = {name: array for name, array in _read(episode, ages).items() if name not in ("actions", "rewards")}
        numbers = np.full(len(ages), index, np.int32)
        parts.append({**_without_outputs(arrays), "ages": ages.astype(np.int32), "episodes": numbers})
    return from_arrays(Observations, {name: _join(recording, name, parts) for name in _common(parts)})


def median_games(recording: Recording, count: int) -> Trajectories:
    """Return the `count` trajectories whose returns are nearest to the median of all, the nearest first.

    There is one trajectory for each environment. It joins the environment's episodes. Images are read when they are
    indexed. Raises SamplesError if the recording has no steps.
    """
    episodes: dict[int, list[Episode]] = {}
    for episode in recording:
        if len(episode):
            episodes.setdefault(episode.facts["environment"], []).append(episode)
    if not episodes:
        raise SamplesError(f"{recording.location} has no steps")
    games = [parts for _, parts in sorted(episodes.items())]
    returns = np.array([sum(np.sum(episode.rewards) for episode in parts) for parts in games])
    order = np.argsort(np.abs(returns - np.median(returns)), kind="stable")
    return _in_rows(recording, [games[number] for number in order[:count]])


def recorded_episodes(recording: Recording) -> Trajectories:
    """Return one trajectory per episode that has steps. Images are read when they are indexed.

    Raises SamplesError if the recording has no steps.
    """
    episodes = [[episode] for episode in recording if len(episode)]
    if not episodes:
        raise SamplesError(f"{recording.location} has no steps")
    return _in_rows(recording, episodes)


def recorded_episode(recording: Recording, episode: Episode) -> Trajectories:
    """Return an episode as a single trajectory. Images are read when they are indexed.

    Raises SamplesError if the episode has no steps.
    """
    if not len(episode):
        raise SamplesError(f"{recording.location}: episode {episode.index} has no steps")
    return _in_rows(recording, [[episode]])


def _in_rows(recording: Recording, episodes: Sequence[Sequence[Episode]]) -> Trajectories:
    rows = []
    for parts in episodes:
        numbers = [_read(part, slice(None), IMAGES) | _flags(part, slice(None)) for part in parts]
        row: dict[str, Any] = {name: _join(recording, name, numbers) for name in _common(numbers)}
        images = {name: [getattr(part, name) for part in parts] for name in IMAGES}
        row |= {NAMES.get(name, name): _Joined(arrays) for name, arrays in images.items() if None not in arrays}
        rows.append(row)
    return _trajectories(recording, {name: RaggedArray([row[name] for row in rows]) for name in _common(rows)})


def _trajectories(recording: Recording, arrays: dict[str, Any]) -> Trajectories:
    """Return trajectories from arrays (N, T, ...). The array `causes` contains the cause at each step where an episode
    ended, and an empty string or 0 elsewhere.
    """
    causes = [
        (i, int(step), str(row[step])) for i, row in enumerate(arrays.pop("causes")) for step in np.flatnonzero(row)
    ]
    trajectories = from_arrays(Trajectories, arrays)
    return dataclasses.replace(trajectories, action_combos=_combos(recording), causes=tuple(causes) or None)


class _Joined:
    """The concatenation of arrays (T, ...), which are read when they are indexed."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *others = key if isinstance(key, tuple) else (key,)
        steps = np.arange(len(self))[first]
        flat = np.atleast_1d(steps)
        values = np.empty((len(flat), *self.shape[1:]), self.dtype)
        owners = np.searchsorted(self._ends, flat, side="right")
        for owner in np.unique(owners):
            part, here = self._parts[owner], owners == owner
            values[here] = part[flat[here] - (self._ends[owner] - len(part))]
        selected = values if np.ndim(steps) else values[0]
        return selected[(slice(None), *others) if np.ndim(steps) else tuple(others)]


def _lengths(recording: Recording) -> np.ndarray:
    return np.array([row["steps"] for row in recording.table()], np.int64)


def _concatenate(
    recording: Recording, begins: np.ndarray, lengths: np.ndarray, first: int, steps: int
) -> dict[str, np.ndarray]:
    """Return the fields of `steps` consecutive steps, by their names in `Trajectories`. `first` is the index of the
    first of these steps in the whole recording.
    """
    parts = []
    index = int(np.searchsorted(begins, first, side="right")) - 1
    while steps:
        start = first - int(begins[index])
        taken = min(steps, int(lengths[index]) - start)
        if taken > 0:
            episode = recording[index]
            parts.append(_read(episode, slice(start, start + taken)) | _flags(episode, slice(start, start + taken)))
            first, steps = first + taken, steps - taken
        index += 1
    return {name: _join(recording, name, parts) for name in _common(parts)}


def _combos(recording: Recording) -> tuple[tuple[str, ...], ...] | None:
    combos = recording.metadata.get("action_combos")
    return tuple(tuple(map(str, combo)) for combo in combos) if combos else None


def _read(episode: Episode, rows: Any, without: Sequence[str] = ()) -> dict[str, np.ndarray]:
    arrays = {NAMES.get(name, name): getattr(episode, name) for name in COPIED if name not in without}
    arrays |= {f"states.{i}": part for i, part in enumerate(episode.states or ())}
    return {name: np.asarray(array[rows]) for name, array in arrays.items() if array is not None}


def _without_outputs(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name not in ("policy_logits", "values", "q_values")}


def _flags(episode: Episode, rows: slice) -> dict[str, np.ndarray]:
    """Return `firsts`, `dones`, `truncated`, `final_values` and `causes` of some steps of an episode. An episode that
    was stopped or has not ended counts as truncated.
    """
    dones, truncated = np.zeros((2, len(episode)), bool)
    final_values = np.zeros(len(episode), np.float32)
    dones[-1] = episode.end in (DONE, TIME_LIMIT)
    if episode.end != DONE:
        truncated[-1] = True
        value = episode.final_value
        if value is None and episode.values is not None:
            value = float(episode.values[-1])  # the value of the state before
        final_values[-1] = value or 0.0
    causes = np.zeros(len(episode), object)
    causes[-1] = episode.cause or ""
    flags = {"firsts": episode.firsts, "dones": dones, "truncated": truncated, "final_values": final_values}
    flags["causes"] = causes
    return {name: array[rows] for name, array in flags.items()}


def _common(parts: Sequence[dict[str, np.ndarray]]) -> list[str]:
    """Return the names of the arrays that all of `parts` contain."""
    return [name for name in parts[0] if all(name in part for part in parts)]


def _join(recording: Recording, name: str, parts: Iterable[dict[str, np.ndarray]]) -> np.ndarray:
    arrays = [part[name] for part in parts]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        raise SamplesError(f"{recording.location}: {name} has different shapes in different episodes: {sorted(shapes)}")
    joined = np.concatenate(arrays)
    return joined.astype(np.float32) if joined.dtype.kind == "f" and not name.startswith("observations") else joined
