"""A run estimates its costs before it starts, and low memory means smaller batches, not another page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.analyses.attribution.analysis import PATH_SCORES
from rl_clarity.analyses.features import MEASURED_STEPS
from rl_clarity.analyses.layers import PageLayer, gradient_bytes
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.progress import Report
from rl_clarity.cli import main
from rl_clarity.jobs import machine
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.tasks import BATCH_SHARE
from rl_clarity.pages.results import Results
from rl_clarity.sources.preview import Preview, preview_play
from rl_clarity.visualization.optimization import STEPS
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, REPOSITORY, SmallRun, read_files, record_calls

pytestmark = pytest.mark.usefixtures("measured_forecasts")
MB = 10**6
SIZES: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 1, "num_steps": 9},
    "observations_kwargs": OBSERVATIONS,
}
ARGUMENTS = (
    *("--layer-kwargs.name-contains-one-of", "Relu_2", "--trajectories.num-envs", "1", "--trajectories.num-steps", "9"),
    *("--observations.num-envs", "2", "--observations.num-obs", "4", "--observations.obs-every", "1"),
)


def copy_checkpoint(small_run: SmallRun, folder: Path) -> Path:
    """Copy the small run's checkpoint without its samples."""
    folder.mkdir()
    path = folder / "agent.jd"
    path.write_bytes(small_run.checkpoint.read_bytes())
    return path


def forecast(checkpoint: Path, output: Path, **options: Any) -> Forecast:
    sizes = {"num_envs": 2, "num_steps": options.pop("num_steps", 24)}
    return rl_clarity.run(
        checkpoint,
        output,
        dry_run=True,
        trajectories_kwargs=sizes,
        observations_kwargs=OBSERVATIONS,
        **{"layer_kwargs": LAST_LAYER, **options},
    )


# --- estimates -------------------------------------------------------------------------------------------------------


