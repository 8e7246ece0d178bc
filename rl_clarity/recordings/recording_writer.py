"""`RecordingWriter` writes the files of a recording for `rl_clarity.Recorder`."""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from weakref import finalize

import numpy as np

from rl_clarity.agents.actions import factors_from_json
from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.files import UNFINISHED, local_path, lock_file, open_regular, unlock_file, write_atomically
from rl_clarity.recordings.blocks import encode_block
from rl_clarity.recordings.checkpoints import (
    DIFFERENCE,
    FULL_EVERY,
    LARGEST_SHARE,
    agent_number,
    encode_difference,
    needed_files,
)
from rl_clarity.recordings.layout import (
    ACTING,
    AGENTS,
    BLOCK,
    BLOCKS,
    ENDS,
    EPISODE,
    EPISODES,
    GOING,
    METADATA,
    PROBE,
    REMOVED,
    STATISTIC,
    STATISTICS,
    STOPPED,
    complete_records,
    data_file,
    decode_episodes,
    encode_episode,
    encode_statistic,
    episode_rows,
    latest_blocks,
)
from rl_clarity.recordings.metadata import encode_metadata
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.retention import FREED, Limits, StoredEpisode, choose_removed
from rl_clarity.recordings.rounded_weights import round_weights
from rl_clarity.recordings.step_arrays import Block, intact_blocks

LOCAL_FILE_BYTES = 2**29
REMOTE_FILE_BYTES = 2**26
"""Size in bytes at which a new data file begins. Object stores cannot append, so the last data file is uploaded again
as a whole when it has grown."""
UPLOAD_SECONDS = 60.0
UNLIMITED = Limits()
LIMITED_FILES = 8
"""Smallest number of data files into which a recording with a size limit is divided. Space is freed by deleting whole
files."""
MIN_FILE_BYTES = 2**16
AgentSource = str | os.PathLike[str] | Callable[[str], object]
"""Path of a checkpoint, or a function that writes one to a path without a suffix. The function may add a suffix."""


