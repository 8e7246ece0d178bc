"""Training on several MPI ranks: each plays environments of its own, and all learn from the mean of their gradients."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from rl_clarity.jobs.communicator import Communicator, communicator


class Ranks(Protocol):
    """The processes that train together; rank 0 writes."""

    rank: int
    size: int

    def average(self, vector: np.ndarray) -> np.ndarray:
        """Mean over the ranks, the same bits on each."""
        ...

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in their order, on every rank."""
        ...

    def fail(self, error: BaseException, what: str) -> None:
        """End the job on every rank; returns where there is no other."""
        ...


class Alone:
    """One process, without MPI."""

    rank = 0
    size = 1

    def average(self, vector: np.ndarray) -> np.ndarray:
        return vector

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def fail(self, error: BaseException, what: str) -> None:
        pass


class Together:
    """The ranks of MPI.COMM_WORLD."""

    def __init__(self, ranks: Communicator) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self._ranks = ranks
        self.rank, self.size = ranks.rank, ranks.size

    def average(self, vector: np.ndarray) -> np.ndarray:
        # Not Allreduce: an implementation may add in another order on each rank, and parameters would drift apart.
        total = np.ascontiguousarray(vector)
        result = np.empty_like(total)
        self._world.Reduce(total, result, op=self._mpi.SUM, root=0)
        self._world.Bcast(result, root=0)
        return result / np.asarray(self.size, result.dtype)

    def broadcast(self, value: Any) -> Any:
        return self._world.bcast(value, root=0)

    def gather(self, value: Any) -> list[Any]:
        return list(self._world.allgather(value))

    def fail(self, error: BaseException, what: str) -> None:
        self._ranks.fail(error, what)


def ranks() -> Ranks:
    """The ranks that mpiexec started, else this process alone, without importing MPI."""
    found = communicator()
    return Alone() if found.size == 1 else Together(found)
