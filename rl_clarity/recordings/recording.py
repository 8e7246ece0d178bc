"""Read recordings: `rl_clarity.open_recording`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from rl_clarity.errors import SamplesError
from rl_clarity.files import local_path
from rl_clarity.recordings.blocks import MAX_HEADER_BYTES, MAX_STEPS, StoredArray, decode_array, decode_header
from rl_clarity.recordings.conversion import recorded_observations, recorded_trajectories
from rl_clarity.recordings.layout import (
    AGENTS,
    BLOCK,
    BLOCKS,
    ENDS,
    EPISODES,
    GOING,
    METADATA,
    PLUGIN,
    REMOVED,
    TIME_LIMIT,
    complete_records,
    data_file,
    decode_episodes,
    episode_rows,
    latest_blocks,
)
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.samples import Observations, Trajectories


class StepArray:
    """One field of an episode, (T, ...), which is read from its file where it is indexed."""

    def __init__(self, blocks: Sequence[_Block], name: str) -> None:
        self._blocks, self._name = blocks, name
        self._starts = np.array([block.start for block in blocks])
        first = blocks[0].stored(name)
        self.dtype = first.dtype
        self.shape = (blocks[-1].start + blocks[-1].steps, *first.shape[1:])
        self._cached: tuple[int, np.ndarray] | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        first, *others = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis:
            first, others = slice(None), [Ellipsis, *others]
        rows = np.arange(len(self))[first]
        values = self._read(np.atleast_1d(rows))
        selected = values[0] if np.ndim(rows) == 0 else values
        if not others:
            return selected
        return selected[tuple(others)] if np.ndim(rows) == 0 else selected[(slice(None), *others)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._read(np.arange(len(self)))
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"<{self._name}: {self.dtype}{self.shape}, read where it is indexed>"

    def _read(self, rows: np.ndarray) -> np.ndarray:
        result = np.empty((len(rows), *self.shape[1:]), self.dtype)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers):
            here = numbers == number
            result[here] = self._block(int(number))[rows[here] - self._starts[number]]
        return result

    def _block(self, number: int) -> np.ndarray:
        if self._cached is None or self._cached[0] != number:
            block = self._blocks[number]
            array = block.read(self._name)
            if array.shape[1:] != self.shape[1:] or array.dtype != self.dtype:
                raise SamplesError(f"{block.file} is damaged: {self._name} changes its shape or type in an episode")
            self._cached = number, array
        return self._cached[1]


Field = StepArray | np.ndarray


class Episode:
    """An episode: facts, and arrays whose first axis is its T steps.

    Everything that belongs to one step is stored with that step: the observation before the action, the recurrent state
    before the step (reset where the episode begins), the outputs for both, the action, and the reward for it.
    """

    def __init__(self, facts: Mapping[str, Any], arrays: Mapping[str, Field]) -> None:
        self._arrays = arrays
        self.facts = facts
        """`episode`, `number`, `environment`, `seed`, `level_seed`, `start_step`, `start_time`, `training_step`,
        `agent`, `end`, `steps`, `return`: a row of `Recording.table()`."""

    def __len__(self) -> int:
        return int(self.facts["steps"])

    def __repr__(self) -> str:
        return f"<Episode {self.facts['episode']}: {len(self)} steps, {self.end}>"

    @property
    def index(self) -> int:
        """Index in the recording, which stays when other episodes are removed."""
        return int(self.facts["episode"])

    @property
    def number(self) -> int:
        """Number in training or play, counted from 0 and including episodes that were not recorded."""
        return int(self.facts["number"])

    @property
    def end(self) -> str:
        """Why it ended: `done`, `time limit`, `stopped`; or `still going`."""
        return str(self.facts["end"])

    @property
    def observations(self) -> Field:
        """(T, H, W, C) uint8: what the network took, before the action."""
        return self._field("observations")

    @property
    def frames(self) -> Field | None:
        """(T, H', W', 3) uint8: what to show, where this differs from the observations."""
        return self._arrays.get("frames")

    @property
    def actions(self) -> Field:
        """(T,) int, or (T, D) float where actions are continuous."""
        return self._field("actions")

    @property
    def rewards(self) -> Field:
        """(T,) the game's own rewards, of the actions at the same steps."""
        return self._field("rewards")

    @property
    def training_rewards(self) -> Field | None:
        """(T,) what a wrapper made of the rewards."""
        return self._arrays.get("training_rewards")

    @property
    def firsts(self) -> np.ndarray:
        """(T,) bool: true at the first step."""
        return np.arange(len(self)) == 0

    @property
    def truncated(self) -> np.ndarray:
        """(T,) bool: true at the last step if a time limit ended the episode."""
        return (np.arange(len(self)) == len(self) - 1) & (self.end == TIME_LIMIT)

    @property
    def policy_logits(self) -> Field | None:
        """(T, A) logits of the agent's policy, without noise."""
        return self._arrays.get("policy_logits")

    @property
    def behaviour_logits(self) -> Field | None:
        """(T, A) logits of the distribution that actions were sampled from, where noise was added to the policy."""
        return self._arrays.get("behaviour_logits")

    @property
    def q_values(self) -> Field | None:
        """(T, A) action values."""
        return self._arrays.get("q_values")

    @property
    def values(self) -> Field | None:
        """(T,) values of the states."""
        return self._arrays.get("values")

    @property
    def states(self) -> tuple[Field, ...] | None:
        """Parts (T, ...) of the recurrent state before each step."""
        return self._parts("states")

    @property
    def final_states(self) -> tuple[np.ndarray, ...] | None:
        """Parts (...) of the recurrent state after the last step."""
        parts = self._parts("final_states")
        return None if parts is None else tuple(np.asarray(part[-1]) for part in parts)

    @property
    def final_observation(self) -> np.ndarray | None:
        """(H, W, C) uint8: the observation after the last action, where the environment shows it."""
        final = self._arrays.get("final_observation")
        return None if final is None else np.asarray(final[-1])

    @property
    def final_value(self) -> float | None:
        """The value of the state after the last step, where it was recorded."""
        final = self._arrays.get("final_value")
        return None if final is None else float(final[-1])

    @property
    def info(self) -> dict[str, Field]:
        """Further fields (T, ...) by name."""
        return {name.removeprefix("info."): array for name, array in self._arrays.items() if name.startswith("info.")}

    @property
    def fields(self) -> dict[str, Field]:
        """All stored fields (T, ...) by name: `observations`, `states.0`, `info.NAME`, ..."""
        return {name: array for name, array in self._arrays.items() if not name.startswith("final_")}

    def _field(self, name: str) -> Field:
        if name not in self._arrays:
            raise SamplesError(f"episode {self.index} has no {name}; it has {sorted(self._arrays)}")
        return self._arrays[name]

    def _parts(self, name: str) -> tuple[Field, ...] | None:
        parts = [key for key in self._arrays if key.startswith(f"{name}.")]
        return tuple(self._arrays[f"{name}.{i}"] for i in range(len(parts))) or None


