"""Says what a rank was doing when it was killed: the rank itself cannot, and a launcher knows only its number.

Beside each rank stands a small process that does nothing but read what the rank is at, and speaks when that ends
before the rank has said goodbye. A launcher then kills the other ranks too, so the first to speak on a machine leaves
a mark, and the others keep silent.
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
last = "the beginning"
for line in sys.stdin:
    last = line.strip()
if last != "{_GOODBYE}":
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        os.write(2, f"rl-clarity: {{who}} was killed at {{last}}; the same command goes on where it was\\n".encode())
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
    """Watches one rank; `doing` tells it what the rank is at."""

    def __init__(self, mark: Path, who: str) -> None:
        self._mark = mark
        # In a session of its own, so that what is meant for the rank (Ctrl-C, a launcher's kill) does not end it first.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(mark), who],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def doing(self, what: str) -> None:
        """What the rank begins now."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(what.replace("\n", " ") + "\n")
            self._process.stdin.flush()

    def hush(self) -> bool:
        """An error is about to be said, which is better than what any sentinel of this machine knows.

        Whether none has been said before.
        """
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
    """A sentinel beside each rank, if there are several; called by all together."""
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
