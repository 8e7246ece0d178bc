"""The same call makes the same bytes, however often it was stopped, and does only what is not yet done."""

from __future__ import annotations

import json
import os
import random
import shutil
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
from tests.pipeline.conftest import Explain
from tests.pipeline.small import REPOSITORY, SmallRun, counted_tasks, files_of, is_complete, stop_when_written

# --- the same bytes ------------------------------------------------------------------------------------------------


def test_the_same_run_makes_the_same_bytes(run_short: Callable[..., Path]) -> None:
    first, second = run_short("a", "here"), run_short("b", "there", batch_size=512)
    assert files_of(first) == files_of(second)
    document = (first / "interface.html").read_text()
    assert str(first.parent) not in document


def test_another_seed_makes_another_page(run_short: Callable[..., Path]) -> None:
    first, second = run_short("a"), run_short("b", seed=1)
    same = {name for name in files_of(first) if files_of(first)[name] == files_of(second).get(name)}
    assert not {name for name in same if name.endswith(".js")}


def test_a_finished_page_is_left_as_it_is(run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_short("page")
    times = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    with counted_tasks(monkeypatch) as done:
        run_short("page")
    assert done == []
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == times


def test_what_was_lost_is_made_again(run_short: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_short("page")
    before = files_of(directory)
    (directory / "attribution/Relu_2/2/value-1.js").unlink()
    (directory / "observations/observations-1.png").unlink()
    with counted_tasks(monkeypatch) as done:
        run_short("page")
    assert done == ["attribution/Relu_2/2", "atlas"]
    assert files_of(directory) == before


# --- stopped -------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """Something that nobody catches."""


@pytest.mark.parametrize("options", [{}, {"single_file": True}, {"inline_js": False}], ids=str)
def test_stopped_at_any_write_and_gone_on(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    options["nmf_features"] = 3
    explain(tmp_path / "undisturbed", **options)
    write = LocalDirectory.write
    left = 0

    def stopping(self: LocalDirectory, name: str, data: Any) -> None:
        nonlocal left
        if left == 0:
            raise Stop
        left -= 1
        write(self, name, data)

    monkeypatch.setattr(LocalDirectory, "write", stopping)
    for writes in range(1, 60, 2):
        left = writes
        try:
            explain(tmp_path / "stopped", **options)
            break
        except Stop:  # the last write is the log's
            page = files_of(tmp_path / "stopped")
            assert not is_complete(tmp_path / "stopped") or page == files_of(tmp_path / "undisturbed")
    assert writes > 5
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "undisturbed")


def test_what_a_killed_process_left_is_cleared_away(explain: Explain, tmp_path: Path) -> None:
    explain(tmp_path / "undisturbed")
    folder = tmp_path / "killed" / "thumbnails" / "Relu_2"
    folder.mkdir(parents=True)
    (folder / ".thumbnail-1.png.1234.unfinished").write_bytes(b"half")
    explain(tmp_path / "killed")
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "undisturbed")


def test_finished_tasks_are_not_done_again(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, counted_tasks(monkeypatch) as done:
        patch.setattr("rl_clarity.analyses.trajectories.write_trajectory", stop_when_written(Stop))
        with pytest.raises(Stop):
            explain()
    assert done == ["features/Relu_2"]
    with counted_tasks(monkeypatch) as done:
        explain()
    expected = ["atlas", "attribution/Relu_2/1", "attribution/Relu_2/2", "examples/Relu_2"]
    assert sorted(done) == [*expected, "trajectories/1", "trajectories/2"]


KILLS = 20


@pytest.mark.slow
def test_killed_twenty_times(tmp_path: Path, small_run: SmallRun) -> None:
    """SIGKILL at random moments, from the start to the end; at last the bytes of an undisturbed run are there."""
    options = ("--layer-kwargs.name-contains-one-of", "Relu_1", "Relu_2", "--trajectories.num-envs", "3")
    options += ("--trajectories.num-steps", "16", "--observations.num-envs", "8", "--observations.num-obs", "4")
    options += ("--observations.obs-every", "3", "--json")

    def start(name: str) -> subprocess.Popen[bytes]:
        path = tmp_path / f"{name}-checkpoint" / "agent.jd"
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(small_run.checkpoint, path)
        command = [sys.executable, "-m", "rl_clarity", "run", str(path), str(tmp_path / name), *options]
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def progress(name: str) -> int:
        return sum(len(list((tmp_path / folder).rglob("*"))) for folder in (name, f"{name}-checkpoint"))

    assert start("undisturbed").wait() == 0
    most = progress("undisturbed")
    rng = random.Random(0)
    # Each is killed when so many files are there, whatever the machine's speed: the moments spread over the whole job.
    moments = sorted(rng.randrange(2, most) for _ in range(KILLS))
    reached = []
    for moment in moments:
        process = start("killed")
        while process.poll() is None and progress("killed") < moment:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.wait()
        reached.append(progress("killed"))
    assert start("killed").wait() == 0
    assert len(set(reached)) > KILLS / 3
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "undisturbed")
    outcomes = [run["outcome"] for run in json.loads((tmp_path / "killed" / "run-log.json").read_text())["runs"]]
    assert outcomes[-1] == "finished"
    assert "running" in outcomes  # those that were killed at it


def test_back_to_the_old_options_after_a_stop(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a stopped run with other options had begun to replace are not taken for the old ones."""
    explain()
    before = files_of(tmp_path / "page")

    def stopped(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(
            "rl_clarity.analyses.attribution.analysis.write_totals", stopped
        )  # attribution itself is written by then
        with pytest.raises(Stop):
            explain(overwrite=True, attr_integrate_steps=1)
    assert not is_complete(tmp_path / "page")
    explain()
    assert files_of(tmp_path / "page") == before


def test_nothing_in_a_page_tells_where_and_when_it_was_made(explain: Explain, tmp_path: Path) -> None:
    explain()
    words = [str(tmp_path).encode(), os.uname().nodename.encode(), str(Path.home()).encode() + b"/"]
    for name, content in files_of(tmp_path / "page").items():
        assert not [word for word in words if len(word) > 3 and word in content], name


def test_entries_are_json(explain: Explain, tmp_path: Path) -> None:
    explain()
    entries = [json.loads(path.read_text()) for path in (tmp_path / "page" / DIRECTORY).glob("*-*.json")]
    assert len(entries) == 7
    assert all(set(entry) == {"facts", "files", "key", "name"} for entry in entries)
    assert all(np.isfinite(list(entry["facts"].get("scales", {}).values())).all() for entry in entries)
