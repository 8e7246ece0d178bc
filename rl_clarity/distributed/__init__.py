"""Work cut into tasks, finished ones on disk, over MPI ranks or in this process alone."""

from rl_clarity.distributed.communicator import Communicator, SingleProcess, communicator
from rl_clarity.distributed.store import WorkStore, code_version, key_of, locked
from rl_clarity.distributed.tasks import Task, TaskResult, run_tasks

__all__ = [
    "Communicator",
    "SingleProcess",
    "Task",
    "TaskResult",
    "WorkStore",
    "code_version",
    "communicator",
    "key_of",
    "locked",
    "run_tasks",
]
