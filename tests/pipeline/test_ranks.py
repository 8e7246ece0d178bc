"""Several MPI ranks make the same page as one process; an error on one rank stops all."""

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

from rl_clarity import open_results
from rl_clarity.base.errors import ClarityError
from rl_clarity.jobs import SingleProcess, communicator
from tests import tiny_series
from tests.pipeline.small import REPOSITORY, is_complete, read_files, write_checkpoint
from tests.ranks import find_mpiexec, run_program, run_ranks
from tests.small_commands import prepare, written

OPTIONS = [
    *("--trajectories.num-envs", "4", "--trajectories.num-steps", "16"),
    *("--observations.num-envs", "4", "--observations.num-obs", "4", "--observations.obs-every", "2"),
    *("--nmf-features", "2", "--causal-episodes", "3", "--causal-max-steps", "20"),
    "--json",
]
TASKS = 2 + 4 + 8 + 8 + 3 + (1 + 2 * 4) + 1
"""Features, trajectories, attribution, ablation, examples, play with and without 4 features and their twins, their
comparison."""
RUN = """
import os, signal, sys, time
from functools import partial
from rl_clarity.jobs.store import WorkStore
from rl_clarity.sources import checkpoint

# Comparing actions in all states would take most of the time.
checkpoint.find_equivalent_actions = partial(checkpoint.find_equivalent_actions, states=8)

enter = WorkStore.enter
def record(self, name, *rest):
    enter(self, name, *rest)
    rank = os.environ.get("PMI_RANK", "single")
    with open(os.path.join(os.environ["DONE"], rank), "a") as file:
        print(name, file=file)
    time.sleep(0.2)  # so that ranks that start late still find tasks
WorkStore.enter = record

if os.environ.get("BROKEN"):
    from rl_clarity.analyses.attribution import analysis
    attribute = analysis.attribute_trajectory
    def fail(*arguments):
        if os.environ["BROKEN"] == "disk":
            with open(os.environ["DONE"] + "-broken", "a") as file:
                print(time.time(), file=file)
            raise OSError(28, "No space left on device")
        if os.environ.get("PMI_RANK") == "1":
            with open(os.environ["DONE"] + "-broken", "w") as file:
                print(time.time(), file=file)
            if os.environ["BROKEN"] == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("simulated failure")
        return attribute(*arguments)
    analysis.attribute_trajectory = fail

from rl_clarity.cli import main
if sys.argv[1].endswith(".pt"):
    from tests.tiny_series import do_not_import_keras, register
    register()
    do_not_import_keras()
sys.exit(main(["run", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def mpiexec() -> str:
    return find_mpiexec()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


def start(
    command: list[str], folder: Path, name: str, checkpoint: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a copy of a checkpoint, by default of a small agent."""
    copy = folder / "agents" / name / (checkpoint.name if checkpoint else "agent.pt")
    copy.parent.mkdir(parents=True, exist_ok=True)
    if checkpoint:
        shutil.copyfile(checkpoint, copy)
    else:
        tiny_series.write_checkpoint(copy, 1, patch=4)
    (folder / "done" / name).mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [*command, sys.executable, "-c", RUN, str(copy), str(folder / name), *OPTIONS],
        cwd=REPOSITORY,
        env={**os.environ, "DONE": str(folder / "done" / name), "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def finished_tasks(folder: Path, name: str) -> dict[str, list[str]]:
    """Names of the tasks that each rank finished."""
    return {path.name: path.read_text().split() for path in (folder / "done" / name).iterdir()}


@pytest.mark.slow
def test_the_page_does_not_depend_on_the_number_of_mpi_ranks(mpiexec: str, folder: Path) -> None:
    single = start([], folder, "single")
    assert single.returncode == 0, single.stderr
    for ranks in (1, 2, 5):
        result = start([mpiexec, "-n", str(ranks)], folder, f"ranks-{ranks}")
        assert result.returncode == 0, result.stderr
        assert read_files(folder / f"ranks-{ranks}") == read_files(folder / "single")
        finished = finished_tasks(folder, f"ranks-{ranks}")
        assert set(finished) == {str(rank) for rank in range(ranks)}
        tasks = [name for names in finished.values() for name in names]
        assert len(tasks) == len(set(tasks)) == TASKS
        pages = {json.loads(line)["page"] for line in result.stdout.splitlines()}
        assert pages == {str(folder / f"ranks-{ranks}" / "interface.html")}
        assert len(result.stdout.splitlines()) == 1  # one summary, not one per rank


@pytest.mark.slow
def test_mpi_ranks_with_keras_make_the_same_page(mpiexec: str, folder: Path) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    checkpoint = write_checkpoint(folder / "agent.jd")
    for name, launcher in (("keras", ()), ("keras-ranks", (mpiexec, "-n", "2"))):
        result = start([*launcher], folder, name, checkpoint)
        assert result.returncode == 0, result.stderr
    files = read_files(folder / "keras")
    assert read_files(folder / "keras-ranks") == files
    assert "objects/4/effects.js" in files
    assert open_results(folder / "keras").section("baseline")["count"] > 0


@pytest.mark.slow
def test_sanity_checks_do_not_depend_on_the_number_of_mpi_ranks(tmp_path: Path) -> None:
    options = ["--trajectories.num-envs", "2", "--trajectories.num-steps", "4", "--frames", "4"]
    options += ["--methods", "perturbation"]
    for ranks in (1, 2, 3):
        folder = prepare(tmp_path / f"{ranks}")
        run_ranks(ranks, "check", f"{folder / 'agent.pt'}", f"{folder / 'output'}", *options)
        assert written(folder) == written(tmp_path / "1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("raises", r"rank 1 of 2 failed at attribution/\da/\d: (.*\n)*RuntimeError: simulated failure"),
        ("killed", r"rank 1 of 2 was killed at attribution/\da/\d; run the same command again to resume"),
        ("disk", r"rank \d of 2 failed at attribution/\da/\d: \[Errno 28\] No space left on device\n"),
    ],
)
def test_a_failing_mpi_rank_stops_the_job(mpiexec: str, folder: Path, failure: str, message: str) -> None:
    result = start([mpiexec, "-n", "2"], folder, failure, BROKEN=failure)
    seconds = time.time() - float((folder / "done" / f"{failure}-broken").read_text().split()[0])
    assert result.returncode != 0
    assert re.search(message, result.stderr)
    assert result.stderr.count("rl-clarity: rank") == 1
    assert ("Traceback" in result.stderr) == (failure == "raises")
    assert seconds < 30  # no rank waits forever for the failed one
    assert not is_complete(folder / failure)
    # The run can be resumed with another number of ranks.
    before = finished_tasks(folder, failure)
    result = start([mpiexec, "-n", "3"], folder, failure)
    assert result.returncode == 0, result.stderr
    after = finished_tasks(folder, failure)
    tasks = [name for names in after.values() for name in names]
    assert len(tasks) == len(set(tasks)) == TASKS
    assert before["0"] == after["0"][: len(before["0"])]
    logged = json.loads((folder / failure / "run-log.json").read_text())["runs"]
    assert [run["ranks"] for run in logged] == [2, 3]
    assert {task["rank"] for task in logged[-1]["tasks"]} <= {0, 1, 2}


@pytest.mark.slow
def test_mpi_ranks_print_one_error_for_a_missing_checkpoint(mpiexec: str, folder: Path, tmp_path: Path) -> None:
    command = [mpiexec, "-n", "2", sys.executable, "-m", "rl_clarity", "run", "nowhere.jd", str(tmp_path / "page")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert "cannot read the checkpoint nowhere.jd: No such file or directory" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "page").exists()


def test_a_single_process_does_not_import_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[communicator.__module__], "MpiRanks", None)
    for name in ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(communicator(), SingleProcess)


def test_the_error_without_mpi4py_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ClarityError, match=r"mpi4py cannot be imported.*rl-clarity\[mpi\]"):
        communicator()


@pytest.mark.slow
def test_findings_do_not_depend_on_the_number_of_mpi_ranks(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from tests.small_commands import debug; debug(Path(sys.argv[1]))"
    for ranks in (1, 2, 3):
        folder = tmp_path / f"{ranks}"
        run_program(ranks, program, str(folder))
        assert written(folder) == written(tmp_path / "1")
