"""Agents shipped with the package, in a working copy and in an installed wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats import included as models

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = ("rl_clarity", "svelte3", "svelte_src", "models")
PROJECT_FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
MAX_BYTES, SIMULATOR_BYTES = 4_000_000, 12_000_000


def test_included_agents_are_listed_and_loaded_by_name() -> None:
    names = models.names()
    assert "coinrun" in names
    assert names == sorted(path.stem for path in (REPOSITORY / "models").glob("*.jd"))
    for name in names:
        agent = rl_clarity.load_agent(f"models:{name}")
        description = json.loads((REPOSITORY / "models" / f"{name}.json").read_text())
        assert agent.metadata["env_name"] == description["args"]["env_name"]
        assert agent.num_actions == 15


def test_every_included_agent_has_a_model_card_and_an_index_entry() -> None:
    index = (REPOSITORY / "models" / "README.md").read_text()
    for name in models.names():
        card = (REPOSITORY / "models" / f"{name}.md").read_text()
        assert f"rl-clarity evaluate models:{name} " in card
        assert f"]({name}.svg)" in card
        assert f"[{name}]({name}.md)" in index


def test_included_model_files_are_small() -> None:
    for path in (REPOSITORY / "models").iterdir():
        if path.is_file():
            limit = SIMULATOR_BYTES if path.name.endswith("-simulator.safetensors") else MAX_BYTES
            assert path.stat().st_size <= limit, path.name


def test_included_simulators_beat_a_copy_of_the_last_frame() -> None:
    simulator = rl_clarity.load_simulator("models:coinrun-gru", rl_clarity.load_agent("models:coinrun-gru"))
    errors = {kind: rows[0] for kind, rows in simulator.metadata["quality"]["errors"]["frame"].items()}
    assert all(errors["prior"][h - 1] < errors["last_frame"][h - 1] for h in range(2, 11))
    assert simulator.metadata["quality"]["deletion"]["interval"][0] > 0


def test_importing_rl_clarity_makes_rl_clarity_models_available() -> None:
    code = "import rl_clarity; print(*rl_clarity.models.names())"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    assert done.stdout.split() == models.names()


def test_included_agents_can_be_converted_by_name(tmp_path: Path) -> None:
    target = tmp_path / "agent.safetensors"
    checkpoint = rl_clarity.convert("models:coinrun", target, gamma=0.5)
    assert checkpoint.network == "clear"
    assert rl_clarity.load_agent(target).metadata["gamma"] == 0.5


def test_unknown_names_of_included_agents_suggest_the_nearest() -> None:
    with pytest.raises(CheckpointError, match="did you mean models:coinrun"):
        models.path_of("coinrum")
    with pytest.raises(CheckpointError, match=r"available: .*coinrun"):
        rl_clarity.load_agent("models:nothing-like-it")


LOAD_ALL = """
import rl_clarity
from rl_clarity import models
print(rl_clarity.__file__, *models.names())
for name in models.names():
    agent = rl_clarity.load_agent(f"models:{name}")
    print(name, agent.num_actions, len(agent.layers))
"""


@pytest.mark.slow
def test_an_installed_wheel_contains_the_models(tmp_path: Path) -> None:
    """The wheel uses the installed dependencies; nothing is downloaded."""
    pytest.importorskip("setuptools", minversion="77")
    source, installed = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "rl-clarity")
        shutil.copytree(REPOSITORY / name, source / name, ignore=ignored)
    for name in PROJECT_FILES:
        shutil.copy(REPOSITORY / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-deps", "--no-index"]
    wheels = tmp_path / "wheels"
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", wheels, source], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", *offline, "--target", installed, wheel], check=True)
    shutil.rmtree(source)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*arguments: str) -> list[str]:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=outside, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    first, *loaded = run("-c", LOAD_ALL)
    assert first.split() == [str(installed / "rl_clarity" / "__init__.py"), *models.names()]
    assert [line.split()[:2] for line in loaded] == [[name, "15"] for name in models.names()]
    summary = json.loads(run("-m", "rl_clarity", "inspect", "models:coinrun", "--json")[0])
    assert summary["network"] == "clear"
    assert (installed / "rl_clarity" / "_models" / "README.md").exists()
    assert not list(installed.rglob("*.test.js"))
