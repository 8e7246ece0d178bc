"""A small real run, shared by all tests of the pipeline."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.protocol import Agent
from rl_clarity.pages.results import Results
from rl_clarity.recordings.storage import load_observations, load_trajectories
from tests.pipeline.small import COMBOS, LAST_LAYER, OBSERVATIONS, TRAJECTORIES, SmallRun, write_checkpoint

Explain = Callable[..., Results]
SHORT = {"trajectories_kwargs": {"num_envs": 2, "num_steps": 24}, "observations_kwargs": OBSERVATIONS}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a fresh network. Only the small run may save samples beside it."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "agent.jd")


@pytest.fixture(scope="session")
def _cached_agents() -> Iterator[None]:
    """Share one agent between all runs of a checkpoint with the same metadata: tracing a network takes seconds."""
    build = formats.build_agent
    agents: dict[tuple[str, str, str | None], Agent] = {}

    def build_once(checkpoint: formats.Checkpoint, check: Any = None, dtype_policy: str | None = None) -> Agent:
        if check is not None:
            return build(checkpoint, check)
        key = (checkpoint.sha256, repr(sorted(checkpoint.metadata.items())), dtype_policy)
        if key not in agents:
            agents[key] = build(checkpoint, dtype_policy=dtype_policy)
        return agents[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "build_agent", build_once)
        yield


@pytest.fixture
def one_task_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks finish in the order in which they begin: what an interrupted run has done is known."""
    monkeypatch.setattr(BatchedAgent, "parallel_calls", 1)


@pytest.fixture(scope="session")
def small_run(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, _cached_agents: None) -> SmallRun:
    """A page of two layers and the input, with attribution of the value, every action and every group."""
    pytest.importorskip("procgen", reason="the small run plays CoinRun")
    options: dict[str, Any] = {
        "layer_kwargs": {"name_contains_one_of": ["Relu_"]},
        "attr_policy": True,
        "input_layer_include": True,
        "nmf_fit_observations": 24,
    }
    page = rl_clarity.run(
        checkpoint,
        tmp_path_factory.mktemp("small-run") / "page",
        trajectories_kwargs=TRAJECTORIES,
        observations_kwargs=OBSERVATIONS,
        **options,
    )
    samples = checkpoint.parent / "rl-clarity"
    return SmallRun(
        checkpoint,
        rl_clarity.load_agent(checkpoint),
        page.path.parent,
        page.results(),
        load_trajectories(samples / "agent.trajectories"),
        load_observations(samples / "agent.observations"),
        options,
    )


@pytest.fixture(scope="session")
def explain_in(small_run: SmallRun) -> Explain:
    """Make a page of the small run's last layer, 24 steps and 16 observations in a directory."""
    recorded = small_run.trajectories
    trajectories = {name: getattr(recorded, name)[:, :24] for name in ("observations", "actions", "rewards", "firsts")}
    base = {"layer_kwargs": LAST_LAYER, "action_combos": COMBOS, "title": "An agent"}

    def generate(directory: Path, **options: Any) -> Results:
        samples = (
            options.pop("trajectories", trajectories),
            options.pop("observations", small_run.observations.observations[:16]),
        )
        return rl_clarity.generate(small_run.agent, *samples, directory, **{**base, **options}).results()

    return generate


@pytest.fixture(scope="session")
def default_page(explain_in: Explain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of `explain_in` with default options; tests do not change it."""
    directory = tmp_path_factory.mktemp("default") / "page"
    explain_in(directory)
    return directory


@pytest.fixture
def explain(explain_in: Explain, tmp_path: Path) -> Explain:
    """Like `explain_in`, in the directory `page` by default."""

    def generate(directory: Path = tmp_path / "page", **options: Any) -> Results:
        return explain_in(directory, **options)

    return generate


@pytest.fixture
def run_short(small_run: SmallRun, tmp_path: Path) -> Callable[..., Path]:
    """Run a copy of the small run's checkpoint, with separate samples, on one layer."""

    def run(directory: str, checkpoint: str = "checkpoint", **options: Any) -> Path:
        path = tmp_path / checkpoint / "agent.jd"
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(small_run.checkpoint, path)
        rl_clarity.run(path, tmp_path / directory, **{"layer_kwargs": LAST_LAYER, **SHORT, **options})
        return tmp_path / directory

    return run
