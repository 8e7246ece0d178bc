"""Rows can be written and read in any order."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from rl_clarity.jobs import spool
from rl_clarity.jobs.spool import Spool


@pytest.mark.parametrize("memory", [1, 2**27])
def test_spooled_rows_can_be_written_and_read_in_any_order(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", memory)
    values = np.random.default_rng(0).random((3, 10, 4, 2), np.float32)
    rows = Spool(10, (4, 2))
    for start, stop in ((6, 10), (0, 6)):
        for row in (2, 0, 1):
            rows.put(row, start, values[row, start:stop])
    for row in range(3):
        np.testing.assert_array_equal(rows.get(row), values[row])
        np.testing.assert_array_equal(rows.get(row, 3, 7), values[row, 3:7])


def test_a_full_disk_is_reported_with_the_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 1)
    monkeypatch.setattr("tempfile.tempdir", "/scratch")
    rows = Spool(10, (4, 2))

    def write(data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rows._file, "write", write)
    with pytest.raises(OSError, match=r"No space left on device.*TMPDIR.*'/scratch'"):
        rows.put(0, 0, np.zeros((10, 4, 2), np.float32))