class Recording(ABC):
    """Episodes, in the order in which they began to be stored, and metadata of agent and environment."""

    metadata: Mapping[str, Any]
    """What is known of `name`, `begun` (seconds since 1970), `checkpoint`, `environment`, `action_combos`, `gamma`,
    `lambda` and `sampling`."""
    location: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _episode(self, index: int) -> Episode: ...

    @abstractmethod
    def table(self) -> list[dict[str, Any]]:
        """A row for each episode: `episode`, `number`, `environment`, `seed`, `level_seed`, `start_step`,
        `start_time` (seconds since 1970), `training_step`, `agent`, `end`, `steps` and `return`; None where unknown.
        """

    def checkpoint(self, episode: Episode) -> str | None:
        """Path or address of the checkpoint that an episode began with; None if there is none."""
        return None

    def to_trajectories(self, count: int | None = None, max_steps: int = 512) -> Trajectories:
        """Return trajectories of consecutive steps, from all over the recording, as `generate` takes them.

        A trajectory begins with an episode where possible, and continues with the episodes after it. Episodes that were
        stopped count as truncated. Arrays are in memory.

        Args:
            count: Number of trajectories; by default that of the episodes, at most 8.
            max_steps: Steps of each, or fewer if there are not as many.

        Raises:
            OptionError: There are fewer steps than trajectories.
            SamplesError: Episodes have observations of different shapes.
        """
        return recorded_trajectories(self, count, max_steps)

    def to_observations(self, count: int = 4096) -> Observations:
        """Return observations at even distances, at most `count`, as `generate` takes them."""
        return recorded_observations(self, count)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...

    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        indices = range(len(self))[index]  # raises IndexError
        return [self._episode(i) for i in indices] if isinstance(indices, range) else self._episode(indices)

    def __iter__(self) -> Iterator[Episode]:
        return (self._episode(index) for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<Recording {self.location}: {len(self)} episodes>"


class StoredRecording(Recording):
    """A recording as `Recorder` writes it; it may be read while it is written.

    It shows the episodes that were there when it was opened; `refresh` adds newer ones and newer steps.

    Raises:
        SamplesError: There is no recording, or it is damaged. Damaged episodes raise it when they are read, not before.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._files = RecordingFiles(location)
        self.location = self._files.location
        self.metadata = self._files.metadata()
        self.refresh()

    def refresh(self) -> StoredRecording:
        """Read what was written since, and return the recording."""
        # Blocks are read after the episodes that they end, so that these are complete.
        episodes = decode_episodes(self._files.read_from(EPISODES, 0), self._files.path(EPISODES))
        blocks = np.frombuffer(complete_records(self._files.read_from(BLOCKS, 0), BLOCK), BLOCK)
        self._blocks = latest_blocks(blocks[blocks["episode"] < len(episodes)])
        self._facts = episodes[episodes["end"] != ENDS.index(REMOVED)]
        self._bounds = np.searchsorted(self._blocks["episode"], np.arange(len(episodes) + 1))
        sums = np.concatenate([[0], np.cumsum(self._blocks["steps"], dtype=np.int64)])
        self._steps = np.diff(sums[self._bounds])
        """Steps of each episode that are stored, by its index."""
        return self

    def checkpoint(self, episode: Episode) -> str | None:
        number = episode.facts.get("agent")
        if number is None:
            return None
        names = (name for name in self._files.names(AGENTS) if name.partition(".")[0] == f"{number:05}")
        return next((self._files.path(f"{AGENTS}/{name}") for name in names), None)

    def __len__(self) -> int:
        return len(self._facts)

    def table(self) -> list[dict[str, Any]]:
        return [self._complete(row) for row in episode_rows(self._facts)]

    def listing(self) -> list[tuple[dict[str, Any], str | None]]:
        """Rows as in `table`, each with the reason why the episode is damaged, or None.

        Of episodes that ended, it is only checked that all of their data are there; the data are not read. The return
        of an episode that cannot be read is None.
        """
        missing = self._missing()
        rows: list[tuple[dict[str, Any], str | None]] = []
        for row in episode_rows(self._facts):
            problem = missing.get(row["episode"])
            try:
                row = self._complete(row) if problem is None else row
            except SamplesError as error:
                problem = str(error)
            rows.append((row if row["return"] == row["return"] else {**row, "return": None}, problem))
        return rows

    def episode(self, index: int, steps: int | None = None) -> Episode:
        """The episode with an index, which is its position if no episode was removed.

        Args:
            index: `episode` in its row.
            steps: The episode as it was when it had so many steps and was still going; by default, as it is now.

        Raises:
            SamplesError: There is no such episode, it never had so many steps, or it is damaged.
        """
        (positions,) = np.nonzero(self._facts["episode"] == index)
        if not len(positions):
            raise SamplesError(f"{self.location} has no episode {index}")
        if steps is None:
            return self._episode(int(positions[0]))
        (row,) = episode_rows(self._facts[positions])
        return Episode({**row, "steps": steps, "end": GOING}, self._arrays(index, steps, part=True))

    def _missing(self) -> dict[int, str]:
        """Why episodes are damaged, by index: blocks that are not listed, or that are not in the data files."""
        blocks, problems = self._blocks, dict[int, str]()
        for number in np.unique(blocks["file"]).tolist():
            name = data_file(number)
            state = self._files.state(name)
            size = 0 if state is None else state[0]
            ends = blocks["offset"].astype(np.int64) + blocks["header"] + blocks["data"]
            cut = blocks["episode"][(blocks["file"] == number) & (ends > size)]
            problems |= dict.fromkeys(cut.tolist(), f"{self._files.path(name)} is damaged: it is too short")
        sums = np.cumsum(blocks["steps"], dtype=np.int64) - blocks["steps"]
        firsts = sums[np.minimum(self._bounds[:-1], max(0, len(sums) - 1))] if len(sums) else sums
        gaps = blocks["episode"][blocks["start"] != sums - firsts[blocks["episode"]]] if len(sums) else sums
        ended = self._facts[self._facts["end"] != ENDS.index(GOING)]
        short = ended["episode"][ended["steps"] != self._steps[ended["episode"]]]
        lost = f"{self._files.path(BLOCKS)} is damaged: blocks of the episode are missing"
        return problems | dict.fromkeys([*gaps.tolist(), *short.tolist()], lost)

    def _complete(self, row: dict[str, Any]) -> dict[str, Any]:
        """Count the steps, and sum the rewards, of an episode that did not end or whose writer was killed."""
        if row["end"] == GOING:
            row["steps"] = int(self._steps[row["episode"]])
        if row["return"] != row["return"]:  # NaN
            rewards = self._arrays(row["episode"], row["steps"]).get("rewards", np.zeros(0))
            if rewards.ndim != 1:
                raise SamplesError(f"{self.location} is damaged: rewards of episode {row['episode']} have several axes")
            row["return"] = float(np.sum(np.asarray(rewards), dtype=np.float64))
        return row

    def _episode(self, index: int) -> Episode:
        (row,) = episode_rows(self._facts[index : index + 1])
        row = self._complete(row)
        return Episode(row, self._arrays(row["episode"], row["steps"]))

    def _arrays(self, index: int, steps: int, *, part: bool = False) -> dict[str, Field]:
        """Fields of an episode; with `part`, of its first steps, as they were when there were no more."""
        records = self._blocks[self._bounds[index] : self._bounds[index + 1]]
        starts = np.cumsum(records["steps"], dtype=np.int64) - records["steps"]
        if part:
            records, starts = records[starts < steps], starts[starts < steps]
        if not (records["start"] == starts).all() or steps != records["steps"].sum():
            raise SamplesError(f"{self._files.path(BLOCKS)} is damaged: blocks of episode {index} are missing")
        blocks = [_Block(self._files, record) for record in records]
        if not blocks:
            return {}
        names = blocks[0].names
        arrays: dict[str, Field] = {name: StepArray(blocks, name) for name in names if not name.startswith("final_")}
        ended = [] if part else [name for name in blocks[-1].names if name.startswith("final_")]
        last = {name: blocks[-1].read(name) for name in ended}
        return arrays | last


class _Block:
    """Some steps of an episode in a data file."""

    def __init__(self, files: RecordingFiles, record: np.void) -> None:
        self._files = files
        self._episode, self.start, self.steps, number, self._offset, self._header_bytes, self._data_bytes = (
            int(value) for value in record.item()
        )
        self._name = data_file(number)
        self.file = files.path(self._name)
        if self._header_bytes > MAX_HEADER_BYTES or not 0 < self.steps <= MAX_STEPS:
            raise SamplesError(f"{files.path(BLOCKS)} is damaged: episode {self._episode}, step {self.start}")

    @cached_property
    def _stored(self) -> dict[str, StoredArray]:
        data = self._files.read(self._name, self._offset, self._offset + self._header_bytes)
        arrays = decode_header(data, self._offset, self._episode, self.start, self.file)
        end = self._offset + self._header_bytes + self._data_bytes
        for name, array in arrays.items():
            rows = 1 if name.startswith("final_") else self.steps
            if array.shape[:1] != (rows,) or array.start + array.size > end:
                raise SamplesError(f"{self.file} is damaged at byte {self._offset}: {name} has shape {array.shape}")
        return arrays

    @property
    def names(self) -> list[str]:
        return list(self._stored)

    def stored(self, name: str) -> StoredArray:
        """The array of a name, as the header describes it."""
        if name not in self._stored:
            raise SamplesError(f"{self.file} is damaged at byte {self._offset}: {name} is missing")
        return self._stored[name]

    def read(self, name: str) -> np.ndarray:
        """Read and decompress an array (steps, ...)."""
        stored = self.stored(name)
        data = self._files.read(self._name, stored.start, stored.start + stored.size)
        return decode_array(stored, data, self.file)


def open_recording(location: str | os.PathLike[str]) -> Recording:
    """Open a recording at a path or an address (`s3://...`), that of a log directory, or a Minari dataset at a path.

    It may be read while it is written; see `StoredRecording`.

    Raises:
        SamplesError: There is no recording, or it is damaged; or the log directory has several.
        DependencyError: Minari, or the package for an address, is not installed.
    """
    path = local_path(os.fspath(location))
    if path is not None and not (path / METADATA).exists():
        from rl_clarity.recordings.minari_ import MinariRecording, find_dataset

        folder = find_dataset(path)
        if folder is not None:
            return MinariRecording(folder)
    places = _recordings_at(location)
    if len(places) > 1:
        raise SamplesError(f"{location} has {len(places)} recordings: open one of {', '.join(places)}")
    return StoredRecording(places[0] if places else location)


def _recordings_at(location: str | os.PathLike[str]) -> list[str]:
    """The location, if it is a recording, else the recordings of the log directory that it may be."""
    files = RecordingFiles(location)
    if files.exists(METADATA):
        return [files.location]
    names = (f"{PLUGIN}/{name}" for name in files.names(PLUGIN))
    return [files.path(name) for name in names if files.exists(f"{name}/{METADATA}")]


def find_recordings(location: str | os.PathLike[str]) -> list[str]:
    """Return the recording at a location, or those of a log directory and, if it is local, of all runs below it."""
    folder = local_path(os.fspath(location))
    if folder is None or (folder / METADATA).exists():
        return _recordings_at(location)
    found = []
    for place, folders, _ in os.walk(folder):
        if Path(place).as_posix().endswith(f"/{PLUGIN}"):
            found += [str(Path(place) / name) for name in folders if (Path(place) / name / METADATA).exists()]
            folders.clear()
    return sorted(found)


def is_recording(location: str | os.PathLike[str]) -> bool:
    """Whether there is a recording or a Minari dataset."""
    from rl_clarity.recordings.minari_ import find_dataset

    path = local_path(os.fspath(location))
    return bool(_recordings_at(location)) or (path is not None and find_dataset(path) is not None)
