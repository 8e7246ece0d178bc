"""Work cut into tasks, finished ones on disk, over MPI ranks or in this process alone."""

from rl_clarity.distributed.communicator import Communicator, SingleProcess, communicator
from rl_clarity.distributed.store import WorkStore, code_version, key_of
from rl_clarity.distributed.tasks import Report, Task, TaskResult, run_tasks

__all__ = [
    "Communicator",
    "Report",
    "SingleProcess",
    "Task",
    "TaskResult",
    "WorkStore",
    "code_version",
    "communicator",
    "key_of",
    "run_tasks",
]
