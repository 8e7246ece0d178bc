"""Run jobs: tasks, their finished work on disk, MPI ranks, output directories, forecasts and run logs."""

from rl_clarity.jobs.communicator import Communicator, SingleProcess, communicator
from rl_clarity.jobs.machine import take_share
from rl_clarity.jobs.store import WorkStore, locked
from rl_clarity.jobs.tasks import Piece, Task, TaskResult, Work, run_tasks

__all__ = [
    "Communicator",
    "Piece",
    "SingleProcess",
    "Task",
    "TaskResult",
    "Work",
    "WorkStore",
    "communicator",
    "locked",
    "run_tasks",
    "take_share",
]
