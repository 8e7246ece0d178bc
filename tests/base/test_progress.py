"""Progress bars, which are only shown on a terminal."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from rl_clarity.base.progress import counted, duration, progress_bar, subrange


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_shows_fraction_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_no_progress_bar_is_shown_without_a_terminal(shown: bool, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    if not shown:
        monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar("Attribution", shown=shown) as report:
        report(0.5)
    assert capsys.readouterr().err == terminal.getvalue() == ""


def test_progress_subranges_report_fractions_of_the_whole_task() -> None:
    fractions: list[float] = []
    half = subrange(fractions.append, 0.5, 1.0)
    half(0.0)
    counted(half)(1, 4)
    half(1.0)
    assert fractions == [0.5, 0.625, 1.0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1, "1 s"), (99, "99 s"), (720, "12 min"), (12_600, "3.5 h"), (8_000_000, "93 days")]
)
def test_durations_are_formatted_in_readable_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
