"""What a rank was doing is said when it is killed, once, and never when it ends by itself."""

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


def rank(mark: Path, how: str) -> str:
    command = [sys.executable, "-c", RANK, str(mark), how]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False).stderr


def test_a_killed_rank_is_named_with_its_task(tmp_path: Path) -> None:
    said = rank(tmp_path / "mark", "kill")
    assert said == "rl-clarity: rank 1 of 3 was killed at attribution/2b/3; run the same command again to resume\n"


def test_the_first_to_be_killed_is_the_only_one_named(tmp_path: Path) -> None:
    assert rank(tmp_path / "mark", "kill")
    assert rank(tmp_path / "mark", "kill") == ""


def test_a_rank_that_ends_is_not_mourned(tmp_path: Path) -> None:
    assert rank(tmp_path / "mark", "end") == ""
    assert not (tmp_path / "mark").exists()


def test_an_error_that_was_said_is_enough(tmp_path: Path) -> None:
    assert rank(tmp_path / "mark", "error") == ""


def test_the_mark_is_taken_away(tmp_path: Path) -> None:
    rank(tmp_path / "mark", "kill")
    deadline = time.monotonic() + 30
    while (tmp_path / "mark").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not (tmp_path / "mark").exists()
