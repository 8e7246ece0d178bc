"""Ranks of MPI: one that stands still is named; signals end all of them with one line, and the code of the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.small import REPOSITORY
from tests.ranks import find_mpiexec

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from rl_clarity import cli
from rl_clarity.cli.command import Result
from rl_clarity.cli.pages import Run
from rl_clarity.jobs import Task, TaskResult, WorkStore, run_tasks, sentinel
from rl_clarity.jobs.directory import open_directory
from rl_clarity.jobs.job import team

sentinel.STANDSTILL_SECONDS = 0.5
folder, behavior = Path(sys.argv[1]), sys.argv[2]

def stand(work):
    (folder / "pid").write_text(str(os.getpid()))
    print("standing", file=sys.stderr, flush=True)
    if behavior == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    while behavior != "stopped" and not (folder / "go").exists():
        time.sleep(0.05)
    return TaskResult()

def work(command):
    tasks = [Task("stand/1", stand, None, size=2.0), *(Task(f"quick/{i}", lambda work: TaskResult(), i) for i in "123")]
    with team() as workers:
        store = WorkStore(open_directory(folder))
        run_tasks(tasks, store, workers.ranks, started=workers.doing)
    return Result({"page": "done"}, "done")

Run.execute = work
sys.exit(cli.main(["run", "a.jd", "out"]))
"""


@pytest.fixture
def mpiexec() -> str:
    return find_mpiexec()


@contextmanager
def standing(mpiexec: str, folder: Path, behavior: str) -> Iterator[subprocess.Popen[str]]:
    """A job of two ranks, of which one stands still."""
    command = [mpiexec, "-n", "2", sys.executable, "-c", PROGRAM, str(folder), behavior]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stderr is not None
        timeout = threading.Timer(60, job.kill)
        timeout.start()
        try:
            for line in job.stderr:
                if line == "standing\n":
                    break
            yield job
        finally:
            timeout.cancel()
            job.kill()


@pytest.mark.slow
@pytest.mark.parametrize("behavior", ["stopped", "sleeping"])
def test_an_mpi_rank_that_hangs_is_reported_with_its_task(mpiexec: str, behavior: str, tmp_path: Path) -> None:
    with standing(mpiexec, tmp_path, behavior) as job:
        assert job.stderr is not None
        message = job.stderr.readline()
        assert message in {
            f"rl-clarity: the job is waiting for rank {rank} of 2, which has been idle at stand/1 for 0.5 s\n"
            for rank in range(2)
        }
        (tmp_path / "go").touch()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGCONT)
        output, errors = job.communicate(timeout=60)
        assert (job.returncode, output) == (0, "done\n")
        rank = message.split()[6]
        assert all(f"rank {rank} of 2" in line for line in errors.splitlines()), "the other rank is not named"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "verb"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_all_mpi_ranks_and_prints_how_to_resume(
    mpiexec: str, number: signal.Signals, code: int, verb: str, tmp_path: Path
) -> None:
    with standing(mpiexec, tmp_path, "sleeping") as job:
        job.send_signal(number)
        errors = job.communicate(timeout=60)[1]
    assert job.returncode == code
    lines = [line for line in errors.splitlines() if line.startswith("rl-clarity: rank")]
    assert len(lines) == 1
    assert f" was {verb} at " in lines[0]
    assert lines[0].endswith("; run the same command again to resume")
    assert "Traceback" not in errors
