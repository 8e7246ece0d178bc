"""Messages of errors: one line that shows no control characters of a file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rl_clarity.base.errors import MAX_LENGTH, CheckpointError, ClarityError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text: \N{GREEK SMALL LETTER ALPHA} 1 \\n", "plain text: \N{GREEK SMALL LETTER ALPHA} 1 \\n"),
        ("clear\x1b[2J", "clear\\x1b[2J"),
        ("a\nsha256 0", "a\\nsha256 0"),
        ("a\r\x85\u2028b", "a\\r\\x85\\u2028b"),
        ("\u202etxt\u2066", "\\u202etxt\\u2066"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped_for_terminals(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert str(CheckpointError(text)) == shown


def test_error_messages_keep_the_line_breaks_of_scripts() -> None:
    error = ClarityError("run\nthis:", "\n    import torch\n")
    assert str(error) == "run\\nthis:\n    import torch\n"


def test_long_error_messages_are_shortened_in_the_middle() -> None:
    error = ClarityError("start " + "x" * 10 * MAX_LENGTH + " end")
    assert str(error).startswith("start x")
    assert str(error).endswith("x end")
    assert len(str(error)) < 1.1 * MAX_LENGTH


def test_error_classes_are_exported_under_their_public_names() -> None:
    program = "import rl_clarity, rl_clarity.errors as e; assert e.ClarityError is rl_clarity.ClarityError"
    subprocess.run([sys.executable, "-c", program], check=True)
