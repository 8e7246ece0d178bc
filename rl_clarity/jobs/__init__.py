"""Work cut into tasks, finished ones on disk, over MPI ranks or in this process alone."""

from rl_clarity.jobs.communicator import Communicator, SingleProcess, communicator
from rl_clarity.jobs.sentinel import Sentinel, watched
from rl_clarity.jobs.share import Share, take_share
from rl_clarity.jobs.store import WorkStore, locked
from rl_clarity.jobs.tasks import Task, TaskResult, run_tasks

__all__ = [
    "Communicator",
    "Sentinel",
    "Share",
    "SingleProcess",
    "Task",
    "TaskResult",
    "WorkStore",
    "communicator",
    "locked",
    "run_tasks",
    "take_share",
    "watched",
]