def test_a_dry_run_of_run_writes_nothing(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    checkpoint = copy_checkpoint(small_run, tmp_path / "agent")
    before = set(tmp_path.rglob("*"))
    estimate = forecast(checkpoint, tmp_path / "page")
    assert set(tmp_path.rglob("*")) == before
    assert isinstance(estimate, Forecast)
    assert estimate.seconds == pytest.approx(sum(estimate.stages.values()), abs=0.01)
    assert all(seconds > 0 for seconds in estimate.stages.values())
    assert 50 * MB < estimate.memory < 10**11
    assert estimate.output > 10_000
    assert estimate.samples > 24 * 2 * 64 * 64 * 3
    assert estimate.tasks == 1 + 2 + 2 + 2 + 2 + 2 + 4 + 1 + 1
    page = {"features", "trajectories", "attribution", "ablation", "objects", "agreement", "examples", "atlas"}
    page |= {"baseline", "findings"}
    assert estimate.stages.keys() == {"playing", *page, "page"}
    assert capsys.readouterr().err == ""


def test_a_run_prints_its_forecast_in_one_line_and_logs_it(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    checkpoint = copy_checkpoint(small_run, tmp_path / "agent")
    rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **SIZES)
    printed = capsys.readouterr().err
    assert printed.startswith("This will take about ")
    assert printed.count("\n") == 1
    assert "of memory" in printed
    assert "of disk" in printed
    logged = json.loads((tmp_path / "page" / "run-log.json").read_text())["runs"][0]
    assert logged["forecast"]["tasks"] == 13
    written = sum(path.stat().st_size for path in (tmp_path / "page").rglob("*.*") if path.name != "run-log.json")
    assert written / 3 < logged["forecast"]["output"] < 3 * written


def test_the_forecast_shows_progress_from_the_first_played_step(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    @contextmanager
    def bar(title: str) -> Iterator[Report]:
        events.append(title)
        yield lambda share: events.append("share")

    def play(*arguments: Any, **options: Any) -> Preview:
        events.append("play")
        return preview_play(*arguments, **options)

    monkeypatch.setattr("rl_clarity.pages.builder.progress_bar", bar)
    monkeypatch.setattr("rl_clarity.sources.checkpoint.preview_play", play)
    forecast(copy_checkpoint(small_run, tmp_path / "agent"), tmp_path / "page")
    assert events[:3] == ["Measuring", "play", "share"]


def test_the_dry_run_option_prints_a_forecast(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    command = ["run", str(small_run.checkpoint), str(tmp_path / "page"), *ARGUMENTS, "--dry-run"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("This will take about ")
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert {"seconds", "memory", "output", "samples", "ranks", "tasks", "stages", "notes"} <= summary.keys()
    assert not (tmp_path / "page").exists()


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_grows_with_the_amount_of_work(small_run: SmallRun, tmp_path: Path) -> None:
    checkpoint = copy_checkpoint(small_run, tmp_path / "agent")
    short, long = (forecast(checkpoint, tmp_path / "page", num_steps=n) for n in (64, 1280))
    assert short.stages["attribution"] < long.stages["attribution"]
    assert short.seconds < long.seconds
    assert long.output > 4 * short.output
    policy = forecast(checkpoint, tmp_path / "page", num_steps=64, attr_policy=True)
    assert policy.output > short.output


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_includes_feature_images(small_run: SmallRun, tmp_path: Path) -> None:
    checkpoint = copy_checkpoint(small_run, tmp_path / "agent")
    plain, images, optimized = (
        forecast(checkpoint, tmp_path / "page", **options)
        for options in ({}, {"feature_images": True}, {"optimized_features": True})
    )
    assert images.output > plain.output + 8 * 16 * 1000  # 8 channels at 4 densities and 4 zooms
    assert optimized.output > plain.output + 8 * 1000
    assert images.stages["features"] == pytest.approx(plain.stages["features"] + 8)  # measured on one channel
    gradient_ascent = STEPS / MEASURED_STEPS
    assert optimized.stages["features"] == pytest.approx(plain.stages["features"] + gradient_ascent)


@pytest.mark.usefixtures("even_clock")
def test_the_forecast_of_features_is_short_for_a_few_vectors(tmp_path: Path) -> None:
    """The fits that judge the stability have no more rows than the first one, and inputs are features without a fit."""
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    agent = rl_clarity.TorchAgent(module, (4,), heads=("policy_logits",))
    seen = np.random.default_rng(0).normal(size=(1, 20, 4)).astype(np.float32)
    zeros = np.zeros((1, 20))
    samples = {"observations": seen, "actions": zeros.astype(int), "rewards": zeros, "firsts": zeros.astype(bool)}
    expected = rl_clarity.generate(agent, samples, seen[0], tmp_path / "page", dry_run=True)
    assert expected.stages["features"] < 60


def test_the_forecast_excludes_finished_tasks(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    explain()
    arrays = {name: getattr(small_run.trajectories, name)[:, :24] for name in ("observations", "actions", "rewards")}
    arrays["firsts"] = small_run.trajectories.firsts[:, :24]
    observations = small_run.observations.observations[:16]
    options: dict[str, Any] = {"layer_kwargs": LAST_LAYER, "title": "An agent", "overwrite": True, "dry_run": True}
    combos = [action["combo"] for action in small_run.results.agent["actions"]]

    def dry_run(**changes: Any) -> Forecast:
        arguments = {**options, "action_combos": combos, **changes}
        return rl_clarity.generate(small_run.agent, arrays, observations, tmp_path / "page", **arguments)

    assert str(dry_run()) == "There is nothing to do: the page is finished."
    changed = dry_run(attr_integrate_steps=3)
    assert (changed.tasks, changed.tasks_done) == (3, 6)
    assert changed.stages["features"] == 0
    assert "(6 of 9 tasks are done)" in str(changed)
    assert rl_clarity.open_results(tmp_path / "page").manifest["complete"]  # unchanged


# --- finished pages ------------------------------------------------------------------------------------------------


def test_repeating_run_for_a_finished_page_does_not_load_the_agent(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = copy_checkpoint(small_run, tmp_path / "agent")
    page = rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **SIZES)

    def fail(*arguments: Any) -> None:
        raise AssertionError("the agent is not needed")

    monkeypatch.setattr("rl_clarity.sources.checkpoint.import_keras", fail)
    monkeypatch.setattr("rl_clarity.formats.build_agent", fail)
    assert rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **SIZES) == page
    with pytest.raises(AssertionError, match="not needed"):
        rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, seed=1, **SIZES)


@pytest.mark.slow
def test_repeating_run_for_a_finished_page_imports_no_framework(small_run: SmallRun, tmp_path: Path) -> None:
    program = """
import sys
from rl_clarity.cli import main
status = main(["run", *sys.argv[1:]])
print(*[name for name in ("tensorflow", "keras", "sklearn", "procgen") if name in sys.modules])
sys.exit(status)
"""
    command = [
        sys.executable,
        "-c",
        program,
        str(copy_checkpoint(small_run, tmp_path / "agent")),
        str(tmp_path / "page"),
    ]
    command += [*ARGUMENTS, "--json"]
    for expected in ("tensorflow", ""):
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=True)
        assert result.stdout.splitlines()[1].split(" ")[0] == expected


# --- low memory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def limit_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the available memory, in bytes."""

    def limit(size: int) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: size)

    return limit


@pytest.mark.slow
def test_less_memory_gives_the_same_page(
    explain: Explain,
    small_run: SmallRun,
    tmp_path: Path,
    limit_memory: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    from rl_clarity.analyses.attribution import analysis

    options: dict[str, Any] = {"layer_kwargs": {"name_contains_one_of": ["Relu_1"]}, "attr_policy": True}
    ample = explain(tmp_path / "ample", **options)
    calls = record_calls(monkeypatch, analysis, "attribute")
    capsys.readouterr()
    agent = small_run.agent
    height, width, depth = agent.layers["Relu_1"]
    layer = PageLayer("Relu_1", "Relu_1", "", (height, width, depth), 8)
    limit_memory(int(1.2 * 16 * gradient_bytes(agent, layer.shape, 16) / BATCH_SHARE))
    small: Results = explain(tmp_path / "small", **options)
    assert {len(observations) for _, observations, *_ in calls} == {16, 8}
    assert "attribution/Relu_1 processes 16 frames at a time, because memory is short;" in capsys.readouterr().err
    # On some machines, the last bits depend on how many rows a product of matrices has.
    assert read_files(tmp_path / "small").keys() == read_files(tmp_path / "ample").keys()
    for output in ("value", "action-3"):
        decompositions = [results.decomposition(0, "Relu_1", output) for results in (small, ample)]
        for name, values in decompositions[0].items():
            np.testing.assert_allclose(values, decompositions[1][name], rtol=1e-4, atol=1e-5)


def test_less_memory_gives_the_same_multi_path_attribution(
    explain: Explain, small_run: SmallRun, tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    options: dict[str, Any] = {"attr_max_paths": 2}
    explain(tmp_path / "ample", **options)
    height, width, depth = small_run.agent.layers["Relu_2"]
    layer = PageLayer("Relu_2", "Relu_2", "", (height, width, depth), 8)
    limit_memory(int(1.2 * 16 * gradient_bytes(small_run.agent, layer.shape, 1 + PATH_SCORES) / BATCH_SHARE))
    explain(tmp_path / "small", **options)
    assert read_files(tmp_path / "small") == read_files(tmp_path / "ample")


def test_too_little_memory_for_one_frame_is_an_error(
    explain: Explain, tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    limit_memory(1000)
    with pytest.raises(ClarityError, match=r"one frame of (features|attribution)/Relu_2"):
        explain()
    assert not (tmp_path / "page").exists()
