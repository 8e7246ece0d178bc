"""Explaining under MPI, and after a kill: the same bytes as by one process that is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl_clarity.explaining.files import EXPLAINED
from tests.explaining.recordings import explain, read, record
from tests.pipeline.small import REPOSITORY, read_files
from tests.ranks import find_mpiexec

pytestmark = pytest.mark.slow
LENGTHS = (70, 10, 30, 65, 5, 40)
PROGRAM = """
import sys, time
from pathlib import Path
from rl_clarity.jobs.store import WorkStore
from tests.explaining.recordings import explain

enter = WorkStore.enter
def slowly(*arguments):
    enter(*arguments)
    time.sleep(0.05)
WorkStore.enter = slowly
explain(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    location = tmp_path_factory.mktemp("alone") / "recording"
    record(location, LENGTHS)
    explain(location)
    return chunks(location)


def chunks(location: Path) -> dict[str, bytes]:
    return {name: data for name, data in read_files(location / EXPLAINED).items() if name.endswith(".js")}


def start(location: Path, *launcher: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen([*launcher, sys.executable, "-c", PROGRAM, str(location)], env=environment)


def test_explain_with_two_mpi_ranks_writes_the_same_bytes(tmp_path: Path, alone: dict[str, bytes]) -> None:
    location = tmp_path / "recording"
    record(location, LENGTHS)
    assert start(location, find_mpiexec(), "-n", "2").wait(300) == 0
    assert chunks(location) == alone


def test_a_killed_explain_process_is_resumed(tmp_path: Path, alone: dict[str, bytes]) -> None:
    location = tmp_path / "recording"
    record(location, LENGTHS)
    for number in range(1, 4):
        process = start(location)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if len([*(location / EXPLAINED / ".rl-clarity").glob("sections-*")]) >= number:
                process.kill()
        process.wait()
        explanations = read(location)
        section = explanations.saliency(explanations.episodes)
        assert section is not None
        assert all(explanations.path(name).exists() for maps in section.methods[0].maps for name in maps)
    assert explain(location).explained == len(LENGTHS)
    assert chunks(location) == alone
