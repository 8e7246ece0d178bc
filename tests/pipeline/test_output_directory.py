"""Output directories that contain another page, other files, or a running job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs.job import open_job
from tests.pipeline.conftest import Explain
from tests.pipeline.small import REPOSITORY, page_files, read_files, record_tasks


def test_another_page_is_not_replaced_without_overwrite(explain: Explain, tmp_path: Path) -> None:
    explain(title="Mine")
    before = read_files(tmp_path / "page")
    with pytest.raises(OutputError, match=r"already holds a page \(Mine\).*overwrite=True \(--force\)"):
        explain(seed=1)
    assert read_files(tmp_path / "page") == before


def test_an_error_before_any_work_keeps_the_old_page(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_short("page")
    before = read_files(directory)

    def fail(*arguments: Any, **options: Any) -> None:
        raise OutputError("unknown game")

    monkeypatch.setattr("rl_clarity.sources.checkpoint.make", fail)
    with pytest.raises(OutputError, match="unknown game"):
        run_short("page", overwrite=True, seed=3)
    assert read_files(directory) == before


def test_overwrite_replaces_an_unreadable_page_but_no_other_files(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "interface.html").write_text("notes")
    (tmp_path / "page" / "other.html").write_text("notes")
    explain(overwrite=True)
    assert (tmp_path / "page" / "other.html").read_text() == "notes"
    assert (tmp_path / "page" / "interface.html").read_text() != "notes"


def test_overwrite_deletes_no_files_outside_the_output_directory(explain: Explain, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    explain()
    document = tmp_path / "page" / "interface.html"
    document.write_text(document.read_text().replace('"trajectories/1/series.js"', '"../victim.txt"'))
    explain(overwrite=True, seed=1)
    assert victim.read_text() == "mine"


def test_pages_can_be_written_to_remote_storage(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = explain()
    address = "memory://bucket/page"
    remote = explain(address)
    assert remote.manifest == local.manifest
    np.testing.assert_array_equal(remote.frames(1), local.frames(1))
    with record_tasks(monkeypatch) as done:
        explain(address)
        assert done == []
        with pytest.raises(OutputError, match=r"memory://bucket/page already holds a page \(An agent\)"):
            explain(address, title="B")
        assert explain(address, title="B", overwrite=True, single_file=True).manifest["title"] == "B"
    files = remote._directory.names()
    assert files == {"interface.html", "run-log.json"}


def test_a_second_run_is_refused_with_the_id_of_the_first_process(explain: Explain, tmp_path: Path) -> None:
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
    assert explain().manifest["complete"]  # the lock ends with the process


def test_a_page_that_another_run_finishes_first_is_not_replaced(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rl_clarity.pages import builder as page_builder

    def run_another_first(*arguments: Any) -> Any:
        monkeypatch.setattr(page_builder, "open_job", open_job)
        explain(title="First")
        return open_job(*arguments)

    monkeypatch.setattr(page_builder, "open_job", run_another_first)
    with pytest.raises(OutputError, match=r"already holds a page \(First\)"):
        explain(title="Second")
    assert explain(title="First").manifest["title"] == "First"


def test_an_empty_output_directory_is_refused(
    explain_in: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="the name of the output directory is empty"):
        explain_in("")
    assert list(tmp_path.iterdir()) == []
