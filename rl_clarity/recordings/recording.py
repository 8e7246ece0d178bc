"""`rl_clarity.open_recording` reads recordings."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, overload

import numpy as np

from rl_clarity.base.errors import SamplesError, describe_error
from rl_clarity.base.files import local_path
from rl_clarity.recordings.blocks import decode_block
from rl_clarity.recordings.checkpoints import StoredCheckpoints
from rl_clarity.recordings.conversion import recorded_observations, recorded_trajectories
from rl_clarity.recordings.episode import Episode, Field
from rl_clarity.recordings.layout import (
    BLOCK,
    BLOCKS,
    ENDS,
    EPISODES,
    GOING,
    METADATA,
    PROBE,
    REMOVED,
    STATISTICS,
    complete_records,
    data_file,
    decode_episodes,
    decode_statistics,
    episode_rows,
    latest_blocks,
)
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.samples import Observations, Trajectories
from rl_clarity.recordings.search import recordings_at
from rl_clarity.recordings.step_arrays import Block, StepArray, intact_blocks


class Recording(ABC):
    """Recorded episodes in the order in which their recording began, and metadata of the agent and environment."""

    metadata: Mapping[str, Any]
    """Metadata by key: `name`, `begun` (seconds since 1970), `checkpoint`, `environment`, `action_combos`, `gamma`,
    `lambda`, `sampling` and others (docs/recording-format.md). Unknown values are missing or None."""
    location: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _episode(self, index: int) -> Episode: ...

    @abstractmethod
    def table(self) -> list[dict[str, Any]]:
        """Return a dictionary for each episode, with the keys `episode` (its index), `number`, `environment`, `seed`,
        `level_seed`, `start_step`, `start_time` (seconds since 1970), `training_step`, `agent` (the number of its
        checkpoint), `end`, `steps`, `return` and `entropy` (the policy's mean entropy in nats). Unknown values are
        None.
        """

    def listing(self) -> list[tuple[dict[str, Any], str | None]]:
        """Return the rows of `table`, each with the reason why the episode cannot be read, or None if it is intact."""
        return [(row, None) for row in self.table()]

    def checkpoint(self, episode: Episode, step: int = 0) -> str | None:
        """Return the path or address of the checkpoint that acted at a step of an episode, or None if it is unknown.

        This is the checkpoint with which the episode began, unless the recorder also stored checkpoints during episodes
        (`Recorder(checkpoint_every=)`). A checkpoint that is stored as a difference is rebuilt in a temporary file.
        """
        return None

    def checkpoint_digest(self, episode: Episode, step: int = 0) -> str | None:
        """Return the SHA-256 of the checkpoint that acted at a step, or None if it is unknown or the file must be read
        to compute it.
        """
        return None

    def to_trajectories(self, count: int | None = None, max_steps: int = 512) -> Trajectories:
        """Return trajectories of consecutive steps, evenly spaced over the recording, for `generate`.

        A trajectory begins with an episode if possible, and continues with the following episodes. Stopped episodes
        count as truncated. All arrays are loaded into memory.

        Args:
            count: Number of trajectories; by default the number of episodes, at most 8.
            max_steps: Largest number of steps of a trajectory. Trajectories are shorter if the recording has too few
                steps.

        Raises:
            OptionError: The recording has fewer steps than trajectories, or an argument is below 1.
            SamplesError: Episodes have observations of different shapes.
        """
        return recorded_trajectories(self, count, max_steps)

    def to_observations(self, count: int = 4096) -> Observations:
        """Return at most `count` evenly spaced observations of all episodes, for `generate`. Raises OptionError if
        `count` is below 1 or the recording has no steps.
        """
        return recorded_observations(self, count)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...

    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        indices = range(len(self))[index]  # raises IndexError if it is out of range
        return [self._episode(i) for i in indices] if isinstance(indices, range) else self._episode(indices)

    def __iter__(self) -> Iterator[Episode]:
        return (self._episode(index) for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<Recording {self.location}: {len(self)} episodes>"


class StoredRecording(Recording):
    """A recording that `Recorder` wrote, or is still writing.

    It contains the episodes that existed when it was opened. `refresh` adds newer episodes and steps.

    Raises:
        SamplesError: There is no recording, or it is damaged. If only one episode is damaged, the error is raised when
            that episode is read.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._files = RecordingFiles(location)
        self.location = self._files.location
        self.metadata = self._files.metadata()
        self.checkpoints = StoredCheckpoints(self._files)
        """The recording's checkpoints, by number."""
        self.refresh()

    def refresh(self) -> StoredRecording:
        """Read what was written since the last call, and return this recording."""
        # Read the blocks after the episodes, so that the blocks of ended episodes are complete.
        episodes = decode_episodes(self._files.read_from(EPISODES, 0), self._files.path(EPISODES))
        blocks = np.frombuffer(complete_records(self._files.read_from(BLOCKS, 0), BLOCK), BLOCK)
        blocks = blocks[blocks["episode"] < len(episodes)]
        if len(blocks) and episodes["end"][blocks["episode"][-1]] == ENDS.index(GOING):
            blocks = intact_blocks(self._files, blocks)
        self._blocks = latest_blocks(blocks)
        self._bounds = np.searchsorted(self._blocks["episode"], np.arange(len(episodes) + 1))
        sums = np.concatenate([[0], np.cumsum(self._blocks["steps"], dtype=np.int64)])
        self._steps = np.diff(sums[self._bounds])
        """Number of stored steps of each episode, by its index."""
        # The writer of an episode without steps was stopped before it wrote the first block.
        has_steps = (episodes["steps"] > 0) | (self._steps > 0)
        self._facts = episodes[has_steps & (episodes["end"] != ENDS.index(REMOVED))]
        self._entropies = decode_statistics(self._files.read_from(STATISTICS, 0))
        return self

    def checkpoint(self, episode: Episode, step: int = 0) -> str | None:
        number = _acting(episode, step)
        return None if number is None else self.checkpoints.path(number)

    def checkpoint_digest(self, episode: Episode, step: int = 0) -> str | None:
        number = _acting(episode, step)
        return None if number is None else self.checkpoints.digest(number)

    def probe(self) -> dict[str, np.ndarray] | None:
        """Return the fixed observations that `Recorder.probe` stored, or None. The arrays are `observations` (n, ...)
        and, if states were passed, `states.0`, `states.1`, ... (n, ...).

        Raises SamplesError if their file is damaged.
        """
        data, file = self._files.read_from(PROBE, 0), self._files.path(PROBE)
        return decode_block(data, file) if data else None

    def __len__(self) -> int:
        return len(self._facts)

    def table(self) -> list[dict[str, Any]]:
        return [self._complete(row) for row in self._rows(self._facts)]

    def listing(self) -> list[tuple[dict[str, Any], str | None]]:
        """See `Recording.listing`.

        For episodes that have ended, it is only checked that no data are missing. Rewards are read only for episodes
        whose return was not stored; `return` is None if these cannot be read.
        """
        missing = self._missing()
        rows: list[tuple[dict[str, Any], str | None]] = []
        for row in self._rows(self._facts):
            problem = missing.get(row["episode"])
            try:
                row = self._complete(row) if problem is None else row
            except Exception as error:  # any error: the other episodes are still listed
                problem = describe_error(error)
            rows.append((row if row["return"] == row["return"] else {**row, "return": None}, problem))
        return rows

    def episode(self, index: int, steps: int | None = None) -> Episode:
        """Return the episode with an index. The index is the episode's position unless earlier episodes were removed.

        Args:
            index: The value of `episode` in the episode's row of `table`.
            steps: Return the episode as it was stored when it was still going and had this many steps; by default, as
                it is now.

        Raises:
            SamplesError: There is no such episode, it was never stored with this number of steps, or it is damaged.
        """
        (positions,) = np.nonzero(self._facts["episode"] == index)
        if not len(positions):
            raise SamplesError(f"{self.location} has no episode {index}")
        if steps is None:
            return self._episode(int(positions[0]))
        (row,) = self._rows(self._facts[positions])
        return Episode({**row, "steps": steps, "end": GOING}, self._arrays(index, steps, part=True))

    def _rows(self, episodes: np.ndarray) -> list[dict[str, Any]]:
        return [{**row, "entropy": self._entropies.get(row["episode"])} for row in episode_rows(episodes)]

    def _missing(self) -> dict[int, str]:
        """Return why each damaged episode is damaged, by index. An episode is damaged if its blocks are not listed
        or are missing from the data files.
        """
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
        """Add the number of steps to the row of an episode that has not ended, and the return to a row without it."""
        if row["end"] == GOING:
            row["steps"] = int(self._steps[row["episode"]])
        if row["return"] != row["return"]:  # NaN
            rewards = self._arrays(row["episode"], row["steps"]).get("rewards", np.zeros(0))
            if rewards.ndim != 1:
                raise SamplesError(f"{self.location} is damaged: rewards of episode {row['episode']} have several axes")
            row["return"] = float(np.sum(np.asarray(rewards), dtype=np.float64))
        return row

    def _episode(self, index: int) -> Episode:
        (row,) = self._rows(self._facts[index : index + 1])
        row = self._complete(row)
        return Episode(row, self._arrays(row["episode"], row["steps"]))

    def _arrays(self, index: int, steps: int, *, part: bool = False) -> dict[str, Field]:
        """Return the fields of an episode. With `part`, return only those of its first `steps` steps, without the
        values after its last step.
        """
        records = self._blocks[self._bounds[index] : self._bounds[index + 1]]
        starts = np.cumsum(records["steps"], dtype=np.int64) - records["steps"]
        if part:
            records, starts = records[starts < steps], starts[starts < steps]
        if not (records["start"] == starts).all() or steps != records["steps"].sum():
            raise SamplesError(f"{self._files.path(BLOCKS)} is damaged: blocks of episode {index} are missing")
        blocks = [Block(self._files, record) for record in records]
        if not blocks:
            return {}
        names = blocks[0].names
        arrays: dict[str, Field] = {name: StepArray(blocks, name) for name in names if not name.startswith("final_")}
        ended = [] if part else [name for name in blocks[-1].names if name.startswith("final_")]
        last = {name: blocks[-1].read(name) for name in ended}
        return arrays | last


def _acting(episode: Episode, step: int) -> int | None:
    """Return the number of the checkpoint that acted at a step."""
    numbers = episode.agents
    return episode.facts.get("agent") if numbers is None else int(numbers[step])


def open_recording(location: str | os.PathLike[str]) -> Recording:
    """Open the recording or Minari dataset at a path. A recording can also be at an address (`s3://...`). `location`
    may be a log directory if it contains only one recording.

    A recording can be read while it is being written; see `StoredRecording`.

    Raises:
        SamplesError: There is no recording, it is damaged, the log directory contains several recordings, or the
            package that is needed to read an address is not installed.
        DependencyError: Minari is not installed.
    """
    path = local_path(os.fspath(location))
    if path is not None and not (path / METADATA).exists():
        from rl_clarity.recordings.minari_ import MinariRecording, find_dataset

        folder = find_dataset(path)
        if folder is not None:
            return MinariRecording(folder)
    places = recordings_at(location)
    if len(places) > 1:
        raise SamplesError(f"{location} has {len(places)} recordings; open one of them: {', '.join(places)}")
    return StoredRecording(places[0] if places else location)


def is_recording(location: str | os.PathLike[str]) -> bool:
    """Return whether a location contains a recording or a Minari dataset."""
    from rl_clarity.recordings.minari_ import find_dataset

    path = local_path(os.fspath(location))
    return bool(recordings_at(location)) or (path is not None and find_dataset(path) is not None)
