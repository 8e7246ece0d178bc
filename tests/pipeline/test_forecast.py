"""What a job will take is said before it begins, and memory that is short makes smaller batches, not another page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.analyses.attribution.analysis import PATH_SCORES
from rl_clarity.analyses.layers import PageLayer, gradient_bytes
from rl_clarity.cli import main
from rl_clarity.errors import ClarityError
from rl_clarity.jobs import machine
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.jobs.tasks import BATCH_SHARE
from rl_clarity.pages.results import Results
from tests.pipeline.conftest import Explain
from tests.pipeline.small import LAST_LAYER, OBSERVATIONS, SmallRun, files_of

MB = 10**6


def copy_of(small_run: SmallRun, folder: Path) -> Path:
    """The small run's checkpoint without its samples."""
    folder.mkdir()
    path = folder / "agent.jd"
    path.write_bytes(small_run.checkpoint.read_bytes())
    return path


def forecast(small_run: SmallRun, checkpoint: Path, output: Path, **options: Any) -> Forecast:
    sizes = {"num_envs": 2, "num_steps": options.pop("num_steps", 24)}
    return rl_clarity.run(
        checkpoint,
        output,
        dry_run=True,
        trajectories_kwargs=sizes,
        observations_kwargs=OBSERVATIONS,
        **{"layer_kwargs": LAST_LAYER, **options},
    )


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# --- said ----------------------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    checkpoint = copy_of(small_run, tmp_path / "agent")
    before = everything(tmp_path)
    found = forecast(small_run, checkpoint, tmp_path / "page")
    assert everything(tmp_path) == before
    assert isinstance(found, Forecast)
    assert 0 < found.seconds < 1000
    assert 50 * MB < found.memory < 10**11
    assert found.output > 10_000
    assert found.samples > 24 * 2 * 64 * 64 * 3
    assert found.tasks == 1 + 2 + 2 + 2
    assert found.stages.keys() == {"playing", "features", "trajectories", "attribution", "examples", "atlas", "page"}
    assert capsys.readouterr().err == ""


def test_a_run_says_so_in_one_line_and_notes_it(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    checkpoint = copy_of(small_run, tmp_path / "agent")
    sizes = {"trajectories_kwargs": {"num_envs": 1, "num_steps": 9}, "observations_kwargs": OBSERVATIONS}
    rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **sizes)
    said = capsys.readouterr().err
    assert said.startswith("This will take about ")
    assert said.count("\n") == 1
    assert "of memory" in said
    assert "of disk" in said
    noted = json.loads((tmp_path / "page" / "run-log.json").read_text())["runs"][0]
    assert noted["forecast"]["tasks"] == 5
    # What was foreseen of the disk is what was written.
    written = sum(path.stat().st_size for path in (tmp_path / "page").rglob("*.*") if path.name != "run-log.json")
    assert written / 3 < noted["forecast"]["output"] < 3 * written


def test_on_the_command_line(small_run: SmallRun, tmp_path: Path, capsys: Any) -> None:
    command = [
        "run",
        str(small_run.checkpoint),
        str(tmp_path / "page"),
        "--layer-kwargs.name-contains-one-of",
        "Relu_2",
    ]
    command += ["--trajectories.num-envs", "1", "--trajectories.num-steps", "9", "--observations.num-envs", "2"]
    command += ["--observations.num-obs", "4", "--observations.obs-every", "1", "--dry-run"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("This will take about ")
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert {"seconds", "memory", "output", "samples", "ranks", "tasks", "stages", "notes"} <= summary.keys()
    assert not (tmp_path / "page").exists()


def test_more_work_takes_longer(small_run: SmallRun, tmp_path: Path) -> None:
    checkpoint = copy_of(small_run, tmp_path / "agent")
    little, much = (forecast(small_run, checkpoint, tmp_path / "page", num_steps=n) for n in (64, 640))
    assert little.stages["attribution"] < much.stages["attribution"]
    assert little.seconds < much.seconds
    assert much.output > 4 * little.output
    policy = forecast(small_run, checkpoint, tmp_path / "page", num_steps=64, attr_policy=True)
    assert policy.output > little.output


def test_images_of_features_are_counted(small_run: SmallRun, tmp_path: Path) -> None:
    checkpoint = copy_of(small_run, tmp_path / "agent")
    plain, drawn, optimized = (
        forecast(small_run, checkpoint, tmp_path / "page", **options)
        for options in ({}, {"feature_images": True}, {"optimized_features": True})
    )
    assert drawn.output > plain.output + 8 * 16 * 1000  # 8 channels at 4 densities and 4 zooms
    assert optimized.output > plain.output + 8 * 1000
    assert optimized.stages["features"] > plain.stages["features"] + 1  # 256 steps of an ascent


def test_what_is_done_is_not_counted(explain: Explain, small_run: SmallRun, tmp_path: Path) -> None:
    explain()
    arrays = {name: getattr(small_run.trajectories, name)[:, :24] for name in ("observations", "actions", "rewards")}
    given = {**arrays, "firsts": small_run.trajectories.firsts[:, :24]}
    observations = small_run.observations.observations[:16]
    options: dict[str, Any] = {"layer_kwargs": LAST_LAYER, "title": "An agent", "overwrite": True, "dry_run": True}
    combos = [action["combo"] for action in small_run.results.agent["actions"]]

    def foreseen(**changed: Any) -> Forecast:
        arguments = {**options, "action_combos": combos, **changed}
        return rl_clarity.generate(small_run.agent, given, observations, tmp_path / "page", **arguments)

    assert str(foreseen()) == "There is nothing to do: the page is finished."
    changed = foreseen(attr_integrate_steps=3)
    assert (changed.tasks, changed.tasks_done) == (3, 4)
    assert changed.stages["features"] == 0
    assert "(4 of 7 tasks are done)" in str(changed)
    assert rl_clarity.open_results(tmp_path / "page").manifest["complete"]  # and nothing was touched


# --- nothing to do -------------------------------------------------------------------------------------------------


def test_a_finished_page_is_known_without_tensorflow(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = copy_of(small_run, tmp_path / "agent")
    sizes = {"trajectories_kwargs": {"num_envs": 1, "num_steps": 9}, "observations_kwargs": OBSERVATIONS}
    page = rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **sizes)

    def heavy(*arguments: Any) -> None:
        raise AssertionError("the agent is not needed")

    monkeypatch.setattr("rl_clarity.recordings.source.import_keras", heavy)
    monkeypatch.setattr("rl_clarity.formats.build_agent", heavy)
    assert rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, **sizes) == page
    with pytest.raises(AssertionError, match="not needed"):
        rl_clarity.run(checkpoint, tmp_path / "page", layer_kwargs=LAST_LAYER, seed=1, **sizes)


