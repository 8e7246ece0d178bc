"""Files are replaced in one step, and errors name them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_clarity.base.files import write_atomically


def test_a_failed_atomic_write_names_the_file_and_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "agent.jd"
    path.write_bytes(b"before")

    def pieces() -> Iterator[bytes]:
        yield b"part"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as raised:
        write_atomically(path, pieces())
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["agent.jd"]


def test_errors_while_opening_a_file_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "agent.jd").mkdir()
    with pytest.raises(OSError, match="directory") as raised:
        write_atomically(tmp_path / "agent.jd", b"content")
    assert raised.value.filename == str(tmp_path / "agent.jd")
