"""Values that are made once, also where several threads ask for them at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class MadeOnce:
    """Values by key, each of which one thread makes while others that ask for it wait.

    Each key has a lock of its own: values that need one another, in whatever order, are made without a deadlock.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key, by default what `make` returns."""
        if key not in self._values:
            with self._locks.setdefault(key, threading.RLock()):
                if key not in self._values:
                    self._values[key] = make()
        return self._values[key]

    def subset(self, keep: Callable[[Hashable], bool]) -> MadeOnce:
        """Return those of the values that have been made so far and whose keys satisfy `keep`."""
        result = MadeOnce()
        result._values = {key: value for key, value in list(self._values.items()) if keep(key)}
        return result
