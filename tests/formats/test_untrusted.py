"""A checkpoint imports no module: names such as `module:Name-v0` and `make_kwargs` are taken from the caller only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rl_clarity import formats
from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.cli import main
from rl_clarity.environments import make, spec_from_metadata
from tests import state_dicts
from tests.formats.archive_writer import sb3_zip

pytest.importorskip("gymnasium")
NAME = "leaves_a_mark:Game-v0"
MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
import gymnasium, numpy

class Game(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), numpy.uint8)
    def __init__(self, actions=3, render_mode=None):
        self.action_space = gymnasium.spaces.Discrete(actions)

gymnasium.registry.pop("Game-v0", None)
gymnasium.register("Game-v0", Game)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, from which modules can be imported, as with `python -m`."""
    (tmp_path / "leaves_a_mark.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.delitem(sys.modules, "leaves_a_mark", raising=False)
    return tmp_path


def checkpoint(folder: Path, **metadata: Any) -> Path:
    (folder / "model.zip").write_bytes(sb3_zip(state_dicts.sb3()))
    path = folder / "agent.safetensors"
    formats.convert(folder / "model.zip", path, overwrite=True, env_kind="gymnasium", **metadata)
    return path


@pytest.mark.parametrize("key", ["env_name", "env_id"])
def test_environment_names_with_a_module_in_a_checkpoint_are_refused(folder: Path, key: str) -> None:
    path = checkpoint(folder, **{key: NAME})
    metadata = formats.read(path).metadata
    with pytest.raises(EnvironmentSetupError, match=f"{key}='{NAME}' can run code.*--metadata {key} VALUE"):
        spec_from_metadata(metadata)
    assert not (folder / "imported").exists()
    spec = spec_from_metadata(formats.read(path, env_name=NAME).metadata)
    make(spec, 1, 0).close()
    assert (folder / "imported").exists()


def test_untrusted_environments_are_checked_for_the_type_that_is_played(folder: Path) -> None:
    path = checkpoint(folder, env_name=NAME)
    formats.convert(path, folder / "procgen.safetensors", env_kind="procgen", env_name=NAME)
    metadata = formats.read(folder / "procgen.safetensors", env_kind="gymnasium").metadata
    with pytest.raises(EnvironmentSetupError, match="can run code"):
        spec_from_metadata(metadata)
    assert spec_from_metadata({"env_kind": "procgen", "env_name": "procgen:procgen-coinrun-v0"}).name


def test_make_kwargs_in_a_checkpoint_are_refused(folder: Path) -> None:
    path = checkpoint(folder, env_name=NAME, make_kwargs={"actions": 4})
    with pytest.raises(EnvironmentSetupError, match=r"make_kwargs=\{'actions': 4\} can run code"):
        spec_from_metadata(formats.read(path, env_name=NAME).metadata)
    repeated = formats.read(path, env_name=NAME, make_kwargs={"actions": 4}).metadata
    assert spec_from_metadata(repeated).options["make_kwargs"] == {"actions": 4}
    assert spec_from_metadata(formats.read(path, env_kind="atari", env_name="pong").metadata).kind == "atari"


def test_untrusted_metadata_stay_untrusted_after_conversion(folder: Path) -> None:
    path = checkpoint(folder, env_name=NAME)
    formats.convert(path, folder / "again.safetensors")
    with pytest.raises(EnvironmentSetupError, match="can run code"):
        spec_from_metadata(formats.read(folder / "again.safetensors").metadata)


def test_evaluate_names_the_option_that_allows_an_untrusted_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint(folder, env_name=NAME)
    assert main(["evaluate", str(path), "--episodes", "1"]) == 1
    assert "--metadata env_name VALUE" in capsys.readouterr().err
    assert not (folder / "imported").exists()


@pytest.mark.slow
def test_a_checkpoint_cannot_import_a_module_of_the_current_folder(folder: Path) -> None:
    path = checkpoint(folder, env_name=NAME)
    command = [sys.executable, "-m", "rl_clarity", "run", str(path), "out", "--dry-run"]
    root = Path(formats.__file__).parents[2]
    result = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert result.returncode == 1
    assert "can run code" in result.stderr
    assert not (folder / "imported").exists()
