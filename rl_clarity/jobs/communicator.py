"""The processes of a job: a single process, or the ranks that mpiexec started.

Only small values are sent through MPI. Results are written to the shared file system. Without mpiexec, MPI is not
imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from rl_clarity.base.errors import ClarityError, Terminated, exit_code

LAUNCHERS = ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE")
"""Environment variables that MPI launchers set."""

FORWARDING_SECONDS = 0.5
"""Seconds to wait before aborting, because a launcher drops output that it has not yet forwarded."""


class Communicator(Protocol):
    """The ranks that share a job. Rank 0 plans it and writes the page."""

    rank: int
    size: int
    before_failing: Callable[[], bool]
    """A function that is called before an error is reported. It returns whether this rank is the first one on its
    machine to fail."""

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in rank order, on rank 0, and an empty list on the other ranks."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in rank order, on every rank."""
        ...

    def average(self, array: np.ndarray) -> np.ndarray:
        """Return the mean of an array over all ranks. It is bit-identical on all ranks."""
        ...

    def neighbours(self, value: Any) -> tuple[int, list[Any]]:
        """Return this rank's index among the ranks on its machine, and the values of these ranks, in rank order."""
        ...

    def barrier(self) -> None: ...

    def counter(self) -> AbstractContextManager[Callable[[], int]]:
        """Return a context with a function that returns 0, 1, 2, ... Each number is returned exactly once, on one of
        the ranks. All ranks must enter the context together.
        """
        ...

    def fail(self, error: BaseException, what: str) -> None:
        """Report an error that occurred during `what`, and abort the job on every rank. With a single rank, do
        nothing.
        """
        ...


class SingleProcess:
    """One process, without MPI."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.before_failing: Callable[[], bool] = lambda: True

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def all_gather(self, value: Any) -> list[Any]:
        return [value]

    def average(self, array: np.ndarray) -> np.ndarray:
        return array

    def neighbours(self, value: Any) -> tuple[int, list[Any]]:
        return 0, [value]

    def barrier(self) -> None:
        pass

    @contextmanager
    def counter(self) -> Iterator[Callable[[], int]]:
        count = -1

        def next_index() -> int:
            nonlocal count
            count += 1
            return count

        yield next_index

    def fail(self, error: BaseException, what: str) -> None:
        pass


class MpiRanks:
    """The ranks of MPI.COMM_WORLD."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        self.before_failing: Callable[[], bool] = lambda: True

    def broadcast(self, value: Any) -> Any:
        return self._world.bcast(value, root=0)

    def gather(self, value: Any) -> list[Any]:
        return self._world.gather(value, root=0) or []

    def all_gather(self, value: Any) -> list[Any]:
        return list(self._world.allgather(value))

    def average(self, array: np.ndarray) -> np.ndarray:
        # Do not use Allreduce, which may add in another order on each rank, so that parameters would drift apart.
        array = np.ascontiguousarray(array)
        total = np.empty_like(array)
        self._world.Reduce(array, total, op=self._mpi.SUM, root=0)
        self._world.Bcast(total, root=0)
        return total / np.asarray(self.size, total.dtype)

    def neighbours(self, value: Any) -> tuple[int, list[Any]]:
        here = socket.gethostname()
        everyone = enumerate(self._world.allgather((here, value)))
        local = [(rank, value) for rank, (host, value) in everyone if host == here]
        return [rank for rank, _ in local].index(self.rank), [value for _, value in local]

    def barrier(self) -> None:
        self._world.Barrier()

    @contextmanager
    def counter(self) -> Iterator[Callable[[], int]]:
        # One-sided communication: each rank fetches its next index from rank 0's memory, which does not have to wait.
        memory = np.zeros(1 if self.rank == 0 else 0, np.int64)
        window = self._mpi.Win.Create(memory, comm=self._world)
        one, count = np.ones(1, np.int64), np.zeros(1, np.int64)

        def next_index() -> int:
            window.Lock(0)
            window.Fetch_and_op(one, count, 0)
            window.Unlock(0)
            return int(count[0])

        yield next_index
        window.Free()  # not after an error, because it waits for all ranks, while the job is being aborted

    def fail(self, error: BaseException, what: str) -> None:
        if self.before_failing():  # Ctrl-C or a full disk stops several ranks at once
            rank = f"rl-clarity: rank {self.rank} of {self.size}"
            print(f"{rank} {_describe(error, what)}", file=sys.stderr, flush=True)
        time.sleep(FORWARDING_SECONDS)
        self._world.Abort(exit_code(error))
        os._exit(exit_code(error))  # Abort returns in some implementations of MPI


def _describe(error: BaseException, what: str) -> str:
    if isinstance(error, KeyboardInterrupt):
        verb = "terminated" if isinstance(error, Terminated) else "interrupted"
        return f"was {verb} at {what}; {str(error) or 'run the same command again to resume'}"
    expected = isinstance(error, (ClarityError, OSError))
    return f"failed at {what}: {error if expected else ''.join(traceback.format_exception(error))}"


def communicator() -> Communicator:
    """Return the MPI ranks if a launcher started this process, else this process alone. Raises ClarityError if mpi4py
    cannot be imported.
    """
    if not any(name in os.environ for name in LAUNCHERS):
        return SingleProcess()
    try:
        ranks = MpiRanks()
    except ImportError as error:
        raise ClarityError(
            "this process was started by mpiexec, but mpi4py cannot be imported "
            f'({error}): pip install "rl-clarity[mpi]" if MPI is installed, otherwise pip install "rl-clarity[mpich]"'
        ) from None
    return ranks if ranks.size > 1 else SingleProcess()
