"""The failure injection itself: what it counts, and what fails."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from rl_clarity.base.files import write_atomically
from tests.failing_files import failing_files


def test_failing_files_can_fail_every_operation_of_an_atomic_write(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    with failing_files(tmp_path) as operations:
        write_atomically(path, b"new")
    assert [one.split()[0] for one in operations] == ["mkdir", "open", "write", "fsync", "replace"]
    path.write_bytes(b"old")
    for number in range(1, 5):
        with failing_files(tmp_path, number), pytest.raises(OSError, match="No space left"):
            write_atomically(path, b"new")
        assert path.read_bytes() == b"old"


def test_a_simulated_failed_write_leaves_part_of_the_data(tmp_path: Path) -> None:
    for number, write in enumerate((Path.write_bytes, _write_descriptor)):
        path = tmp_path / str(number)
        with failing_files(tmp_path, 2), pytest.raises(OSError, match="No space left"):
            write(path, b"12345678")
        assert path.read_bytes() == b"1234"


def _write_descriptor(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def test_either_one_file_operation_fails_or_all_from_it_on(tmp_path: Path) -> None:
    for lasting in (False, True):
        with failing_files(tmp_path, 1, lasting=lasting) as operations:
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "file").write_text("text")
            with pytest.raises(OSError, match="No space left") if lasting else nullcontext():
                (tmp_path / str(lasting)).mkdir()
        assert len(operations) == 2


def test_simulated_failures_do_not_affect_other_folders(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    with failing_files(tmp_path / "inside", 1, lasting=True) as operations:
        (tmp_path / "outside").write_text("text")
        assert (tmp_path / "outside").read_text() == "text"
    assert not operations
