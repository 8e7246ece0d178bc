"""The same call writes the same bytes, however often it was interrupted, and repeats no finished task."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.jobs.store import DIRECTORY
from rl_clarity.pages.verification import verify
from tests.pipeline.conftest import Explain
from tests.pipeline.small import REPOSITORY, failing_write_trajectory, is_complete, read_files, record_tasks
from tests.ranks import TINY
from tests.tiny_series import write_checkpoint

# --- reproducibility -----------------------------------------------------------------------------------------------


def test_repeating_a_run_writes_the_same_bytes(run_short: Callable[..., Path]) -> None:
    first, second = run_short("a", "first"), run_short("b", "second", batch_size=512)
    assert read_files(first) == read_files(second)
    document = (first / "interface.html").read_text()
    assert str(first.parent) not in document


def test_another_seed_gives_a_different_page(run_short: Callable[..., Path]) -> None:
    first, second = run_short("a"), run_short("b", seed=1)
    same = {name for name in read_files(first) if read_files(first)[name] == read_files(second).get(name)}
    assert not {name for name in same if name.endswith(".js")}


def test_a_finished_page_is_not_rewritten(run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_short("page")
    times = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    with record_tasks(monkeypatch) as done:
        run_short("page")
    assert done == []
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == times


def test_deleted_page_files_are_written_again(run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_short("page")
    before = read_files(directory)
    (directory / "attribution/Relu_2/2/value-1.js").unlink()
    (directory / "observations/observations-1.png").write_bytes(b"")
    with record_tasks(monkeypatch) as done:
        run_short("page")
    assert done == ["attribution/Relu_2/2", "atlas"]
    assert read_files(directory) == before
    assert list(verify(directory).problems()) == []


def test_damaged_files_of_the_same_size_are_repaired_with_overwrite(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_short("page")
    before = read_files(directory)
    name = "attribution/Relu_2/2/value-1.js"
    (directory / name).write_bytes(bytes(reversed(before[name])))
    assert list(verify(directory).problems()) == [("damaged", name)]
    with record_tasks(monkeypatch) as done:
        run_short("page")  # compares sizes only
        assert done == []
        run_short("page", overwrite=True)
    assert done == ["attribution/Relu_2/2"]
    assert read_files(directory) == before


@pytest.mark.parametrize("single_file", [False, True])
def test_a_truncated_html_file_is_written_again(
    run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, single_file: bool
) -> None:
    page = run_short("page", single_file=single_file) / "interface.html"
    before = page.read_bytes()
    page.write_bytes(before[:-100])
    with record_tasks(monkeypatch) as done:
        run_short("page", single_file=single_file)
    assert bool(done) == single_file  # the files of a single-file page are in the document only
    assert page.read_bytes() == before
    assert list(verify(page).problems()) == []


# --- interrupted ---------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """An interruption that no code catches."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"single_file": True}, {"inline_js": False}], ids=str)
def test_a_run_interrupted_at_any_write_resumes_to_the_same_bytes(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    options["nmf_features"] = 3
    explain(tmp_path / "uninterrupted", **options)
    write = LocalDirectory.write
    remaining = 0

    def write_until_stopped(self: LocalDirectory, name: str, data: Any) -> None:
        nonlocal remaining
        if remaining == 0:
            raise Stop
        remaining -= 1
        write(self, name, data)

    monkeypatch.setattr(LocalDirectory, "write", write_until_stopped)
    for writes in range(1, 60, 2):
        remaining = writes
        try:
            explain(tmp_path / "stopped", **options)
            break
        except Stop:  # the last write is that of the log
            page = read_files(tmp_path / "stopped")
            assert not is_complete(tmp_path / "stopped") or page == read_files(tmp_path / "uninterrupted")
    assert writes > 5
    assert read_files(tmp_path / "stopped") == read_files(tmp_path / "uninterrupted")


def test_temporary_files_of_a_killed_process_are_deleted(explain: Explain, tmp_path: Path) -> None:
    explain(tmp_path / "uninterrupted")
    folder = tmp_path / "killed" / "thumbnails" / "Relu_2"
    folder.mkdir(parents=True)
    (folder / ".thumbnail-1.png.1234.unfinished").write_bytes(b"half")
    explain(tmp_path / "killed")
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "uninterrupted")


