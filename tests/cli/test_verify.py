"""The command verify: exit codes, text and JSON."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rl_clarity.cli import main
from tests.cli.calls import parse_summary


def test_verify_accepts_an_unchanged_page(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(page)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.endswith(" files of the page are unchanged\n")


def test_verify_lists_missing_damaged_and_extra_files(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(page, copy)
    (copy / "trajectories/1/series.js").unlink()
    (copy / "trajectories/2/series.js").write_bytes(b"")
    (copy / "clear\x1b[2J").touch()
    assert main(["verify", str(copy)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        "missing: trajectories/1/series.js",
        "damaged: trajectories/2/series.js",
        "extra: clear\\x1b[2J",
    ]
    assert lines[-1].startswith("3 problems with a page of ")
    assert main(["verify", str(copy / "interface.html"), "--json"]) == 1
    summary = parse_summary(capsys.readouterr())
    assert summary.pop("files") > 20
    assert summary == {
        "missing": ["trajectories/1/series.js"],
        "damaged": ["trajectories/2/series.js"],
        "changed": [],
        "extra": ["clear\x1b[2J"],
        "problems": 3,
    }
