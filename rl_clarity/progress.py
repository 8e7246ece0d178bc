"""Progress bars: how much is done, how long it will take. Nothing is shown where nobody watches a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[float], None]
"""Told the share of the work that is done, from 0 to 1."""


@contextmanager
def progress_bar(what: str, *, shown: bool = True) -> Iterator[Report]:
    """A bar for one stage of the work, on standard error; `what` names it."""
    if not (shown and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda share: bars.update(task, completed=min(share, 1.0))


def counted(report: Report) -> Callable[[int, int], None]:
    """A report that is told how many are done, of how many."""
    return lambda done, total: report(done / total)


def part_of(report: Report, start: float, end: float) -> Report:
    """A report for the part of the work between two shares of the whole."""
    return lambda share: report(start + (end - start) * share)
