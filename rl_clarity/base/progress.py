"""Show progress bars on a terminal, and write durations in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[float], None]
"""A function that is called with the fraction of the work that is done, from 0 to 1."""


@contextmanager
def progress_bar(title: str, *, shown: bool = True) -> Iterator[Report]:
    """Show a progress bar on standard error if that is a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda fraction: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(
        progress.TextColumn("{task.description:24}"), *columns, console=Console(stderr=True)
    ) as bars:
        task = bars.add_task(title, total=1.0)
        yield lambda fraction: bars.update(task, completed=min(fraction, 1.0))


def counted(report: Report) -> Callable[[int, int], None]:
    """Return a function that is called with the number of finished items and their total, and reports the fraction."""
    return lambda done, total: report(done / total)


def subrange(report: Report, start: float, end: float) -> Report:
    """Return a report function for a part of the work. The part begins at the fraction `start` of the whole work, and
    ends at the fraction `end`.
    """
    return lambda fraction: report(start + (end - start) * fraction)


def duration(seconds: float) -> str:
    """Return a duration as text, such as `40 s`, `12 min`, `3.5 h` or `9 days`."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 200_000 else f"{seconds / 86400:.0f} days"
