"""A directory that holds another page, a file of somebody's, or a run at work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.errors import OutputError
from tests.pipeline.conftest import Explain
from tests.pipeline.small import REPOSITORY, counted_tasks, files_of, page_files


def test_another_page_is_not_replaced_unasked(explain: Explain, tmp_path: Path) -> None:
    explain(title="Mine")
    before = files_of(tmp_path / "page")
    with pytest.raises(OutputError, match=r"already holds a page \(Mine\).*overwrite=True \(--force\)"):
        explain(seed=1)
    assert files_of(tmp_path / "page") == before


def test_an_error_before_the_work_leaves_the_old_page(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_short("page")
    before = files_of(directory)

    def missing(*arguments: Any, **options: Any) -> None:
        raise OutputError("no such game")

    monkeypatch.setattr("rl_clarity.recordings.source.make", missing)
    with pytest.raises(OutputError, match="no such game"):
        run_short("page", overwrite=True, seed=3)
    assert files_of(directory) == before


def test_a_page_that_nobody_can_read_is_replaced_alone(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "interface.html").write_text("notes")
    (tmp_path / "page" / "other.html").write_text("notes")
    explain(overwrite=True)
    assert (tmp_path / "page" / "other.html").read_text() == "notes"
    assert (tmp_path / "page" / "interface.html").read_text() != "notes"


def test_a_hostile_page_removes_nothing_outside(explain: Explain, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    explain()
    document = tmp_path / "page" / "interface.html"
    document.write_text(document.read_text().replace('"trajectories/1/series.js"', '"../victim.txt"'))
    explain(overwrite=True, seed=1)
    assert victim.read_text() == "mine"


def test_pages_at_an_address(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = explain()
    address = "memory://bucket/page"
    there = explain(address)
    assert there.manifest == here.manifest
    np.testing.assert_array_equal(there.frames(1), here.frames(1))
    with counted_tasks(monkeypatch) as done:
        explain(address)
        assert done == []
        with pytest.raises(OutputError, match=r"memory://bucket/page already holds a page \(An agent\)"):
            explain(address, title="B")
        assert explain(address, title="B", overwrite=True, single_file=True).manifest["title"] == "B"
    files = there._directory.names()
    assert files == {"interface.html", "run-log.json"}


def test_a_second_run_is_refused_by_name_of_the_first(explain: Explain, tmp_path: Path) -> None:
    holder = (
        "import sys, time; from rl_clarity.jobs import locked\n"
        "with locked(sys.argv[1]):\n    print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "page")], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(OutputError, match=f"is in use by process {process.pid} on "):
            explain()
        assert page_files(tmp_path / "page") == set()
    finally:
        process.kill()
        process.wait()
    assert explain().manifest["complete"]  # the lock fell with the process


def test_a_page_that_another_run_finished_meanwhile_is_not_replaced(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rl_clarity import pipeline

    open_job = pipeline.open_job

    def slow(*arguments: Any) -> Any:  # the other run has the directory until this one can lock it
        monkeypatch.setattr(pipeline, "open_job", open_job)
        explain(title="First")
        return open_job(*arguments)

    monkeypatch.setattr(pipeline, "open_job", slow)
    with pytest.raises(OutputError, match=r"already holds a page \(First\)"):
        explain(title="Second")
    assert explain(title="First").manifest["title"] == "First"


def test_an_empty_output_directory_is_refused(
    explain_in: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="name a directory"):
        explain_in("")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
