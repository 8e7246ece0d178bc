"""`rl-clarity edit`: an agent without features or units of a layer, as a checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.cli import main
from rl_clarity.commands.run import explain
from rl_clarity.formats.included import load_agent
from tests.agents.test_editing import heads, observations_for
from tests.pipeline.small import write_checkpoint


def test_edit_removes_a_feature_of_a_page(
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


@pytest.mark.slow
def test_edit_without_a_page_fits_features_as_run_does(
    page: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small: Any = {"trajectories": {"num_envs": 2, "num_steps": 10}}
    small["observations"] = {"num_envs": 2, "num_obs": 4, "obs_every": 2}
    monkeypatch.setattr("rl_clarity.commands.features.explain", partial(explain, **small))
    layer = rl_clarity.open_results(page).layers[0]
    edited = []
    for name, options in (("fitted", []), ("paged", ["--page", str(page)])):
        target = tmp_path / f"{name}.safetensors"
        assert main(["edit", str(checkpoint), str(target), "--layer", layer, "--feature", "3", *options]) == 0
        printed = capsys.readouterr()
        assert ("features were fitted as run does by default, in " in printed.out) == (name == "fitted")
        assert ("The agent plays first" in printed.err) == ("This will take about" in printed.err) == (name == "fitted")
        edited.append(load_agent(target))
    observations = observations_for(edited[0])
    of_page = heads(edited[1], observations)
    np.testing.assert_allclose(heads(edited[0], observations), of_page, atol=0.01 * np.abs(of_page).max())
    assert not np.allclose(heads(load_agent(checkpoint), observations), of_page, atol=0.01 * np.abs(of_page).max())


def test_edit_needs_a_page_for_features_of_agents_that_cannot_play(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_checkpoint(tmp_path / "agent.jd", {"cnn": "nature"})
    layer = next(iter(load_agent(checkpoint).layers))
    words = ["edit", str(checkpoint), str(tmp_path / "edited.safetensors"), "--layer", layer, "--feature", "1"]
    assert main(words) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert "--feature needs --page DIRECTORY, because the agent cannot play (" in line


def test_edit_removes_units_without_a_page(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        ([], "specify what to remove: either --feature NUMBER"),
        (["--feature", "9"], "--feature 9 must be from 1 to 8"),
        (["--feature", "99", "--page", "PAGE"], "--feature 99 must be from 1 to"),
        (["--unit", "99"], "unit=99 is not a channel of"),
        (["--unit", "1", "--strength", "2"], "strength=2.0 must be a number from 0 to 1"),
    ],
)
def test_invalid_edits_are_refused_with_a_one_line_error(
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
