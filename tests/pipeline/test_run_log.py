"""`run-log.json` says when, where and how fast; nothing else does."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.jobs import job
from tests.pipeline.conftest import Explain
from tests.pipeline.small import stop_when_written


def runs(directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((directory / "run-log.json").read_text())["runs"]
    return found


class Stop(BaseException):
    """Something that nobody catches."""


def test_a_run_is_logged(explain: Explain, tmp_path: Path) -> None:
    explain()
    (run,) = runs(tmp_path / "page")
    assert run["outcome"] == "finished"
    assert (run["host"], run["hosts"], run["ranks"]) == (socket.gethostname(), [socket.gethostname()], 1)
    assert run["started"] <= run["ended"]
    assert run["versions"].keys() >= {"rl-clarity", "keras", "numpy"}
    assert run["stages"].keys() == {"trajectories and features", "attribution and atlas", "examples", "page"}
    assert sum(run["stages"].values()) <= run["seconds"] + 0.01
    first = {"features/Relu_2", "trajectories/1", "trajectories/2", "atlas"}
    names = {*first, "attribution/Relu_2/1", "attribution/Relu_2/2", "examples/Relu_2"}
    assert {task["task"] for task in run["tasks"]} == names
    assert all(task["rank"] == 0 and task["seconds"] >= 0 for task in run["tasks"])


def test_runs_that_go_on_are_added(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise Stop("enough")

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.analyses.attribution.analysis.attribute_trajectory", broken)
        with pytest.raises(Stop):
            explain()
    explain()
    first, second = runs(tmp_path / "page")
    assert first["outcome"] == "Stop: enough"
    assert {task["task"] for task in first["tasks"]} == {"features/Relu_2", "trajectories/1", "trajectories/2"}
    assert second["outcome"] == "finished"
    attributed = {"attribution/Relu_2/1", "attribution/Relu_2/2"}
    assert {task["task"] for task in second["tasks"]} == {*attributed, "atlas", "examples/Relu_2"}


def test_what_a_killed_run_had_done_is_there(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill leaves no time for a last word, so the log is written while the work goes on."""
    monkeypatch.setattr(job, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(job.Job, "close", lambda self, outcome: None)

    monkeypatch.setattr("rl_clarity.analyses.trajectories.write_trajectory", stop_when_written(Stop))
    with pytest.raises(Stop):
        explain()
    (run,) = runs(tmp_path / "page")
    assert run["outcome"] == "running"
    assert [task["task"] for task in run["tasks"]] == ["features/Relu_2"]


def test_the_page_does_not_know_of_it(explain: Explain, tmp_path: Path) -> None:
    explain()
    document = (tmp_path / "page" / "interface.html").read_text()
    assert "run-log" not in document
    assert socket.gethostname() not in document.replace("vm", "") or len(socket.gethostname()) < 4
    assert runs(tmp_path / "page")[0]["started"][:10] not in document


def test_a_file_of_that_name_that_is_not_ours_is_replaced(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "run-log.json").write_text("[1, 2]")
    explain()
    assert len(runs(tmp_path / "page")) == 1
