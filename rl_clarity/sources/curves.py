"""Read learning curves from logs of training programs: mean return by environment step.

Known logs: `progress.csv` of `rl_clarity.train`; `monitor.csv` and `progress.csv` of Stable-Baselines3; the CSV and
text logs of baby-a3c; TensorBoard event files; and any CSV file with named columns.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.files import open_regular

COLUMNS = {
    "timesteps": "mean_return",  # rl_clarity.train
    "time/total_timesteps": "rollout/ep_rew_mean",  # Stable-Baselines3
    "frames": "mean-epr",  # baby-a3c
}
"""Names of the columns of returns, by the name of the column of steps."""
TAGS = ("mean_return", "rollout/ep_rew_mean", "charts/episodic_return", "eval/mean_reward")
"""TensorBoard tags of returns."""
TEXT_LINE = re.compile(r"frames\s+([\d.]+)M,\s+mean epr\s+(-?[\d.]+)")
MONITOR_EPISODES = 100
"""Number of episodes over which `monitor.csv` is averaged, as in Stable-Baselines3's plots."""
MAX_BYTES = 2**28


@dataclass(frozen=True)
class Curve:
    """A learning curve, with increasing steps."""

    steps: np.ndarray
    """(n,) float64, environment steps or frames."""
    returns: np.ndarray
    """(n,) float64, mean returns."""
    unit: str = "steps"
    """`steps` or `frames`."""


def read_curve(path: str | os.PathLike[str], columns: tuple[str, str] | None = None) -> Curve:
    """Read the learning curve of a log.

    Rows may be in any order, for example because several processes wrote them. If several rows have the same number of
    steps, the last one counts. Numbers that are not finite, and an incomplete last line, are ignored.

    Args:
        path: a log file, or a directory of TensorBoard event files
        columns: names of the columns of steps and returns in a CSV file; for event files, the second name is the tag of
            the return

    Raises OptionError for columns that the file does not have, and ClarityError for a file that cannot be read or is
    not a known log.
    """
    location = Path(path)
    if location.is_dir() or ".tfevents." in location.name:
        return _ordered(*_read_events(location, columns[1] if columns else None))
    text = _read_text(location)
    if columns is None and text.startswith("#"):
        return _ordered(*_read_monitor(location, text))
    if columns is None and TEXT_LINE.search(text):
        millions, returns = zip(*TEXT_LINE.findall(text), strict=True)
        return _ordered(1e6 * _numbers(millions), _numbers(returns), "frames")
    return _read_columns(location, text, columns)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ClarityError(f"{path} is larger than {MAX_BYTES >> 20} MB, so it is not a training log")
        with io.TextIOWrapper(open_regular(path, "rb"), encoding="utf-8-sig", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise ClarityError(f"cannot read {path} ({error.strerror or error})") from error


def _rows(text: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header of CSV text, the rows that have all columns, and the number of the line in which each row ends.
    Values are stripped of surrounding spaces.
    """
    reader = csv.reader(io.StringIO(text))
    header: list[str] = next((row for row in reader if row), [])
    rows = [([cell.strip() for cell in row], reader.line_num) for row in reader if len(row) == len(header)]
    return [cell.strip() for cell in header], [row for row, _ in rows], [line for _, line in rows]


def _check_steps(path: Path, steps: np.ndarray, lines: Sequence[int]) -> None:
    """Raise ClarityError if a number of steps is negative. The message contains the line of the first one."""
    negative = np.flatnonzero(steps < 0)
    if len(negative):
        first = negative[0]
        raise ClarityError(
            f"{path}, line {lines[first]}: a number of steps is negative ({steps[first]:g}); correct or remove the line"
        )


def _read_columns(path: Path, text: str, columns: tuple[str, str] | None) -> Curve:
    try:
        header, rows, lines = _rows(text)
    except csv.Error as error:
        raise ClarityError(f"{path} is not a CSV file ({error})") from error
    if columns is None:
        columns = next(((x, y) for x, y in COLUMNS.items() if x in header and y in header), None)
        if columns is None:
            known = ", ".join(header[:20]) or "none"
            raise ClarityError(
                f"{path} is not a known training log; choose two of its columns with log_columns: {known}"
            )
    for name in columns:
        if name not in header:
            raise OptionError(f"log_columns={columns!r} must be columns of {path}, which has {', '.join(header[:20])}")
    x, y = (header.index(name) for name in columns)
    steps, returns = (_numbers([row[i] for row in rows]) for i in (x, y))
    _check_steps(path, steps, lines)
    return _ordered(steps, returns, "frames" if "frame" in columns[0] else "steps")


def _read_monitor(path: Path, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and mean returns of `monitor.csv`, which has a row for each episode: return `r`, length `l`, time
    `t`.
    """
    header, rows, lines = _rows(text.partition("\n")[2])
    if not {"r", "l"} <= set(header):
        raise ClarityError("the log begins like monitor.csv of Stable-Baselines3, but has no columns r and l")
    returns, lengths = (_numbers([row[header.index(name)] for row in rows]) for name in ("r", "l"))
    _check_steps(path, lengths, [line + 1 for line in lines])
    sums = np.concatenate([[0], np.nancumsum(returns)])
    last = np.arange(1, len(returns) + 1)
    first = np.maximum(0, last - MONITOR_EPISODES)
    return np.nancumsum(lengths), (sums[last] - sums[first]) / (last - first)


def _read_events(path: Path, tag: str | None) -> tuple[Sequence[float], Sequence[float]]:
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise ClarityError(f"{path}: reading event files requires TensorBoard (pip install tensorboard)") from error
    events = EventAccumulator(str(path), size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    chosen = tag or next((name for name in TAGS if name in tags), None)
    if chosen is None or chosen not in tags:
        message = f"{path} has no scalar {chosen or ' or '.join(TAGS)}; it has {', '.join(tags[:20]) or 'none'}"
        raise OptionError(f"log_columns: {message}") if tag else ClarityError(message)
    scalars = events.Scalars(chosen)
    negative = next((scalar.step for scalar in scalars if scalar.step < 0), None)
    if negative is not None:
        raise ClarityError(f"{path}: the scalar {chosen} has the negative step {negative}")
    return [scalar.step for scalar in scalars], [scalar.value for scalar in scalars]


def _numbers(texts: Sequence[str]) -> np.ndarray:
    """Return numbers (n,) float64, with NaN for other text."""
    return np.array([_number(text) for text in texts], np.float64)


def _number(text: str) -> float:
    convert: Callable[[str], float] = float
    try:
        return convert(text)
    except ValueError:
        return float("nan")


def _ordered(steps: Sequence[float] | np.ndarray, returns: Sequence[float] | np.ndarray, unit: str = "steps") -> Curve:
    """Return a curve sorted by steps. If there are several returns at the same step, the last one counts."""
    x, y = np.asarray(steps, np.float64), np.asarray(returns, np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    unique, index = np.unique(x[finite][::-1], return_index=True)
    if not len(unique):
        raise ClarityError("the log has no returns")
    return Curve(unique, y[finite][::-1][index], unit)
