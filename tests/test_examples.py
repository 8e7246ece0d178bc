"""Every script in examples/ runs at a tiny size, in its own process and directory, as a new user would start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.models import load_agent
from rl_clarity.pages.results import open_results

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "examples"
CHECKPOINT = REPOSITORY / "tests" / "golden" / "clear" / "checkpoint.jd"


def run_example(name: str, directory: Path, *arguments: str) -> str:
    """Run a script and return what it prints."""
    command = [sys.executable, str(EXAMPLES / name), "--output-dir", str(directory / "out"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def is_complete(page: Path) -> bool:
    return bool(open_results(page).manifest["complete"])


def test_every_script_has_a_test() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")} - {"core_functions.py"}  # the notebook's source
    assert set(re.findall(r'run_example\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8"))) == scripts


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.py"))])
def test_help_of_a_script_does_not_run_it(name: str, tmp_path: Path) -> None:
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
def test_own_environment(tmp_path: Path) -> None:
    assert "1792 steps" in run_example("own_environment.py", tmp_path, "--size", "tiny")
    page = open_results(tmp_path / "out" / "page")
    assert [action["label"] for action in page.agent["actions"]] == ["←", "no-op", "→"]
    assert is_complete(tmp_path / "out" / "page")


@pytest.mark.slow
def test_own_network(tmp_path: Path) -> None:
    assert "layers edges, shapes" in run_example("own_network.py", tmp_path, "--size", "tiny")
    assert is_complete(tmp_path / "out")


@pytest.mark.slow
def test_train_and_explain(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    run_example("train_and_explain.py", tmp_path, "--size", "tiny")
    assert is_complete(tmp_path / "out" / "page")


@pytest.mark.slow
def test_compare_checkpoints(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    printed = run_example("compare_checkpoints.py", tmp_path, str(CHECKPOINT), str(CHECKPOINT), "--size", "tiny")
    assert "correlation of the values  1.000" in printed  # the same agent twice
    assert "same most likely action    100%" in printed
    for page in ("first", "second"):
        assert is_complete(tmp_path / "out" / page)


@pytest.mark.slow
def test_remove_a_feature(tmp_path: Path) -> None:
    pytest.importorskip("procgen")
    printed = run_example("remove_a_feature.py", tmp_path, "--size", "tiny")
    assert "The same 2 levels with and without it:" in printed
    assert is_complete(tmp_path / "out" / "page")
    (path,) = (tmp_path / "out").glob("without-feature-?.safetensors")
    edited: Any = load_agent(path)
    assert edited.checkpoint.notes[-1].startswith("edited: Ablate('2b'")


def test_notebook_matches_its_source() -> None:
    nbformat = pytest.importorskip("nbformat")
    from scripts.make_notebook import TARGET, notebook

    committed = nbformat.read(TARGET, as_version=4)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in notebook().cells
    ], "run: python -m scripts.make_notebook"
    assert TARGET.stat().st_size < 1_500_000
    images = [o for cell in committed.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(images) >= 4


@pytest.mark.slow
def test_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("procgen")
    pytest.importorskip("nbconvert")
    from scripts.make_notebook import execute, notebook

    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    directory = tmp_path / "examples"
    directory.mkdir()
    execute(notebook(), directory)
    assert is_complete(tmp_path / "out" / "core_functions")
