"""Work cut into tasks, finished ones on disk, over MPI ranks or in this process alone."""

from rl_clarity.distributed.communicator import Communicator, SingleProcess, communicator
from rl_clarity.distributed.sentinel import Sentinel, watched
from rl_clarity.distributed.share import Share, take_share
from rl_clarity.distributed.store import WorkStore, code_version, key_of, locked
from rl_clarity.distributed.tasks import Task, TaskResult, run_tasks

__all__ = [
    "Communicator",
    "Sentinel",
    "Share",
    "SingleProcess",
    "Task",
    "TaskResult",
    "WorkStore",
    "code_version",
    "communicator",
    "key_of",
    "locked",
    "run_tasks",
    "take_share",
    "watched",
]
