"""Commands in several processes, which communicate by MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.small import REPOSITORY

TINY = """
import sys
from rl_clarity.cli import main
from tests.tiny_series import do_not_import_keras, register
register()
do_not_import_keras()
sys.exit(main(sys.argv[1:]))
"""
"""A program: `rl-clarity` that knows the agents of `tiny_series`."""


def find_mpiexec() -> str:
    """The launcher beside this Python, or on the PATH; its MPI must be the one that mpi4py runs on."""
    pytest.importorskip("mpi4py", reason="ranks communicate by MPI")
    installed = Path(sys.executable).parent / "mpiexec"
    program = str(installed) if installed.exists() else shutil.which("mpiexec")
    return program or pytest.skip("no mpiexec: pip install rl-clarity[mpich] installs one")


def run_ranks(count: int, *arguments: str) -> None:
    """Run a command of `rl-clarity`, which knows the agents of `tiny_series`, in so many processes."""
    run_program(count, TINY, *arguments)


def run_program(count: int, program: str, *arguments: str) -> None:
    """Run a Python program in so many processes."""
    result = subprocess.run(
        [find_mpiexec(), "-n", str(count), sys.executable, "-c", program, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
