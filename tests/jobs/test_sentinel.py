"""A killed rank is reported once, with its task; a rank that exits is not reported."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.pipeline.small import REPOSITORY

RANK = """
import os, signal, sys
from pathlib import Path
from rl_clarity.jobs.sentinel import Sentinel

sentinel = Sentinel(Path(sys.argv[1]), "rank 1 of 3")
sentinel.doing("playing")
sentinel.doing("attribution/2b/3")
if sys.argv[2] == "error":
    sentinel.hush()
if sys.argv[2] == "end":
    sentinel.leave()
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_rank(mark: Path, ending: str) -> str:
    """Run a rank until its ending; return what it prints to standard error."""
    command = [sys.executable, "-c", RANK, str(mark), ending]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False).stderr


def test_a_killed_mpi_rank_is_reported_with_its_task(tmp_path: Path) -> None:
    message = run_rank(tmp_path / "mark", "kill")
    assert message == "rl-clarity: rank 1 of 3 was killed at attribution/2b/3; run the same command again to resume\n"


def test_only_the_first_killed_rank_is_reported(tmp_path: Path) -> None:
    assert run_rank(tmp_path / "mark", "kill")
    assert run_rank(tmp_path / "mark", "kill") == ""


def test_an_mpi_rank_that_exits_normally_is_not_reported(tmp_path: Path) -> None:
    assert run_rank(tmp_path / "mark", "end") == ""
    assert not (tmp_path / "mark").exists()


def test_a_rank_with_a_reported_error_is_not_reported_again(tmp_path: Path) -> None:
    assert run_rank(tmp_path / "mark", "error") == ""


def test_the_marker_file_of_a_killed_rank_is_deleted(tmp_path: Path) -> None:
    run_rank(tmp_path / "mark", "kill")
    deadline = time.monotonic() + 30
    while (tmp_path / "mark").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not (tmp_path / "mark").exists()
