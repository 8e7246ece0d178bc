"""Only `run-log.json` records when, where and how fast a page was made."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs import job
from tests.pipeline.conftest import Explain
from tests.pipeline.small import failing_write_trajectory


def runs(directory: Path) -> list[dict[str, Any]]:
    logged: list[dict[str, Any]] = json.loads((directory / "run-log.json").read_text())["runs"]
    return logged


class Stop(BaseException):
    """An interruption that no code catches."""


def test_a_finished_run_is_logged(explain: Explain, tmp_path: Path) -> None:
    explain()
    (run,) = runs(tmp_path / "page")
    assert run["outcome"] == "finished"
    assert (run["host"], run["hosts"], run["ranks"]) == (socket.gethostname(), [socket.gethostname()], 1)
    assert run["started"] <= run["ended"]
    assert run["versions"].keys() >= {"rl-clarity", "keras", "numpy"}
    assert run["stages"].keys() == {
        "trajectories and features",
        "attribution and atlas and ablation",
        "examples",
        "page",
    }
    assert sum(run["stages"].values()) <= run["seconds"] + 0.01
    first = {"features/Relu_2", "trajectories/1", "trajectories/2", "atlas"}
    names = {*first, *(f"{kind}/Relu_2/{i}" for kind in ("attribution", "ablation") for i in (1, 2)), "examples/Relu_2"}
    assert {task["task"] for task in run["tasks"]} == names
    assert all(task["rank"] == 0 and task["seconds"] >= 0 for task in run["tasks"])


@pytest.mark.usefixtures("one_task_at_a_time")
def test_resumed_runs_are_appended_to_the_log(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise Stop("simulated")

    with monkeypatch.context() as patch:
        patch.setattr("rl_clarity.analyses.attribution.analysis.attribute_trajectory", fail)
        with pytest.raises(Stop):
            explain()
    explain()
    first, second = runs(tmp_path / "page")
    assert first["outcome"] == "Stop: simulated"
    independent = {f"{kind}/{i}" for kind in ("ablation/Relu_2", "trajectories") for i in (1, 2)}
    assert {task["task"] for task in first["tasks"]} == {"features/Relu_2", *independent}
    assert second["outcome"] == "finished"
    attributed = {"attribution/Relu_2/1", "attribution/Relu_2/2"}
    assert {task["task"] for task in second["tasks"]} == {*attributed, "atlas", "examples/Relu_2"}


@pytest.mark.usefixtures("one_task_at_a_time")
def test_tasks_of_a_killed_run_are_logged(explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is also written during the run, since a killed process cannot write it."""
    monkeypatch.setattr(job, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(job.Job, "close", lambda self, outcome: None)

    monkeypatch.setattr("rl_clarity.analyses.trajectories.write_trajectory", failing_write_trajectory(Stop))
    with pytest.raises(Stop):
        explain()
    (run,) = runs(tmp_path / "page")
    assert run["outcome"] == "running"
    assert [task["task"] for task in run["tasks"]] == ["features/Relu_2"]


def test_the_page_contains_nothing_of_the_run_log(explain: Explain, tmp_path: Path) -> None:
    explain()
    document = (tmp_path / "page" / "interface.html").read_text()
    assert "run-log" not in document
    assert socket.gethostname() not in document.replace("vm", "") or len(socket.gethostname()) < 4
    assert runs(tmp_path / "page")[0]["started"][:10] not in document


def test_an_invalid_run_log_is_replaced_only_with_overwrite(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "run-log.json").write_text("[1, 2]")
    with pytest.raises(OutputError, match=r"did not write.*run-log\.json"):
        explain()
    explain(overwrite=True)
    assert len(runs(tmp_path / "page")) == 1
