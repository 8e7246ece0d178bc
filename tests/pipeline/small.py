"""A small real run: a fresh network plays CoinRun. It is explained once, and most tests work with what it saw."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.jobs.forecast import CountingDirectory
from rl_clarity.jobs.store import DIRECTORY, LOCK, WorkStore
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
    """A page made by `run`, and what it was made from."""

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
    """A checkpoint of a `nature` network with made-up parameters.

    Biases, since without them gradients are the same all along a path; and a policy that tells frames apart.
    """
    from rl_clarity.formats import architectures, baselines
    from rl_clarity.quiet import import_keras

    import_keras()
    parameters = architectures.build("nature", shape, actions, seed=1).parameters()
    rng = np.random.default_rng(0)
    for name in parameters:
        if name.endswith("/b:0"):
            parameters[name] = rng.normal(0, 0.3, parameters[name].shape).astype(np.float32)
    parameters["ppo2_model/pi/w:0"] = parameters["ppo2_model/pi/w:0"] * 50
    baselines.write(path, parameters, args or ARGS)
    return path


def files_of(directory: Path) -> dict[str, bytes]:
    """All files of a page and of the work on it, but for those that say when and by whom it was done."""
    left_out = (f"{DIRECTORY}/{LOCK}", "run-log.json")
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if not name.endswith(left_out)}


def is_complete(directory: Path) -> bool:
    """Whether a finished page is there, rather than one that says what is missing, or none."""
    page = directory / "interface.html"
    return page.exists() and bool(read_manifest(page.read_bytes())["complete"])


def page_files(directory: Path) -> set[str]:
    """Names of a page's files, without those of the work on it."""
    return {name for name in files_of(directory) if not name.startswith(f"{DIRECTORY}/")}


@contextlib.contextmanager
def counted_tasks(monkeypatch: Any) -> Iterator[list[str]]:
    """Names of the tasks that are done while the context lasts."""
    done: list[str] = []
    enter = WorkStore.enter

    def entered(self: WorkStore, name: str, *rest: Any) -> None:
        enter(self, name, *rest)
        done.append(name)

    with monkeypatch.context() as patch:
        patch.setattr(WorkStore, "enter", entered)
        yield done


def counted_plays(monkeypatch: Any) -> list[int]:
    """Grows when an agent plays."""
    from rl_clarity.recordings import source

    calls: list[int] = []
    make = source.make
    monkeypatch.setattr(source, "make", lambda *a, **k: calls.append(1) or make(*a, **k))
    return calls


def stop_when_written(error: type[BaseException]) -> Any:
    """A replacement for `write_trajectory` that fails, except in a forecast, which writes nothing."""
    from rl_clarity.analyses.trajectories import write_trajectory

    def write(subject: Any, *rest: Any) -> Any:
        if isinstance(subject.files.directory, CountingDirectory):
            return write_trajectory(subject, *rest)
        raise error

    return write


def coding_error(values: np.ndarray) -> np.ndarray:
    """How far coded values may be from values (n, h, w, K): half of one of 127 steps of their square roots."""
    largest = np.abs(values).max(axis=(1, 2, 3), keepdims=True)
    half_step = 0.5 / 127
    return 2 * half_step * np.sqrt(np.abs(values) * largest) + largest * (half_step**2 + 1e-5)