@pytest.mark.slow
def test_the_same_command_again_loads_nothing_heavy(small_run: SmallRun, tmp_path: Path) -> None:
    import subprocess

    from tests.pipeline.small import REPOSITORY

    program = """
import sys
from rl_clarity.cli import main
status = main(["run", *sys.argv[1:]])
print(*[name for name in ("tensorflow", "keras", "sklearn", "procgen") if name in sys.modules])
sys.exit(status)
"""
    command = [sys.executable, "-c", program, str(copy_of(small_run, tmp_path / "agent")), str(tmp_path / "page")]
    command += ["--layer-kwargs.name-contains-one-of", "Relu_2", "--trajectories.num-envs", "1"]
    command += [
        "--trajectories.num-steps",
        "9",
        "--observations.num-envs",
        "2",
        "--observations.num-obs",
        "4",
        "--json",
    ]
    for expected in ("tensorflow", ""):
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=True)
        assert result.stdout.splitlines()[1].split(" ")[0] == expected


# --- short of memory -----------------------------------------------------------------------------------------------


@pytest.fixture
def with_memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    def has(size: int) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: size)

    return has


def test_less_memory_makes_the_same_page(
    explain: Explain,
    small_run: SmallRun,
    tmp_path: Path,
    with_memory: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    from rl_clarity.analyses.attribution import analysis

    options: dict[str, Any] = {"layer_kwargs": {"name_contains_one_of": ["Relu_1"]}, "attr_policy": True}
    ample = explain(tmp_path / "ample", **options)
    batches = []
    attribute = analysis.attribute
    monkeypatch.setattr(analysis, "attribute", lambda *a, **k: batches.append(len(a[1])) or attribute(*a, **k))
    capsys.readouterr()
    agent = small_run.agent
    layer = PageLayer("Relu_1", "Relu_1", "", agent.layers["Relu_1"], 8)
    with_memory(int(1.2 * 16 * gradient_bytes(agent, layer, 16) / BATCH_SHARE))
    small: Results = explain(tmp_path / "small", **options)
    assert set(batches) == {16, 8}
    assert "attribution/Relu_1 processes 16 frames at a time, as memory is short;" in capsys.readouterr().err
    assert small.manifest == ample.manifest
    assert files_of(tmp_path / "small") == files_of(tmp_path / "ample")


def test_several_paths_are_the_same_in_parts(
    explain: Explain, small_run: SmallRun, tmp_path: Path, with_memory: Any
) -> None:
    options = {"attr_max_paths": 2}
    explain(tmp_path / "ample", **options)
    layer = PageLayer("Relu_2", "Relu_2", "", small_run.agent.layers["Relu_2"], 8)
    with_memory(int(1.2 * 16 * gradient_bytes(small_run.agent, layer, 1 + PATH_SCORES) / BATCH_SHARE))
    explain(tmp_path / "small", **options)
    assert files_of(tmp_path / "small") == files_of(tmp_path / "ample")


def test_memory_for_not_even_one_frame_is_said(explain: Explain, tmp_path: Path, with_memory: Any) -> None:
    with_memory(1000)
    with pytest.raises(ClarityError, match=r"one frame of (features|attribution)/Relu_2"):
        explain()
    assert not (tmp_path / "page").exists()
