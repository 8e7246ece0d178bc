"""Telling how training goes: a CSV file, and a bar on the terminal or a line now and then elsewhere."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

LINE_SECONDS = 60.0
"""How often a line is printed where there is no terminal."""


class Log(Protocol):
    def write(self, row: Mapping[str, Any]) -> None:
        """Tell of one update."""
        ...


class Logs:
    """Several logs as one."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = logs

    def write(self, row: Mapping[str, Any]) -> None:
        for log in self._logs:
            log.write(row)


class CsvLog:
    """One row an update. A row is on disk when `write` returns."""

    def __init__(self, path: Path, columns: Sequence[str], *, updates: int) -> None:
        """Go on with the file's rows of the first `updates` updates; later ones were lost with their parameters."""
        self._path = path
        self._columns = list(columns)
        rows = [row for row in read_csv(path) if int(row["update"]) <= updates] if path.exists() and updates else []
        temporary = path.with_name(f".{path.name}.tmp")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(path)

    def write(self, row: Mapping[str, Any]) -> None:
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(
                {column: _number(row[column]) for column in self._columns}
            )


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of the CSV file; a last one that is not whole is left out."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row.values() and None not in row]


def _number(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


class EventLog:
    """TensorBoard's event files, which need no TensorBoard to be written: they are records of `Event` messages."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        folder.mkdir(parents=True, exist_ok=True)
        started = time.time()
        # TensorBoard takes files with "tfevents" in the name, in the order of their names.
        name = f"events.out.tfevents.{started:017.6f}.{os.getpid()}"
        self._writer = tf.io.TFRecordWriter(str(folder / name))
        self._event = tf.compat.v1.Event
        self._summary = tf.compat.v1.Summary
        self._put(file_version="brain.Event:2")

    def write(self, row: Mapping[str, Any]) -> None:
        values = [
            self._summary.Value(tag=name, simple_value=float(value))
            for name, value in row.items()
            if name not in ("update", "timesteps")
        ]
        self._put(step=row["timesteps"], summary=self._summary(value=values))

    def _put(self, **fields: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Bar:
    """A bar with steps a second and the time left; without a terminal, a line every minute."""

    def __init__(self, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr)
        self._last_line = -LINE_SECONDS
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", total=total, completed=done, text="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def write(self, row: Mapping[str, Any]) -> None:
        text = (
            f"{row['steps_per_second']:.0f} steps/s  return {row['mean_return']:.2f}  length {row['mean_length']:.0f}"
        )
        self._progress.update(self._task, completed=row["timesteps"], text=text)
        if self._progress.disable and time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            print(f"update {row['update']}  {row['timesteps']} steps  {text}", file=sys.stderr, flush=True)
