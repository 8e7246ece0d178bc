"""Every script in examples/ runs at a tiny size, in its own process and directory, as a new user would start it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_clarity.formats.included import load_agent
from rl_clarity.pages.results import open_results
from rl_clarity.recordings.recording import open_recording

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "examples"
CHECKPOINT = REPOSITORY / "tests" / "golden" / "clear" / "checkpoint.jd"


RUN = """
import runpy, sys
from functools import partial
from rl_clarity.sources import checkpoint
# Comparing actions in all states would take most of the time.
checkpoint.find_equivalent_actions = partial(checkpoint.find_equivalent_actions, states=8)
del sys.argv[0]
sys.path[0] = sys.argv[0].rpartition("/")[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_example(name: str, directory: Path, *arguments: str) -> str:
    """Run a script and return what it prints."""
    command = [sys.executable, "-c", RUN, str(EXAMPLES / name), "--output-dir", str(directory / "out"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def is_complete(page: Path) -> bool:
    return bool(open_results(page).manifest["complete"])


def test_every_example_script_has_a_test() -> None:
    notebooks = {path.with_suffix(".py").name for path in EXAMPLES.glob("*.ipynb")}  # their sources
    scripts = {path.name for path in EXAMPLES.glob("*.py")} - notebooks
    assert set(re.findall(r'run_example\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8"))) == scripts


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.py"))])
def test_the_help_option_of_an_example_does_not_run_it(name: str, tmp_path: Path) -> None:
    # Importing a framework would be the first step of each of them.
    program = f"""
import runpy, sys
for framework in ("tensorflow", "torch", "jax", "keras", "procgen"):
    sys.modules[framework] = None
sys.argv = [{name!r}, "--help"]
sys.path.insert(0, {str(EXAMPLES)!r})
runpy.run_path({str(EXAMPLES / name)!r}, run_name="__main__")
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_example_own_environment_makes_a_page(tmp_path: Path) -> None:
    assert "1792 steps" in run_example("own_environment.py", tmp_path, "--size", "tiny")
    page = open_results(tmp_path / "out" / "page")
    assert [action["label"] for action in page.agent["actions"]] == ["←", "no-op", "→"]
    assert is_complete(tmp_path / "out" / "page")


@pytest.mark.slow
def test_example_own_network_makes_a_page(tmp_path: Path) -> None:
    assert "layers edges, shapes" in run_example("own_network.py", tmp_path, "--size", "tiny")
    assert is_complete(tmp_path / "out")


@pytest.mark.slow
def test_example_record_cleanrl_records_every_20th_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    printed = run_example("record_cleanrl.py", tmp_path, "--size", "tiny")
    recording = open_recording(tmp_path / "out")
    assert f"{len(recording)} episodes of 288 are recorded" in printed
    assert "2016 steps: mean return" in printed
    monkeypatch.syspath_prepend(EXAMPLES)
    agent = runpy.run_path(str(EXAMPLES / "record_cleanrl.py"))["make_agent"](3)
    outputs = ("policy_logits", "values")
    for episode in recording:  # none continues after an update
        agent.load_state_dict(torch.load(recording.checkpoint(episode)))
        with torch.no_grad():
            hidden = agent["network"](torch.as_tensor(np.asarray(episode.observations)).permute(0, 3, 1, 2) / 255)
        for name, replayed in zip(outputs, (agent["actor"](hidden), agent["critic"](hidden)[:, 0]), strict=True):
            np.testing.assert_allclose(getattr(episode, name), replayed.detach(), atol=1e-5)
        assert len(episode) == 7
        assert episode.final_observation is not None
        landed = np.any(episode.final_observation[-1] != np.array([60, 90, 255]), axis=-1)
        assert landed.any(), "the last row shows the apple or the stone"
    assert {row["number"] % 20 for row in recording.table()} == {0}


def test_example_record_gymnasium_records_every_50th_episode(tmp_path: Path) -> None:
    printed = run_example("record_gymnasium.py", tmp_path, "--size", "tiny")
    recording = open_recording(tmp_path / "out")
    assert f"{len(recording)} episodes of 200 are recorded" in printed
    assert f"tensorboard --logdir {tmp_path / 'out'}" in printed
    assert [row["number"] for row in recording.table()] == [0, 50, 100, 150]
    assert recording[3].q_values is not None


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["PPO", "RecurrentPPO"])
def test_example_record_sb3_records_episodes_with_checkpoints(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip("sb3_contrib")
    printed = run_example("record_sb3.py", tmp_path, "--size", "tiny", "--algorithm", algorithm)
    recording = open_recording(tmp_path / "out")
    assert f"{len(recording)} episodes are recorded" in printed
    assert (recording[0].states is not None) == (algorithm == "RecurrentPPO")
    assert all(recording.checkpoint(episode) for episode in recording)


@pytest.mark.slow
def test_example_train_and_explain_makes_a_page(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    run_example("train_and_explain.py", tmp_path, "--size", "tiny")
    assert is_complete(tmp_path / "out" / "page")


@pytest.mark.slow
def test_example_compare_checkpoints_finds_equal_agents_equal(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    printed = run_example("compare_checkpoints.py", tmp_path, str(CHECKPOINT), str(CHECKPOINT), "--size", "tiny")
    assert "correlation of the values  1.000" in printed  # the same agent twice
    assert "same most likely action    100%" in printed
    for page in ("first", "second"):
        assert is_complete(tmp_path / "out" / page)


@pytest.mark.slow
def test_example_remove_a_feature_saves_an_edited_agent(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    printed = run_example("remove_a_feature.py", tmp_path, "--size", "tiny")
    assert "The same 2 levels with and without it:" in printed
    assert is_complete(tmp_path / "out" / "page")
    (path,) = (tmp_path / "out").glob("without-feature-?.safetensors")
    edited: Any = load_agent(path)
    assert edited.checkpoint.notes[-1].startswith("edited: Ablate('2b'")


@pytest.mark.slow
def test_example_debug_minigrid_makes_a_debug_page(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("minigrid")
    printed = run_example("debug_minigrid.py", tmp_path, "--size", "tiny")
    assert "questions without an answer" in printed
    page = open_results(tmp_path / "out" / "page")
    assert {row["type"] for row in page.section("goals")["rows"]} >= {"goal", "lava"}


@pytest.mark.slow
def test_example_light_switch_finds_the_cue_in_memory(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    printed = run_example("light_switch.py", tmp_path, "--size", "tiny")
    assert "The cue can be read from later states: AUC" in printed
    assert "16 pairs of episodes" in printed
    assert "without | with the edit" in printed
    assert (tmp_path / "out" / "memory.png").exists()


@pytest.mark.parametrize(("name", "fewest_images"), [("core_functions", 4), ("one_failure", 3)])
def test_each_notebook_matches_its_source_script(name: str, fewest_images: int) -> None:
    nbformat = pytest.importorskip("nbformat")
    from scripts.make_notebook import notebook

    target = EXAMPLES / f"{name}.ipynb"
    committed = nbformat.read(target, as_version=4)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in notebook(name).cells
    ], "run: python -m scripts.make_notebook"
    assert target.stat().st_size < 1_500_000
    images = [o for cell in committed.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(images) >= fewest_images


@pytest.fixture
def execute_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    pytest.importorskip("procgen")
    pytest.importorskip("nbconvert")
    from scripts.make_notebook import execute, notebook

    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    directory = tmp_path / "examples"
    directory.mkdir()
    return lambda name: execute(notebook(name), directory)


@pytest.mark.slow
def test_the_core_functions_notebook_runs(execute_notebook: Callable[[str], Any], tmp_path: Path) -> None:
    execute_notebook("core_functions")
    assert is_complete(tmp_path / "out" / "core_functions")


@pytest.mark.slow
def test_the_one_failure_notebook_confirms_the_debuggers_verdict(execute_notebook: Callable[[str], Any]) -> None:
    cells = execute_notebook("one_failure").cells
    printed = "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))
    assert "frames are those that were recorded: True" in printed
    assert "the episode ends with a reward: False" in printed
    (killer,) = re.findall(r"without (\w+), [\d.]+ cells away: the episode goes on", printed)
    assert f"Ended by {killer}; avoidable until" in printed
    (claimed,) = re.findall(r"debug: avoidable until (\d+) steps", printed)
    (found,) = re.findall(r"(\d+) steps before the last: [1-9]\d* of 256 sequences survive", printed)
    assert abs(int(found) - int(claimed)) <= 1
    effects = [float(one) for one in re.findall(r"effect on the policy ([\d.]+)$", printed, re.MULTILINE)]
    assert effects
    assert max(effects) < 0.03
