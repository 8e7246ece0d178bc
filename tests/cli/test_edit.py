"""`rl-clarity edit`: an agent without features or units of a layer, as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.formats.included import load_agent
from tests.agents.test_editing import heads, observations_for


def test_features_of_a_page_are_removed(
    page: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "edited.safetensors"
    layer = rl_clarity.open_results(page).layers[0]
    command = ["edit", str(checkpoint), str(target), "--layer", layer, "--feature", "2", "--page", str(page)]
    assert main(command) == 0
    assert f"Written: {target} (without feature 2 of layer {layer})" in capsys.readouterr().out
    agent, edited = (load_agent(path) for path in (checkpoint, target))
    component = rl_clarity.open_results(page).reduction(layer).components[1]
    ablation = rl_clarity.Ablate(layer, component=component)
    assert edited.checkpoint.notes[-1].startswith("edited: Ablate")  # type: ignore[attr-defined]
    in_memory: Any = rl_clarity.edit(agent, ablation)
    in_memory.save(tmp_path / "same.safetensors")
    observations = observations_for(agent)
    assert np.array_equal(heads(edited, observations), heads(load_agent(tmp_path / "same.safetensors"), observations))
    assert not np.array_equal(heads(edited, observations), heads(agent, observations))
    assert main(["inspect", str(target)]) == 0
    assert "note: edited: Ablate" in capsys.readouterr().out
    assert main(command) == 1
    assert "exists: choose another name" in capsys.readouterr().err


def test_units_are_removed_without_a_page(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "edited.safetensors"
    agent = load_agent(checkpoint)
    layer = next(iter(agent.layers))
    assert main(["edit", str(checkpoint), str(target), "--layer", layer, "--unit", "0", "3", "--everything-but"]) == 0
    assert f"(only units 0, 3 of layer {layer})" in capsys.readouterr().out
    observations = observations_for(agent)
    expected = heads(rl_clarity.edit(agent, rl_clarity.Ablate(layer, unit=[0, 3], everything_but=True)), observations)
    assert np.allclose(heads(load_agent(target), observations), expected, atol=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --feature NUMBER with --page DIRECTORY, or --unit NUMBER"),
        (["--feature", "1"], "--feature needs --page DIRECTORY"),
        (["--feature", "99", "--page", "PAGE"], "--feature 99 must be from 1 to"),
        (["--unit", "99"], "unit=99 is not a channel of"),
        (["--unit", "1", "--strength", "2"], "strength=2.0 must be a number from 0 to 1"),
    ],
)
def test_wrong_edits_are_refused_in_a_single_line(
    arguments: list[str],
    message: str,
    page: Path,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    layer = rl_clarity.open_results(page).layers[0]
    arguments = [str(page) if word == "PAGE" else word for word in arguments]
    target = tmp_path / "edited.safetensors"
    assert main(["edit", str(checkpoint), str(target), "--layer", layer, *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not target.exists()
