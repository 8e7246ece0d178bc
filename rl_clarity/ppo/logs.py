"""Log training to a CSV file, TensorBoard event files, and the terminal."""

from __future__ import annotations

import csv
import io
import math
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rl_clarity.base.files import open_regular, write_atomically
from rl_clarity.base.progress import duration

LOG_BEGINS = b"update,timesteps,"
"""The first bytes of a CSV log."""
LINE_SECONDS = 60.0
"""Seconds between two lines of progress if standard error is not a terminal."""
MEASURED_UPDATES = 10
"""Number of the latest updates over which the speed is measured, including the time for saving."""


class Log(Protocol):
    def write(self, row: Mapping[str, Any]) -> None:
        """Log an update."""
        ...


class CsvLog:
    """A CSV file with a row for each update. A row is on disk when `write` returns.

    When the first row is written, rows for the same and later updates are removed, because the parameters after these
    updates were not saved.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._columns = list(columns)
        self._ready = False

    def write(self, row: Mapping[str, Any]) -> None:
        if not self._ready:
            self._keep_rows(before=row["update"])
            self._ready = True
        values = [row[column] for column in self._columns]
        text = ",".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
        with self._path.open("a") as file:
            file.write(f"{text}\n")

    def _keep_rows(self, before: int) -> None:
        rows = read_csv(self._path) if self._path.exists() else []
        rows = [row for row in rows if row.get("update", "").isdecimal() and int(row["update"]) < before]
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self._path, text.getvalue().encode())


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, without an incomplete last row."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row.values() and None not in row]


def is_foreign_log(path: Path) -> bool:
    """Return whether a path exists that `CsvLog` did not write."""
    if not os.path.lexists(path):
        return False
    try:
        with open_regular(path, "rb") as file:
            return bool(file.read(len(LOG_BEGINS)) != LOG_BEGINS)
    except OSError:
        return True


class EventLog:
    """Writes a TensorBoard event file, without needing the package TensorBoard."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files with "tfevents" in the name, in the order of their names.
        name = f"events.out.tfevents.{time.time():017.6f}.{os.getpid()}"
        self._writer = tf.io.TFRecordWriter(str(folder / name))
        self._event = tf.compat.v1.Event
        self._summary = tf.compat.v1.Summary
        self._put(file_version="brain.Event:2")

    def write(self, row: Mapping[str, Any]) -> None:
        scalars = {name: float(value) for name, value in row.items() if name not in ("update", "timesteps")}
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._put(step=row["timesteps"], summary=self._summary(value=values))

    def _put(self, **fields: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class ProgressLog:
    """A progress bar with steps per second and the remaining time; without a terminal, a line every minute."""

    def __init__(self, total: int, completed: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(file=sys.stderr)
        self._total = total
        self._measured: deque[tuple[float, int]] = deque(maxlen=MEASURED_UPDATES + 1)
        self._last_line = -LINE_SECONDS
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}"))
        self._progress = Progress("training", *columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("training", total=total, completed=completed, text="")

    def __enter__(self) -> ProgressLog:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def write(self, row: Mapping[str, Any]) -> None:
        self._measured.append((time.monotonic(), row["timesteps"]))
        (start, before), (now, timesteps) = self._measured[0], self._measured[-1]
        text = f"return {row['mean_return']:.2f}  length {row['mean_length']:.0f}"
        if math.isnan(row["mean_return"]):
            text = "no episode has ended"
        if timesteps > before:  # do not measure the first update, which includes compilation
            speed = (timesteps - before) / max(now - start, 1e-9)
            text = f"{speed:.0f} steps/s  {text}  {duration((self._total - timesteps) / speed)} left"
        self._progress.update(self._task, completed=timesteps, text=text)
        if self._progress.disable and now - self._last_line >= LINE_SECONDS:
            if timesteps > before:  # print the next line as soon as the remaining time is known
                self._last_line = now
            print(f"update {row['update']}  {timesteps} of {self._total} steps  {text}", file=sys.stderr, flush=True)
