"""After any failed write, sync or rename, the same command completes what it began, with the same bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.base.errors import ClarityError
from tests.failing_files import failing_files
from tests.small_commands import COMMANDS, prepare_recording, run, written

FAILURES, OF_DEBUG = 12, 6
"""Failures of each command, spread over all that it writes; `debug` writes its files as others do, and takes longer."""
COUNTED = ("write", "pwrite", "fsync", "replace", "rename", "truncate", "ftruncate")
"""Operations that fail: opening a file and creating a folder fail as their first write does."""


def overwrite(folder: Path) -> None:
    """Replace a page of another seed."""
    run(folder, overwrite=True)


@dataclass
class Job:
    """A command, what it reads, and what it does and writes if nothing fails."""

    command: Callable[[Path], None]
    template: Path
    failures: Sequence[int]
    """Numbers of the operations that may fail."""
    files: dict[str, bytes]

    def check_failure(self, number: int, folder: Path) -> None:
        """Let an operation fail, and run the command again."""
        shutil.copytree(self.template, folder)
        with failing_files(folder, number) as operations, suppress(ClarityError, OSError):
            self.command(folder)
        failed = operations[number - 1]
        self.command(folder)
        assert written(folder) == self.files, failed
        unfinished = [path for path in folder.rglob("*") if path.name.endswith(".unfinished")]
        assert unfinished == [], failed
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def _no_sync() -> Iterator[None]:
    """Syncing to disk takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _no_sync: None) -> Job:
    command = COMMANDS.get(request.param, overwrite)
    template = prepare_recording(tmp_path_factory.mktemp(request.param) / "template")
    if request.param == "overwrite":
        run(template, seed=1)
    folder = template.with_name("complete")
    shutil.copytree(template, folder)
    with failing_files(folder) as operations:
        command(folder)
    failures = [i for i, one in enumerate(operations, start=1) if one.split()[0] in COUNTED]
    assert len(failures) > 20
    return Job(command, template, failures, written(folder))


@pytest.mark.slow
@pytest.mark.parametrize("job", [*COMMANDS, "overwrite"], indirect=True)
def test_a_repeated_command_completes_after_any_failed_file_operation(job: Job, tmp_path: Path) -> None:
    count = OF_DEBUG if job.command is COMMANDS["debug"] else FAILURES
    for number in np.unique(np.linspace(0, len(job.failures) - 1, count).astype(int)):
        job.check_failure(job.failures[number], tmp_path / "failed")
