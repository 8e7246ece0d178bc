"""The command explain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_clarity.cli import main
from rl_clarity.explaining import recordings
from tests.cli.calls import parse_summary
from tests.recordings.episodes import make_recording


def test_explain_reports_how_many_episodes_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_recording(tmp_path, (9, 5))
    command = ["explain", str(tmp_path), "--embeddings", "pca", "--every", "1"]
    assert main([*command, "--json"]) == 0
    (report,) = parse_summary(capsys.readouterr())["recordings"].values()
    assert (report["episodes"], report["explained"], sorted(report["only_states"]), report["skipped"]) == (
        2,
        0,
        [0, 1],
        {},
    )
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == f"{tmp_path}: 0 of 2 complete episodes are explained"
    assert "rl-clarity explain --agent" in printed


def test_explain_groups_equal_reasons_of_several_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run in ("a", "b"):
        make_recording(tmp_path / run, (9, 5), name="training")
    command = ["explain", str(tmp_path), "--embeddings", "pca"]
    assert main([*command, "--json"]) == 0
    (reason,) = parse_summary(capsys.readouterr())["reasons"]
    assert [*reason["recordings"].values()] == [[0, 1], [0, 1]]
    assert main(command) == 0
    assert capsys.readouterr().out.count(reason["reason"]) == 1


def test_an_interrupt_ends_explain_watch_without_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait() -> None:
        raise KeyboardInterrupt

    make_recording(tmp_path, (9, 5))
    monkeypatch.setattr(recordings, "wait", wait)
    monkeypatch.setattr(os, "nice", lambda niceness: None)
    assert main(["explain", str(tmp_path), "--watch"]) == 0
    assert "0 of 2 complete episodes" in capsys.readouterr().out


def test_an_interrupted_explain_command_prints_how_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    make_recording(tmp_path, (9, 5))
    monkeypatch.setattr(recordings, "run_tasks", interrupt)
    assert main(["explain", str(tmp_path)]) == 130
    assert "interrupted; the same command resumes it" in capsys.readouterr().err