@pytest.mark.usefixtures("one_task_at_a_time")
def test_resuming_does_not_repeat_finished_tasks(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, record_tasks(monkeypatch) as done:
        patch.setattr("rl_clarity.analyses.trajectories.write_trajectory", failing_write_trajectory(Stop))
        with pytest.raises(Stop):
            explain()
    assert done == ["features/Relu_2"]
    with record_tasks(monkeypatch) as done:
        explain()
    expected = [
        "ablation/Relu_2/1",
        "ablation/Relu_2/2",
        "atlas",
        "attribution/Relu_2/1",
        "attribution/Relu_2/2",
        "examples/Relu_2",
    ]
    assert sorted(done) == [*expected, "trajectories/1", "trajectories/2"]


KILLS = 10


@pytest.mark.slow
def test_a_run_killed_many_times_gives_the_same_bytes(tmp_path: Path) -> None:
    """After SIGKILL at random moments, the page has the same bytes as an uninterrupted run."""
    options = (
        *("--trajectories.num-envs", "3", "--trajectories.num-steps", "16", "--json"),
        *("--observations.num-envs", "8", "--observations.num-obs", "4", "--observations.obs-every", "3"),
    )

    errors = tmp_path / "errors.txt"

    def start(name: str) -> subprocess.Popen[bytes]:
        path = tmp_path / f"{name}-checkpoint" / "agent.pt"
        path.parent.mkdir(exist_ok=True)
        write_checkpoint(path, 1, patch=4)
        command = [sys.executable, "-c", TINY, "run", str(path), str(tmp_path / name), *options]
        with errors.open("a") as file:
            return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=file)

    def progress(name: str) -> int:
        return sum(len(list((tmp_path / folder).rglob("*"))) for folder in (name, f"{name}-checkpoint"))

    assert start("uninterrupted").wait() == 0
    total = progress("uninterrupted")
    rng = random.Random(0)
    # Kill when a number of files exist, so that the moments spread over the run on machines of any speed.
    moments = sorted(rng.randrange(2, total) for _ in range(KILLS))
    reached = []
    for moment in moments:
        process = start("killed")
        while process.poll() is None and progress("killed") < moment:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.wait()
        reached.append(progress("killed"))
    assert start("killed").wait() == 0, errors.read_text()[-2000:]
    assert len(set(reached)) > KILLS / 3
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "uninterrupted")
    outcomes = [run["outcome"] for run in json.loads((tmp_path / "killed" / "run-log.json").read_text())["runs"]]
    assert outcomes[-1] == "finished"
    assert "running" in outcomes  # killed runs


def test_files_replaced_by_an_interrupted_run_are_written_again(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that an interrupted run with other options has replaced are written again."""
    explain()
    before = read_files(tmp_path / "page")

    def stop(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        # Attribution is written before its totals.
        patch.setattr("rl_clarity.analyses.attribution.analysis.write_totals", stop)
        with pytest.raises(Stop):
            explain(overwrite=True, attr_integrate_steps=1)
    assert not is_complete(tmp_path / "page")
    explain()
    assert read_files(tmp_path / "page") == before


def test_pages_contain_no_local_paths_or_host_names(explain: Explain, tmp_path: Path) -> None:
    explain()
    words = [str(tmp_path).encode(), os.uname().nodename.encode(), str(Path.home()).encode() + b"/"]
    for name, content in read_files(tmp_path / "page").items():
        assert not [word for word in words if len(word) > 3 and word in content], name


def test_records_of_finished_tasks_are_json(explain: Explain, tmp_path: Path) -> None:
    explain()
    entries = [json.loads(path.read_text()) for path in (tmp_path / "page" / DIRECTORY).glob("*-*.json")]
    assert len(entries) == 9
    assert all(set(entry) == {"facts", "files", "key", "name"} for entry in entries)
    assert all(np.isfinite(list(entry["facts"].get("scales", {}).values())).all() for entry in entries)
