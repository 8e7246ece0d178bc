"""Reports what a rank was doing when it was killed: the rank itself cannot, and a launcher knows only its number.

Each rank starts a small process that reads what the rank is doing, and reports it if the pipe closes before the rank
has signed off. A launcher then kills the other ranks too, so the first sentinel of a machine leaves a marker file, and
the others stay silent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rl_clarity.jobs.communicator import Communicator

_GOODBYE = "goodbye"
_PROGRAM = f"""
import os, sys, time
mark, who = sys.argv[1:]
last = "the start"
for line in sys.stdin:
    last = line.strip()
if last != "{_GOODBYE}":
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        os.write(2, f"rl-clarity: {{who}} was killed at {{last}}; run the same command again to resume\\n".encode())
    except OSError:
        pass
    os.close(2)
    os.close(1)
    time.sleep(5)
    try:
        os.unlink(mark)
    except OSError:
        pass
"""


class Sentinel:
    """Watches one rank."""

    def __init__(self, mark: Path, who: str) -> None:
        self._mark = mark
        # In its own session, so that signals for the rank (Ctrl-C, a launcher's kill) do not end it first.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(mark), who],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def doing(self, what: str) -> None:
        """Note what the rank starts now."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(what.replace("\n", " ") + "\n")
            self._process.stdin.flush()

    def hush(self) -> bool:
        """Silence this machine's sentinels, since an error is about to be reported; returns whether it is the first."""
        try:
            os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        except OSError:
            pass
        return True

    def leave(self) -> None:
        self.doing(_GOODBYE)
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()


@contextmanager
def watched(ranks: Communicator) -> Iterator[Sentinel | None]:
    """A sentinel for each rank, if there are several; all ranks call it together."""
    if ranks.size == 1:
        yield None
        return
    mark = Path(ranks.broadcast(str(Path(tempfile.gettempdir()) / f"rl-clarity-{uuid.uuid4().hex}")))
    sentinel = Sentinel(mark, f"rank {ranks.rank} of {ranks.size}")
    ranks.before_failing = sentinel.hush
    try:
        yield sentinel
    finally:
        sentinel.leave()
        mark.unlink(missing_ok=True)
