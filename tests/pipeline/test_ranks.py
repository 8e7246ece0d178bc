"""Several MPI ranks make the page that one process makes; an error on one of them ends all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl_clarity.errors import ClarityError
from rl_clarity.jobs import SingleProcess, communicator
from tests.pipeline.small import REPOSITORY, files_of, is_complete, write_checkpoint

OPTIONS = [
    *("--layer-kwargs.name-contains-one-of", "Relu_1", "Relu_2", "--trajectories.num-envs", "4"),
    *("--trajectories.num-steps", "16", "--observations.num-envs", "4", "--observations.num-obs", "4"),
    *("--observations.obs-every", "2", "--json"),
]
RUN = """
import os, signal, sys, time
from rl_clarity.jobs.store import WorkStore

enter = WorkStore.enter
def entered(self, name, *rest):
    enter(self, name, *rest)
    rank = os.environ.get("PMI_RANK", "alone")
    with open(os.path.join(os.environ["DONE"], rank), "a") as file:
        print(name, file=file)
    time.sleep(0.2)  # so that a rank that is slow to start finds something to do
WorkStore.enter = entered

if os.environ.get("BROKEN"):
    from rl_clarity.analyses.attribution import analysis
    attribute = analysis.attribute_trajectory
    def broken(*arguments):
        if os.environ["BROKEN"] == "disk":
            with open(os.environ["DONE"] + "-broken", "a") as file:
                print(time.time(), file=file)
            raise OSError(28, "No space left on device")
        if os.environ.get("PMI_RANK") == "1":
            with open(os.environ["DONE"] + "-broken", "w") as file:
                print(time.time(), file=file)
            if os.environ["BROKEN"] == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the rank is out of luck")
        return attribute(*arguments)
    analysis.attribute_trajectory = broken

from rl_clarity.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def mpiexec() -> str:
    """The launcher beside this Python, or on the PATH; its MPI must be the one that mpi4py runs on."""
    pytest.importorskip("mpi4py", reason="ranks talk by MPI")
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec: pip install rl-clarity[mpich] brings one")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


def start(command: list[str], folder: Path, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    checkpoint = write_checkpoint(folder / "agents" / name / "agent.jd")
    if not (folder / "agents" / "first.jd").exists():
        shutil.copyfile(checkpoint, folder / "agents" / "first.jd")
    shutil.copyfile(folder / "agents" / "first.jd", checkpoint)  # a checkpoint's bytes say when it was written
    (folder / "done" / name).mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [*command, sys.executable, "-c", RUN, str(checkpoint), str(folder / name), *OPTIONS],
        cwd=REPOSITORY,
        env={**os.environ, "DONE": str(folder / "done" / name), "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def done(folder: Path, name: str) -> dict[str, list[str]]:
    """Tasks that each rank did."""
    return {path.name: path.read_text().split() for path in (folder / "done" / name).iterdir()}


@pytest.mark.slow
def test_any_number_of_ranks_makes_the_same_page(mpiexec: str, folder: Path) -> None:
    alone = start([], folder, "alone")
    assert alone.returncode == 0, alone.stderr
    for ranks in (1, 2, 5):
        result = start([mpiexec, "-n", str(ranks)], folder, f"ranks-{ranks}")
        assert result.returncode == 0, result.stderr
        assert files_of(folder / f"ranks-{ranks}") == files_of(folder / "alone")
        found = done(folder, f"ranks-{ranks}")
        assert set(found) == {str(rank) for rank in range(ranks)}
        tasks = [name for names in found.values() for name in names]
        assert len(tasks) == len(set(tasks)) == 2 + 4 + 8
        pages = {json.loads(line)["page"] for line in result.stdout.splitlines()}
        assert pages == {str(folder / f"ranks-{ranks}" / "interface.html")}
        assert len(result.stdout.splitlines()) == 1  # one summary, not one of each rank


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", r"rank 1 of 2 failed at attribution/Relu_\d/\d: (.*\n)*RuntimeError: the rank is out of luck"),
        ("killed", r"rank 1 of 2 was killed at attribution/Relu_\d/\d; run the same command again to resume"),
        ("disk", r"rank \d of 2 failed at attribution/Relu_\d/\d: \[Errno 28\] No space left on device\n"),
    ],
)
def test_a_rank_that_fails_ends_the_job(mpiexec: str, folder: Path, how: str, said: str) -> None:
    result = start([mpiexec, "-n", "2"], folder, how, BROKEN=how)
    seconds = time.time() - float((folder / "done" / f"{how}-broken").read_text().split()[0])
    assert result.returncode != 0
    assert re.search(said, result.stderr)
    assert result.stderr.count("rl-clarity: rank") == 1
    assert ("Traceback" in result.stderr) == (how == "raises")
    assert seconds < 30  # others may be at work; a rank that waits for one that is gone would wait forever
    assert not is_complete(folder / how)
    # It goes on where it was, with another number of ranks.
    before = done(folder, how)
    result = start([mpiexec, "-n", "3"], folder, how)
    assert result.returncode == 0, result.stderr
    after = done(folder, how)
    tasks = [name for names in after.values() for name in names]
    assert len(tasks) == len(set(tasks)) == 2 + 4 + 8
    assert before["0"] == after["0"][: len(before["0"])]
    logged = json.loads((folder / how / "run-log.json").read_text())["runs"]
    assert [run["ranks"] for run in logged] == [2, 3]
    assert {task["rank"] for task in logged[-1]["tasks"]} <= {0, 1, 2}


@pytest.mark.slow
def test_input_that_cannot_be_used_is_said(mpiexec: str, folder: Path, tmp_path: Path) -> None:
    command = [mpiexec, "-n", "2", sys.executable, "-m", "rl_clarity", "run", "nowhere.jd", str(tmp_path / "page")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert "cannot read the checkpoint nowhere.jd: No such file or directory" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "page").exists()


def test_one_process_imports_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[communicator.__module__], "MpiRanks", None)
    for name in ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(communicator(), SingleProcess)


def test_ranks_without_mpi4py_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ClarityError, match=r"mpi4py cannot be imported.*rl-clarity\[mpi\]"):
        communicator()
