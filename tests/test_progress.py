"""Progress is shown on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from rl_clarity.progress import counted, part_of, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_done_and_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("Attribution") as report:
        report(0.25)
    shown = terminal.getvalue()
    assert "Attribution" in shown
    assert "25%" in shown
    assert "left" in shown


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_is_shown_where_nobody_looks(shown: bool, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shown:
        monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("Attribution", shown=shown) as report:
        report(0.5)
    if shown:
        assert capsys.readouterr().err == ""
    else:
        assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_parts_of_the_whole() -> None:
    shares: list[float] = []
    half = part_of(shares.append, 0.5, 1.0)
    half(0.0)
    counted(half)(1, 4)
    half(1.0)
    assert shares == [0.5, 0.625, 1.0]
