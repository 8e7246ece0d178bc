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
    """Episodes in the order in which their recording began, and metadata of agent and environment."""

    metadata: Mapping[str, Any]
    """Known metadata of `name`, `begun` (seconds since 1970), `checkpoint`, `environment`, `action_combos`, `gamma`,
    `lambda` and `sampling`."""
    location: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _episode(self, index: int) -> Episode: ...

    @abstractmethod
    def table(self) -> list[dict[str, Any]]:
        """Return a row for each episode: `episode`, `number`, `environment`, `seed`, `level_seed`, `start_step`,
        `start_time` (seconds since 1970), `training_step`, `agent`, `end`, `steps`, `return` and `entropy` (the mean of
        the policy, in nats); None where unknown.
        """

    def listing(self) -> list[tuple[dict[str, Any], str | None]]:
        """Return rows as in `table`, each with the reason why the episode is damaged, or None."""
        return [(row, None) for row in self.table()]

    def checkpoint(self, episode: Episode, step: int = 0) -> str | None:
        """Return the path or address of the checkpoint that acted at a step of an episode, or None.

        This is the one with which the episode began, unless the recorder stored one for each update
        (`Recorder(checkpoint_every=)`). One that is stored as a difference is rebuilt as a temporary file.
        """
        return None

    def checkpoint_digest(self, episode: Episode, step: int = 0) -> str | None:
        """Return the SHA-256 of the checkpoint that acted at a step, if that is known without reading it."""
        return None

    def to_trajectories(self, count: int | None = None, max_steps: int = 512) -> Trajectories:
        """Return trajectories of consecutive steps, distributed over the recording, as `generate` takes them.

        A trajectory begins with an episode if possible, and continues with the following episodes. Stopped episodes
        count as truncated. Arrays are in memory.

        Args:
            count: Number of trajectories; by default the number of episodes, at most 8.
            max_steps: Steps of each, or fewer if there are not as many.

        Raises:
            OptionError: There are fewer steps than trajectories.
            SamplesError: Episodes have observations of different shapes.
        """
        return recorded_trajectories(self, count, max_steps)

    def to_observations(self, count: int = 4096) -> Observations:
        """Return at most `count` observations at even distances, as `generate` takes them."""
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

    It has the episodes that existed when it was opened. `refresh` adds newer episodes and steps.

    Raises:
        SamplesError: There is no recording, or it is damaged. Damaged episodes raise it when they are read, not before.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._files = RecordingFiles(location)
        self.location = self._files.location
        self.metadata = self._files.metadata()
        self.checkpoints = StoredCheckpoints(self._files)
        """Its checkpoints by number."""
        self.refresh()

    def refresh(self) -> StoredRecording:
        """Read what was written in the meantime, and return the recording."""
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
        """Return the fixed observations of `Recorder.probe`, `observations` (n, ...) and `states.0`, ..., or None.

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

        Of episodes that ended, it is only checked that all of their data are there; the data are not read. The return
        of an episode that cannot be read is None.
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
        """Return the episode with an index, which is its position if no episode was removed.

        Args:
            index: `episode` in its row.
            steps: Return the episode as it was when it had so many steps and was still going; by default, as it is now.

        Raises:
            SamplesError: There is no such episode, it never had so many steps, or it is damaged.
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
        """Return why episodes are damaged, by index, if blocks are not listed or not in the data files."""
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
        """Count the steps and sum the rewards of an episode that did not end, or whose writer was killed."""
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
        """Return the fields of an episode. With `part`, return only its first `steps` steps, as they were when it had
        no more.
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
    """Open the recording at a path or an address (`s3://...`), the only recording of a log directory there, or a Minari
    dataset at a path.

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
    places = recordings_at(location)
    if len(places) > 1:
        raise SamplesError(f"{location} has {len(places)} recordings: open one of {', '.join(places)}")
    return StoredRecording(places[0] if places else location)


def is_recording(location: str | os.PathLike[str]) -> bool:
    """Return whether a location contains a recording or a Minari dataset."""
    from rl_clarity.recordings.minari_ import find_dataset

    path = local_path(os.fspath(location))
    return bool(recordings_at(location)) or (path is not None and find_dataset(path) is not None)
