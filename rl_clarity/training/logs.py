"""Logs of training: a CSV file, TensorBoard event files, and progress on the terminal."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rl_clarity.files import write_atomically

LINE_SECONDS = 60.0
"""Seconds between two lines of progress without a terminal."""


class Log(Protocol):
    def write(self, row: Mapping[str, Any]) -> None:
        """Log an update."""
        ...


class CsvLog:
    """One row per update. A row is on disk when `write` returns."""

    def __init__(self, path: Path, columns: Sequence[str], *, updates: int) -> None:
        """Keep the rows of the first `updates` updates; later ones were lost with their parameters."""
        self._path = path
        self._columns = list(columns)
        rows = [row for row in read_csv(path) if int(row["update"]) <= updates] if path.exists() and updates else []
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, text.getvalue().encode())

    def write(self, row: Mapping[str, Any]) -> None:
        values = [row[column] for column in self._columns]
        text = ",".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
        with self._path.open("a") as file:
            file.write(f"{text}\n")


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, without an incomplete last one."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row.values() and None not in row]


class EventLog:
    """TensorBoard event files, which consist of `Event` messages and are written without TensorBoard."""

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
    """A progress bar with steps per second and the time left; without a terminal, a line every minute."""

    def __init__(self, total: int, completed: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr)
        self._last_line = -LINE_SECONDS
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
        self._progress = Progress("training", *columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("training", total=total, completed=completed, text="")

    def __enter__(self) -> ProgressLog:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def write(self, row: Mapping[str, Any]) -> None:
        speed, mean_return, length = row["steps_per_second"], row["mean_return"], row["mean_length"]
        text = f"{speed:.0f} steps/s  return {mean_return:.2f}  length {length:.0f}"
        self._progress.update(self._task, completed=row["timesteps"], text=text)
        if self._progress.disable and time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            print(f"update {row['update']}  {row['timesteps']} steps  {text}", file=sys.stderr, flush=True)
