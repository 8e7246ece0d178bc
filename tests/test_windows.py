"""Without modules and functions that only POSIX systems have. This simulates Windows; it is no test on Windows."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.base.files import WINDOWS_LOCK_OFFSET
from rl_clarity.jobs import locked
from rl_clarity.jobs.machine import UNKNOWN_MEMORY, available_memory, peak_memory
from tests.pipeline.small import REPOSITORY

PROGRAM = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
del os.sysconf, os.sched_getaffinity
from rl_clarity.cli import main
sys.exit(main(["inspect", "models:coinrun", "--json"]))
"""


@pytest.mark.slow
def test_a_checkpoint_can_be_inspected_without_posix_modules() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"network": "clear"' in done.stdout


def test_memory_is_unknown_if_the_system_does_not_report_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(os, "sysconf")
    assert available_memory(tmp_path) == UNKNOWN_MEMORY
    assert peak_memory(tmp_path) == 0


def test_directories_are_locked_with_msvcrt_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    positions: list[int] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        positions.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError from None

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    in_use = pytest.raises(OutputError, match=f"in use by process {os.getpid()}")
    with locked(str(tmp_path)), in_use, locked(str(tmp_path)):
        pass
    with locked(str(tmp_path)):
        pass
    assert positions == [WINDOWS_LOCK_OFFSET] * 3
