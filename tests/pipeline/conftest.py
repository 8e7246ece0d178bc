"""A small real run, made once for all tests of the whole way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.agents.protocol import Agent
from rl_clarity.pages.results import Results, open_results
from rl_clarity.recordings.storage import load_observations, load_trajectories
from tests.pipeline.small import COMBOS, LAST_LAYER, OBSERVATIONS, TRAJECTORIES, SmallRun, write_checkpoint

Explain = Callable[..., Results]
SHORT = {"trajectories_kwargs": {"num_envs": 2, "num_steps": 24}, "observations_kwargs": OBSERVATIONS}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a fresh network; its folder is to hold no samples but the small run's."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "agent.jd")


@pytest.fixture(scope="session")
def _agents_are_built_once() -> Iterator[None]:
    """One agent for all runs of a checkpoint with its metadata: tracing a network anew for each takes seconds."""
    build, built = formats.build_agent, {}

    def build_once(found: formats.Checkpoint) -> Agent:
        key = (found.sha256, repr(sorted(found.metadata.items())))
        if key not in built:
            built[key] = build(found)
        return built[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "build_agent", build_once)
        yield


@pytest.fixture(scope="session")
def small_run(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, _agents_are_built_once: None) -> SmallRun:
    """The network's play explained: two layers and the input, the value, every action and every group."""
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
    """Explain a little of the small run in a directory: its last layer, 24 steps and 16 observations."""
    played = small_run.trajectories
    trajectories = {name: getattr(played, name)[:, :24] for name in ("observations", "actions", "rewards", "firsts")}
    base = {"layer_kwargs": LAST_LAYER, "action_combos": COMBOS, "title": "An agent"}

    def made(directory: Path, **options: Any) -> Results:
        given = options.pop("trajectories", trajectories)
        observations = options.pop("observations", small_run.observations.observations[:16])
        page = rl_clarity.generate(small_run.agent, given, observations, directory, **{**base, **options})
        return open_results(page.path)

    return made


@pytest.fixture
def explain(explain_in: Explain, tmp_path: Path) -> Explain:
    """The same, in `page` if no directory is given."""

    def made(directory: Path = tmp_path / "page", **options: Any) -> Results:
        return explain_in(directory, **options)

    return made


@pytest.fixture
def run_short(small_run: SmallRun, tmp_path: Path) -> Callable[..., Path]:
    """Run a copy of the small run's checkpoint, with samples of its own, on one layer."""

    def ran(directory: str, checkpoint: str = "checkpoint", **options: Any) -> Path:
        path = tmp_path / checkpoint / "agent.jd"
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(small_run.checkpoint, path)
        rl_clarity.run(path, tmp_path / directory, **{"layer_kwargs": LAST_LAYER, **SHORT, **options})
        return tmp_path / directory

    return ran
