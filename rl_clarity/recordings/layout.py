"""The files of a recording, and the layout of their records. `docs/recording-format.md` describes them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.base.errors import SamplesError

METADATA = "recording.json"
EPISODES = "episodes.bin"
BLOCKS = "blocks.bin"
AGENTS = "agents"
"""Folder of the checkpoints `00000.zip`, ..., of recorded episodes."""
PROBE = "probe.bin"
"""File with a block of fixed observations, on which checkpoints are compared."""
ACTING = "agents"
"""Field (T,) of an episode: the number of the checkpoint that acted."""
TRAINING_STEPS = "training_steps"
"""Field (T,) of an episode that also has `ACTING`: the training step, if the caller passed it."""
CAUSE = "final_cause"
"""Field (1, n) of an episode: the cause of its end in UTF-8, if the environment reported one."""
STATISTICS = "statistics.bin"
PLUGIN = "plugins/rl_clarity"
"""Folder of a log directory that contains recordings, by the convention of TensorBoard's plug-ins."""

DONE, TIME_LIMIT, STOPPED, GOING = "done", "time limit", "stopped", "still going"
"""Reasons why an episode ended, or `GOING` if it has not ended, or its writer was killed."""
REMOVED = "removed"
"""Used instead of these reasons for an episode that the writer removed to keep the recording within its limits."""

BLOCK = np.dtype(
    [
        ("episode", "<u4"),
        ("start", "<u4"),  # first step
        ("steps", "<u4"),
        ("file", "<u4"),  # number of the data file
        ("offset", "<u8"),
        ("header", "<u4"),  # bytes
        ("data", "<u4"),  # data size in bytes, after the header
    ]
)
"""A record of `blocks.bin`."""

EPISODE = np.dtype(
    [
        ("episode", "<u4"),
        ("end", "<u4"),  # index in ENDS
        ("number", "<i8"),
        ("environment", "<i8"),
        ("seed", "<i8"),
        ("level_seed", "<i8"),
        ("start_step", "<i8"),
        ("start_time", "<f8"),
        ("training_step", "<i8"),
        ("agent", "<i8"),  # number of its checkpoint
        ("steps", "<i8"),
        ("return", "<f8"),
        ("checksum", "<u4"),  # CRC-32 of the bytes before
    ]
)
"""A record of `episodes.bin`, which is written when an episode begins (with `end` GOING), when it ends, and when it is
removed."""
STATISTIC = np.dtype([("episode", "<u4"), ("entropy", "<f8"), ("checksum", "<u4")])
"""A record of `statistics.bin`, which is written before the end of an episode whose policy was recorded."""
ENDS = (GOING, DONE, TIME_LIMIT, STOPPED, REMOVED)
UNKNOWN = -(2**63)
"""Value of an unknown integer. An unknown return is NaN."""


def data_file(number: int) -> str:
    """Return the name of a data file."""
    return f"data-{number:05}.bin"


def encode_episode(facts: Mapping[str, Any]) -> bytes:
    """Return a record of `episodes.bin`. Facts that are missing or None are stored as unknown."""
    record = np.zeros(1, EPISODE)
    for name in EPISODE.names or ():
        value = facts.get(name)
        if name == "end":
            value = ENDS.index(value)
        elif value is None:
            value = np.nan if EPISODE[name].kind == "f" else 0 if name == "checksum" else UNKNOWN
        record[name] = value
    return _with_checksum(record)


def encode_statistic(episode: int, entropy: float) -> bytes:
    """Return a record of `statistics.bin`: the mean entropy of the policy in an episode, in nats."""
    return _with_checksum(np.array([(episode, entropy, 0)], STATISTIC))


def decode_statistics(data: bytes) -> dict[int, float]:
    """Return the mean entropy of each episode by index, from all intact records of `statistics.bin`."""
    records = np.frombuffer(data[: len(data) // STATISTIC.itemsize * STATISTIC.itemsize], STATISTIC)
    return {int(one["episode"]): float(one["entropy"]) for one in records if _is_intact(one)}


def _with_checksum(record: np.ndarray) -> bytes:
    """Return a record as bytes, with its last field set to the CRC-32 of the preceding bytes."""
    data = record.tobytes()
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


def _is_intact(record: np.ndarray) -> bool:
    return bool(zlib.crc32(record.tobytes()[:-4]) == record["checksum"])


def decode_episodes(data: bytes, file: str) -> np.ndarray:
    """Return the episodes in the complete records of `episodes.bin`, as an array (E,) of type EPISODE.

    It includes episodes that were removed. If an episode's end was recorded several times, the last record counts.
    Raises SamplesError for damaged records.
    """
    records = np.frombuffer(complete_records(data, EPISODE), EPISODE)
    checksums = [zlib.crc32(record.tobytes()[:-4]) for record in records]
    begins = records["end"] == 0
    episodes = records[begins].copy()
    ends = records[~begins]
    valid = (
        (records["checksum"] == checksums).all()
        and (episodes["episode"] == np.arange(len(episodes))).all()
        and (ends["episode"] < len(episodes)).all()
        and (ends["end"] < len(ENDS)).all()
        and (ends["steps"] >= 0).all()
    )
    if not valid:
        raise SamplesError(
            f"{file} is damaged: a record is invalid (rl-clarity verify RECORDING --repair rebuilds the file)"
        )
    episodes[ends["episode"]] = ends  # the last record of each episode
    return episodes


def episode_rows(episodes: np.ndarray) -> list[dict[str, Any]]:
    """Return a dictionary for each episode, with None for unknown integers."""
    names = [name for name in EPISODE.names or () if name != "checksum"]
    columns: list[list[Any]] = []
    for name in names:
        column = episodes[name].tolist()
        if name == "end":
            column = [ENDS[code] for code in column]
        elif EPISODE[name].kind == "i":
            column = [None if value == UNKNOWN else value for value in column]
        columns.append(column)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def latest_blocks(records: np.ndarray) -> np.ndarray:
    """Return the records of blocks in the order of episodes and steps. If several records list the same steps, the last
    one counts.

    Such records exist because the writer copies blocks to another file when it removes episodes.
    """
    ordered = records[np.lexsort((records["start"], records["episode"]))]  # a stable sort
    same = (ordered["episode"][1:] == ordered["episode"][:-1]) & (ordered["start"][1:] == ordered["start"][:-1])
    return ordered[~np.append(same, False)] if len(ordered) else ordered


def complete_records(data: bytes, dtype: np.dtype) -> bytes:
    """Return the complete records of a file, without an incomplete one at the end that a killed writer left.

    After a crash of the machine, the end of the last write may also be zeros.
    """
    data = data[: len(data) // dtype.itemsize * dtype.itemsize]
    last = data[-dtype.itemsize :]
    is_torn = zlib.crc32(last[:-4]).to_bytes(4, "little") != last[-4:] if dtype == EPISODE else not any(last)
    return data[: -dtype.itemsize] if last and is_torn else data
