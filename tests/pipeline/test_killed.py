"""Commands that are killed at any moment write the same bytes when they are repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.failing_files import failing_files
from tests.small_commands import ablate, check, memory, prepare, written

KILLS = 20


@dataclass
class Job:
    """A command that writes below a folder, and how what it wrote is read."""

    command: Callable[[Path], Any]
    prepare: Callable[[Path], Any]
    read: Callable[[Path], Any]


def is_killed_and_repeated(job: Job, folder: Path) -> None:
    """Kill a job at moments that are spread over all that it writes, and compare with an uninterrupted one."""
    job.prepare(folder / "uninterrupted")
    with failing_files(folder / "uninterrupted") as operations:
        job.command(folder / "uninterrupted")
    expected = job.read(folder / "uninterrupted")
    moments = np.unique(np.linspace(1, len(operations), KILLS).astype(int))
    assert len(moments) == KILLS
    for moment in moments:
        job.prepare(folder / "killed")
        with failing_files(folder / "killed", int(moment), kill=True), suppress(Exception):
            job.command(folder / "killed")
        job.command(folder / "killed")
        assert job.read(folder / "killed") == expected, operations[moment - 1]
        shutil.rmtree(folder / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("command", [memory, ablate, check])
def test_a_page_is_completed(command: Callable[..., None], tmp_path: Path) -> None:
    is_killed_and_repeated(Job(command, prepare, written), tmp_path)
