"""Run tasks: each once, each rank the next one that nobody has taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_clarity.jobs.communicator import Communicator
from rl_clarity.jobs.store import WorkStore
from rl_clarity.keys import key_of
from rl_clarity.progress import Report, part_of


@dataclass(frozen=True)
class TaskResult:
    """What a task found (JSON values) and which files it wrote, relative to the output directory."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Task:
    """A piece of work that depends on nothing but its inputs, and writes files of its own."""

    name: str
    run: Callable[[Report], TaskResult]
    inputs: Any
    """JSON value of everything that decides the result."""
    cost: float = 1.0
    """Relative; the dearest tasks are begun first."""


def run_tasks(
    tasks: Sequence[Task],
    store: WorkStore,
    ranks: Communicator,
    report: Report = lambda share: None,
    *,
    begun: Callable[[str], None] = lambda name: None,
    ended: Callable[[str, float], None] = lambda name, seconds: None,
) -> dict[str, dict[str, Any]]:
    """Facts of every task by name, those finished earlier included; called by all ranks together.

    Which rank does a task decides nothing: the same files and facts come out for any number of ranks. `begun` and
    `ended` are told of the tasks that this rank does, with the seconds each took.
    """
    keys = {task.name: task_key(task) for task in tasks}
    store.refresh()
    pending = ranks.broadcast([task.name for task in tasks if store.finished(task.name, keys[task.name]) is None])
    waiting = [task for task in tasks if task.name in set(pending)]
    waiting.sort(key=lambda task: -task.cost)
    total = sum(task.cost for task in waiting)
    with ranks.counter() as following:
        while (index := following()) < len(waiting):
            task = waiting[index]
            done = sum(earlier.cost for earlier in waiting[:index])  # begun before this one, by any rank
            share = part_of(report, done / total, (done + task.cost) / total)
            begun(task.name)
            start = time.perf_counter()
            _run(task, keys[task.name], store, ranks, share)
            ended(task.name, time.perf_counter() - start)
    ranks.barrier()
    store.refresh()
    report(1.0)
    facts = {}
    for task in tasks:
        found = store.finished(task.name, keys[task.name])
        if found is None:
            raise RuntimeError(f"task {task.name!r} is finished but its files are not there")
        facts[task.name] = found
    return facts


def task_key(task: Task) -> str:
    """Hash of everything that decides a task's result."""
    return key_of([task.name, task.inputs])


def _run(task: Task, key: str, store: WorkStore, ranks: Communicator, report: Report) -> None:
    try:
        store.withdraw(task.name)
        result = task.run(report)
        store.enter(task.name, key, result.facts, result.files)
    except BaseException as error:
        ranks.fail(error, task.name)
        raise
