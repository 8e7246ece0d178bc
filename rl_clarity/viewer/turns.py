"""Run one computation at a time. A newer request of a panel replaces its older requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from rl_clarity.live import Superseded

T = TypeVar("T")
CLIENTS = 64
"""Largest number of panels whose newest request is remembered."""
WAITING = 4
"""Largest number of requests that may wait at once."""


class Busy(Exception):  # noqa: N818  # not an error of the program
    """Raised if too many requests are waiting."""


class Turns:
    """Runs the computations of requests one after another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._busy, self.waiting = False, 0

    def newest(self, client: str) -> int | None:
        """Return the number of the newest request of a panel, or None if there was none."""
        return self._newest.get(client)

    def run(self, client: str, number: int, compute: Callable[[Callable[[], bool]], T]) -> T:
        """Wait until no other computation runs, and return the result of `compute(wanted)`.

        Args:
            client: name of the panel that sent the request
            number: number of its request; answers to requests with smaller numbers are no longer wanted
            compute: the computation; it may call `wanted()` to find out whether its result is still wanted

        Raises Superseded if the answer is no longer wanted, and Busy if too many requests are waiting.
        """

        def wanted() -> bool:
            return self._newest.get(client, number) <= number

        with self._changed:
            self._newest[client] = max(number, self._newest.pop(client, number))
            while len(self._newest) > CLIENTS:
                self._newest.popitem(last=False)
            self._changed.notify_all()
            if self.waiting >= WAITING:
                raise Busy
            self.waiting += 1
            try:
                self._changed.wait_for(lambda: not self._busy or not wanted())
            finally:
                self.waiting -= 1
            if not wanted():
                raise Superseded
            self._busy = True
        try:
            return compute(wanted)
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
