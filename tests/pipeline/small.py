"""A small real run: a fresh network plays CoinRun. Most tests share its page and its samples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents.protocol import Agent
from rl_clarity.jobs.forecast import CountingDirectory
from rl_clarity.jobs.store import DIRECTORY, LOCK, WorkStore
from rl_clarity.pages.builder import RECORDINGS
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.results import Results
from rl_clarity.recordings.samples import Observations, Trajectories

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 72
"""A segment of 64 steps and a short one."""
TRAJECTORIES = {"num_envs": 2, "num_steps": STEPS}
OBSERVATIONS = {"num_envs": 8, "num_obs": 4, "obs_every": 3}
LAST_LAYER = {"name_contains_one_of": ["Relu_2"]}
GAMMA, LAMBDA = 0.99, 0.9
ARGS = {"env_kind": "procgen", "env_name": "coinrun", "cnn": "nature", "gamma": GAMMA, "lambda": LAMBDA}
COMBOS = (
    ("LEFT", "DOWN"), ("LEFT",), ("LEFT", "UP"), ("DOWN",), (), ("UP",), ("RIGHT", "DOWN"), ("RIGHT",), ("RIGHT", "UP"),
    ("D",), ("A",), ("W",), ("S",), ("Q",), ("E",),
)  # fmt: skip
"""Procgen's buttons."""


@dataclass(frozen=True)
class SmallRun:
    """A page made by `run`, and its inputs."""

    checkpoint: Path
    agent: Agent
    directory: Path
    results: Results
    trajectories: Trajectories
    observations: Observations
    options: dict[str, Any]


def write_checkpoint(
    path: Path, args: dict[str, Any] | None = None, shape: tuple[int, int, int] = (64, 64, 3), actions: int = 15
) -> Path:
    """Write a checkpoint of a `nature` network with random parameters.

    Biases are random, since without them gradients are constant along a path; the policy's weights are large, so that
    its logits differ between frames.
    """
    from rl_clarity.base.quiet import import_keras
    from rl_clarity.formats import architectures, baselines

    import_keras()
    parameters = architectures.build("nature", shape, actions, seed=1).parameters()
    rng = np.random.default_rng(0)
    for name in parameters:
        if name.endswith("/b:0"):
            parameters[name] = rng.normal(0, 0.3, parameters[name].shape).astype(np.float32)
    parameters["ppo2_model/pi/w:0"] = parameters["ppo2_model/pi/w:0"] * 50
    baselines.write(path, parameters, args or ARGS)
    return path


def read_files(directory: Path) -> dict[str, bytes]:
    """Read all files of a page and of its work directory, except the lock and the run log."""
    excluded = (f"{DIRECTORY}/{LOCK}", "run-log.json")
    paths = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(paths.items()) if not name.endswith(excluded)}


def is_complete(directory: Path) -> bool:
    """Whether the directory contains a complete page, rather than an incomplete one or none."""
    page = directory / "interface.html"
    return page.exists() and bool(read_manifest(page.read_bytes())["complete"])


def unrecorded_files(directory: Path) -> dict[str, bytes]:
    """All files of a page but the recordings, which contain times."""
    return {name: data for name, data in read_files(directory).items() if not name.startswith(RECORDINGS)}


def page_files(directory: Path) -> set[str]:
    """Names of a page's files, without its work directory."""
    return {name for name in read_files(directory) if not name.startswith(f"{DIRECTORY}/")}


@contextlib.contextmanager
def record_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record the names of the tasks that finish within the context."""
    names: list[str] = []
    enter = WorkStore.enter

    def record(self: WorkStore, name: str, *rest: Any) -> None:
        enter(self, name, *rest)
        names.append(name)

    with monkeypatch.context() as patch:
        patch.setattr(WorkStore, "enter", record)
        yield names


def record_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType | type, name: str) -> list[tuple[Any, ...]]:
    """Record the positional arguments of each call of a function of a module or class from now on."""
    calls: list[tuple[Any, ...]] = []
    function = getattr(module, name)

    def record(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, record)
    return calls


def record_environments(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record each time that environments are made to collect samples."""
    from rl_clarity.sources import checkpoint as source

    return record_calls(monkeypatch, source, "make")


def failing_write_trajectory(error: type[BaseException]) -> Callable[..., Any]:
    """Return a replacement for `write_trajectory` that raises, except in a forecast, which writes nothing."""
    from rl_clarity.analyses.trajectories import write_trajectory

    def write(subject: Any, *rest: Any) -> Any:
        if isinstance(subject.files.directory, CountingDirectory):
            return write_trajectory(subject, *rest)
        raise error

    return write


def completeness(results: Results, layer: str, trajectory: int, output: str) -> np.ndarray:
    """Sum of the attribution, difference of the scores and score of each step (T, 3)."""
    gap = results.totals(layer, trajectory)[output].completeness
    assert gap is not None
    return gap
