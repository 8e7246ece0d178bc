"""Cache values so that each is computed once, even if several threads request it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class MadeOnce:
    """A cache that computes each value in one thread, while other threads that request the same value wait.

    Each key has its own lock, so the computation of a value does not block those of other values.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key, which `make` computes if it is missing."""
        if key not in self._values:
            with self._locks.setdefault(key, threading.RLock()):
                if key not in self._values:
                    self._values[key] = make()
        return self._values[key]

    def subset(self, keep: Callable[[Hashable], bool]) -> MadeOnce:
        """Return a new cache with the values that were computed so far and whose keys satisfy `keep`."""
        result = MadeOnce()
        result._values = {key: value for key, value in list(self._values.items()) if keep(key)}
        return result
