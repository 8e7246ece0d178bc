"""Report what a rank was doing when it was killed or hung, because the rank itself cannot report it.

Each rank starts a small process, its sentinel, and writes to a pipe what it is doing. The sentinel reads the pipe. If
the pipe closes before the rank has announced its end, the sentinel reports what the rank was doing. A launcher then
kills the other ranks, too. So the first sentinel of a machine to report creates a marker file, and the others stay
silent.

A thread of the rank also writes an empty line from time to time if the rank uses processor time. A rank that uses none
is stopped, or waits for a file system that does not respond, and its sentinel reports this. A rank that waits for other
ranks uses processor time, because MPI polls.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rl_clarity.jobs.communicator import Communicator

STANDSTILL_SECONDS = 60.0
"""A rank that uses no processor time for this many seconds is reported."""
BUSY_SHARE = 0.01
"""Smallest share of a processor's time that a rank uses unless it hangs."""
_GOODBYE = "goodbye"
_PROGRAM = f"""
import os, sys, threading, time
mark, who, seconds = sys.argv[1:]
last, alive = "the start", threading.Event()
def watch(limit):
    while True:
        if not alive.wait(limit):
            text = f"rl-clarity: the job is waiting for {{who}}, which has been idle at {{last}} for {{limit:g}} s\\n"
            os.write(2, text.encode())
            alive.wait()
            limit *= 2
        alive.clear()
threading.Thread(target=watch, args=(float(seconds),), daemon=True).start()
for line in sys.stdin:
    last = line.strip() or last
    alive.set()
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
    """The sentinel of a rank."""

    def __init__(self, mark: Path, who: str) -> None:
        self._mark = mark
        # Start it in its own session, so that signals for the rank (Ctrl-C, a launcher's kill) do not end it first.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(mark), who, str(STANDSTILL_SECONDS)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._report_life, daemon=True)
        self._thread.start()

    def doing(self, what: str) -> None:
        """Tell the sentinel what the rank is about to do."""
        assert self._process.stdin is not None
        with suppress(OSError):  # a single write each, because two threads write
            os.write(self._process.stdin.fileno(), what.replace("\n", " ").encode() + b"\n")

    def _report_life(self) -> None:
        interval = STANDSTILL_SECONDS / 4
        before = time.process_time()
        while not self._left.wait(interval):
            used = time.process_time()
            if used - before > BUSY_SHARE * interval:
                self.doing("")
            before = used

    def hush(self) -> bool:
        """Silence this machine's sentinels, because a rank is about to report an error itself. Return whether this is
        the first call on the machine.
        """
        try:
            os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        except OSError:
            pass
        return True

    def leave(self) -> None:
        self._left.set()
        self._thread.join()
        self.doing(_GOODBYE)
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()


@contextmanager
def watched(ranks: Communicator) -> Iterator[Sentinel | None]:
    """Start a sentinel for each rank if there are several ranks. All ranks must call it together."""
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