class RecordingWriter:
    """Appends to the files of a recording. A recording can have only one writer at a time.

    A recording at an address is written to a temporary folder, which is uploaded every minute and when the writer is
    closed. `limits` are supported only for recordings on a local disk.

    Raises OptionError if a recording at an address is limited. Raises SamplesError if another process is writing to the
    recording, or if the recording cannot be written or has different metadata.
    """

    def __init__(
        self, location: str | os.PathLike[str], metadata: Mapping[str, Any], limits: Limits = UNLIMITED
    ) -> None:
        self.location = os.fspath(location).rstrip("/")
        path = local_path(self.location)
        if path is None and limits != UNLIMITED:
            raise OptionError(f"{limits} was set, but a recording at an address ({self.location}) cannot be limited")
        self._remote = None if path is not None else RecordingFiles(self.location)
        self._folder = path or Path(tempfile.mkdtemp(prefix="rl-clarity-recording-"))
        self._cleanup = None if path is not None else finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._limits = limits
        self._limit = LOCAL_FILE_BYTES if self._remote is None else REMOTE_FILE_BYTES
        if limits.bytes is not None:
            self._limit = min(self._limit, max(MIN_FILE_BYTES, limits.bytes // LIMITED_FILES))
        self._stored: dict[int, StoredEpisode] = {}
        self._going: dict[int, int] = {}
        self._begun: dict[int, int] = {}
        """Numbers of the checkpoints with which unfinished episodes began, by the episode's index."""
        self._last_agent: bytes | None = None
        self._differences = 0
        """Number of differences that were stored since the last complete checkpoint."""
        self.agent_bytes = 0
        """Size of the stored checkpoints in bytes."""
        self._uploaded: dict[str, int] = {}
        self._upload_time = time.monotonic()
        self._data: IO[bytes] | None = None
        self._blocks: IO[bytes] | None = None
        self._episodes: IO[bytes] | None = None
        self._statistics: IO[bytes] | None = None
        self._torn = False
        if self._remote is not None:
            self._download(self._remote)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if (self._folder / AGENTS).is_symlink():
                raise OSError(errno.ELOOP, f"{AGENTS} is a link, and nothing is written through links")
            self._lock = lock_file(self._folder / EPISODES)
        except BlockingIOError as error:
            raise SamplesError(
                f"another process is writing to {self.location}; wait until it ends, or use a different directory"
            ) from error
        except OSError as error:
            raise self._error(error) from error
        try:
            self._open(metadata)
        except BaseException as error:
            self._close_files()
            if isinstance(error, OSError):
                raise self._error(error) from error
            raise

    def begin(self, facts: Mapping[str, Any]) -> int:
        """Add an episode and return its index."""
        self._write(self._episodes, encode_episode({**facts, "episode": self.count, "end": GOING, "steps": 0}))
        self._going[self.count] = 0
        if facts.get("agent") is not None:
            self._begun[self.count] = facts["agent"]
        self.count += 1
        return self.count - 1

    def append(self, episode: int, start: int, steps: int, header: bytes, data: bytes) -> None:
        """Add a block of an episode."""
        self._append(episode, start, steps, header, data)
        self._going[episode] += len(header) + len(data)
        if self._remote is not None and time.monotonic() - self._upload_time > UPLOAD_SECONDS:
            self._upload(self._remote)

    def _append(self, episode: int, start: int, steps: int, header: bytes, data: bytes) -> None:
        if self._data is None or self._data.seek(0, os.SEEK_END) + len(header) + len(data) > self._limit:
            self._next_data_file()
        offset = self._write(self._data, header + data)
        record = np.array([(episode, start, steps, self._file, offset, len(header), len(data))], BLOCK)
        self._write(self._blocks, record.tobytes())

    def end(self, episode: int, facts: Mapping[str, Any]) -> None:
        """Write the record of an episode's end. All blocks of the episode must already be added.

        `facts` contains the fields of the record. It can also contain `last_agent`, the number of the last checkpoint
        that acted (by default the first one), and `entropy`, the mean entropy of the policy.
        """
        entropy = facts.get("entropy", math.nan)
        if math.isfinite(entropy):
            self._write(self._statistics, encode_statistic(episode, entropy))
        self._write(self._episodes, encode_episode({**facts, "episode": episode}))
        self._stored[episode] = StoredEpisode(self._going.pop(episode), _agents(facts))
        self._begun.pop(episode, None)

    def add_agent(self, source: AgentSource, *, differences: bool = False, tolerance: float | None = None) -> int:
        """Store a checkpoint, and return its number. With `differences`, it is stored as the difference from the
        previous one if that is smaller. With `tolerance`, its large weights are rounded to make the difference smaller.
        """
        number, folder = self._agents, self._folder / AGENTS
        unfinished = folder / f".{number:05}{UNFINISHED}"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            if callable(source):
                source(str(unfinished / "agent"))
            else:
                shutil.copyfile(source, unfinished / f"agent{Path(source).suffix}")
            files = list(unfinished.iterdir())
            if len(files) != 1:
                raise SamplesError(f"the function that saves an agent must write one file, but it wrote {len(files)}")
            path = folder / f"{number:05}{files[0].suffix}"
            if differences:
                files[0], path = self._difference(files[0], path, tolerance)
            size = files[0].stat().st_size
            files[0].replace(path)
        except OSError as error:
            raise SamplesError(f"cannot save a checkpoint in {self.location} ({error})") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._agents += 1
        self.agent_bytes += size
        return number

    def _difference(self, file: Path, path: Path, tolerance: float | None) -> tuple[Path, Path]:
        """Encode a checkpoint as the difference from the previous one, if that is smaller. Return the file to store,
        and the path at which to store it.
        """
        data, before = file.read_bytes(), self._last_agent
        self._last_agent = data
        if before is not None and self._differences + 1 < FULL_EVERY:
            stored, weights = (data, []) if tolerance is None else round_weights(data, tolerance)
            difference = encode_difference(stored, before, weights)
            if len(difference) <= LARGEST_SHARE * len(data):
                self._last_agent = stored
                self._differences += 1
                file = file.with_name(f"agent{DIFFERENCE}")
                file.write_bytes(difference)
                return file, path.with_name(f"{path.name}{DIFFERENCE}")
        self._differences = 0
        return file, path

    def add_probe(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Store fixed observations, unless the recording already has some."""
        path = self._folder / PROBE
        if path.exists() or (self._remote is not None and self._remote.exists(PROBE)):
            return
        try:
            write_atomically(path, b"".join(encode_block(0, 0, arrays, {})))
        except OSError as error:
            raise self._error(error) from error

    def thin(self) -> None:
        """Remove episodes if there are more than the limits allow, and free their space."""
        if not self._limits:
            return
        agents = {agent_number(path.name): path for path in self._agent_files()}
        agent_bytes = {number: path.stat().st_size for number, path in agents.items()}
        size = sum(path.stat().st_size for path in self._folder.glob("data-*.bin"))
        removed = choose_removed(self._stored, agent_bytes, size + sum(agent_bytes.values()), self._limits)
        if not removed:
            return
        unused = {number for index in removed for number in self._stored.pop(index).agents}
        for index in removed:
            self._write(self._episodes, encode_episode({"episode": index, "end": REMOVED, "steps": 0}))
        for number in (unused & agents.keys()) - self._needed(agents):
            agents[number].unlink(missing_ok=True)
            self.agent_bytes -= agent_bytes[number]
        kept = sum(episode.bytes for episode in self._stored.values()) + sum(self._going.values())
        if self._limits.bytes is not None or kept < size * (1 - FREED):
            self._free_space()

    def _needed(self, agents: Mapping[int, Path]) -> set[int]:
        """Return the numbers of the checkpoints that stored or unfinished episodes use, and of those from which these
        checkpoints are rebuilt.
        """
        going = min([*self._begun.values(), self._agents - 1])  # the next difference is from the last one
        used = {number for episode in self._stored.values() for number in episode.agents}
        names = {number: path.name for number, path in agents.items()}
        return needed_files(lambda number: number in used or number >= going, names)

    def close(self) -> None:
        """Sync the files to disk and close them, upload them to an address if there is one, and release the lock."""
        for file in (self._data, self._blocks, self._statistics, self._episodes):
            if file is not None:
                with suppress(OSError):
                    os.fsync(file.fileno())
                file.close()
        if self._remote is not None:
            self._upload(self._remote)
        unlock_file(self._lock)
        if self._cleanup is not None:
            self._cleanup()

    def leave_to_parent(self) -> None:
        """Close the files that a forked process inherited. The files and the lock remain the parent's."""
        self._close_files()
        if self._cleanup is not None:
            self._cleanup.detach()

    def _close_files(self) -> None:
        for file in (self._data, self._blocks, self._statistics, self._episodes, self._lock):
            if file is not None:
                file.close()

    def _open(self, metadata: Mapping[str, Any]) -> None:
        """Open the files, and repair what a killed writer or a crash left incomplete."""
        path = self._folder / METADATA
        if path.exists():
            self.metadata = RecordingFiles(self._folder).metadata()
            changed = {name for name, value in metadata.items() if name != "begun" and self.metadata.get(name) != value}
            if changed:
                raise SamplesError(
                    f"{self.location} contains a recording with different metadata ({', '.join(sorted(changed))}); use "
                    "a different directory"
                )
            encoded = encode_metadata(self.metadata)
            if path.read_bytes() != encoded:  # of an earlier version, whose readers could not read the new data
                write_atomically(path, encoded)
        else:
            files = sorted(self._folder.glob("*.bin"))
            foreign = [file.name for file in files if not file.is_symlink() and file.stat().st_size]
            if foreign:  # the metadata would be there, because they are written first
                raise SamplesError(
                    f"{self.location} contains {', '.join(foreign[:5])}, but no {METADATA}. Either these files are not "
                    "part of a recording, or the recording is damaged; use a different directory"
                )
            self.metadata = dict(metadata)
            write_atomically(path, encode_metadata(metadata))
        actions = self.metadata.get("actions")
        self.factors = factors_from_json(actions) if actions else None
        """The factors of an action, or None if an action is a single choice."""
        self._episodes, records = self._open_records(EPISODES, EPISODE)
        ends = records[~np.isin(records["end"], [ENDS.index(GOING), ENDS.index(REMOVED)])]
        episodes = episode_rows(decode_episodes(records.tobytes(), f"{self.location}/{EPISODES}"))
        self.count = len(episodes)
        self.next_number = 1 + max((facts["number"] for facts in episodes if facts["number"] is not None), default=-1)
        """Number of the next episode in training: one more than the largest number of a recorded episode."""
        self._statistics, _ = self._open_records(STATISTICS, STATISTIC)
        self._blocks, records = self._open_records(BLOCKS, BLOCK)
        self._file = int(records["file"].max()) if len(records) else -1
        names = RecordingFiles(self.location).names(AGENTS)
        self._agents = 1 + max(map(agent_number, names), default=-1)
        self.agent_bytes = sum(path.stat().st_size for path in self._agent_files())
        latest = latest_blocks(records)
        bounds = np.searchsorted(latest["episode"], np.arange(self.count + 1))
        last = int(ends["episode"][-1]) if len(ends) else -1  # the last block of the episode may not have been written
        for facts in episodes:
            index = facts["episode"]
            blocks = latest[bounds[index] : bounds[index + 1]]
            steps = int(blocks["steps"].sum())
            if facts["end"] == GOING or (index == last and facts["end"] != REMOVED and facts["steps"] > steps):
                self._going[index] = int(_sizes(blocks).sum())
                last_agent = self._last_agent_of(facts, blocks)
                self.end(index, {**facts, "end": STOPPED, "steps": steps, "return": None, **last_agent})
            elif facts["end"] != REMOVED:
                last_agent = self._last_agent_of(facts, blocks)
                self._stored[index] = StoredEpisode(int(_sizes(blocks).sum()), _agents(facts | last_agent))
        if self._file >= 0 and self._remote is None:
            self._file -= 1
            self._next_data_file()

    def _last_agent_of(self, facts: Mapping[str, Any], blocks: np.ndarray) -> dict[str, int]:
        """Return the number of the last checkpoint that acted in an episode, as `last_agent`. Return an empty
        dictionary if the number is not needed.
        """
        if not self._limits or facts["agent"] is None or not len(blocks):
            return {}
        block = Block(RecordingFiles(self._folder), blocks[-1])
        return {"last_agent": int(block.read(ACTING)[-1])} if ACTING in block.names else {}

    def _open_records(self, name: str, dtype: np.dtype) -> tuple[IO[bytes], np.ndarray]:
        """Open a file of records for appending, after removing an incomplete last record. Return the file and its
        records.
        """
        path = self._folder / name
        open_regular(path, "ab").close()
        file = open_regular(path, "r+b", buffering=0)
        records = np.frombuffer(complete_records(file.read(), dtype), dtype)
        if dtype == BLOCK and self._remote is None:
            records = intact_blocks(RecordingFiles(self._folder), records)
        file.truncate(records.nbytes)
        return file, records

    def _next_data_file(self) -> None:
        try:
            if self._data is not None:
                os.fsync(self._data.fileno())
            data = open_regular(self._folder / data_file(self._file + 1), "ab", buffering=0)
        except OSError as error:
            raise self._error(error) from error
        if self._data is not None:
            self._data.close()
        self._file, self._data = self._file + 1, data

    def _agent_files(self) -> list[Path]:
        return sorted((self._folder / AGENTS).glob("[0-9]*"))

    def _free_space(self) -> None:
        """Find the data files that contain removed blocks, copy their other blocks to a new file, and delete them."""
        records = latest_blocks(np.frombuffer((self._folder / BLOCKS).read_bytes(), BLOCK))
        records = records[np.isin(records["episode"], [*self._stored, *self._going])]
        copied: dict[Path, np.ndarray] = {}
        for path in sorted(self._folder.glob("data-*.bin")):
            kept = records[records["file"] == int(path.stem.partition("-")[2])]
            if int(_sizes(kept).sum()) != path.stat().st_size:
                copied[path] = kept
        if self._folder / data_file(self._file) in copied:
            self._next_data_file()
        for path, kept in copied.items():
            with open_regular(path, "rb") as file:
                for record in kept:
                    file.seek(int(record["offset"]))
                    header, data = file.read(int(record["header"])), file.read(int(record["data"]))
                    self._append(int(record["episode"]), int(record["start"]), int(record["steps"]), header, data)
            for written in (self._data, self._blocks):
                if written is not None:
                    os.fsync(written.fileno())
            path.unlink()

    def _write(self, file: IO[bytes] | None, data: bytes) -> int:
        """Append data to a file, either completely or not at all. Return the position of the data in the file."""
        assert file is not None
        if self._torn:
            raise SamplesError(f"{self.location} ends with an incomplete write, so nothing can be added to it")
        start = file.seek(0, os.SEEK_END)
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            return start
        except OSError as error:
            try:
                file.truncate(start)
            except OSError:
                self._torn = True
            raise self._error(error) from error

    def _error(self, error: OSError) -> SamplesError:
        return SamplesError(f"cannot write to {self.location} ({error.strerror or error})")

    def _download(self, remote: RecordingFiles) -> None:
        """Download the files of a recording that is continued, except data, checkpoints and fixed observations."""
        for name in (METADATA, EPISODES, BLOCKS, STATISTICS):
            if remote.exists(name):
                (self._folder / name).write_bytes(remote.read_from(name, 0))

    def _upload(self, remote: RecordingFiles) -> None:
        """Upload files that have changed. Data files come first, so that readers find all listed blocks."""
        agents = [f"{AGENTS}/{path.name}" for path in self._agent_files()]
        data = sorted(path.name for path in self._folder.glob("data-*.bin"))
        probe = [path.name for path in self._folder.glob(PROBE)]
        names = [*agents, *data, *probe, BLOCKS, STATISTICS, EPISODES, METADATA]
        for name in names:
            path = self._folder / name
            size = path.stat().st_size
            if self._uploaded.get(name) != size:
                remote.upload(path, name)
                self._uploaded[name] = size
            if name in agents or name in data[:-1]:
                path.unlink()
        self._upload_time = time.monotonic()


def _agents(facts: Mapping[str, Any]) -> range:
    """Return the numbers of the checkpoints that acted in an episode."""
    first = facts.get("agent")
    return range(0) if first is None else range(first, max(first, facts.get("last_agent", first)) + 1)


def _sizes(blocks: np.ndarray) -> np.ndarray:
    """Return the size of each block in bytes."""
    return blocks["header"].astype(np.int64) + blocks["data"]
