"""One computation at a time, where a newer request of the same panel replaces an older one."""

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
    """Raised where too many requests wait."""


class Turns:
    """Lets requests compute in turn."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._busy, self.waiting = False, 0

    def newest(self, client: str) -> int | None:
        """Return the number of the newest request of a panel."""
        return self._newest.get(client)

    def run(self, client: str, number: int, compute: Callable[[Callable[[], bool]], T]) -> T:
        """Return what `compute(wanted)` returns, as soon as nothing else is computed.

        Args:
            client: the panel that asks
            number: number of its request; the answer to a smaller one is no longer wanted
            compute: the computation, which may ask `wanted()` whether to go on

        Raises Superseded where the answer is no longer wanted, Busy where too many requests wait.
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
